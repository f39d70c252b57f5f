package session_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// K-081, K-098 and STYLE's removal test: whatever repeats a run by itself takes the path of
// the click, and a timer that did not ask, or was told no, is refused by the gate: no request
// leaves.
func TestTimerThatDidNotAsk(t *testing.T) {
	for name, c := range map[string]struct {
		origin session.Origin
		sent   int
	}{
		"did not ask":   {session.Origin{Verb: replay.Regenerate}, 1},
		"was told no":   {session.Origin{Verb: replay.Regenerate, Run: replay.RunEvidence{Run: "run_1", Whole: replay.TextShown}}, 1},
		"was told yes":  {session.Origin{Verb: replay.Regenerate, Run: replay.RunEvidence{Run: "run_1"}}, 2},
		"by nobody":     {session.Origin{}, 1},
		"by a person":   {session.Origin{Operator: true}, 2},
		"no such verb":  {session.Origin{Verb: 9, Run: replay.RunEvidence{Run: "run_1"}}, 1},
		"resume, clean": {session.Origin{Verb: replay.Resume, Run: replay.RunEvidence{Run: "run_1"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []llmtest.Step{llmtest.Text("shown"), fail(failure.Overloaded)}, say("again")).start()
			r := w.post("hi")
			w.ended(r.RunID)
			again, err := w.m.RegenerateAs(t.Context(), session.Act{Actor: "timer"}, w.id, r.MessageID, c.origin)
			if err != nil {
				if c.origin.Verb == 9 && c.sent == 1 { // it cannot even be stored
					w.sent(1)
					return
				}
				t.Fatal(err)
			}
			run := w.ended(again.RunID)
			w.sent(c.sent)
			if (run.State == session.Succeeded) != (c.sent == 2) {
				t.Errorf("the run is %s: %s", run.State, run.Reason)
			}
		})
	}
}

// F49, F50, F59, N18: a discarded attempt leaves the context as it was, and what the operator
// has queued meanwhile is there once.
func TestDiscardRestores(t *testing.T) {
	w := newWorld(t, []llmtest.Step{llmtest.Text("dropped"), {Wait: 50 * time.Millisecond, Event: llm.Event{Kind: llm.EventPing}}, fail(failure.Overloaded)}, say("one"), say("two"))
	w.cfg.Hold = replay.Hold{Mode: replay.HoldWhole}
	w.start()
	o := w.watch("")
	defer o.stop()
	first := w.post("first")
	o.until(func(e session.Event) bool { return e.Type == session.EventProgress })
	second := w.post("second")
	w.ended(first.RunID)
	w.ended(second.RunID)
	w.expect("operator: first", "reply: one", "operator: second", "reply: two")
	a, _ := json.Marshal(w.provider.Requests()[0])
	b, _ := json.Marshal(w.provider.Requests()[1])
	if string(a) != string(b) {
		t.Errorf("the first attempt was asked\n%s\nand the second\n%s", a, b)
	}
	w.sent(3)
}

// F22, K-065, K-135: the decision is an event and a record; the failure is on the message.
func TestDecisionIsVisible(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.InvalidRequest)}).start()
	o := w.watch("")
	defer o.stop()
	r := w.post("hi")
	e := o.until(func(e session.Event) bool { return e.Type == session.EventAttempt })
	if d := e.Attempt.Decision; d == nil || d.Eligible || !d.Safe || d.Rule != "not_eligible" || e.Attempt.Failure.Message != "the provider's words" {
		t.Errorf("event %+v", e.Attempt)
	}
	msg := o.until(func(e session.Event) bool {
		return e.Type == session.EventMessage && e.Message.Role == session.RoleReply
	}).Message
	if msg.RunID != r.RunID || msg.Failure == nil || msg.Failure.RetryClass != failure.InvalidRequest || msg.Failure.Message != "the provider's words" || msg.Recovery == nil {
		t.Errorf("message %+v", msg)
	}
	w.ended(r.RunID)
}

// K-060: no row changes when its run fails, is regenerated and superseded.
func TestRowsNeverChange(t *testing.T) {
	w := newWorld(t, say("one"), say("two")).start()
	r := w.post("hi")
	w.ended(r.RunID)
	before := w.messages(true)
	again, err := w.regenerate(r.MessageID, session.RegenerateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	w.ended(again.RunID)
	for i, old := range before {
		now := w.messages(true)[i]
		now.SupersededBy, now.SupersededAt = "", 0 // derived
		a, _ := json.Marshal(old)
		b, _ := json.Marshal(now)
		if string(a) != string(b) {
			t.Errorf("row %d was\n%s\nand is\n%s", i, a, b)
		}
	}
}
