-- A row is there before its hook is called. number orders a run's rows.
CREATE TABLE hook_marks (
  notice     TEXT NOT NULL,
  hook       TEXT NOT NULL,
  event      TEXT NOT NULL,
  run_id     TEXT NOT NULL REFERENCES runs (id),
  number     BIGINT NOT NULL,
  step       BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  attempt_id TEXT NOT NULL,
  at         BIGINT NOT NULL,
  PRIMARY KEY (notice, hook)
);
CREATE UNIQUE INDEX hook_marks_by_run ON hook_marks (run_id, number);
