package session

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// Node is a node's sign of life. Beat changes with each; 0: there is none.
type Node struct {
	ID   string
	Beat int64
}

// Owned is what an owner must know of a running run of its own.
type Owned struct {
	ID              RunID
	Generation      int64
	CancelRequested bool
}

// Counts are how many runs there are.
type Counts struct{ Running, Own, Queued int }

// Viewer is somebody who watches a session: a node that has streams of it open, as long as it lives,
// or, where Until is set, somebody who has let go of a stream.
type Viewer struct {
	SessionID ID
	Viewer    string
	Until     Time
}

// beats is how often in a lease a node gives a sign of life.
const beats = 6

// peers is what this node has seen of the others. A lease is measured here alone, by this node's
// clock, and never compared with a time that another machine has written. It is used by one goroutine.
type peers struct {
	seen map[string]sight
	last time.Time // of the last look
}

// sight is a beat, and for how long it has been seen to be the last one.
type sight struct {
	beat  int64
	quiet time.Duration
}

// look takes in a list that was read between two times. It returns the nodes that have given no sign
// of life for a whole lease, and how many are there. Of a time in which it did not look for more than
// half a lease, because the store was away or this process was paused, it knows nothing: that does
// not count.
func (p *peers) look(list []Node, began, now time.Time, lease time.Duration) (silent []Node, there int) {
	before, since := p.seen, began.Sub(p.last)
	if since > lease/2 {
		since = 0
	}
	p.seen, p.last = make(map[string]sight, len(list)), now
	for _, n := range list {
		s, known := before[n.ID]
		if known && s.beat == n.Beat {
			s.quiet += since
		} else {
			s = sight{beat: n.Beat}
		}
		p.seen[n.ID] = s
		if s.quiet >= lease {
			silent = append(silent, n)
		}
		if n.Beat > 0 && s.quiet < lease/2 {
			there++
		}
	}
	return silent, there
}

// nodeLoop gives signs of life, looks at those of the other nodes, and tells them which sessions are
// watched here, until the last run here has ended.
func (m *Manager) nodeLoop() {
	tick := time.NewTicker(m.cfg.Lease / beats)
	defer tick.Stop()
	told := map[ID]bool{} // the sessions that are stored as watched here
	for away := false; ; {
		var err error
		select {
		case <-tick.C:
			var first bool
			if first, err = m.beat(m.alive); first {
				clear(told) // this node was taken for dead, and its viewers were forgotten
			}
		case <-m.present:
		case <-m.alive.Done():
			return
		}
		if err == nil {
			err = m.tellPresence(m.alive, told)
		}
		if err != nil && !away && m.alive.Err() == nil {
			m.cfg.Log.Error("the other nodes do not hear of this one", "error", err)
		}
		away = err != nil
	}
}

// beat gives a sign of life, and does what the store says has become of this node's runs and of other
// nodes. It reports whether it is this node's first, or the first since it was taken for dead.
func (m *Manager) beat(ctx context.Context) (first bool, err error) {
	var list []Node
	var own []Owned
	held := m.held()
	began := time.Now()
	err = m.store.Update(ctx, Soft, func(tx Tx) error {
		n, err := tx.Beat(m.owner)
		if err != nil {
			return err
		}
		first = n == 1
		if list, err = tx.Nodes(); err != nil || len(held) == 0 {
			return err
		}
		own, err = tx.OwnedRuns(m.owner)
		return err
	})
	if err != nil {
		return false, err
	}
	m.compare(held, own)
	silent, there := m.peers.look(list, began, time.Now(), m.cfg.Lease)
	m.nodes.Store(int32(there))
	if len(silent) == 0 || m.claims.Err() != nil {
		return first, nil
	}
	return first, m.takeOver(silent)
}

// held lists the runs that are active here, with their generations.
func (m *Manager) held() map[RunID]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make(map[RunID]int64, len(m.active))
	for id, a := range m.active {
		held[id] = a.generation
	}
	return held
}

// compare ends here what has another owner now, and what another node was asked to stop.
func (m *Manager) compare(held map[RunID]int64, own []Owned) {
	lost := maps.Clone(held)
	for _, o := range own {
		if lost[o.ID] != o.Generation {
			continue
		}
		delete(lost, o.ID)
		if o.CancelRequested {
			m.endHere(o.ID, o.Generation, errStopped)
		}
	}
	for id, generation := range lost {
		m.endHere(id, generation, errLostRun)
	}
}

// endHere ends the work on a run, where this node has it in a generation; 0: in any.
func (m *Manager) endHere(id RunID, generation int64, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.active[id]; ok && (generation == 0 || a.generation == generation) {
		a.cancel(why)
	}
}

// takeOver queues the runs of silent nodes again. Whoever has given a sign of life meanwhile keeps
// its own: that is read in the transaction that decides.
func (m *Manager) takeOver(silent []Node) error {
	err := m.update(m.accept, Full, func(tx Tx) error {
		now, err := tx.Nodes()
		if err != nil {
			return err
		}
		beat := map[string]int64{}
		for _, n := range now {
			beat[n.ID] = n.Beat
		}
		gone := map[string]bool{}
		for _, n := range silent {
			if b, there := beat[n.ID]; !there || b != n.Beat || n.ID == m.owner {
				continue
			}
			gone[n.ID] = true
			if err := tx.Bury(n.ID); err != nil {
				return err
			}
		}
		return releaseRuns(tx, func(owner string) bool { return gone[owner] })
	})
	if err != nil {
		return fmt.Errorf("take over runs: %w", err)
	}
	kick(m.wake)
	kick(m.clock) // who watched there does not any more
	return nil
}

// tellPresence stores which sessions are watched here, where that has changed since told.
func (m *Manager) tellPresence(ctx context.Context, told map[ID]bool) error {
	watched := m.hub.watchedHere()
	var come, left []ID
	for id := range watched {
		if !told[id] {
			come = append(come, id)
		}
	}
	for id := range told {
		if !watched[id] {
			left = append(left, id)
		}
	}
	if len(come)+len(left) == 0 {
		return nil
	}
	err := m.store.Update(ctx, Soft, func(tx Tx) error {
		for _, id := range come {
			if err := tx.PutViewer(Viewer{SessionID: id, Viewer: m.owner}); err != nil {
				return err
			}
		}
		for _, id := range left {
			if err := tx.DeleteViewer(id, m.owner); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("tell who watches: %w", err)
	}
	clear(told)
	maps.Copy(told, watched)
	return nil
}

// leave takes this node, and who watched there, out of the list.
func (m *Manager) leave(ctx context.Context) error {
	return m.store.Update(ctx, Soft, func(tx Tx) error { return tx.Bury(m.owner) })
}

// heard acts on what any node has done as on what was done here. e is nil for what a session has
// become.
func (m *Manager) heard(r Record, e *life) {
	m.inLog.saw(r.Session, revisionOf(r.Data))
	switch {
	case e == nil:
	case e.Type == EventRun:
		if e.Run.CancelRequested && !e.Run.State.Terminal() {
			m.endHere(e.Run.ID, 0, errStopped)
		}
		kick(m.counts)
	case e.Type == EventToolCall && (e.ToolCall.State == CallApproved || e.ToolCall.State == CallDenied):
		m.answered.give()
	}
}
