-- What an attempt cost, or may cost: reserved with it, settled at its seal. Amounts are in
-- billionths of a US dollar. While the kind is 'open', amount is what was sent, and reserved what
-- may come.
CREATE TABLE spend (
  attempt_id TEXT PRIMARY KEY REFERENCES attempts (id),
  session_id TEXT NOT NULL,
  run_id     TEXT NOT NULL,
  step       BIGINT NOT NULL,
  at         BIGINT NOT NULL,
  kind       TEXT NOT NULL,
  amount     BIGINT NOT NULL,
  reserved   BIGINT NOT NULL,
  price      TEXT
);
CREATE INDEX spend_by_session ON spend (session_id, at);
CREATE INDEX spend_by_time ON spend (at);
