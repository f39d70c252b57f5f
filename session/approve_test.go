package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// traited is a tool with other traits than its own.
type traited struct {
	agent.Tool
	is agent.Traits
}

func (t traited) Traits() agent.Traits { return t.is }

// asking is an effect that is asked about.
func asking(t agent.Tool) agent.Tool { return traited{t, agent.Traits{Effect: true, Ask: true}} }

// calls reads the calls of the session's last run.
func (w *world) calls() []session.ToolCall {
	w.t.Helper()
	s := w.session()
	list, err := w.m.ToolCalls(w.t.Context(), w.id, s.LastRun.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// states spells the states of the last run's calls.
func (w *world) states() string {
	w.t.Helper()
	var out []string
	for _, c := range w.calls() {
		out = append(out, c.CallID+" "+string(c.State))
	}
	return strings.Join(out, ", ")
}

// until waits until the last run's calls have these states.
func (w *world) until(states string) {
	w.t.Helper()
	o := w.watch("")
	defer o.stop()
	for w.states() != states {
		o.next()
	}
}

func (w *world) approve(call string) session.ToolCall {
	w.t.Helper()
	c, err := w.m.AnswerCall(w.t.Context(), "bob", w.id, call, session.Answer{Approve: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// A call that is asked about starts when the operator approves of it, once; who that was is with
// the call and in the audit. A second answer is a conflict that names the first.
func TestApprove(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, call("first", "write", "c"), say("done"))
	w.cfg.Tools = toolbox(asking(write))
	w.start()
	o := w.watch("")
	r := w.post("hi")
	asked := o.until(func(e session.Event) bool { return e.ToolCall != nil }).ToolCall
	if a := asked.Approval; asked.State != session.CallAsked || asked.StartedAt != 0 || a == nil || a.ExpiresAt-a.AskedAt != 600_000 || a.AnsweredAt != 0 {
		t.Errorf("asked %+v, %+v", asked, a)
	}
	if e := o.until(func(e session.Event) bool { return e.Session != nil }); e.Session.Asks != 1 || e.Session.State != session.StateRunning {
		t.Errorf("session %+v", e.Session)
	}
	late := w.watch("")
	if s := late.next().Snapshot; len(s.ToolCalls) != 1 || s.ToolCalls[0].State != session.CallAsked || s.Session.Asks != 1 || s.Sessions[0].Asks != 1 {
		t.Errorf("snapshot %+v", s.ToolCalls)
	}
	late.stop()
	if list, err := w.m.Asked(t.Context()); err != nil || len(list) != 1 || list[0].CallID != "c" {
		t.Errorf("%+v, %v", list, err)
	}
	if n := write.times(); n != 0 {
		t.Fatalf("it ran %d times before anybody approved", n)
	}

	if c := w.approve("c"); c.State != session.CallApproved || c.Approval.AnsweredBy != "bob" || c.Approval.AnsweredAt == 0 {
		t.Errorf("approved %+v", c)
	}
	_, err := w.m.AnswerCall(t.Context(), "cleo", w.id, "c", session.Answer{Reason: "no"})
	if r := refused(t, err, session.CodeConflict); !strings.Contains(r.Message, "approved already, by bob") || r.Details == nil {
		t.Errorf("%+v", r)
	}
	if run := w.ended(r.RunID); run.State != session.Succeeded || write.times() != 1 {
		t.Errorf("%v, it ran %d times", run.State, write.times())
	}
	var states []session.CallState
	for o.until(func(e session.Event) bool { return e.ToolCall != nil || e.Run != nil && e.Run.State.Terminal() }).ToolCall != nil {
	}
	o.stop()
	for _, e := range o.seen {
		if e.ToolCall != nil {
			states = append(states, e.ToolCall.State)
		}
	}
	if want := []session.CallState{session.CallAsked, session.CallApproved, session.CallStarted, session.CallEnded}; !slices.Equal(states, want) {
		t.Errorf("the call was %v, want %v", states, want)
	}
	if s := w.session(); s.Asks != 0 {
		t.Errorf("the session asks %d times", s.Asks)
	}
	w.sent(2)
	w.expect("operator: hi", "reply: first [write]", "tool: result of write", "reply: done")
	acts, err := w.m.Audit(t.Context(), w.id, 0)
	if err != nil || acts[0].Actor != "bob" || acts[0].Act != "approve call" || acts[0].RunID != r.RunID || acts[0].Detail != "write c" {
		t.Errorf("%+v, %v", acts[0], err)
	}
	_, err = w.m.AnswerCall(t.Context(), "cleo", w.id, "c", session.Answer{Approve: true})
	refused(t, err, session.CodeConflict)
	if _, err = w.m.AnswerCall(t.Context(), "cleo", w.id, "other", session.Answer{}); !errors.Is(err, session.ErrNotFound) {
		t.Error(err)
	}
}

// A call that is denied, or that nobody answers in time, never starts, and the model is told so.
func TestDeny(t *testing.T) {
	for name, tc := range map[string]struct {
		answer *session.Answer // nil: nobody answers
		told   string
		by     string
	}{
		"reason": {&session.Answer{Reason: "not in there"}, "The operator denied this call: not in there", "bob"},
		"plain":  {&session.Answer{}, "The operator denied this call.", "bob"},
		"nobody": {nil, "The operator was asked whether this call may run, and did not answer in time. It was not run.", "timer"},
	} {
		t.Run(name, func(t *testing.T) {
			write := &tool{name: "write"}
			w := newWorld(t, call("", "write", "c"), say("then not"))
			w.cfg.Tools = toolbox(asking(write))
			if tc.answer == nil {
				w.cfg.AnswerWithin = 20 * time.Millisecond
			}
			w.start()
			r := w.post("hi")
			if tc.answer != nil {
				w.until("c asked")
				if _, err := w.m.AnswerCall(t.Context(), "bob", w.id, "c", *tc.answer); err != nil {
					t.Fatal(err)
				}
			}
			if run := w.ended(r.RunID); run.State != session.Succeeded || write.times() != 0 {
				t.Errorf("%v, it ran %d times", run.State, write.times())
			}
			w.expect("operator: hi", "reply: [write]", "tool: "+tc.told, "reply: then not")
			if c := w.calls()[0]; c.State != session.CallDenied || c.StartedAt != 0 || !c.Result.IsError || c.Approval.AnsweredBy != tc.by {
				t.Errorf("%+v, %+v", c, c.Approval)
			}
			_, err := w.m.AnswerCall(t.Context(), "cleo", w.id, "c", session.Answer{Approve: true})
			refused(t, err, session.CodeConflict)
			p, err := w.m.PreviewRegenerate(t.Context(), w.id, r.MessageID)
			if err != nil || len(p.Effects) != 0 {
				t.Errorf("effects of what never ran: %+v, %v", p.Effects, err)
			}
		})
	}
}

// A run that is stopped while it asks never starts the call, and one that goes on after it asks
// anew. F11, K-044.
func TestCancelWhileAsked(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, call("first", "write", "c"), say("done"))
	w.cfg.Tools = toolbox(asking(write))
	w.start()
	r := w.post("hi")
	w.until("c asked")
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); err != nil {
		t.Fatal(err)
	}
	if run := w.ended(r.RunID); run.State != session.Cancelled || w.states() != "c cancelled" || w.session().Asks != 0 {
		t.Errorf("%v: %s", run.State, w.states())
	}
	_, err := w.m.AnswerCall(t.Context(), "bob", w.id, "c", session.Answer{Approve: true})
	refused(t, err, session.CodeConflict)
	again, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	w.until("c asked")
	w.approve("c")
	if run := w.ended(again.RunID); run.State != session.Succeeded || write.times() != 1 {
		t.Errorf("%v, it ran %d times", run.State, write.times())
	}
	w.sent(2)
}

// A question outlives the process: the same row, the same time, no further request. An answer
// that was given is carried out by whoever comes next, once, without asking again.
func TestApprovalOutlivesACrash(t *testing.T) {
	begin := func(t *testing.T) (*world, *tool) {
		write := &tool{name: "write"}
		w := newWorld(t, call("first", "write", "c"), say("done"))
		w.cfg.Tools = toolbox(asking(write))
		return w, write
	}
	done := func(w *world, write *tool, run session.RunID, ran int) {
		t.Helper()
		if r := w.ended(run); r.State != session.Succeeded || write.times() != ran {
			w.t.Errorf("%v (%s), it ran %d times", r.State, r.Reason, write.times())
		}
		w.sent(2)
	}
	t.Run("asked", func(t *testing.T) {
		w, write := begin(t)
		r := w.dies("start tool", 1)
		asked := w.calls()[0]
		for range 5 { // more often than a run may be started that comes to no end
			w.m.Close()
			w.start()
			w.until("c asked")
			o := w.watch("")
			for w.session().State != session.StateRunning {
				o.next()
			}
			o.stop()
		}
		if again := w.calls()[0]; *again.Approval != *asked.Approval {
			t.Errorf("asked again: %+v, was %+v", again.Approval, asked.Approval)
		}
		w.sent(1)
		w.approve("c")
		done(w, write, r.RunID, 1)
	})
	t.Run("approved", func(t *testing.T) {
		w, write := begin(t)
		d := newMortal(w, "end tool", 1)
		w.startOn(d, d)
		r := w.post("hi")
		w.until("c asked")
		_, err := w.m.AnswerCall(t.Context(), "bob", w.id, "c", session.Answer{Approve: true})
		if err != nil && !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		<-d.died
		w.m.Close()
		if n := write.times(); n != 0 {
			t.Fatalf("it ran %d times in a dead process", n)
		}
		w.start()
		done(w, write, r.RunID, 1)
	})
	t.Run("started", func(t *testing.T) {
		w, write := begin(t)
		d := newMortal(w, "end tool", 2)
		w.startOn(d, d)
		r := w.post("hi")
		w.until("c asked")
		w.approve("c")
		<-d.died
		w.m.Close()
		w.start()
		if run := w.ended(r.RunID); run.State != session.Failed || run.Failure.RetryClass != failure.Interrupted || w.states() != "c unknown" {
			t.Errorf("%v: %s", run.State, w.states())
		}
		if c, err := w.m.ResolveCall(t.Context(), "cleo", w.id, "c", session.RunAgain); err != nil || c.Resolved.By != "cleo" || c.Resolved.How != session.RunAgain {
			t.Errorf("%+v, %v", c, err)
		}
		again, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, r.RunID)
		if err != nil {
			t.Fatal(err)
		}
		done(w, write, again.RunID, 1) // who lets it run again need not be asked
	})
	t.Run("too late", func(t *testing.T) {
		w, write := begin(t)
		w.cfg.AnswerWithin = 30 * time.Millisecond
		r := w.dies("start tool", 1)
		done(w, write, r.RunID, 0)
		if c := w.calls()[0]; c.State != session.CallDenied || c.Approval.AnsweredBy != "timer" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		w, write := begin(t)
		w.cfg.Grace = time.Minute
		w.start()
		r := w.post("hi")
		w.until("c asked")
		began := time.Now()
		w.m.Close()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the stop waited %s for an answer that nobody can give", took)
		}
		w.start()
		w.until("c asked")
		w.approve("c")
		done(w, write, r.RunID, 1)
	})
}

// calling is an answer that asks for tools, by name and call id.
func calling(calls ...string) []llmtest.Step {
	var steps []llmtest.Step
	for i, c := range calls {
		name, id, _ := strings.Cut(c, " ")
		one := call("", name, id)
		for _, s := range one[:len(one)-1] {
			s.Event.Part = i
			steps = append(steps, s)
		}
	}
	return append(steps, llmtest.Done(llm.StopToolCalls))
}

// Calls that may run side by side do, up to the next one that may not; their results are committed
// in the order of the calls. Two calls of one step are asked about at a time, and each is
// answered by itself.
func TestSideBySide(t *testing.T) {
	meet := make(chan struct{})
	both := func(ctx context.Context) error { // each waits for the other
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	a, b := &tool{name: "a", run: both}, &tool{name: "b", run: both}
	alone := &tool{name: "alone"}
	alone.run = func(context.Context) error {
		if a.times()+b.times() != 2 {
			return errors.New("not after the others")
		}
		return nil
	}
	beside := agent.Traits{Parallel: true, Ask: true}
	w := newWorld(t, calling("a 1", "b 2", "alone 3", "a 4"), say("done"))
	w.cfg.Tools = toolbox(traited{a, beside}, traited{b, beside}, alone)
	w.start()
	r := w.post("hi")
	o := w.watch("")
	for w.session().Asks != 2 {
		o.next()
	}
	o.stop()
	w.approve("2")
	w.approve("1")
	o = w.watch("")
	for w.session().Asks != 1 {
		o.next()
	}
	o.stop()
	if _, err := w.m.AnswerCall(t.Context(), "bob", w.id, "4", session.Answer{}); err != nil {
		t.Fatal(err)
	}
	if run := w.ended(r.RunID); run.State != session.Succeeded {
		t.Errorf("%v: %s", run.State, run.Reason)
	}
	w.expect("operator: hi", "reply: [a] [b] [alone] [a]", "tool: result of a result of b result of alone The operator denied this call.", "reply: done")
}

// Nothing of a step's calls starts twice where the process dies between its output and their
// starts, or among them. N16, N37, K-195.
func TestCrashAmongCalls(t *testing.T) {
	for _, at := range []struct {
		op  string
		nth int32
	}{{"insert reply", 1}, {"start tool", 1}, {"start tool", 2}, {"end tool", 1}, {"end tool", 2}, {"insert tool", 1}} {
		t.Run(fmt.Sprint(at.op, at.nth), func(t *testing.T) {
			a, b := &tool{name: "a"}, &tool{name: "b"}
			beside := agent.Traits{Effect: true, Parallel: true}
			w := newWorld(t, calling("a 1", "b 2"), say("done"))
			w.cfg.Tools = toolbox(traited{a, beside}, traited{b, beside})
			run := w.ended(w.dies(at.op, at.nth).RunID)
			if a.times() > 1 || b.times() > 1 {
				t.Errorf("they ran %d and %d times", a.times(), b.times())
			}
			unknown := strings.Contains(w.states(), "unknown")
			if unknown != (run.State == session.Failed) || !unknown && (run.State != session.Succeeded || a.times() != 1 || b.times() != 1) {
				t.Errorf("%v: %s", run.State, w.states())
			}
		})
	}
}

// f11: a tool that runs when its run is stopped is told so. What has no effect is cancelled; of
// what has one nobody knows whether it was done. One that comes to its end all the same has ended.
func TestStopWhileToolRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		is   agent.Traits
		err  error
		want session.CallState
	}{
		"effect":    {agent.Traits{Effect: true}, errors.New("told to stop"), session.CallUnknown},
		"no effect": {agent.Traits{}, errors.New("told to stop"), session.CallCancelled},
		"finished":  {agent.Traits{Effect: true}, nil, session.CallEnded},
	} {
		t.Run(name, func(t *testing.T) {
			write := &tool{name: "write", run: func(ctx context.Context) error {
				<-ctx.Done()
				return tc.err
			}}
			w := newWorld(t, call("first", "write", "c"), say("done"))
			w.cfg.Tools = toolbox(traited{write, tc.is})
			w.start()
			r := w.post("hi")
			w.until("c started")
			if _, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); err != nil {
				t.Fatal(err)
			}
			if run := w.ended(r.RunID); run.State != session.Cancelled || w.states() != "c "+string(tc.want) {
				t.Errorf("%v: %s", run.State, w.states())
			}
			_, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, r.RunID)
			if tc.want == session.CallUnknown {
				refused(t, err, session.CodeEffectsNotConfirmed)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A stop of the server cuts a tool off that does not end in time: nobody knows how it ended, and
// it is not run again by itself. N66.
func TestShutdownWhileToolRuns(t *testing.T) {
	write := &tool{name: "write", run: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	w := newWorld(t, call("first", "write", "c"), say("done"))
	w.cfg.Tools = toolbox(write)
	w.start()
	r := w.post("hi")
	w.until("c started")
	w.m.Close()
	w.start()
	if run := w.ended(r.RunID); run.State != session.Failed || run.Failure.RetryClass != failure.Interrupted || w.states() != "c unknown" || write.times() != 1 {
		t.Errorf("%v: %s, it ran %d times", run.State, w.states(), write.times())
	}
	w.sent(1)
}

// F08: a tool that fails at once has started: what it may have done is listed before the message
// is answered anew. A call that cannot be carried out, or does not fit, has not.
func TestEffectsOfCalls(t *testing.T) {
	for call, effects := range map[string]int{"write c": 1, "nothing c": 0} {
		t.Run(call, func(t *testing.T) {
			write := &tool{name: "write", run: func(context.Context) error { return errors.New("at once") }}
			w := newWorld(t, calling(call), say("done"))
			w.cfg.Tools = toolbox(write)
			w.start()
			run := w.ask("hi")
			p, err := w.m.PreviewRegenerate(t.Context(), w.id, run.MessageID)
			if err != nil || len(p.Effects) != effects || !w.calls()[0].Result.IsError {
				t.Errorf("%+v: %s, %v", p.Effects, w.states(), err)
			}
		})
	}
}

// A call that was run again, in a run that was resumed, is not run once more by the next.
func TestRunAgainOnce(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, call("first", "write", "c"), say("done"))
	w.cfg.Tools = toolbox(write)
	first := w.ended(w.dies("start tool", 1).RunID)
	if _, err := w.m.ResolveCall(t.Context(), "ann", w.id, "c", session.RunAgain); err != nil {
		t.Fatal(err)
	}
	// The resumed run is stopped by its own tool's end, before the results are committed.
	var second session.RunID
	stop := make(chan struct{})
	write.run = func(ctx context.Context) error {
		close(stop)
		<-ctx.Done()
		return nil
	}
	r, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	second = r.RunID
	<-stop
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, second); err != nil {
		t.Fatal(err)
	}
	w.ended(second)
	r, err = w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, second)
	if err != nil {
		t.Fatal(err)
	}
	if run := w.ended(r.RunID); run.State != session.Succeeded || write.times() != 1 {
		t.Errorf("%v, it ran %d times", run.State, write.times())
	}
}

// reporting is a tool that says how far it is and goes on until it may end.
type reporting struct {
	*tool
	end chan struct{}
}

func (r reporting) Run(ctx context.Context, _ json.RawMessage, report func(agent.Progress)) ([]llm.Part, error) {
	report(agent.Progress{Done: 1, Total: 3, Text: "one"})
	select {
	case <-r.end:
	case <-ctx.Done():
	}
	return []llm.Part{llm.Text("done")}, nil
}

// Whoever watches is told how far a tool is, also who comes later; nothing of it is in the log.
func TestToolProgress(t *testing.T) {
	end := make(chan struct{})
	w := newWorld(t, call("first", "write", "c"), say("done"))
	w.cfg.Tools = toolbox(reporting{&tool{name: "write"}, end})
	w.start()
	o := w.watch("")
	r := w.post("hi")
	p := o.until(func(e session.Event) bool { return e.Tool != nil })
	if p.Type != session.EventToolProgress || p.Revision != 0 || p.Tool.RunID != r.RunID || p.Tool.CallID != "c" || p.Tool.Done != 1 || p.Tool.Total != 3 || p.Tool.Text != "one" {
		t.Errorf("%+v", p.Tool)
	}
	late := w.watch("")
	if s := late.next().Snapshot; len(s.ToolProgress) != 1 || s.ToolProgress[0] != *p.Tool {
		t.Errorf("%+v", s.ToolProgress)
	}
	late.stop()
	close(end)
	w.ended(r.RunID)
	late = w.watch("")
	if s := late.next().Snapshot; len(s.ToolProgress) != 0 {
		t.Errorf("after the end %+v", s.ToolProgress)
	}
	late.stop()
	o.stop()
}
