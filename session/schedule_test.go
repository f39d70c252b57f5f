package session

import (
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func failedRun(attempt int, until time.Duration, auto bool) Run {
	r := Run{ID: "run_1", SessionID: "ses_1", MessageID: "msg_1", Attempt: attempt,
		Failure:  &Failure{RetryClass: failure.Overloaded, Retryable: true},
		Recovery: &Recovery{Auto: auto, Verb: replay.Regenerate, ReplaySafe: true, Reason: "eligible_and_safe"}}
	if until != 0 {
		r.Failure.RetryAfterUntil = At(noon.Add(until))
	}
	return r
}

// K-110, K-118: 2, 4, 8 … seconds, capped at 300, without a limit on the number.
func TestArmBackoff(t *testing.T) {
	for i, want := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		s := arm(failedRun(i+1, 0, true), recovery.DefaultPolicy(), 1, Spend{}, noon)
		if got := s.NextAt.Std().Sub(noon); got != want*time.Second || s.State != ScheduleArmed || s.ChosenBy != ChosenByBackoff {
			t.Errorf("after %d: %v, %s by %s", i+1, got, s.State, s.ChosenBy)
		}
	}
	if s := arm(failedRun(100000, 0, true), recovery.DefaultPolicy(), 1, Spend{}, noon); s.NextAt.Std().Sub(noon) != 300*time.Second {
		t.Errorf("after very many: %v", s.NextAt.Std().Sub(noon))
	}
}

// K-094, K-120, K-131: a provider's time is kept; more than 90 s away it is a clock.
func TestArmProviderTime(t *testing.T) {
	for until, want := range map[time.Duration]ScheduleState{
		time.Second: ScheduleArmed, 60 * time.Second: ScheduleArmed, 90 * time.Second: ScheduleArmed,
		91 * time.Second: ScheduleScheduled, 50 * time.Minute: ScheduleScheduled,
	} {
		s := arm(failedRun(1, until, true), recovery.DefaultPolicy(), 1, Spend{}, noon)
		if s.State != want || s.NextAt.Std().Before(noon.Add(until)) {
			t.Errorf("%v: %s at %v", until, s.State, s.NextAt.Std().Sub(noon))
		}
	}
}

// K-111–K-117, f20, f21 of the page.
func TestArmNever(t *testing.T) {
	if s := arm(failedRun(1, 0, false), recovery.DefaultPolicy(), 7, Spend{}, noon); s.State != ScheduleNever || s.NextAt != 0 || s.Token != 7 {
		t.Errorf("%+v", s)
	}
	p := recovery.DefaultPolicy()
	p.Tier2.MaxAttempts = 6
	if s := arm(failedRun(5, 0, true), p, 1, Spend{}, noon); s.State != ScheduleArmed {
		t.Errorf("after five of six: %s", s.State)
	}
	if s := arm(failedRun(6, 0, true), p, 1, Spend{}, noon); s.State != ScheduleExhausted {
		t.Errorf("after six of six: %s", s.State)
	}
	p = recovery.DefaultPolicy()
	p.Tier2.MaxElapsed = time.Minute
	late := failedRun(2, 0, true)
	late.Since = At(noon.Add(-time.Minute))
	if s := arm(late, p, 1, Spend{}, noon); s.State != ScheduleExhausted || s.Since != late.Since {
		t.Errorf("after the time: %+v", s)
	}
}

// K-119, K-120, K-124: time passes for a schedule.
func TestPass(t *testing.T) {
	armed := arm(failedRun(3, 0, true), recovery.DefaultPolicy(), 5, Spend{}, noon) // due in 8 s
	far := arm(failedRun(1, 50*time.Minute, true), recovery.DefaultPolicy(), 5, Spend{}, noon)
	held := armed
	held.State, held.HoldReason = ScheduleHeld, HoldNobody
	for name, c := range map[string]struct {
		s       Schedule
		after   time.Duration
		watched bool
		always  bool
		want    ScheduleState
		start   bool
		next    time.Duration // NextAt, since noon
		again   time.Duration // 0: none
	}{
		"before its time":            {armed, 7 * time.Second, true, false, ScheduleArmed, false, 8 * time.Second, 8 * time.Second},
		"at its time":                {armed, 8 * time.Second, true, false, ScheduleArmed, true, 8 * time.Second, 0},
		"a day late, as after sleep": {armed, 24 * time.Hour, true, false, ScheduleArmed, true, 8 * time.Second, 0},
		"nobody watches":             {armed, 8 * time.Second, false, false, ScheduleHeld, false, 8 * time.Second, 0},
		"unattended":                 {armed, 8 * time.Second, false, true, ScheduleArmed, true, 8 * time.Second, 0},
		"held, still nobody":         {held, time.Hour, false, false, ScheduleHeld, false, 8 * time.Second, 0},
		"held, somebody comes":       {held, time.Hour, true, false, ScheduleArmed, false, time.Hour + 10*time.Second, time.Hour + 10*time.Second},
		"far":                        {far, time.Minute, true, false, ScheduleScheduled, false, 50 * time.Minute, 50*time.Minute - 10*time.Second},
		"ten seconds before":         {far, 50*time.Minute - 10*time.Second, true, false, ScheduleArmed, false, 50 * time.Minute, 50 * time.Minute},
		"far, found late":            {far, time.Hour, true, false, ScheduleArmed, false, time.Hour + 10*time.Second, time.Hour + 10*time.Second},
	} {
		next, start, again := c.s.pass(scene{now: noon.Add(c.after), watched: c.watched,
			live: Live{Policy: recovery.DefaultPolicy(), Unattended: c.always}, network: networkThere})
		at := time.Duration(0)
		if !again.IsZero() {
			at = again.Sub(noon)
		}
		if next.State != c.want || start != c.start || next.NextAt.Std().Sub(noon) != c.next || at != c.again {
			t.Errorf("%s: %s, start %v, next %v, again %v", name, next.State, start, next.NextAt.Std().Sub(noon), at)
		}
		if next.Token != c.s.Token {
			t.Errorf("%s: time alone changed the token", name)
		}
	}
	for _, state := range []ScheduleState{ScheduleCancelled, ScheduleExhausted, ScheduleNever} {
		s := armed
		s.State = state
		if next, start, _ := s.pass(scene{now: noon.Add(time.Hour), watched: true, live: Live{Policy: recovery.DefaultPolicy(), Unattended: true}}); start || next != s {
			t.Errorf("%s: something happened", state)
		}
	}
}

// K-119, K-124 and the holds of the page: each hold ends in 10 seconds of warning, and gives
// way to another reason without one.
func TestPassHolds(t *testing.T) {
	armed := arm(failedRun(1, 0, true), recovery.DefaultPolicy(), 5, Spend{}, noon) // due in 2 s
	armed.RetryClass = failure.Network
	held := func(why string) Schedule { return armed.hold(why, noon) }
	plain := Live{Policy: recovery.DefaultPolicy()}
	asks, off := plain, plain
	asks.Ask, asks.Unattended = true, true
	off.Policy.HandOver = false
	for name, c := range map[string]struct {
		s     Schedule
		scene scene
		want  ScheduleState
		why   string
		start bool
		again time.Duration // since the scene; 0: none
	}{
		"ask before every retry":         {armed, scene{watched: true, live: asks, network: networkThere}, ScheduleHeld, HoldAsks, false, 0},
		"switched off while it waited":   {armed, scene{watched: true, live: off, network: networkThere}, ScheduleHeld, HoldAsks, false, 0},
		"it asks on":                     {held(HoldAsks), scene{watched: true, live: asks, network: networkThere}, ScheduleHeld, HoldAsks, false, 0},
		"it asks no more":                {held(HoldAsks), scene{watched: true, live: plain, network: networkThere}, ScheduleArmed, "", false, warning},
		"it asks no more, and nobody is": {held(HoldAsks), scene{live: plain, network: networkThere}, ScheduleHeld, HoldNobody, false, 0},
		"somebody comes, and it asks":    {held(HoldNobody), scene{watched: true, live: asks, network: networkThere}, ScheduleHeld, HoldAsks, false, 0},
		"the network is not known":       {armed, scene{watched: true, live: plain}, ScheduleArmed, "", false, 0},
		"the network is gone":            {armed, scene{watched: true, live: plain, network: networkGone}, ScheduleHeld, HoldOffline, false, lookAgain},
		"gone, and nobody watches":       {armed, scene{live: plain, network: networkGone}, ScheduleHeld, HoldNobody, false, 0},
		"still gone":                     {held(HoldOffline), scene{watched: true, live: plain, network: networkGone}, ScheduleHeld, HoldOffline, false, lookAgain},
		"gone and not looked at lately":  {held(HoldOffline), scene{watched: true, live: plain}, ScheduleHeld, HoldOffline, false, lookAgain},
		"gone, and everybody left":       {held(HoldOffline), scene{live: plain, network: networkGone}, ScheduleHeld, HoldOffline, false, lookAgain},
		"back":                           {held(HoldOffline), scene{watched: true, live: plain, network: networkThere}, ScheduleArmed, "", false, warning},
		"back, and nobody watches":       {held(HoldOffline), scene{live: plain, network: networkThere}, ScheduleHeld, HoldNobody, false, 0},
		"there":                          {armed, scene{watched: true, live: plain, network: networkThere}, ScheduleArmed, "", true, 0},
	} {
		c.scene.now = noon.Add(time.Minute)
		next, start, again := c.s.pass(c.scene)
		at := time.Duration(0)
		if !again.IsZero() {
			at = again.Sub(c.scene.now)
		}
		if next.State != c.want || next.HoldReason != c.why || start != c.start || at != c.again || next.Token != c.s.Token {
			t.Errorf("%s: %s %q, start %v, again %v", name, next.State, next.HoldReason, start, at)
		}
		if next.State == ScheduleArmed && c.s.State == ScheduleHeld && next.NextAt.Std().Sub(c.scene.now) != warning {
			t.Errorf("%s: %v of warning", name, next.NextAt.Std().Sub(c.scene.now))
		}
	}
}

// Only a failure that may be one of the way there asks for the network, and only when all else
// lets it start.
func TestAsksNetwork(t *testing.T) {
	s := arm(failedRun(1, 0, true), recovery.DefaultPolicy(), 5, Spend{}, noon)
	due := s.NextAt.Std()
	for _, class := range failure.Classes() {
		s.RetryClass = class
		if got, want := s.asksNetwork(due), class == failure.Network || class == failure.Timeout; got != want {
			t.Errorf("%s: %v", class, got)
		}
	}
	s.RetryClass = failure.Network
	if s.asksNetwork(due.Add(-time.Millisecond)) || s.hold(HoldNobody, noon).asksNetwork(due) || !s.hold(HoldOffline, noon).asksNetwork(noon) {
		t.Error("asked too early, or not again")
	}
}

// f38: a limit in money ends the series, also where nobody knows what was spent.
func TestArmSpent(t *testing.T) {
	p := recovery.DefaultPolicy()
	for _, c := range []struct {
		spent Spend
		limit llm.Money
		want  ScheduleState
	}{
		{Spend{Amount: 10}, 0, ScheduleArmed},
		{Spend{Amount: 9}, 10, ScheduleArmed},
		{Spend{Amount: 9, AtLeast: true}, 10, ScheduleArmed},
		{Spend{Amount: 10}, 10, ScheduleExhausted},
		{Spend{Amount: 9, Reserved: 1}, 10, ScheduleExhausted},
		{Spend{Unpriced: true}, 10, ScheduleExhausted},
		{Spend{Unpriced: true}, 0, ScheduleArmed},
	} {
		p.Tier2.MaxSpend = c.limit
		if s := arm(failedRun(2, 0, true), p, 1, c.spent, noon); s.State != c.want {
			t.Errorf("%+v of %d: %s, want %s", c.spent, c.limit, s.State, c.want)
		}
	}
}

// K-124, f25: a restart cuts off whoever watches. A retry that became due about then is not held while
// they may be on their way back, and starts as soon as they are; one that has been due for long is.
func TestPassAfterRestart(t *testing.T) {
	armed := arm(failedRun(1, 0, true), recovery.DefaultPolicy(), 5, Spend{}, noon)
	due := armed.NextAt.Std()
	for name, c := range map[string]struct {
		began, now time.Duration // since it was due
		watched    bool
		want       ScheduleState
		start      bool
		again      time.Duration // since it was due; 0: none
	}{
		"due before the restart":         {began: time.Second, now: time.Second, want: ScheduleArmed, again: 11 * time.Second},
		"due after it":                   {began: -time.Second, now: 0, want: ScheduleArmed, again: 9 * time.Second},
		"they are back":                  {began: time.Second, now: 4 * time.Second, watched: true, want: ScheduleArmed, start: true},
		"they are not back":              {began: time.Second, now: 11 * time.Second, want: ScheduleHeld},
		"due long before the restart":    {began: 10 * time.Second, now: 10 * time.Second, want: ScheduleHeld},
		"due long after it":              {began: -10 * time.Second, now: 0, want: ScheduleHeld},
		"before its time, nobody is yet": {began: -5 * time.Second, now: -time.Second, want: ScheduleArmed, again: -1},
	} {
		next, start, again := armed.pass(scene{now: due.Add(c.now), began: due.Add(c.began), watched: c.watched,
			live: Live{Policy: recovery.DefaultPolicy()}, network: networkThere})
		at := time.Duration(0)
		switch {
		case again.Equal(due):
			at = -1
		case !again.IsZero():
			at = again.Sub(due)
		}
		if next.State != c.want || start != c.start || at != c.again || next.Token != armed.Token {
			t.Errorf("%s: %s, start %v, again %v", name, next.State, start, at)
		}
	}
}
