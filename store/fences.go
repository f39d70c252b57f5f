package store

import "github.com/reprise-run/reprise/session"

const fenceColumns = `id, client, client_session, dialect, model, hash, call_id, reason, created_at, expires_at, hits`

func fenceFields(f *session.Fence) []any {
	return []any{&f.ID, &f.Client, &f.Session, &f.Dialect, &f.Model, &f.Hash, &f.CallID, &f.Reason, &f.CreatedAt, &f.ExpiresAt, &f.Hits}
}

func (r *reader) Fences(now session.Time) ([]session.Fence, error) {
	return list(r, fenceFields, `SELECT `+fenceColumns+` FROM fences WHERE expires_at > $1 ORDER BY created_at DESC, id DESC`, now)
}

func (r *reader) FenceOf(f session.Fence, now session.Time) (session.Fence, error) {
	return one(r, fenceFields, `SELECT `+fenceColumns+` FROM fences
WHERE client = $1 AND hash = $2 AND client_session = $3 AND dialect = $4 AND expires_at > $5`, f.Client, f.Hash, f.Session, f.Dialect, now)
}

func (r *reader) FencedUntil(client string) (session.Time, error) {
	return one(r, itself[session.Time], `SELECT COALESCE(MAX(expires_at), 0) FROM fences WHERE client = $1`, client)
}

func (t *tx) PutFence(f session.Fence, keep int) error {
	if _, err := t.exec(`DELETE FROM fences WHERE expires_at <= $1`, f.CreatedAt); err != nil {
		return err
	}
	if err := t.change(`INSERT INTO fences (`+fenceColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (client, hash, client_session, dialect) DO UPDATE SET id = excluded.id, model = excluded.model, call_id = excluded.call_id,
reason = excluded.reason, created_at = excluded.created_at, expires_at = excluded.expires_at, hits = excluded.hits`, fenceFields(&f)...); err != nil {
		return err
	}
	_, err := t.exec(`DELETE FROM fences WHERE id IN
(SELECT id FROM fences WHERE client = $1 ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3)`, f.Client, atMost(0), keep)
	return err
}

func (t *tx) HitFence(id session.FenceID) error {
	return t.change(`UPDATE fences SET hits = hits + 1 WHERE id = $1`, id)
}

func (t *tx) DeleteFence(id session.FenceID) error {
	return t.change(`DELETE FROM fences WHERE id = $1`, id)
}
