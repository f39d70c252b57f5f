package session_test

import (
	"strings"
	"testing"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// priced is a model that costs a millionth of a dollar for a token of input, ten for one of
// output, and answers with 100 tokens at most.
func priced() llm.ModelFacts {
	return llm.ModelFacts{MaxOutput: 100, Price: &llm.Price{Rates: llm.Rates{Input: llm.Dollar, Output: 10 * llm.Dollar}}}
}

// used is a whole answer with a report of its usage.
func used(text string, input, output int64) []llmtest.Step {
	return []llmtest.Step{llmtest.Text(text),
		{Event: llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Input: input, Output: output}}}, llmtest.Done(llm.StopEnd)}
}

// K-158, f38, D10 of the page: every attempt counts, a failed one without a report at least
// with what was sent; rows, run and session add up to the same.
func TestSpendAddsUp(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)}, used("hello", 20, 3), used("again", 30, 1))
	w.facts = priced()
	w.start()
	run := w.ask("hi")
	list := w.attempts(run.ID)
	const sent = 17 * 1000 // a token of "hi", and what is around it
	if c := list[0].Cost; c == nil || *c != (llm.Cost{Amount: sent, Kind: llm.CostEstimated}) {
		t.Errorf("the failed attempt cost %+v", c)
	}
	if c := list[1].Cost; c == nil || *c != (llm.Cost{Amount: 50_000, Kind: llm.CostKnown}) || list[1].Price.Output != 10*llm.Dollar {
		t.Errorf("the second attempt cost %+v at %+v", c, list[1].Price)
	}
	want := session.Spend{Amount: sent + 50_000, AtLeast: true}
	if run.Spend == nil || *run.Spend != want {
		t.Errorf("the run cost %+v, want %+v", run.Spend, want)
	}
	if m := w.messages(false)[1]; m.Spend == nil || *m.Spend != want {
		t.Errorf("the reply cost %+v", m.Spend)
	}
	if s := w.session(); s.Spend != want {
		t.Errorf("the session cost %+v", s.Spend)
	}

	// What a price becomes later changes nothing that is stored.
	w.facts.Price = &llm.Price{Rates: llm.Rates{Input: 9 * llm.Dollar, Output: 9 * llm.Dollar}}
	w.ask("more")
	want.Amount += 30*9000 + 9000
	if s := w.session(); s.Spend != want {
		t.Errorf("the session cost %+v, want %+v", s.Spend, want)
	}
	sys, err := w.m.System(t.Context())
	if err != nil || sys.Spend.Day != want {
		t.Errorf("the day cost %+v, %v", sys.Spend, err)
	}
}

// A request that the provider did not process costs nothing.
func TestRefusedRequestIsFree(t *testing.T) {
	refused := &failure.Failure{Class: failure.RateLimited, Retryable: true, Provider: "script", Delivered: llm.Refused}
	w := newWorld(t, []llmtest.Step{llmtest.Fail(refused)}, used("hello", 20, 3))
	w.facts = priced()
	w.start()
	run := w.ask("hi")
	if c := w.attempts(run.ID)[0].Cost; c == nil || *c != (llm.Cost{Kind: llm.CostKnown}) {
		t.Errorf("it cost %+v", c)
	}
	if *run.Spend != (session.Spend{Amount: 50_000}) {
		t.Errorf("the run cost %+v", run.Spend)
	}
}

// limited is a run that a cap has ended.
func limited(t *testing.T, w *world, run session.Run, code, words string) {
	t.Helper()
	f := run.Failure
	if run.State != session.Failed || f.RetryClass != failure.SpendLimitExceeded || f.Retryable || f.Provider != "" || f.Code != code {
		t.Errorf("run %s, failure %+v", run.State, f)
	} else if !strings.Contains(f.Message, words) {
		t.Errorf("it says %q, want %q", f.Message, words)
	}
	if s := w.session().Schedule; s == nil || s.State != session.ScheduleNever {
		t.Errorf("schedule %+v", s)
	}
}

// K-155, f20, f38: a limit that is reached in the middle of a retry lets no more out, and
// nothing is repeated by itself.
func TestLimitReachedMidRetry(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)}, used("never", 1, 1))
	w.facts = priced()
	w.cfg.Spend.Session = 2*17_000 + 1_000_000 // one request at its most
	w.start()
	run := w.ask("hi")
	w.sent(1)
	limited(t, w, run, "session_limit", "The session has a limit of $0.0011, of which $0.0011 is left. The next request may cost up to $0.0011")
	if list := w.attempts(run.ID); len(list) != 1 || list[0].Decision.Verdict.String() != "retry" {
		t.Errorf("attempts %+v", list)
	}

	// The operator raises it for this session, and goes on.
	more, wrong := llm.Dollar, llm.Money(-1)
	_, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Settings: &session.Settings{SpendLimit: &wrong}})
	refused(t, err, session.CodeValidation)
	if _, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Settings: &session.Settings{SpendLimit: &more}}); err != nil {
		t.Fatal(err)
	}
	if run := w.ask("again"); run.State != session.Succeeded {
		t.Errorf("%s: %+v", run.State, run.Failure)
	}
}

// K-155: runs beside each other cannot overshoot together. What the first may still cost is
// set aside while it runs, and free again when it has ended.
func TestLimitIsShared(t *testing.T) {
	w := newWorld(t, []llmtest.Step{llmtest.Text("first"), {Stall: true}}, used("later", 20, 3))
	w.facts = priced()
	w.cfg.Spend.Day = 2_000_000
	w.start()
	o := w.watch("")
	running := w.post("hi")
	o.shows("first")
	o.stop()
	first := w.id
	s, err := w.m.CreateSession(t.Context(), "bob", session.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	w.id = s.ID
	limited(t, w, w.ask("hi"), "day_limit", "The day has a limit of $0.002, of which $0.00097 is left.")
	w.sent(1)
	if sys, err := w.m.System(t.Context()); err != nil || sys.Spend.Day.Amount+sys.Spend.Day.Reserved != 1_034_000 || sys.Spend.DayLimit != 2_000_000 {
		t.Errorf("spend %+v, %v", sys.Spend, err)
	}
	if _, err := w.m.Cancel(t.Context(), "ann", first, running.RunID); err != nil {
		t.Fatal(err)
	}
	w.ended(running.RunID)
	if run := w.ask("again"); run.State != session.Succeeded {
		t.Errorf("%s: %+v", run.State, run.Failure)
	}
}

// Where nobody knows what a request may cost, a cap lets none out, and says what to set.
func TestLimitNeedsAPrice(t *testing.T) {
	for words, facts := range map[string]llm.ModelFacts{
		"What script/model costs is not known: set models.script/model.input":    {},
		"How long an answer of script/model may get is not known: set models.sc": {Price: priced().Price},
	} {
		w := newWorld(t, used("hello", 1, 1))
		w.facts, w.cfg.Spend.Session = facts, llm.Dollar
		w.start()
		limited(t, w, w.ask("hi"), "session_limit", words)
		w.sent(0)
	}
	w := newWorld(t, used("hello", 1, 1)).start() // without a cap it goes out
	run := w.ask("hi")
	if *run.Spend != (session.Spend{AtLeast: true, Unpriced: true}) || w.attempts(run.ID)[0].Cost.Kind != llm.CostUnknown {
		t.Errorf("the run cost %+v", run.Spend)
	}
}

// After a crash an attempt counts at the most that it may have cost, unless the log has its
// end: then at what it did, at the price that it was opened at.
func TestSpendAfterACrash(t *testing.T) {
	for after, want := range map[string]session.Spend{
		"open attempt": {Amount: 17_000 + 50_000, AtLeast: true, Reserved: 17_000 + 1_000_000},
		"append done":  {Amount: 50_000},
		"seal":         {Amount: 50_000},
	} {
		t.Run(after, func(t *testing.T) {
			w := newWorld(t, used("hello", 20, 3))
			w.facts = priced()
			d := newMortal(w, after, 1)
			w.startOn(d, d)
			r := w.post("hi")
			<-d.died
			w.m.Close()
			if after != "open attempt" {
				w.facts.Price = &llm.Price{Rates: llm.Rates{Input: 5 * llm.Dollar}}
			}
			w.start()
			if run := w.ended(r.RunID); run.State != session.Succeeded || *run.Spend != want {
				t.Errorf("%s: %+v, want %+v", run.State, run.Spend, want)
			}
		})
	}
}

// f38: what the slow retries cost together can have a limit.
func TestSlowRetriesHaveALimit(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)})
	w.facts = priced()
	w.cfg.Policy.Tier1.Attempts = 1
	w.cfg.Policy.Tier2.MaxSpend = 2 * 17_000
	w.start()
	w.ask("hi")
	for i, want := range []session.ScheduleState{session.ScheduleArmed, session.ScheduleArmed, session.ScheduleExhausted} {
		s := w.session().Schedule
		if s.State != want {
			t.Fatalf("after %d repeats: %s", i, s.State)
		}
		if s.State.Waiting() {
			r, err := w.m.RetryNow(t.Context(), session.Act{Actor: "ann"}, w.id, 0, false)
			if err != nil {
				t.Fatal(err)
			}
			w.ended(r.RunID)
		}
	}
}
