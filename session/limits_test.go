package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// F78: a watchdog that runs out after something was shown repeats nothing.
func TestTimeoutAfterContent(t *testing.T) {
	silent := failure.NewTimeout(failure.Facts{Provider: "script", Phase: failure.PhaseStream}, "idle_timeout", time.Minute)
	w := newWorld(t, []llmtest.Step{llmtest.Text("so far"), llmtest.Fail(silent)}, say("never")).start()
	run := w.ask("hi")
	if run.State != session.Failed || run.Failure.RetryClass != failure.Timeout || run.Recovery.Auto || run.Recovery.ReplaySafe {
		t.Errorf("%s: %+v", run.State, run.Recovery)
	}
	w.expect("operator: hi", "reply: so far (timeout)")
	w.sent(1)
}

// F79: a run that gave up says how much it has tried, and how long it has waited.
func TestExhaustionText(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)})
	w.cfg.Policy.Tier1.Base = 200 * time.Millisecond // 100 ms and 200 ms, by the jitter of half, less what a busy store takes of them
	w.start()
	run := w.ask("hi")
	waited, _ := strings.CutPrefix(run.Reason, "the provider's words It was tried 3 times, with ")
	waited, ok := strings.CutSuffix(waited, " of waiting in between.")
	if d, err := time.ParseDuration(waited); !ok || err != nil || d <= 0 || d > time.Second {
		t.Errorf("it says %q", run.Reason)
	}
	w = newWorld(t, []llmtest.Step{fail(failure.AuthFailed)}).start()
	if run := w.ask("hi"); run.Reason != "the provider's words" {
		t.Errorf("of one attempt it says %q", run.Reason)
	}
}

// F42, F80, N52: a request beyond the provider's ceiling is sent as often as that says, in total; a
// person's retry begins anew.
func TestLargeRequestCeiling(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)}, []llmtest.Step{fail(failure.Overloaded)}, say("there"))
	w.large = recovery.Ceiling{Bytes: 1_000_000, Requests: 1}
	w.cfg.Unattended = true
	w.start()
	run := w.ask(strings.Repeat("large ", 290_000)) // 1.7 MB
	w.sent(1)
	d := w.attempts(run.ID)[0].Decision
	if d.Verdict != recovery.Stop || d.Rule != recovery.RuleLarge || !d.Eligible || !d.Safe {
		t.Errorf("decision %+v", d)
	}
	if s := w.session().Schedule; s.State != session.ScheduleNever || s.Reason != "large_request" || !s.Retryable || !s.ReplaySafe {
		t.Errorf("schedule %+v", s)
	}
	for n := 2; n <= 3; n++ {
		r, err := w.m.Regenerate(t.Context(), session.Act{Actor: "ann"}, w.id, run.MessageID, session.RegenerateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		w.ended(r.RunID)
		w.sent(n)
	}
	w = newWorld(t, []llmtest.Step{fail(failure.Overloaded)}, say("small"))
	w.large = recovery.Ceiling{Bytes: 1_000_000, Requests: 1}
	w.start()
	w.ask("hi")
	w.sent(2)
}

// N13: under the policy whole nothing is shown before the attempt has succeeded, so that what
// was held of a failed one leaves no trace. Only a count of it is told meanwhile.
func TestHeldTextIsDiscarded(t *testing.T) {
	limited := &failure.Failure{Class: failure.RateLimited, Retryable: true, Provider: "script", Status: 429, Code: "rate_limit_exceeded"}
	w := newWorld(t, []llmtest.Step{llmtest.Text("held text"), {Wait: 20 * time.Millisecond, Err: limited}}, say("shown text"))
	w.cfg.Hold = replay.Hold{Mode: replay.HoldWhole}
	w.start()
	o := w.watch("")
	defer o.stop()
	run := w.ended(w.post("hi").RunID)
	o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.State.Terminal() })
	if run.State != session.Succeeded {
		t.Fatalf("%s: %+v", run.State, run.Failure)
	}
	if got := o.fold(run.ID); got != "shown text" {
		t.Errorf("an observer has seen %q", got)
	}
	held := 0
	for _, e := range o.seen {
		if e.Progress != nil {
			held = max(held, e.Progress.Characters)
		}
	}
	if held == 0 {
		t.Error("nobody was told that something is held")
	}
	w.expect("operator: hi", "reply: shown text")
	list := w.attempts(run.ID)
	if len(list) != 2 || !list[0].Decision.Safe || list[0].Evidence.Published != (replay.Counts{}) {
		t.Errorf("attempts %+v", list)
	}
}

// N14, N84: what was held of an attempt that cannot be repeated is shown once, marked, with the
// error, and never replayed.
func TestHeldTextIsKept(t *testing.T) {
	for name, f := range map[string]*failure.Failure{
		"a code that nobody knows": {Class: failure.Unknown, Provider: "script", Code: "new_code"},
		"not retryable":            {Class: failure.ContentFiltered, Provider: "script"},
	} {
		w := newWorld(t, []llmtest.Step{llmtest.Text("held text"), llmtest.Fail(f)}, say("never"))
		w.cfg.Hold = replay.Hold{Mode: replay.HoldWhole}
		w.start()
		o := w.watch("")
		run := w.ended(w.post("hi").RunID)
		o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.State.Terminal() })
		o.stop()
		if got := o.fold(run.ID); strings.Count(got, "held text") != 1 {
			t.Errorf("%s: an observer has seen %q", name, got)
		}
		if run.State != session.Failed || run.Recovery.Auto || w.session().Schedule.State != session.ScheduleNever {
			t.Errorf("%s: %s, %+v", name, run.State, run.Recovery)
		}
		w.expect("operator: hi", "reply: held text ("+f.Class.String()+")")
		w.sent(1)
	}
}

// The configuration's policy gives way to that of the session's chain, and this to its own.
func TestWhoseHold(t *testing.T) {
	whole, some := replay.Hold{Mode: replay.HoldWhole}, replay.Hold{Mode: replay.HoldBytes, Bytes: 1}
	for name, c := range map[string]struct {
		chain, own replay.Hold
		shown      bool
	}{
		"the configuration's": {shown: true},
		"the chain's":         {chain: whole},
		"the session's":       {own: whole},
		"of the two":          {chain: whole, own: some, shown: true},
	} {
		w := newWorld(t, []llmtest.Step{llmtest.Text("a"), {Stall: true}})
		if c.chain != (replay.Hold{}) {
			w.cfg.Holds = map[string]replay.Hold{"script/model": c.chain}
		}
		w.start()
		if _, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Settings: &session.Settings{Hold: c.own}}); err != nil {
			t.Fatal(err)
		}
		o := w.watch("")
		w.post("hi")
		e := o.until(func(e session.Event) bool { return e.Progress != nil || e.Output != nil })
		o.stop()
		if shown := e.Output != nil; shown != c.shown {
			t.Errorf("%s: shown %v", name, shown)
		}
	}
}
