package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/session"
)

// idempotencyAge is how long a stored answer keeps its key, in milliseconds.
const idempotencyAge = 24 * 60 * 60 * 1000

func outboxFields(o *session.Outboxed) []any { return []any{&o.Seq, &o.SessionID, &o.Data} }

func (r *reader) Outbox(after int64, limit int) ([]session.Outboxed, error) {
	return list(r, outboxFields, `SELECT seq, session_id, data FROM outbox WHERE seq > $1 ORDER BY seq LIMIT $2`, after, atMost(limit))
}

// outboxAtOnce is how many rows a statement inserts at most: each number is a statement of its own.
const outboxAtOnce = 16

func (t *tx) AppendOutbox(id session.ID, data ...[]byte) error {
	seq, err := t.returning(`UPDATE counters SET value = value + $1 WHERE name = 'outbox' RETURNING value`, len(data))
	if err != nil {
		return err
	}
	seq -= int64(len(data))
	for rows := range slices.Chunk(data, outboxAtOnce) {
		var values strings.Builder
		args := []any{id}
		for i, d := range rows {
			seq++
			fmt.Fprintf(&values, ", ($%d, $1, $%d)", 2*i+2, 2*i+3)
			args = append(args, seq, d)
		}
		if err := t.change(`INSERT INTO outbox (seq, session_id, data) VALUES `+values.String()[2:], args...); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) DeleteOutbox(upTo int64) error {
	_, err := t.exec(`DELETE FROM outbox WHERE seq <= $1`, upTo)
	return err
}

const idempotencyColumns = `scope, key, hash, status, answer, at`

func idempotencyFields(i *session.Idempotent) []any {
	return []any{&i.Scope, &i.Key, &i.Hash, &i.Status, &i.Answer, &i.At}
}

func (r *reader) Idempotent(scope, key string) (session.Idempotent, error) {
	return one(r, idempotencyFields, `SELECT `+idempotencyColumns+` FROM idempotency
WHERE scope = $1 AND key = $2`, scope, key)
}

// PutIdempotent implements session.Tx. A key whose answer is older than 24 hours is free.
func (t *tx) PutIdempotent(i session.Idempotent) error {
	return t.change(`INSERT INTO idempotency (`+idempotencyColumns+`) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (scope, key) DO UPDATE SET hash = excluded.hash, status = excluded.status,
answer = excluded.answer, at = excluded.at WHERE idempotency.at <= excluded.at - $7`,
		append(idempotencyFields(&i), idempotencyAge)...)
}

const auditColumns = `at, actor, act, session_id, run_id, detail`

func auditFields(a *session.Audit) []any {
	return []any{&a.At, &a.Actor, &a.Act, &a.SessionID, &a.RunID, &a.Detail}
}

// Audit implements session.ReadTx: newest first; without a session, those of all.
func (r *reader) Audit(id session.ID, limit int) ([]session.Audit, error) {
	if id == "" {
		return list(r, auditFields, `SELECT `+auditColumns+` FROM audit ORDER BY seq DESC LIMIT $1`, atMost(limit))
	}
	return list(r, auditFields, `SELECT `+auditColumns+` FROM audit
WHERE session_id = $1 ORDER BY seq DESC LIMIT $2`, id, atMost(limit))
}

func (t *tx) InsertAudit(a session.Audit) error {
	return t.change(`INSERT INTO audit (`+auditColumns+`, seq) VALUES ($1, $2, $3, $4, $5, $6,
(SELECT COALESCE(MAX(seq), 0) + 1 FROM audit))`, auditFields(&a)...)
}

func (r *reader) Meta(key string) (string, error) {
	return one(r, itself[string], `SELECT value FROM meta WHERE key = $1`, key)
}

func (t *tx) PutMeta(key, value string) error {
	return t.change(`INSERT INTO meta (key, value) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
}

func (t *tx) Prune(before session.Time) error {
	for _, expired := range []string{`DELETE FROM credential_state WHERE until < $1`, `DELETE FROM fences WHERE expires_at < $1`,
		`DELETE FROM idempotency WHERE at < $1`, `DELETE FROM viewers WHERE until > 0 AND until < $1`} {
		if _, err := t.exec(expired, before); err != nil {
			return err
		}
	}
	return nil
}
