-- What a compaction leaves out ends at up_to; 0: the message is none.
ALTER TABLE messages ADD COLUMN up_to BIGINT NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN compaction TEXT;
