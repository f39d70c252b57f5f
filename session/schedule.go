package session

import (
	"slices"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// ScheduleState is where the second tier stands with a session.
type ScheduleState string

const (
	ScheduleArmed     ScheduleState = "armed"     // it starts at next_at, which is near
	ScheduleScheduled ScheduleState = "scheduled" // it starts at next_at, which is far
	ScheduleHeld      ScheduleState = "held"      // it is due and may not start yet: hold_reason
	ScheduleCancelled ScheduleState = "cancelled"
	ScheduleExhausted ScheduleState = "exhausted" // a limit of the operator's is reached
	ScheduleNever     ScheduleState = "never"     // nothing starts by itself
)

// ScheduleStates are all of them, those that wait first.
var ScheduleStates = []ScheduleState{ScheduleArmed, ScheduleScheduled, ScheduleHeld,
	ScheduleCancelled, ScheduleExhausted, ScheduleNever}

var waitingStates = ScheduleStates[:3]

// Waiting reports whether something will start by itself.
func (s ScheduleState) Waiting() bool { return slices.Contains(waitingStates, s) }

// Who chose the time of a schedule.
const (
	ChosenByBackoff  = "backoff"
	ChosenByProvider = "provider"
	ChosenByOperator = "operator"
)

// Why a schedule that is due does not start.
const (
	HoldAsks    = "asks"            // each retry waits for the operator's click
	HoldNobody  = "nobody_watching" // until a viewer comes
	HoldOffline = "offline"         // no provider on another machine can be reached
)

// What ends a wait before its time: the reason of a cancelled schedule.
const (
	EndedByOperator = "operator"
	EndedByMessage  = "message"
	EndedByModel    = "model"
	EndedByArchive  = "archived"
)

const (
	farAway   = 90 * time.Second // a time that is shown as a clock, not as a countdown
	warning   = 10 * time.Second // between the end of a hold, or of a far time, and the start
	lookAgain = 10 * time.Second // between two looks at a network that is gone
	returning = 10 * time.Second // in which those who watched before a restart are back
)

// Schedule is the second tier's entry of a session: what happened, what will happen and when.
type Schedule struct {
	SessionID ID            `json:"session_id"`
	Anchor    MessageID     `json:"anchor_message_id"`
	RunID     RunID         `json:"run_id"` // the failed run
	State     ScheduleState `json:"state"`
	Verb      replay.Verb   `json:"verb"`
	// Attempt counts the failed runs in a row; MaxAttempts is the operator's limit, 0: none.
	Attempt     int           `json:"attempt"`
	MaxAttempts int           `json:"max_attempts"`
	RetryClass  failure.Class `json:"retry_class"`
	ChosenBy    string        `json:"chosen_by"` // backoff, provider or operator
	NotBefore   Time          `json:"not_before,omitempty"`
	NextAt      Time          `json:"next_at,omitempty"`
	Since       Time          `json:"since"` // when the first run of the series failed
	UpdatedAt   Time          `json:"updated_at"`

	// The two verdicts, apart, and why.
	Retryable  bool           `json:"retryable"`
	ReplaySafe bool           `json:"replay_safe"`
	Reason     string         `json:"reason"` // of a cancelled one, what ended its wait
	Evidence   replay.Reasons `json:"evidence"`

	HoldReason string `json:"hold_reason,omitempty"`
	// AuthorisedBy names who scheduled a failure that does not arm by itself.
	AuthorisedBy string `json:"authorised_by,omitempty"`
	// Token grows with each arming, each click that sets a time and each wait that ends without a
	// start, and is never used twice in a session. Whoever acts on a schedule names the token that
	// they saw.
	Token int64 `json:"token"`
}

// arm makes the schedule of a run that has just failed. spent is what was spent since the first
// run of its series failed. It is pure.
func arm(run Run, p recovery.Policy, token int64, spent Spend, now time.Time) Schedule {
	s := Schedule{
		SessionID: run.SessionID, Anchor: run.MessageID, RunID: run.ID,
		State: ScheduleNever, Verb: run.Recovery.Verb,
		Attempt: max(run.Attempt, 1), MaxAttempts: p.Tier2.MaxAttempts,
		RetryClass: run.Failure.RetryClass, NotBefore: run.Failure.RetryAfterUntil,
		Since: run.Since, UpdatedAt: At(now), Retryable: run.Failure.Retryable,
		ReplaySafe: run.Recovery.ReplaySafe, Reason: run.Recovery.Reason, Evidence: run.Recovery.Evidence,
		Token: token,
	}
	if s.Since == 0 {
		s.Since = At(now)
	}
	switch {
	case !run.Recovery.Auto:
		return s
	case s.MaxAttempts > 0 && s.Attempt >= s.MaxAttempts,
		p.Tier2.MaxElapsed > 0 && now.Sub(s.Since.Std()) >= p.Tier2.MaxElapsed,
		// Where no price is known, nobody knows that the limit is not reached.
		p.Tier2.MaxSpend > 0 && (spent.Unpriced || spent.Amount+spent.Reserved >= p.Tier2.MaxSpend):
		s.State, s.Reason = ScheduleExhausted, "limit"
		return s
	}
	next := now.Add(p.Tier2.Backoff(s.Attempt))
	s.ChosenBy = ChosenByBackoff
	if nb := s.NotBefore.Std(); nb.After(next) {
		next, s.ChosenBy = nb, ChosenByProvider
	}
	return s.at(next, now)
}

// at sets the time of the next start.
func (s Schedule) at(next, now time.Time) Schedule {
	if nb := s.NotBefore.Std(); nb.After(next) {
		next = nb
	}
	s.State, s.NextAt, s.UpdatedAt, s.HoldReason = ScheduleArmed, At(next), At(now), ""
	if s.ChosenBy != ChosenByBackoff && next.Sub(now) > farAway {
		s.State = ScheduleScheduled
	}
	return s
}

// scene is what decides, besides a schedule itself, what time makes of it.
type scene struct {
	now     time.Time
	began   time.Time // when this process began to look
	watched bool
	live    Live
	network network
}

// holds says why a due retry may not start; empty: it may.
func (c scene) holds() string {
	switch {
	case c.live.asks():
		return HoldAsks
	case !c.watched && !c.live.Unattended:
		return HoldNobody
	case c.network == networkGone:
		return HoldOffline
	}
	return ""
}

// back is until when whoever saw a wait come to its end may be on their way back, because a restart has cut
// them off; zero: they are not.
func (c scene) back(due time.Time) time.Time {
	if back := c.began.Add(returning); c.now.Before(back) && due.After(c.began.Add(-returning)) {
		return back
	}
	return time.Time{}
}

// pass moves a waiting schedule along as time passes, viewers come and go, and the network
// does. start: its run is to be dispatched now. It is pure, and asks again at the time that it
// returns (zero: when something else has changed).
func (s Schedule) pass(c scene) (next Schedule, start bool, again time.Time) {
	due := s.NextAt.Std()
	switch s.State {
	case ScheduleHeld:
		if s.HoldReason == HoldOffline && c.network != networkThere {
			return s, false, c.now.Add(lookAgain)
		}
		switch why := c.holds(); why {
		case "":
			s = s.warn(c.now)
			return s, false, s.NextAt.Std()
		case s.HoldReason:
		default:
			s = s.hold(why, c.now)
		}
		return s, false, time.Time{}
	case ScheduleScheduled:
		if due.Sub(c.now) > warning {
			return s, false, due.Add(-warning)
		}
		s.State, s.UpdatedAt = ScheduleArmed, At(c.now)
		if due.Before(c.now) { // nobody was there to see it coming
			s = s.warn(c.now)
		}
		return s, false, s.NextAt.Std()
	case ScheduleArmed:
		if c.now.Before(due) {
			return s, false, due
		}
		why, back := c.holds(), c.back(due)
		switch {
		case why == HoldNobody && !back.IsZero():
			return s, false, back
		case why == HoldOffline:
			return s.hold(why, c.now), false, c.now.Add(lookAgain)
		case why != "":
			return s.hold(why, c.now), false, time.Time{}
		case c.network == networkUnknown:
			return s, false, time.Time{} // the look at it comes back
		}
		return s, true, time.Time{}
	}
	return s, false, time.Time{}
}

// warn arms a schedule so that whoever looks sees it coming.
func (s Schedule) warn(now time.Time) Schedule {
	s = s.at(now.Add(warning), now)
	s.State = ScheduleArmed
	return s
}

func (s Schedule) hold(why string, now time.Time) Schedule {
	s.State, s.HoldReason, s.UpdatedAt = ScheduleHeld, why, At(now)
	return s
}

// asksNetwork reports whether what happens next depends on the network: the failure may have
// been one of the way to the provider, and nothing else stands between it and a new request.
func (s Schedule) asksNetwork(now time.Time) bool {
	if s.RetryClass != failure.Network && s.RetryClass != failure.Timeout {
		return false
	}
	return s.State == ScheduleHeld && s.HoldReason == HoldOffline || s.State == ScheduleArmed && !now.Before(s.NextAt.Std())
}
