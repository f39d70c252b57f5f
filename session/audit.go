package session

import (
	"context"
	"time"
)

// audit stores who did what, in the transaction that does it.
func audit(tx Tx, actor, act string, id ID, run RunID, detail string) error {
	return tx.InsertAudit(Audit{At: At(time.Now()), Actor: actor, Act: act, SessionID: id, RunID: run, Detail: detail})
}

// Record stores an act that belongs to no session: a login, for one.
func (m *Manager) Record(ctx context.Context, actor, act, detail string) error {
	return m.store.Update(ctx, Full, func(tx Tx) error { return audit(tx, actor, act, "", "", detail) })
}

// Audit lists the newest acts first: those on a session, or, without one, all.
func (m *Manager) Audit(ctx context.Context, id ID, limit int) (list []Audit, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		if id != "" {
			if _, err := tx.Session(id); err != nil {
				return err
			}
		}
		list, err = tx.Audit(id, limit)
		return err
	})
	return list, err
}
