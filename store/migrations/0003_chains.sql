-- What cools off: a key at every model (model is empty), a key at one, or a model with every
-- key (key_hash is empty). A key itself is never stored.
CREATE TABLE credential_state (
  key_hash   TEXT NOT NULL,
  model      TEXT NOT NULL,
  provider   TEXT NOT NULL,
  label      TEXT NOT NULL,
  reason     TEXT NOT NULL,
  until      BIGINT NOT NULL,
  failures   BIGINT NOT NULL,
  probed     BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  PRIMARY KEY (key_hash, model)
);

-- Generations are never used twice, also after a lane was forgotten.
INSERT INTO counters (name, value) VALUES ('credential_state', 0);

ALTER TABLE attempts ADD COLUMN switched_from TEXT;
ALTER TABLE attempts ADD COLUMN instead_of TEXT;
ALTER TABLE attempts ADD COLUMN skipped TEXT;
ALTER TABLE messages ADD COLUMN switched_from TEXT;
ALTER TABLE runs ADD COLUMN routing TEXT;
ALTER TABLE pending ADD COLUMN routing TEXT;
