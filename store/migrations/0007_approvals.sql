-- What the operator was asked about a call and has answered, and how they have settled one whose
-- outcome nobody knew. asked_at is 0 where they were not asked.
ALTER TABLE tool_calls ADD COLUMN approval TEXT;
ALTER TABLE tool_calls ADD COLUMN resolved TEXT;
ALTER TABLE tool_calls ADD COLUMN asked_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX tool_calls_asked ON tool_calls (session_id) WHERE state = 'asked';
