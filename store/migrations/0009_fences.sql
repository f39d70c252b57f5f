-- What keeps a gateway's client from repeating by itself a request whose answer broke. hash is of the
-- request; client is the label of its key, client_session what the client calls its conversation.
CREATE TABLE fences (
  id             TEXT PRIMARY KEY,
  client         TEXT NOT NULL,
  client_session TEXT NOT NULL,
  dialect        TEXT NOT NULL,
  model          TEXT NOT NULL,
  hash           TEXT NOT NULL,
  call_id        TEXT NOT NULL,
  reason         TEXT NOT NULL,
  created_at     BIGINT NOT NULL,
  expires_at     BIGINT NOT NULL,
  hits           BIGINT NOT NULL,
  UNIQUE (client, hash, client_session, dialect)
);
CREATE INDEX fences_by_client ON fences (client, expires_at);
CREATE INDEX fences_by_end ON fences (expires_at);
