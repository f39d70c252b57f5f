package session

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
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
	// Marked: an effect of the attempt's output is about to become observable, or has happened.
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

// telling is a transaction that collects the events which it emits, and what hooks are told.
type telling struct {
	Tx
	waiting []Event
	events  []Event // that are in the outbox
	hooks   Hooks
	line    *noticeLine
	turn    *turn // nil: nothing is noted
}

// note remembers a notice for the hooks, until the transaction is stored.
func (t *telling) note(n *Notice) {
	if any, _ := t.hooks.Asks(n.Event); !any {
		return
	}
	if t.turn == nil {
		t.turn = t.line.join()
	}
	t.turn.notices = append(t.turn.notices, n)
}

// over lets what was noted be told, where the transaction was stored. A nil t has nothing.
func (t *telling) over(stored bool) {
	if t != nil && t.turn != nil {
		t.line.leave(t.turn, stored, t.hooks)
	}
}

// tell puts the events that wait into the outbox, session by session, each under a new revision.
// What a session has become is told once, and last.
func (t *telling) tell() error {
	now := At(time.Now())
	for len(t.waiting) > 0 {
		id := t.waiting[0].SessionID
		var events, others []Event
		changed := false
		for _, e := range t.waiting {
			switch {
			case e.SessionID != id:
				others = append(others, e)
			case e.Type == EventSession:
				changed = true
			default:
				events = append(events, e)
			}
		}
		if changed {
			events = append(events, Event{Type: EventSession, SessionID: id})
		}
		revision, err := t.Touch(id, len(events), now)
		if err != nil {
			return fmt.Errorf("raise the revision: %w", err)
		}
		if changed {
			s, err := t.Session(id)
			if err != nil {
				return fmt.Errorf("read the session: %w", err)
			}
			events[len(events)-1].Session = &s
		}
		rows := make([][]byte, len(events))
		for i := range events {
			e := &events[i]
			e.Revision, e.At = revision-int64(len(events)-1-i), now
			if rows[i], err = json.Marshal(e); err != nil {
				return fmt.Errorf("encode the event: %w", err)
			}
		}
		if err := t.AppendOutbox(id, rows...); err != nil {
			return err
		}
		t.events, t.waiting = append(t.events, events...), others
	}
	return nil
}

// Standing is what there is at one moment.
type Standing struct {
	Running, Queued int
	Schedules       map[ScheduleState]int
	CoolingOff      int // models and keys that are not asked for a while
	Viewers         int // streams of this node, and leases of all nodes, that watch a session
	Streams         int // open event streams of this node, also of the list alone
	Unstored        int // runs of this node whose rows or end the store does not take
}

// Standing counts what there is now. With an error it says what this node knows without the store.
func (m *Manager) Standing(ctx context.Context) (s Standing, err error) {
	watching, streams := m.hub.audience()
	s.Viewers, s.Streams = watching, streams
	s.Unstored = int(m.unstored.Load())
	err = m.store.View(ctx, func(tx ReadTx) error {
		runs, err := tx.CountRuns(m.owner)
		if err != nil {
			return err
		}
		s.Running, s.Queued = runs.Running, runs.Queued
		viewers, err := tx.Watched(At(time.Now()))
		if err != nil {
			return err
		}
		s.Viewers = watching + len(slices.DeleteFunc(viewers, func(v Viewer) bool { return v.Until == 0 }))
		offs, err := cooling(tx, time.Now())
		if err != nil {
			return err
		}
		s.CoolingOff = len(offs)
		list, err := tx.Schedules(ScheduleStates...)
		s.Schedules = map[ScheduleState]int{}
		for i := range list {
			s.Schedules[list[i].State]++
		}
		return err
	})
	return s, err
}
