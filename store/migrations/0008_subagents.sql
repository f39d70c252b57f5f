-- The call that has begun a session, and for what SQL decides by it, the session of that call and
-- the first one of the tree. NULL: none has.
ALTER TABLE sessions ADD COLUMN parent TEXT;
ALTER TABLE sessions ADD COLUMN parent_id TEXT;
ALTER TABLE sessions ADD COLUMN root_id TEXT;
CREATE INDEX sessions_by_parent ON sessions (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_by_root ON sessions (root_id) WHERE root_id IS NOT NULL;

-- The run whose call has begun a run.
ALTER TABLE runs ADD COLUMN parent TEXT;
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;

-- The session that a call begins.
ALTER TABLE tool_calls ADD COLUMN child TEXT;

-- The first session of the tree of a subagent's attempt.
ALTER TABLE spend ADD COLUMN root_id TEXT;
CREATE INDEX spend_by_root ON spend (root_id, at) WHERE root_id IS NOT NULL;
