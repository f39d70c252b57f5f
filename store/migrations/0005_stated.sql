-- Whether the provider has named the time of a cool-off.
ALTER TABLE credential_state ADD COLUMN stated BOOLEAN NOT NULL DEFAULT FALSE;
