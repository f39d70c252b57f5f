package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// K-020, K-022, K-023, K-040, K-041, K-045, K-062–K-064, K-140, K-142, K-143.
func TestOneReply(t *testing.T) {
	w := newWorld(t, []llmtest.Step{
		{Event: llm.Event{Kind: llm.EventThinking, Text: "hm"}},
		{Event: llm.Event{Kind: llm.EventText, Part: 1, Text: "Hel"}},
		{Event: llm.Event{Kind: llm.EventText, Part: 1, Text: "lo"}},
		{Event: llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Input: 3, Output: 2}}},
		llmtest.Done(llm.StopEnd),
	}).start()
	s, err := w.m.Session(t.Context(), w.id)
	if err != nil || s.State != session.Idle {
		t.Fatalf("a new session is %q, %v", s.State, err)
	}
	o := w.watch("")
	defer o.stop()
	r := w.post("hi there")
	run := w.ended(r.RunID)
	var states []session.RunState
	var seqs []int64
	o.until(func(e session.Event) bool {
		if e.Type == session.EventRun {
			states = append(states, e.Run.State)
		}
		if e.Output != nil {
			seqs = append(seqs, e.Output.Seq)
		}
		return e.Type == session.EventSession && e.Session.State == session.Idle && e.Session.LastRun != nil
	})
	if len(states) != 3 || states[0] != session.Queued || states[1] != session.Running || states[2] != session.Succeeded {
		t.Errorf("run states %v", states)
	}
	for i, n := range seqs {
		if n != int64(i+1) {
			t.Errorf("output numbers %v", seqs)
		}
	}
	if run.State != session.Succeeded || run.MessageID != r.MessageID || run.Steps != 1 {
		t.Errorf("run %+v", run)
	}
	w.expect("operator: hi there", "reply: hm Hello")
	reply := w.messages(false)[1]
	if reply.RunID != run.ID || reply.Parts[0].Kind != llm.PartThinking || reply.Usage == nil || reply.Usage.Output != 2 {
		t.Errorf("reply %+v", reply)
	}
	if s, _ := w.m.Session(t.Context(), w.id); s.Title != "hi there" || s.State != session.Idle {
		t.Errorf("session %+v", s)
	}
}

// K-090, K-099, F94: a failure before any content costs one more request and leaves one reply.
func TestBlipBeforeContent(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)}, say("hello")).start()
	run := w.ask("hi")
	w.sent(2)
	w.expect("operator: hi", "reply: hello")
	list := w.attempts(run.ID)
	if len(list) != 2 || list[0].Decision == nil || !list[0].Decision.Eligible || !list[0].Decision.Safe || !list[1].OK {
		t.Errorf("attempts %+v", list)
	}
	if list[1].After != list[0].ID || !list[1].Automatic || list[0].Automatic {
		t.Errorf("the second attempt is %+v", list[1])
	}
}

// N01, K-061, K-095, F88: the incident. Text, then a failure inside the stream: one request;
// the partial reply stays, with the error and both verdicts.
func TestIncident(t *testing.T) {
	w := newWorld(t, []llmtest.Step{llmtest.Text("partial answer"), fail(failure.ServerError)}, say("never")).start()
	run := w.ask("hi")
	w.sent(1)
	w.expect("operator: hi", "reply: partial answer (server_error)")
	reply := w.messages(false)[1]
	if run.State != session.Failed || reply.Failure == nil || reply.Failure.RetryClass != failure.ServerError || !reply.Failure.Retryable || reply.Failure.Message == "" {
		t.Errorf("failure %+v", reply.Failure)
	}
	if r := reply.Recovery; r == nil || r.Auto || r.ReplaySafe || r.Evidence != replay.TextShown || r.Reason != "not_safe" {
		t.Errorf("recovery %+v", reply.Recovery)
	}
	d := w.attempts(run.ID)[0].Decision
	if !d.Eligible || d.Safe || d.Evidence != replay.TextShown {
		t.Errorf("decision %+v", d)
	}
	// K-047, K-032: all of it survives a restart, and nothing is sent for it.
	w.m.Close()
	w.start()
	w.expect("operator: hi", "reply: partial answer (server_error)")
	w.sent(1)
	// N12, F89: the next prompt's context leaves the partial reply out and is valid.
	w.ask("again")
	last := w.provider.Requests()[1]
	if len(last.Messages) != 2 || last.Messages[0].Role != llm.RoleUser || last.Messages[1].Role != llm.RoleUser {
		t.Errorf("context %+v", last.Messages)
	}
}

// K-046, K-094, K-131: a wait beyond the window ends the run at once, as an absolute time.
func TestFarRetryAfter(t *testing.T) {
	until := time.Now().Add(50 * time.Minute).Truncate(time.Millisecond)
	w := newWorld(t, []llmtest.Step{llmtest.Fail(&failure.Failure{Class: failure.RateLimited, Retryable: true, Provider: "script", Status: 429, NotBefore: until, Message: "slow down"})}).start()
	run := w.ask("hi")
	w.sent(1)
	if run.State != session.Failed || run.Failure.RetryAfterUntil.Std() != until.UTC() {
		t.Errorf("until %v, want %v", run.Failure.RetryAfterUntil.Std(), until)
	}
	if r := run.Recovery; !r.Auto || r.Verb != replay.Regenerate || r.NotBefore != run.Failure.RetryAfterUntil || !r.ReplaySafe {
		t.Errorf("recovery %+v", r)
	}
	if len(w.messages(false)) != 2 { // K-061: there is a last row, without parts
		t.Errorf("messages\n%s", w.story(false))
	}
}

// K-042–K-044, K-096, N58: a cancel during the stream, during a wait, in the queue, and after
// the end. D3: what was shown stays.
func TestCancel(t *testing.T) {
	cancel := func(w *world, run session.RunID) session.Run {
		t.Helper()
		r, err := w.m.Cancel(t.Context(), "ann", w.id, run)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Run("in the stream", func(t *testing.T) {
		w := newWorld(t, []llmtest.Step{llmtest.Text("partial"), {Stall: true}}).start()
		o := w.watch("")
		defer o.stop()
		r := w.post("hi")
		o.shows("partial")
		cancel(w, r.RunID)
		if run := w.ended(r.RunID); run.State != session.Cancelled || run.CancelledBy != "ann" || run.Failure != nil {
			t.Errorf("run %+v", run)
		}
		w.expect("operator: hi", "reply: partial (cancelled)")
		if again := cancel(w, r.RunID); again.State != session.Cancelled {
			t.Errorf("a second cancel: %v", again.State)
		}
		w.sent(1)
	})
	t.Run("in a wait", func(t *testing.T) {
		w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)})
		w.cfg.Policy.Tier1.Base = time.Minute
		w.cfg.Policy.Tier1.Cap = time.Minute
		w.start()
		o := w.watch("")
		defer o.stop()
		r := w.post("hi")
		o.until(func(e session.Event) bool {
			return e.Type == session.EventAttempt && !e.Attempt.Decision.NextAt.IsZero()
		})
		began := time.Now()
		cancel(w, r.RunID)
		run := w.ended(r.RunID)
		if run.State != session.Cancelled || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %v", run.State, time.Since(began))
		}
		w.m.Close()
		w.sent(1)
	})
	t.Run("in the queue", func(t *testing.T) {
		w := newWorld(t, say("never"))
		w.cfg.ConcurrentRuns = 0 // K-025, K-027
		w.start()
		r := w.post("hi")
		if s, _ := w.m.Session(t.Context(), w.id); s.State != session.StateQueued {
			t.Errorf("state %v", s.State)
		}
		if run := cancel(w, r.RunID); run.State != session.Cancelled {
			t.Errorf("run %v", run.State)
		}
		w.sent(0)
	})
	t.Run("N25 while all is held", func(t *testing.T) {
		w := newWorld(t, []llmtest.Step{llmtest.Text("secret"), {Stall: true}})
		w.cfg.Hold = replay.Hold{Mode: replay.HoldWhole}
		w.start()
		o := w.watch("")
		defer o.stop()
		r := w.post("hi")
		o.until(func(e session.Event) bool { return e.Type == session.EventProgress && e.Progress.Characters == 6 })
		late := w.watch("")
		if p := late.next().Snapshot.Progress; p == nil || p.Characters != 6 {
			t.Errorf("who comes later sees %+v", p)
		}
		late.stop()
		cancel(w, r.RunID)
		w.ended(r.RunID)
		w.expect("operator: hi")
		for _, e := range o.seen {
			if e.Output != nil {
				t.Errorf("published %+v", e.Output)
			}
		}
	})
}

// until is a tool's work that takes until the channel is closed.
func until(release chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// K-024, K-028, F36 of the page: a message during a run waits, in order, and can be changed.
func TestPending(t *testing.T) {
	release := make(chan struct{})
	gate := &tool{name: "wait", run: until(release)}
	w := newWorld(t, call("", "wait", "c1"), say("one"), say("two"), say("three"))
	w.cfg.Tools = toolbox(gate)
	w.start()
	first := w.post("first")
	second, third := w.post("second"), w.post("third")
	if first.State != "queued" || second.State != "pending" || third.State != "pending" {
		t.Fatalf("%v %v %v", first, second, third)
	}
	gone := w.post("gone")
	if err := w.m.RemovePending(t.Context(), "ann", w.id, gone.MessageID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.EditPending(t.Context(), "ann", w.id, second.MessageID, []llm.Part{llm.Text("second, edited")}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.SendNow(t.Context(), "ann", w.id, third.MessageID); err != nil {
		t.Fatal(err)
	}
	close(release)
	w.ended(second.RunID)
	w.expect("operator: first", "reply: [wait]", "tool: result of wait", "reply: one",
		"operator: third", "reply: two", "operator: second, edited", "reply: three")
}

// A run that does not succeed pauses the queue until the operator sends or chooses.
func TestPausedQueue(t *testing.T) {
	w := newWorld(t, []llmtest.Step{llmtest.Text("a"), {Stall: true}}, say("b"), say("c"), say("d")).start()
	o := w.watch("")
	defer o.stop()
	first := w.post("first")
	second := w.post("second")
	o.shows("a")
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, first.RunID); err != nil {
		t.Fatal(err)
	}
	w.ended(first.RunID)
	s, _ := w.m.Session(t.Context(), w.id)
	if s.State != session.Idle || !s.Paused {
		t.Fatalf("after a stop: %v, paused %v", s.State, s.Paused)
	}
	third := w.post("third") // goes to the end, and releases
	w.ended(third.RunID)
	w.ended(second.RunID)
	w.expect("operator: first", "reply: a (cancelled)", "operator: second", "reply: b", "operator: third", "reply: c")
	w.sent(3)
}

// K-021, K-025, K-028: over the cap sessions queue, and start in order of arrival.
func TestCap(t *testing.T) {
	release := make(chan struct{})
	gate := &tool{name: "wait", run: until(release)}
	w := newWorld(t, call("", "wait", "c1"), say("one"), say("two"), say("three"))
	w.cfg.ConcurrentRuns = 1
	w.cfg.Tools = toolbox(gate)
	w.start()
	first := w.post("first")
	var order []session.RunID
	for range 2 {
		s, err := w.m.CreateSession(t.Context(), "ann", session.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.m.Post(t.Context(), session.Act{Actor: "ann"}, s.ID, []llm.Part{llm.Text("x")}, session.Routing{})
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, r.RunID)
	}
	if sys, _ := w.m.System(t.Context()); sys.Running+sys.Queued != 3 || sys.Running > 1 {
		t.Errorf("system %+v", sys)
	}
	close(release)
	w.ended(first.RunID)
	second, third := w.ended(order[0]), w.ended(order[1])
	if second.StartedAt > third.StartedAt {
		t.Error("not in order of arrival")
	}
}

// K-028: where the configuration says so, what found no slot waits for the operator.
func TestOperatorStarts(t *testing.T) {
	release := make(chan struct{})
	gate := &tool{name: "wait", run: until(release)}
	w := newWorld(t, call("", "wait", "c1"), say("one"), say("two"))
	w.cfg.ConcurrentRuns, w.cfg.OperatorStarts = 1, true
	w.cfg.Tools = toolbox(gate)
	w.start()
	first := w.post("first")
	s, err := w.m.CreateSession(t.Context(), "ann", session.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	w.id = s.ID
	o := w.watch("")
	defer o.stop()
	second := w.post("second")
	o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.Parked })
	_, err = w.m.StartRun(t.Context(), "ann", w.id, second.RunID)
	refused(t, err, session.CodeRateLimited)
	close(release)
	w.ended(first.RunID)
	w.sent(2)
	if _, err := w.m.StartRun(t.Context(), "ann", w.id, second.RunID); err != nil {
		t.Fatal(err)
	}
	w.ended(second.RunID)
	_, err = w.m.StartRun(t.Context(), "ann", w.id, second.RunID)
	refused(t, err, session.CodeConflict)
	w.sent(3)
}

// K-048, K-049, F44: a run ends at its step limit, and says so.
func TestMaxSteps(t *testing.T) {
	w := newWorld(t, call("", "clock", "c"))
	w.cfg.MaxSteps, w.cfg.MaxOutputTokens, w.cfg.Tools = 3, 99, toolbox(agent.Clock{})
	w.start()
	run := w.ask("hi")
	w.sent(3)
	if run.State != session.Failed || run.Failure.RetryClass != failure.Local || !strings.Contains(run.Reason, "3 steps") {
		t.Errorf("run %+v", run)
	}
	if n := w.provider.Requests()[0].MaxOutputTokens; n != 99 {
		t.Errorf("max output tokens %d", n)
	}
}

// N15, N37, K-195: a tool ran in step 0; the clean failure of step 1's call is retried, and
// the tool is not.
func TestRetryAfterToolRan(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, call("first", "write", "c"), []llmtest.Step{fail(failure.Overloaded)}, say("done"))
	w.cfg.Tools = toolbox(write)
	w.start()
	if run := w.ask("hi"); run.State != session.Succeeded || write.times() != 1 {
		t.Errorf("%v, the tool ran %d times", run.State, write.times())
	}
	w.sent(3)
	w.expect("operator: hi", "reply: first [write]", "tool: result of write", "reply: done")
}

// Resume goes on after the last committed step; nothing is run twice. F91.
func TestResume(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, call("first", "write", "c"), []llmtest.Step{llmtest.Text("half"), fail(failure.Overloaded)}, say("done"))
	w.cfg.Tools = toolbox(write)
	w.start()
	run := w.ask("hi")
	if run.State != session.Failed || run.Recovery.Auto || len(run.Recovery.Choices) != 3 {
		t.Fatalf("run %+v", run.Recovery)
	}
	r, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, run.ID)
	if err != nil || r.Superseded != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if again := w.ended(r.RunID); again.State != session.Succeeded || again.Continues != run.ID || write.times() != 1 {
		t.Errorf("%+v, the tool ran %d times", again, write.times())
	}
	w.expect("operator: hi", "reply: first [write]", "tool: result of write", "reply: done")
	_, err = w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, run.ID)
	refused(t, err, session.CodeStaleRun)
}

func refused(t *testing.T, err error, code string) *session.Refusal {
	t.Helper()
	var r *session.Refusal
	if !errors.As(err, &r) || r.Code != code {
		t.Errorf("%v, want %s", err, code)
		return &session.Refusal{}
	}
	return r
}
