package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// Open implements replay.Ledger. The row survives a power loss only where the provider may
// act for the request: else nothing of it is observable before its mark, which does.
func (x *execution) Open(ctx context.Context, o replay.Opening) (string, error) {
	now := time.Now()
	a := Attempt{
		ID: NewID[AttemptID]("att_", now), RunID: x.run.ID, SessionID: x.run.SessionID,
		After: AttemptID(o.After), Automatic: o.Automatic,
		Provider: o.Provider, Key: o.Key, Model: o.Model, OpenedAt: At(now),
		SwitchedFrom: x.choice.Switched, InsteadOf: x.choice.Instead, Skipped: x.choice.Skipped,
		Evidence: replay.Evidence{Scope: o.Scope, State: replay.StateOpen, Remote: o.Remote},
	}
	a.Evidence.Attempt = string(a.ID)
	b := bill{x.m.models.About(o.Provider, o.Model), o.Needs}
	events := []HookEvent{HookAttemptOpened}
	if o.After != "" {
		events = append(events, HookRetryStarted)
	}
	told, d := x.m.asked(Soft, events...)
	if !told {
		events = nil
	}
	if o.Remote {
		d = Full
	}
	update := x.m.store.Update
	if a.SwitchedFrom != nil || told {
		update = x.m.update // there is something to tell
	}
	x.fell = nil
	err := update(ctx, d, func(tx Tx) error {
		number, err := tx.OpenAttempt(a)
		if err != nil {
			return err
		}
		for _, e := range events {
			n, err := note(tx, e, o.Scope, a.ID)
			if err != nil {
				return err
			}
			opened := a
			opened.Number, n.Tried = number, &opened
		}
		if err := x.reserve(tx, a, b); err != nil || a.SwitchedFrom == nil {
			return err
		}
		return emit(tx, a.SessionID, Event{Type: EventSwitch, Switch: &Switch{
			RunID: a.RunID, AttemptID: a.ID, From: *a.SwitchedFrom, To: x.choice.Candidate}})
	})
	if err != nil {
		a.ID = "" // there is none: the row of the failed run says only who was to be asked
	}
	x.attempt, x.bill = a, b
	if err == nil {
		x.m.tell(func(o Observer) { o.Opened(a, x.choice.Waited) })
		x.aboveOpened(a)
		err = x.writer.claimed() // the marker is the fence: it goes before the first request
	}
	return string(a.ID), stale(err)
}

// Mark implements replay.Ledger.
func (x *execution) Mark(ctx context.Context, scope llm.Scope, attempt string, effects replay.Reasons) error {
	err := x.m.store.Update(ctx, Full, func(tx Tx) error {
		return tx.MarkAttempt(AttemptID(attempt), scope, effects, At(time.Now()))
	})
	if err == nil {
		x.m.tell(func(o Observer) { o.Marked(x.attempt, effects) })
	}
	return stale(err)
}

// Seal implements replay.Ledger. What ends the step is stored right after it, with a full
// sync that carries the seal along; until then the attempt counts as open.
func (x *execution) Seal(ctx context.Context, scope llm.Scope, attempt string, s replay.Seal) error {
	cost, d := CostOf(x.bill.facts, x.bill.needs, s), Soft
	fell := x.fell
	if !s.OK && fell == nil { // whom it will be told is marked now: the evidence is read next
		fell = newNotice(HookAttemptFailed, scope, AttemptID(attempt))
		_, d = x.m.asked(Soft, HookAttemptFailed)
	}
	err := x.m.store.Update(ctx, d, func(tx Tx) error {
		if fell != x.fell {
			if err := fell.mark(tx, x.m.cfg.Hooks); err != nil {
				return err
			}
		}
		if err := tx.SealAttempt(AttemptID(attempt), scope, s, At(time.Now())); err != nil {
			return err
		}
		return tx.Settle(AttemptID(attempt), cost)
	})
	if err == nil {
		x.fell = fell
		a := x.attempt
		a.Cost = &cost
		x.m.tell(func(o Observer) { o.Sealed(a, s) })
	}
	return stale(err)
}

// Check implements replay.Ledger.
func (x *execution) Check(ctx context.Context, scope llm.Scope) error {
	return x.m.store.View(ctx, func(tx ReadTx) error {
		c, err := tx.Claimed(x.run.ID)
		switch {
		case err != nil:
			return err
		case c.State != Running || c.Generation != scope.Generation:
			return fmt.Errorf("run %s is %s, generation %d: %w", x.run.ID, c.State, c.Generation, replay.ErrStale)
		case c.CancelRequested:
			return fmt.Errorf("run %s was asked to stop: %w", x.run.ID, replay.ErrStale)
		}
		return nil
	})
}

// Evidence implements replay.Ledger.
func (x *execution) Evidence(ctx context.Context, scope llm.Scope, attempt string) (e replay.Evidence, err error) {
	err = x.m.store.View(ctx, func(tx ReadTx) error {
		a, err := tx.Attempt(AttemptID(attempt))
		if errors.Is(err, ErrNotFound) {
			e = replay.Evidence{Scope: scope, Attempt: attempt}
			return nil
		}
		if err != nil {
			return err
		}
		c, err := tx.Claimed(a.RunID)
		if err != nil {
			return err
		}
		e = a.Evidence
		if c.Generation != e.Scope.Generation {
			e.State = replay.StateStale
		}
		return nil
	})
	return e, err
}

// stale tells the gate that a lost write means a stale generation.
func stale(err error) error {
	if errors.Is(err, ErrLost) {
		return fmt.Errorf("%w: %w", replay.ErrStale, err)
	}
	return err
}

// Chosen implements recovery.Trace: the attempt that is opened next says who is asked.
func (x *execution) Chosen(c recovery.Choice) { x.choice = c }

// Decided implements recovery.Trace: the decision is stored and told to observers. An owner that
// has lost the run decides nothing any more.
func (x *execution) Decided(ctx context.Context, attempt string, f *failure.Failure, d recovery.Decision) error {
	return stale(x.m.update(ctx, Soft, func(tx Tx) error {
		if c, err := tx.Claimed(x.run.ID); err != nil || c.Generation != x.run.Generation {
			return cmp.Or(err, ErrLost)
		}
		if err := tx.PutDecision(AttemptID(attempt), f, d); err != nil {
			return err
		}
		a, err := tx.Attempt(AttemptID(attempt))
		if err != nil {
			return err
		}
		if x.fell != nil {
			x.fell.Tried = &a
			tx.(*telling).note(x.fell)
		}
		if d.Verdict != recovery.Stop && d.Verdict != recovery.HandOver {
			n, err := note(tx, HookRetryWaiting, a.Evidence.Scope, a.ID)
			if err != nil {
				return err
			}
			n.Tried = &a
		}
		return emit(tx, x.run.SessionID, Event{Type: EventAttempt, Attempt: &a})
	}))
}

// sink publishes one step's output to the event log, fenced by the run's generation.
type sink struct {
	x    *execution
	step int
}

// Append implements replay.Sink.
func (s sink) Append(ctx context.Context, events []llm.Event) error {
	shown := events
	if slices.ContainsFunc(events, silent) {
		shown = slices.DeleteFunc(slices.Clone(events), silent)
	}
	if len(shown) == 0 {
		return nil
	}
	x := s.x
	x.seq++
	data, err := appendOutput(nil, x.run.SessionID, &Output{
		RunID: x.run.ID, Step: s.step, AttemptID: x.attempt.ID,
		Generation: x.run.Generation, Seq: x.seq, Events: shown,
	})
	if err != nil {
		return err
	}
	return x.writer.Append(ctx, data)
}

// silent reports whether an event shows nothing.
func silent(e llm.Event) bool {
	switch e.Kind {
	case llm.EventStart, llm.EventPing, llm.EventPartStart, llm.EventPartEnd:
		return true
	}
	return false
}

// lateWriter is the writer of a claim that is under way while the conversation is read.
// It may append once claimed has returned nil.
type lateWriter struct {
	Writer
	done chan struct{}
	err  error
}

func claimLater(ctx context.Context, log Log, r Run) *lateWriter {
	w := &lateWriter{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.Writer, w.err = log.Claim(ctx, r.SessionID, r.ID, r.Generation)
	}()
	return w
}

// claimed waits for the claim and returns how it ended.
func (w *lateWriter) claimed() error {
	<-w.done
	return w.err
}
