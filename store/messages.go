package store

import (
	"slices"

	"github.com/reprise-run/reprise/session"
)

const messageColumns = `id, session_id, role, parts, actor, created_at, run_id, step, attempt_id,
provider, model, usage, interrupted, switched_from, up_to, compaction, position`

func messageFields(m *session.Message) []any {
	return []any{&m.ID, &m.SessionID, word[session.Role]{&m.Role, roles}, asJSON(&m.Parts),
		&m.Actor, &m.CreatedAt, &m.RunID, &m.Step, &m.AttemptID, &m.Provider, &m.Model,
		asJSON(&m.Usage), &m.Interrupted, asJSON(&m.SwitchedFrom), upTo(m), asJSON(&m.Compaction), &m.Position}
}

// upTo is a column that repeats what a message's compaction says, for what SQL decides by it.
func upTo(m *session.Message) any {
	n := new(int64)
	if m.Compaction != nil {
		*n = m.Compaction.UpTo
	}
	return n
}

// selectMessages reads messages with their derived fields. A run's failure is shown on its
// last reply or tool row; operator rows look the same before and after.
const selectMessages = `SELECT m.id, m.session_id, m.role, m.parts, m.actor, m.created_at, m.run_id,
m.step, m.attempt_id, m.provider, m.model, m.usage, m.interrupted, m.switched_from, m.up_to, m.compaction, m.position,
COALESCE(s.run_id, ''), COALESCE(s.created_at, 0), r.failure, r.recovery
FROM messages m
LEFT JOIN supersessions s ON s.message_id = m.id
LEFT JOIN runs r ON r.id = m.run_id AND m.role <> 'operator' AND NOT EXISTS (
  SELECT 1 FROM messages n WHERE n.run_id = m.run_id AND n.position > m.position)
`

func derivedFields(m *session.Message) []any {
	return append(messageFields(m), &m.SupersededBy, &m.SupersededAt, asJSON(&m.Failure), asJSON(&m.Recovery))
}

func (r *reader) Message(id session.MessageID) (session.Message, error) {
	return one(r, derivedFields, selectMessages+`WHERE m.id = $1`, id)
}

func (r *reader) Messages(id session.ID, superseded bool, after int64, limit int) ([]session.Message, error) {
	where := `WHERE m.session_id = $1 AND m.position > $2 `
	if !superseded {
		where += `AND s.message_id IS NULL `
	}
	return list(r, derivedFields, selectMessages+where+`ORDER BY m.position LIMIT $3`,
		id, after, atMost(limit))
}

func (r *reader) LastMessages(id session.ID, n int) ([]session.Message, error) {
	last, err := list(r, derivedFields, selectMessages+`WHERE m.session_id = $1 AND s.message_id IS NULL
ORDER BY m.position DESC LIMIT $2`, id, n)
	slices.Reverse(last)
	return last, err
}

func (t *tx) InsertMessage(m session.Message) (int64, error) {
	fields := messageFields(&m)
	return t.returning(`INSERT INTO messages (`+messageColumns+`)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
(SELECT COALESCE(MAX(position), 0) + 1 FROM messages WHERE session_id = $2))
ON CONFLICT DO NOTHING RETURNING position`, fields[:len(fields)-1]...)
}

func (t *tx) Supersede(id session.ID, anchor session.MessageID, after int64, only, by session.RunID, now session.Time) (int, error) {
	n, err := t.exec(`INSERT INTO supersessions (message_id, session_id, anchor, run_id, created_at)
SELECT id, session_id, $2, $5, CAST($6 AS BIGINT) FROM messages
WHERE session_id = $1 AND position > $3 AND ($4 = '' OR run_id = $4)
AND (up_to = 0 OR up_to > $3)
AND NOT EXISTS (SELECT 1 FROM supersessions s WHERE s.message_id = messages.id)`,
		id, anchor, after, only, by, now)
	return int(n), err
}

const pendingColumns = `message_id, run_id, session_id, rank, parts, actor, created_at, routing`

func pendingFields(p *session.Pending) []any {
	return []any{&p.MessageID, &p.RunID, &p.SessionID, &p.Rank, asJSON(&p.Parts), &p.Actor, &p.CreatedAt, asJSON(&p.Routing)}
}

func (r *reader) Pending(id session.ID) ([]session.Pending, error) {
	return list(r, pendingFields, `SELECT `+pendingColumns+` FROM pending
WHERE session_id = $1 ORDER BY rank`, id)
}

func (t *tx) InsertPending(p session.Pending) error {
	return t.change(`INSERT INTO pending (`+pendingColumns+`)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`, pendingFields(&p)...)
}

func (t *tx) PutPending(p session.Pending) error {
	return t.change(`UPDATE pending SET parts = $3, rank = $4 WHERE message_id = $1 AND session_id = $2
AND NOT EXISTS (SELECT 1 FROM pending o WHERE o.session_id = $2 AND o.rank = $4 AND o.message_id <> $1)`,
		p.MessageID, p.SessionID, asJSON(&p.Parts), p.Rank)
}

func (t *tx) DeletePending(id session.ID, m session.MessageID) error {
	return t.change(`DELETE FROM pending WHERE message_id = $1 AND session_id = $2`, m, id)
}
