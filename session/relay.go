package session

import (
	"context"
	"fmt"
	"time"
)

// follow feeds the hub from the log.
func (m *Manager) follow(caughtUp chan struct{}) {
	for first := true; ; first = false {
		err := m.log.Follow(m.work, m.hub.record, func() {
			if first {
				close(caughtUp)
			}
		})
		if m.work.Err() != nil {
			return
		}
		m.cfg.Log.Error("follow the log", "error", err)
		select {
		case <-time.After(time.Second):
		case <-m.work.Done():
			return
		}
	}
}

// relayLoop moves lifecycle events from the store to the log, in order.
func (m *Manager) relayLoop() {
	retry := time.NewTicker(sweepEvery)
	defer retry.Stop()
	for {
		if err := m.drainOutbox(m.work); err != nil && m.work.Err() == nil {
			m.cfg.Log.Error("publish lifecycle events", "error", err)
		}
		select {
		case <-m.relay:
		case <-retry.C:
		case <-m.work.Done():
			return
		}
	}
}

// drainOutbox publishes what waits in the outbox. An event that was published and not deleted
// is published again under the same id, which the log knows.
func (m *Manager) drainOutbox(ctx context.Context) error {
	for {
		var rows []Outboxed
		err := m.store.View(ctx, func(tx ReadTx) (err error) {
			rows, err = tx.Outbox(256)
			return err
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			if err := m.log.Publish(ctx, row.SessionID, fmt.Sprintf("outbox-%d", row.Seq), row.Data); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
		last := rows[len(rows)-1].Seq
		if err := m.store.Update(ctx, Soft, func(tx Tx) error { return tx.DeleteOutbox(last) }); err != nil {
			return fmt.Errorf("empty the outbox: %w", err)
		}
	}
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
