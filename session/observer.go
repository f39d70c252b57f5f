package session

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
)

// Observer is told what this node does, so that it can be counted, traced and logged. Its
// methods are called after the fact by the goroutine that did it, which waits for them: they
// return at once. They cannot object, they keep and change nothing that pointers lead to, and
// a panic of theirs ends with the call. Of one run they are called in order, but for what
// others than its owner do to it.
type Observer interface {
	// Committed: a transaction was stored that began at the given time, on behalf of ctx, with
	// these lifecycle events.
	Committed(ctx context.Context, began time.Time, events []Event)
	// Opened: an attempt was recorded, and its request is about to be sent. It has waited so long
	// for somebody who cooled off, besides the wait that the decision before it has set.
	Opened(a Attempt, waited time.Duration)
	// Marked: an effect of the attempt is about to become observable, or has happened.
	Marked(a Attempt, effects replay.Reasons)
	// Sealed: the attempt has ended, at its cost. It is told again where what was held is
	// published then.
	Sealed(a Attempt, s replay.Seal)
	// Left: this node executes the run no longer, whether it has ended or not. It is the last
	// that is told of a claim.
	Left(r Run)
}

// tell lets the observer hear of something, where there is one.
func (m *Manager) tell(f func(o Observer)) {
	if m.cfg.Observer == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			m.cfg.Log.Error("the observer panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f(m.cfg.Observer)
}

// telling is a transaction that remembers which events it emits.
type telling struct {
	Tx
	events []Event
}

// remember keeps an event for the observer, until the transaction is stored.
func remember(tx Tx, e Event) {
	if t, ok := tx.(*telling); ok {
		t.events = append(t.events, e)
	}
}

// Standing is what there is at one moment.
type Standing struct {
	Running, Queued int
	Schedules       map[ScheduleState]int
	CoolingOff      int // models and keys that are not asked for a while
	Viewers         int // streams and leases that watch a session
	Streams         int // open event streams, also of the list alone
}

// Standing counts what there is now.
func (m *Manager) Standing(ctx context.Context) (s Standing, err error) {
	s.Viewers, s.Streams = m.hub.audience(time.Now())
	err = m.store.View(ctx, func(tx ReadTx) error {
		if s.Running, s.Queued, err = tx.CountRuns(); err != nil {
			return err
		}
		offs, err := tx.CoolOffs()
		if err != nil {
			return err
		}
		for i := range offs {
			if offs[i].Until.After(time.Now()) {
				s.CoolingOff++
			}
		}
		list, err := tx.Schedules(ScheduleStates...)
		s.Schedules = map[ScheduleState]int{}
		for i := range list {
			s.Schedules[list[i].State]++
		}
		return err
	})
	return s, err
}
