-- Keys of the gateway's own. terms are what the operator allows them.
CREATE TABLE client_keys (
  id         TEXT PRIMARY KEY,
  label      TEXT NOT NULL,
  hash       TEXT NOT NULL UNIQUE,
  terms      TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  revoked_at BIGINT NOT NULL,
  revoked_by TEXT NOT NULL
);
CREATE UNIQUE INDEX client_keys_by_label ON client_keys (label) WHERE revoked_at = 0;

-- What was asked of the gateway, by the hour: limits are checked against few rows, and sums outlive
-- the calls. Hour 0 holds what is older than calls are kept. An empty key_id stands for tokens.
CREATE TABLE client_usage (
  key_id      TEXT NOT NULL,
  hour        BIGINT NOT NULL,
  calls       BIGINT NOT NULL,
  refused     BIGINT NOT NULL,
  requests    BIGINT NOT NULL,
  input       BIGINT NOT NULL,
  output      BIGINT NOT NULL,
  cache_read  BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  amount      BIGINT NOT NULL,
  reserved    BIGINT NOT NULL,
  lost        BIGINT NOT NULL,
  inexact     BIGINT NOT NULL,
  unpriced    BIGINT NOT NULL,
  PRIMARY KEY (key_id, hour)
);
CREATE INDEX client_usage_by_hour ON client_usage (hour);

CREATE TABLE gateway_calls (
  id       TEXT PRIMARY KEY,
  key_id   TEXT NOT NULL,
  client   TEXT NOT NULL,
  began_at BIGINT NOT NULL,
  outcome  TEXT NOT NULL,
  record   TEXT NOT NULL,
  attempts TEXT
);
CREATE INDEX gateway_calls_by_time ON gateway_calls (began_at, id);
CREATE INDEX gateway_calls_by_key ON gateway_calls (key_id, began_at, id);
CREATE INDEX gateway_calls_open ON gateway_calls (id) WHERE outcome = 'open';
