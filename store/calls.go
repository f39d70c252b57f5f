package store

import "github.com/reprise-run/reprise/session"

const callColumns = `session_id, run_id, step, call_id, name, arguments, state, effect, result, started_at, ended_at,
approval, resolved, child`

func callFields(c *session.ToolCall) []any {
	return []any{&c.SessionID, &c.RunID, &c.Step, &c.CallID, &c.Name, &c.Arguments,
		word[session.CallState]{&c.State, callStates}, &c.Effect, asJSON(&c.Result),
		&c.StartedAt, &c.EndedAt, asJSON(&c.Approval), asJSON(&c.Resolved), orNull(&c.Child)}
}

func (r *reader) ToolCalls(run session.RunID) ([]session.ToolCall, error) {
	return list(r, callFields, `SELECT `+callColumns+` FROM tool_calls
WHERE run_id = $1 ORDER BY step, number`, run)
}

func (r *reader) Asked() ([]session.ToolCall, error) {
	return list(r, callFields, `SELECT `+callColumns+` FROM tool_calls
WHERE state = 'asked' ORDER BY asked_at, run_id, step, number`)
}

// asks counts the calls about which a session's operator is asked.
type asks struct {
	session session.ID
	n       int
}

func asksFields(a *asks) []any { return []any{&a.session, &a.n} }

const asksOfAll = `SELECT session_id, COUNT(*) FROM (
  SELECT session_id FROM tool_calls WHERE state = 'asked' UNION ALL
  SELECT s.root_id FROM tool_calls c JOIN sessions s ON s.id = c.session_id WHERE c.state = 'asked' AND s.root_id IS NOT NULL) a
GROUP BY session_id`

func (t *tx) InsertToolCall(c session.ToolCall) error {
	return t.change(`INSERT INTO tool_calls (`+callColumns+`, asked_at, number)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
(SELECT COALESCE(MAX(number), 0) + 1 FROM tool_calls WHERE run_id = $2))
ON CONFLICT DO NOTHING`, append(callFields(&c), askedAt(&c))...)
}

func askedAt(c *session.ToolCall) session.Time {
	if c.Approval == nil {
		return 0
	}
	return c.Approval.AskedAt
}

func (t *tx) PutToolCall(c session.ToolCall, expect session.CallState) error {
	return t.change(`UPDATE tool_calls SET state = $5, result = $6, started_at = $7, ended_at = $8, approval = $9, resolved = $10
WHERE run_id = $1 AND step = $2 AND call_id = $3 AND state = $4`,
		c.RunID, c.Step, c.CallID, expect, word[session.CallState]{&c.State, callStates},
		asJSON(&c.Result), c.StartedAt, c.EndedAt, asJSON(&c.Approval), asJSON(&c.Resolved))
}
