package session_test

import (
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// N27, F87: a message after a cancel in the wait between two attempts: the cancelled run has one
// end and is never heard of again, the new one is answered.
func TestPostAfterCancelInWait(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)}, say("second"))
	w.cfg.Policy.Tier1.Base, w.cfg.Policy.Tier1.Cap = time.Minute, time.Minute
	w.start()
	o := w.watch("")
	defer o.stop()
	first := w.post("one")
	o.until(func(e session.Event) bool {
		return e.Type == session.EventAttempt && !e.Attempt.Decision.NextAt.IsZero()
	})
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, first.RunID); err != nil {
		t.Fatal(err)
	}
	second := w.post("two")
	ends := map[session.RunID]int{}
	o.until(func(e session.Event) bool {
		if e.Run != nil && e.Run.State.Terminal() {
			ends[e.Run.ID]++
		}
		return ends[second.RunID] > 0 || w.promoted(second)
	})
	if run := w.ended(second.RunID); run.State != session.Succeeded {
		t.Errorf("%+v", run)
	}
	if run := w.ended(first.RunID); run.State != session.Cancelled || ends[first.RunID] > 1 {
		t.Errorf("%+v, %d ends", run, ends[first.RunID])
	}
	w.expect("operator: one", "operator: two", "reply: second")
	w.sent(2)
}

// promoted sends a message that waits behind the cancelled run.
func (w *world) promoted(r session.Receipt) bool {
	if w.session().Paused {
		if _, err := w.m.SendNow(w.t.Context(), "ann", w.id, r.MessageID); err != nil {
			w.t.Error(err)
		}
		return true
	}
	return false
}

// N26, K-044: a cancel that comes inside the event of the last failure changes nothing: the run has
// failed, once, and the series is exhausted.
func TestCancelInsideTheLastFailure(t *testing.T) {
	w := tier2(t, time.Millisecond, overloaded)
	w.cfg.Policy.Tier2.MaxAttempts = 1
	w.start()
	o := w.watch("")
	defer o.stop()
	r := w.post("hi")
	o.until(func(e session.Event) bool { return e.Run != nil && e.Run.State.Terminal() })
	got, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID)
	if err != nil || got.State != session.Failed || got.CancelRequested {
		t.Errorf("%+v, %v", got, err)
	}
	if s := w.session(); s.Schedule == nil || s.Schedule.State != session.ScheduleExhausted || s.State != session.Idle {
		t.Errorf("%+v", s)
	}
	w.sent(1)
}

// N28: arguments that are not JSON, again and again: the tool is never run, the model is told, and
// the steps bound it.
func TestMalformedArguments(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, []llmtest.Step{
		{Event: llm.Event{Kind: llm.EventCallStart, ID: "c", Name: "write"}},
		{Event: llm.Event{Kind: llm.EventCallDelta, Text: `{\"path\": "x`}},
		{Event: llm.Event{Kind: llm.EventCallEnd}},
		llmtest.Done(llm.StopToolCalls)})
	w.cfg.MaxSteps, w.cfg.Tools = 3, toolbox(write)
	w.start()
	run := w.ask("hi")
	if run.State != session.Failed || run.Failure.RetryClass != failure.Local || write.times() != 0 {
		t.Errorf("%+v, the tool ran %d times", run, write.times())
	}
	w.sent(3)
	last := w.provider.Requests()[2].Messages
	if result := last[len(last)-1].Parts[0]; !result.IsError || result.CallID != "c" {
		t.Errorf("the model was told %+v", result)
	}
}

// F43: a success begins the next series anew, and so does a person's retry of one that has stopped.
func TestSeriesBeginsAnew(t *testing.T) {
	w := tier2(t, time.Hour, overloaded, overloaded, say("well"), overloaded)
	w.cfg.Policy.Tier2.Cap = time.Hour
	w.start()
	o := w.watch("")
	defer o.stop()
	w.post("one")
	armed := o.schedule(session.ScheduleArmed)
	now := func(s session.Schedule) {
		t.Helper()
		if _, err := w.m.RetryNow(t.Context(), session.Act{Actor: "ann"}, w.id, s.Token, false); err != nil {
			t.Fatal(err)
		}
	}
	now(armed) // goes on counting
	second := o.schedule(session.ScheduleArmed)
	if second.Attempt != 2 {
		t.Errorf("after Try now: %+v", second)
	}
	out, err := w.m.CancelRetry(t.Context(), "ann", w.id, second.Token)
	if err != nil {
		t.Fatal(err)
	}
	now(*out.Schedule)
	o.until(func(e session.Event) bool { return e.Run != nil && e.Run.State == session.Succeeded })
	if run := w.session().LastRun; run.Attempt != 1 {
		t.Errorf("after a cancelled wait: %+v", run)
	}
	w.post("two")
	if third := o.schedule(session.ScheduleArmed); third.Attempt != 1 || third.Since <= second.Since {
		t.Errorf("after a success: %+v", third)
	}
}
