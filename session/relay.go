package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
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
		if pause(m.work, time.Second) != nil {
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

// readAnew is after how long what was read of the outbox is read again: well below the time for which
// the log knows what was published, in case this process was paused.
const readAnew = 30 * time.Second

// inLog is how far the log has been seen to come with each session, for as long as an event may still
// be in the outbox. Every node publishes all that it finds there, in order, so that a session's order
// holds whoever has changed it; what it has seen in the log it need not. Safe for concurrent use.
type inLog struct {
	mu          sync.Mutex
	now, before map[ID]int64 // revisions
}

func (s *inLog) saw(id ID, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = map[ID]int64{}
	}
	s.now[id] = max(s.now[id], revision)
}

func (s *inLog) has(id ID, revision int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return revision > 0 && revision <= max(s.now[id], s.before[id])
}

// turn forgets what was not seen since the last one.
func (s *inLog) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.before = nil, s.now
}

// revisionOf reads the revision of an encoded lifecycle event, before which nothing is long; 0: it has
// none.
func revisionOf(data []byte) int64 {
	_, rest, _ := bytes.Cut(data[:min(len(data), 256)], []byte(`"revision":`))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

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
			m.inLog.turn()
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
		began := time.Now()
		err := m.store.View(ctx, func(tx ReadTx) (err error) {
			rows, err = tx.Outbox(m.outbox.published, publishAtOnce)
			return err
		})
		if err != nil {
			return err
		}
		more := len(rows) == publishAtOnce // else whoever commits another one wakes the relay
		for _, row := range rows {
			if time.Since(began) > readAnew {
				more = true
				break
			}
			if !m.inLog.has(row.SessionID, revisionOf(row.Data)) {
				if err := m.log.Publish(ctx, row.SessionID, fmt.Sprintf("outbox-%d", row.Seq), row.Data); err != nil {
					return fmt.Errorf("publish for session %s: %w", row.SessionID, err)
				}
			}
			m.outbox.published = row.Seq
		}
		if !more {
			return nil
		}
	}
}

// settleTime bounds how long a node that stops goes on publishing beside others, who add to the outbox
// faster than it comes to its end, and publish what it leaves.
const settleTime = 2 * time.Second

// settleOutbox publishes what is left when this node stops, where the log can be reached, and deletes
// what was published.
func (m *Manager) settleOutbox(ctx context.Context) error {
	if err := m.log.Ready(ctx); errors.Is(err, ErrUnavailable) {
		m.cfg.Log.Warn("lifecycle events wait in the store for the next start", "error", err)
		return m.emptyOutbox(ctx)
	}
	within, cancel := ctx, func() {}
	if !m.cfg.Sole {
		within, cancel = context.WithTimeout(ctx, settleTime)
	}
	defer cancel()
	err := m.drainOutbox(within)
	if within.Err() != nil {
		err = nil
	}
	return errors.Join(err, m.emptyOutbox(ctx))
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
