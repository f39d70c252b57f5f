CREATE TABLE sessions (
  id         TEXT PRIMARY KEY,
  title      TEXT NOT NULL,
  model      TEXT NOT NULL,
  settings   TEXT NOT NULL,
  archived   BOOLEAN NOT NULL,
  paused     BOOLEAN NOT NULL,
  actor      TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision   BIGINT NOT NULL
);
CREATE INDEX sessions_by_change ON sessions (archived, updated_at, id);

-- Rows are inserted and read, nothing else.
CREATE TABLE messages (
  id          TEXT PRIMARY KEY,
  session_id  TEXT NOT NULL REFERENCES sessions (id),
  position    BIGINT NOT NULL,
  role        TEXT NOT NULL,
  parts       TEXT,
  actor       TEXT NOT NULL,
  created_at  BIGINT NOT NULL,
  run_id      TEXT NOT NULL,
  step        BIGINT NOT NULL,
  attempt_id  TEXT NOT NULL,
  provider    TEXT NOT NULL,
  model       TEXT NOT NULL,
  usage       TEXT,
  interrupted TEXT NOT NULL,
  UNIQUE (session_id, position)
);
CREATE INDEX messages_by_run ON messages (run_id, position);

CREATE TABLE supersessions (
  message_id TEXT PRIMARY KEY REFERENCES messages (id),
  session_id TEXT NOT NULL REFERENCES sessions (id),
  anchor     TEXT NOT NULL,
  run_id     TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE pending (
  message_id TEXT PRIMARY KEY,
  run_id     TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES sessions (id),
  rank       BIGINT NOT NULL,
  parts      TEXT,
  actor      TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  UNIQUE (session_id, rank)
);

-- number orders a session's runs: ids may have been reserved earlier, times may be equal.
CREATE TABLE runs (
  id               TEXT PRIMARY KEY,
  session_id       TEXT NOT NULL REFERENCES sessions (id),
  number           BIGINT NOT NULL,
  message_id       TEXT NOT NULL,
  state            TEXT NOT NULL,
  trigger          TEXT NOT NULL,
  continues        TEXT NOT NULL,
  actor            TEXT NOT NULL,
  model            TEXT NOT NULL,
  origin           TEXT NOT NULL,
  attempt          BIGINT NOT NULL,
  since            BIGINT NOT NULL,
  token            BIGINT NOT NULL,
  generation       BIGINT NOT NULL,
  claims           BIGINT NOT NULL,
  owner            TEXT NOT NULL,
  lease_until      BIGINT NOT NULL,
  steps            BIGINT NOT NULL,
  requests         BIGINT NOT NULL,
  parked           BOOLEAN NOT NULL,
  cancel_requested BOOLEAN NOT NULL,
  cancelled_by     TEXT NOT NULL,
  queued_at        BIGINT NOT NULL,
  started_at       BIGINT NOT NULL,
  ended_at         BIGINT NOT NULL,
  reason           TEXT NOT NULL,
  failure          TEXT,
  recovery         TEXT,
  UNIQUE (session_id, number)
);
CREATE UNIQUE INDEX runs_one_active ON runs (session_id) WHERE state IN ('queued', 'running');
CREATE INDEX runs_queued ON runs (queued_at, id) WHERE state = 'queued' AND NOT parked;
CREATE INDEX runs_running ON runs (id) WHERE state = 'running';

-- The second tier's entry of a session. Its token is of the session's own counter.
CREATE TABLE schedules (
  session_id        TEXT PRIMARY KEY REFERENCES sessions (id),
  anchor_message_id TEXT NOT NULL,
  run_id            TEXT NOT NULL REFERENCES runs (id),
  state             TEXT NOT NULL,
  verb              TEXT NOT NULL,
  attempt           BIGINT NOT NULL,
  max_attempts      BIGINT NOT NULL,
  retry_class       TEXT NOT NULL,
  chosen_by         TEXT NOT NULL,
  not_before        BIGINT NOT NULL,
  next_at           BIGINT NOT NULL,
  since             BIGINT NOT NULL,
  updated_at        BIGINT NOT NULL,
  retryable         BOOLEAN NOT NULL,
  replay_safe       BOOLEAN NOT NULL,
  reason            TEXT NOT NULL,
  evidence          TEXT NOT NULL,
  hold_reason       TEXT NOT NULL,
  authorised_by     TEXT NOT NULL,
  token             BIGINT NOT NULL
);
CREATE INDEX schedules_by_time ON schedules (state, next_at);

-- An attempt without ended_at is open.
CREATE TABLE attempts (
  id         TEXT PRIMARY KEY,
  run_id     TEXT NOT NULL REFERENCES runs (id),
  session_id TEXT NOT NULL REFERENCES sessions (id),
  number     BIGINT NOT NULL,
  after      TEXT NOT NULL,
  automatic  BOOLEAN NOT NULL,
  provider   TEXT NOT NULL,
  key        TEXT NOT NULL,
  model      TEXT NOT NULL,
  answered   TEXT NOT NULL,
  opened_at  BIGINT NOT NULL,
  marked_at  BIGINT NOT NULL,
  ended_at   BIGINT NOT NULL,
  ok         BOOLEAN NOT NULL,
  evidence   TEXT NOT NULL,
  failure    TEXT,
  decision   TEXT,
  usage      TEXT,
  UNIQUE (run_id, number)
);

-- number orders a run's calls by their start: times may be equal.
CREATE TABLE tool_calls (
  session_id TEXT NOT NULL REFERENCES sessions (id),
  run_id     TEXT NOT NULL REFERENCES runs (id),
  number     BIGINT NOT NULL,
  step       BIGINT NOT NULL,
  call_id    TEXT NOT NULL,
  name       TEXT NOT NULL,
  arguments  TEXT NOT NULL,
  state      TEXT NOT NULL,
  effect     BOOLEAN NOT NULL,
  result     TEXT,
  started_at BIGINT NOT NULL,
  ended_at   BIGINT NOT NULL,
  PRIMARY KEY (run_id, step, call_id)
);

CREATE TABLE outbox (
  seq        BIGINT PRIMARY KEY,
  session_id TEXT NOT NULL,
  data       BYTEA NOT NULL
);

-- A counter outlives the rows that it numbered: a number is never used twice.
CREATE TABLE counters (
  name  TEXT PRIMARY KEY,
  value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('outbox', 0);

CREATE TABLE idempotency (
  scope  TEXT NOT NULL,
  key    TEXT NOT NULL,
  hash   TEXT NOT NULL,
  status BIGINT NOT NULL,
  answer BYTEA,
  at     BIGINT NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_by_age ON idempotency (at);

CREATE TABLE audit (
  seq        BIGINT PRIMARY KEY,
  at         BIGINT NOT NULL,
  actor      TEXT NOT NULL,
  act        TEXT NOT NULL,
  session_id TEXT NOT NULL,
  run_id     TEXT NOT NULL,
  detail     TEXT NOT NULL
);
CREATE INDEX audit_by_session ON audit (session_id, seq);

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
