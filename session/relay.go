package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// follow feeds the hub from the log.
func (m *Manager) follow(caughtUp chan struct{}) {
	caught := sync.OnceFunc(func() { close(caughtUp) })
	for {
		err := m.log.Follow(m.work, m.hub.record, caught)
		if m.work.Err() != nil {
			return
		}
		if errors.Is(err, ErrReplaced) {
			m.hub.restart(m.log.Incarnation())
			continue
		}
		m.cfg.Log.Error("follow the log", "error", err)
		select {
		case <-time.After(time.Second):
		case <-m.work.Done():
			return
		}
	}
}

// outbox is how far the relay has come. It is used by one goroutine at a time.
type outbox struct {
	published int64 // the last event that the log has
	deleted   int64 // up to here the store's rows are gone
}

// emptyAt is how many published events wait to be deleted at most, between two sweeps: that
// is a transaction which a reply should not have to wait for.
const emptyAt = 512

// publishAtOnce is how many events are read in one transaction at most.
const publishAtOnce = 256

// relayLoop moves lifecycle events from the store to the log, in order.
func (m *Manager) relayLoop() {
	retry := time.NewTicker(sweepEvery)
	defer retry.Stop()
	for {
		err := m.drainOutbox(m.work)
		if err == nil && m.outbox.published-m.outbox.deleted >= emptyAt {
			err = m.emptyOutbox(m.work)
		}
		if err != nil && m.work.Err() == nil {
			m.cfg.Log.Error("publish lifecycle events", "error", err)
		}
		select {
		case <-m.relay:
		case <-retry.C:
			if err := m.emptyOutbox(m.work); err != nil && m.work.Err() == nil {
				m.cfg.Log.Error("delete published events", "error", err)
			}
		case <-m.work.Done():
			return
		}
	}
}

// drainOutbox publishes what waits in the outbox. After a crash, what was published and not
// deleted is published again: under the same id, which the log knows for a while, and with
// the same revision, which observers do.
func (m *Manager) drainOutbox(ctx context.Context) error {
	for {
		var rows []Outboxed
		err := m.store.View(ctx, func(tx ReadTx) (err error) {
			rows, err = tx.Outbox(m.outbox.published, publishAtOnce)
			return err
		})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := m.log.Publish(ctx, row.SessionID, fmt.Sprintf("outbox-%d", row.Seq), row.Data); err != nil {
				return fmt.Errorf("publish for session %s: %w", row.SessionID, err)
			}
			m.outbox.published = row.Seq
		}
		if len(rows) < publishAtOnce { // whoever commits another one wakes the relay
			return nil
		}
	}
}

// emptyOutbox deletes what was published.
func (m *Manager) emptyOutbox(ctx context.Context) error {
	published := m.outbox.published
	if published == m.outbox.deleted {
		return nil
	}
	if err := m.store.Update(ctx, Soft, func(tx Tx) error { return tx.DeleteOutbox(published) }); err != nil {
		return fmt.Errorf("empty the outbox: %w", err)
	}
	m.outbox.deleted = published
	return nil
}

// endOutputs tells the hub of runs whose output is in the log longer than their end: the log keeps
// lifecycle events for its followers, not for ever.
func (m *Manager) endOutputs(ctx context.Context) error {
	runs := m.hub.unended()
	if len(runs) == 0 {
		return nil
	}
	return m.store.View(ctx, func(tx ReadTx) error {
		for id, session := range runs {
			r, err := tx.Run(id)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			if err != nil || r.State.Terminal() {
				m.hub.end(endedRun{session, id, r.EndedAt})
			}
		}
		return nil
	})
}

// purge takes the output of runs that ended a while ago out of the log.
func (m *Manager) purge(now time.Time) error {
	for _, r := range m.hub.endedBefore(At(now.Add(-keepOutput))) {
		if err := m.log.Purge(m.work, r.session, r.run); err != nil {
			return fmt.Errorf("purge the output of run %s: %w", r.run, err)
		}
	}
	return nil
}
