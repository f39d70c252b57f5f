package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// timerActor is who acts when nobody does.
const timerActor = "timer"

// schedule arms the second tier, or stores why it does not, for a run that has just failed.
func schedule(tx Tx, run Run, p recovery.Policy, now time.Time) error {
	token, err := tx.NextToken(run.SessionID)
	if err != nil {
		return err
	}
	var spent Spend
	if run.Since != 0 && p.Tier2.MaxSpend > 0 {
		if spent, err = tx.Spent(Spending{Session: run.SessionID, Since: run.Since}); err != nil {
			return err
		}
	}
	return putSchedule(tx, arm(run, p, token, spent, now), Schedule{})
}

// putSchedule stores a schedule in place of an older one and tells of it: whoever watches the
// session, and whoever sees the list.
func putSchedule(tx Tx, s, old Schedule) error {
	if err := tx.PutSchedule(s, old.Token, old.State); err != nil {
		return err
	}
	return emit(tx, s.SessionID, Event{Type: EventSchedule, Schedule: &s}, Event{Type: EventSession})
}

// retire removes a session's schedule, where the session, read in this transaction, has one.
func retire(tx Tx, s Session) error {
	if s.Schedule == nil {
		return nil
	}
	if _, err := tx.DeleteSchedule(s.ID); err != nil {
		return err
	}
	return emit(tx, s.ID, Event{Type: EventSchedule})
}

// endWait cancels what a schedule waits for, and keeps the reason: in the schedule, which the
// next message removes, and with the failed run, whose record stays.
func endWait(tx Tx, was Schedule, reason string) (Schedule, error) {
	run, err := tx.Run(was.RunID)
	if err != nil {
		return was, err
	}
	run.Recovery.Cancelled = reason
	if err := tx.PutRun(run, run.State, run.Generation); err != nil {
		return was, err
	}
	return stopWaiting(tx, was, was, ScheduleCancelled, reason)
}

// stopWaiting stores that nothing will start by itself, and what else has changed in now. The token
// is another one: an act on the wait that comes late, or a second time, must not be taken for one
// on its end.
func stopWaiting(tx Tx, now, was Schedule, state ScheduleState, reason string) (Schedule, error) {
	var err error
	if now.Token, err = tx.NextToken(was.SessionID); err != nil {
		return was, err
	}
	now.State, now.Reason, now.HoldReason, now.UpdatedAt = state, reason, "", At(time.Now())
	return now, putSchedule(tx, now, was)
}

// scheduleLoop lets time pass for the schedules that wait. It looks at the wall clock again at
// least every half minute, so that a clock that jumps, or a machine that slept, is noticed; and more
// often where another node may have set a time and died.
func (m *Manager) scheduleLoop() {
	longest := 30 * time.Second
	if !m.cfg.Sole {
		longest = 5 * time.Second
	}
	for {
		again, err := m.passTime()
		if err != nil && m.accept.Err() == nil {
			m.cfg.Log.Error("look at the schedules", "error", err)
		}
		wait := longest
		if err != nil {
			wait = sweepEvery
		} else if !again.IsZero() {
			wait = min(wait, max(time.Until(again), 0))
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.clock:
		case <-m.accept.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// passTime moves every waiting schedule along and returns when to look again. One that could
// not be moved holds up no other.
func (m *Manager) passTime() (again time.Time, err error) {
	waiting, scenes, err := m.scenes()
	if err != nil {
		return again, err
	}
	for i, s := range waiting {
		if m.cfg.Passing && !scenes[i].watched {
			continue
		}
		next, start, at := s.pass(scenes[i])
		if !at.IsZero() && (again.IsZero() || at.Before(again)) {
			again = at
		}
		var err error
		switch {
		case start:
			err = m.dispatchRetry(s)
		case next.State != s.State || next.NextAt != s.NextAt || next.HoldReason != s.HoldReason:
			err = m.update(m.accept, Full, func(tx Tx) error { return putSchedule(tx, next, s) })
		}
		if m.accept.Err() != nil {
			return again, nil
		}
		if err != nil && !errors.Is(err, ErrLost) { // else somebody acted on it first
			m.cfg.Log.Error("move a schedule along", "session", s.SessionID, "run", s.RunID, "error", err)
			if at := time.Now().Add(sweepEvery); again.IsZero() || at.Before(again) {
				again = at
			}
		}
	}
	return again, nil
}

// scenes reads the schedules that wait, each with what decides about it now.
func (m *Manager) scenes() (waiting []Schedule, scenes []scene, err error) {
	err = m.store.View(m.accept, func(tx ReadTx) error {
		scenes = nil
		if waiting, err = tx.Schedules(waitingStates...); err != nil {
			return err
		}
		live, err := m.live(tx)
		if err != nil {
			return err
		}
		watched := m.hub.watchedHere()
		if len(waiting) > 0 {
			viewers, err := tx.Watched(At(time.Now()))
			if err != nil {
				return err
			}
			for _, v := range viewers {
				watched[v.SessionID] = true
			}
		}
		for _, s := range waiting {
			c := scene{now: time.Now(), began: m.began, live: live, watched: watched[s.SessionID]}
			if c.network, err = m.networkFor(tx, s, c.now); err != nil {
				return err
			}
			scenes = append(scenes, c)
		}
		return nil
	})
	return waiting, scenes, err
}

// dispatchRetry starts a due schedule's run, on the path of the operator's click. What the
// ledger says of the failed run, read in the same transaction, goes along as the new run's
// origin: its gates ask again.
func (m *Manager) dispatchRetry(was Schedule) error {
	err := m.update(m.accept, Full, func(tx Tx) error {
		s, err := tx.Session(was.SessionID)
		if err != nil {
			return err
		}
		if s.Schedule == nil || s.Schedule.Token != was.Token || s.Schedule.State != was.State {
			return ErrLost
		}
		live, err := m.live(tx)
		if err != nil {
			return err
		}
		if live.asks() {
			return ErrLost // to whoever changed the settings
		}
		failed, err := tx.Run(was.RunID)
		if err != nil {
			return err
		}
		evidence, err := evidenceOf(tx, failed)
		if err != nil {
			return err
		}
		if ok, why := evidence.Allows(was.Verb); !ok {
			now := was
			now.ReplaySafe, now.Evidence = false, why
			_, err := stopWaiting(tx, now, was, ScheduleNever, "not_safe")
			return err
		}
		if _, err = start(tx, s, was, timerActor, Origin{Verb: was.Verb, Run: evidence}, false, false); err != nil {
			return err
		}
		return emit(tx, s.ID, Event{Type: EventSession})
	})
	var no *Refusal
	if errors.As(err, &no) { // what a person may be asked, a timer is not
		return m.update(m.accept, Full, func(tx Tx) error {
			_, err := stopWaiting(tx, was, was, ScheduleNever, no.Code)
			return err
		})
	}
	if err == nil {
		kick(m.wake)
		kick(m.counts)
	}
	return err
}

// start queues the run that repeats a schedule's failed one. fresh begins a new series.
func start(tx Tx, s Session, sch Schedule, actor string, origin Origin, fresh, confirmed bool) (Receipt, error) {
	st, err := status(tx, s)
	if err != nil {
		return Receipt{}, err
	}
	run := Run{Trigger: TriggerRetry, Actor: actor, Origin: origin, MessageID: sch.Anchor, Token: sch.Token, Attempt: 1}
	if !fresh {
		run.Attempt, run.Since = sch.Attempt+1, sch.Since
	}
	if sch.Verb == replay.Resume {
		run.Continues = sch.RunID
		return resume(tx, s, st, run)
	}
	return regenerate(tx, s, st, run, RegenerateRequest{ConfirmEffects: confirmed})
}

// RetryNow starts a schedule's run at once, because a person says so. On one that waits the
// series goes on counting; on one that has stopped it begins anew.
func (m *Manager) RetryNow(ctx context.Context, q Act, id ID, token int64, confirmEffects bool) (Receipt, error) {
	return m.ask(ctx, q, id, func(tx Tx, s Session, st Status) (Receipt, error) {
		if s.Schedule == nil {
			if r := s.LastRun; r != nil && token != 0 && r.Token == token { // it has started already
				return Receipt{MessageID: r.MessageID, RunID: r.ID, State: string(r.State)}, nil
			}
			return Receipt{}, ErrNotFound
		}
		if err := seen(*s.Schedule, token); err != nil {
			return Receipt{}, err
		}
		return start(tx, s, *s.Schedule, q.Actor, byOperator, !s.Schedule.State.Waiting(), confirmEffects)
	})
}

// seen refuses an act on a schedule that is not the one that the actor saw; 0: not checked.
func seen(s Schedule, token int64) error {
	if token != 0 && token != s.Token {
		return &Refusal{Code: CodeStaleToken, Message: "The schedule has changed since you saw it.", Details: map[string]any{"schedule": s}}
	}
	return nil
}

// Retired is what became of a schedule, or of the run that it had started already.
type Retired struct {
	Schedule *Schedule `json:"schedule,omitempty"`
	Run      *Run      `json:"run,omitempty"`
}

// CancelRetry ends a wait; on a schedule that has stopped it dismisses it and releases the
// pending messages. Where the token was dispatched already, it cancels that run and names it.
// Calling it again is harmless.
func (m *Manager) CancelRetry(ctx context.Context, actor string, id ID, token int64) (out Retired, err error) {
	var dispatched RunID
	err = m.update(ctx, Full, func(tx Tx) error {
		out, dispatched = Retired{}, ""
		s, err := tx.Session(id)
		if err != nil {
			return err
		}
		if s.Schedule == nil || token != 0 && s.Schedule.Token != token {
			if r := s.LastRun; r != nil && token != 0 && r.Token == token {
				dispatched = r.ID
				return nil
			}
			switch {
			case s.Schedule == nil:
				return nil
			case token < s.Schedule.Token && !s.Schedule.State.Waiting(): // the wait that was seen has ended
				out.Schedule = s.Schedule
				return nil
			}
			return seen(*s.Schedule, token)
		}
		if s.Schedule.State.Waiting() {
			now, err := endWait(tx, *s.Schedule, EndedByOperator)
			if err != nil {
				return err
			}
			out.Schedule = &now
			return audit(tx, actor, "cancel retry", id, now.RunID, "")
		}
		return dismiss(tx, actor, s)
	})
	if err != nil {
		return Retired{}, err
	}
	kick(m.wake)
	if dispatched != "" {
		r, err := m.Cancel(ctx, actor, id, dispatched)
		return Retired{Run: &r}, err
	}
	return out, nil
}

// dismiss removes a schedule that has stopped, and releases the pending messages.
func dismiss(tx Tx, actor string, s Session) error {
	if err := retire(tx, s); err != nil {
		return err
	}
	if err := audit(tx, actor, "dismiss retry", s.ID, s.Schedule.RunID, ""); err != nil {
		return err
	}
	st, err := status(tx, s)
	if err != nil {
		return err
	}
	s.Paused = false
	if err := tx.PutSession(s); err != nil {
		return err
	}
	if st.Waiting && st.Run == "" {
		if _, err := promote(tx, s); err != nil {
			return err
		}
	}
	return emit(tx, s.ID, Event{Type: EventSession})
}

// Snooze moves the next start of a schedule that waits to a time of the operator's, never
// before the provider's.
func (m *Manager) Snooze(ctx context.Context, actor string, id ID, token int64, until time.Time) (Schedule, error) {
	return m.retime(ctx, actor, "snooze retry", id, token, func(_ Tx, s Schedule, now time.Time) (Schedule, error) {
		if !s.State.Waiting() {
			return s, &Refusal{Code: CodeConflict, Message: fmt.Sprintf("The retry is %s: nothing waits that could wait longer.", s.State)}
		}
		if until.Before(now) || until.Sub(now) > 366*24*time.Hour {
			return s, &Refusal{Code: CodeValidation, Message: "A retry can be put off to a time within a year from now."}
		}
		s.ChosenBy = ChosenByOperator
		return s.at(until, now), nil
	})
}

// Schedule lets a failure that does not arm by itself be repeated at the time that the
// provider stated: its class is waived by who asks, its safety is not.
func (m *Manager) Schedule(ctx context.Context, actor string, id ID, token int64) (Schedule, error) {
	return m.retime(ctx, actor, "schedule retry", id, token, func(tx Tx, s Schedule, now time.Time) (Schedule, error) {
		if s.State.Waiting() || s.NotBefore == 0 {
			return s, &Refusal{Code: CodeConflict, Message: "There is no stated time to schedule the retry at. Try now, or wait."}
		}
		failed, err := tx.Run(s.RunID)
		if err != nil {
			return s, err
		}
		evidence, err := evidenceOf(tx, failed)
		if err != nil {
			return s, err
		}
		if ok, why := evidence.Allows(s.Verb); !ok {
			return s, &Refusal{Code: CodeNotSafe, Message: "Not repeated by itself: " + why.String() + ".", Details: map[string]any{"evidence": why}}
		}
		s.ChosenBy, s.AuthorisedBy = ChosenByProvider, actor
		return s.at(s.NotBefore.Std(), now), nil
	})
}

func (m *Manager) retime(ctx context.Context, actor, act string, id ID, token int64, f func(Tx, Schedule, time.Time) (Schedule, error)) (out Schedule, err error) {
	err = m.update(ctx, Full, func(tx Tx) error {
		s, err := tx.Session(id)
		if err != nil {
			return err
		}
		if s.Schedule == nil {
			return ErrNotFound
		}
		if err := seen(*s.Schedule, token); err != nil {
			return err
		}
		if out, err = f(tx, *s.Schedule, time.Now()); err != nil {
			return err
		}
		if out.Token, err = tx.NextToken(id); err != nil {
			return err
		}
		if err := putSchedule(tx, out, *s.Schedule); err != nil {
			return err
		}
		return audit(tx, actor, act, id, out.RunID, out.NextAt.Std().Format(time.RFC3339))
	})
	kick(m.clock)
	return out, err
}

// Waiting lists the sessions' schedules that wait, the next to start first.
func (m *Manager) Waiting(ctx context.Context) (list []Schedule, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		list, err = tx.Schedules(waitingStates...)
		return err
	})
	return list, err
}
