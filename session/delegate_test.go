package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// delegates is an answer that gives a task to a subagent of each model, by the calls c1, c2, …
func delegates(models ...string) []llmtest.Step {
	var steps []llmtest.Step
	for i, model := range models {
		arguments := fmt.Sprintf(`{"task":"task %d","title":"Title %d","model":%q}`, i+1, i+1, model)
		steps = append(steps,
			llmtest.Step{Event: llm.Event{Kind: llm.EventCallStart, Part: i, ID: fmt.Sprintf("c%d", i+1), Name: session.DelegateTool}},
			llmtest.Step{Event: llm.Event{Kind: llm.EventCallDelta, Part: i, Text: arguments}},
			llmtest.Step{Event: llm.Event{Kind: llm.EventCallEnd, Part: i}})
	}
	return append(steps, llmtest.Done(llm.StopToolCalls))
}

// newTree is a world whose agent gives tasks to subagents: of the model script/child, which plays
// the scripts, unless others are named.
func newTree(t *testing.T, agent [][]llmtest.Step, child ...[]llmtest.Step) *world {
	t.Helper()
	w := newWorld(t, agent...)
	w.cfg.Subagents.Depth = 1
	w.others = map[string]*llmtest.Provider{"child": llmtest.Script(child...)}
	return w
}

// delegating is an agent that gives one task away and then ends.
func delegating() [][]llmtest.Step { return [][]llmtest.Step{delegates("script/child"), say("done")} }

// children are the sessions below the world's.
func (w *world) children() []session.Session {
	w.t.Helper()
	list, err := w.m.Children(w.t.Context(), w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// child is the only one of them; it is waited for.
func (w *world) child() session.Session {
	w.t.Helper()
	o := w.watch("")
	defer o.stop()
	for {
		if list := w.children(); len(list) == 1 {
			return list[0]
		}
		o.next()
	}
}

// at looks at another session of the world.
func (w *world) at(id session.ID) *world {
	other := *w
	other.id = id
	return &other
}

// The model that gives a task away sees one call with one result. The subagent has a session of
// its own, which knows nothing but the task, and is not in the list.
func TestDelegate(t *testing.T) {
	w := newTree(t, delegating(), call("", "read", "r"), say("forty-two"))
	read := &tool{name: "read"}
	w.cfg.Tools, w.cfg.Subagents.MaxSteps = toolbox(read, &tool{name: "other"}), 7
	w.start()
	if _, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Settings: &session.Settings{Tools: []string{"read", "dele*"}}}); err != nil {
		t.Fatal(err)
	}
	run := w.ask("hi")
	w.expect("operator: hi", "reply: [delegate]", "tool: forty-two", "reply: done")
	s := w.child()
	w.at(s.ID).expect("operator: task 1", "reply: [read]", "tool: result of read", "reply: forty-two")
	if p := s.Parent; p == nil || *p != (session.Parent{SessionID: w.id, RunID: run.ID, CallID: "c1", Root: w.id, Depth: 1}) {
		t.Errorf("parent %+v", s.Parent)
	}
	if s.Title != "Title 1" || s.Model != "script/child" || s.Actor != "agent" || s.Settings.MaxSteps != 7 || s.LastRun.Parent != run.ID || s.LastRun.State != session.Succeeded {
		t.Errorf("session %+v, run %+v", s, s.LastRun)
	}
	if c := w.calls()[0]; c.Child != s.ID || c.State != session.CallEnded || !c.Effect {
		t.Errorf("call %+v", c)
	}
	if list, err := w.m.Sessions(t.Context(), false, 0); err != nil || len(list) != 1 || list[0].ID != w.id {
		t.Errorf("the list is %+v, %v", list, err)
	}
	o := w.watch("")
	if snap := o.next().Snapshot; len(snap.Sessions) != 1 || len(snap.Children) != 1 || snap.Children[0].ID != s.ID {
		t.Errorf("snapshot %+v", snap)
	}
	o.stop()
	request := w.others["child"].Requests()[0]
	if len(request.Messages) != 1 || len(request.Tools) != 1 || request.Tools[0].Name != "read" {
		t.Errorf("the subagent was sent %+v", request)
	}
	if tools := w.provider.Requests()[0].Tools; len(tools) != 2 || tools[1].Name != session.DelegateTool {
		t.Errorf("the agent was offered %+v", tools)
	}
}

// Subagents take no slot but their parent's: one that waits for them is never in their way, however
// many there are and however deep they are.
func TestSubagentsShareASlot(t *testing.T) {
	w := newTree(t, [][]llmtest.Step{delegates("script/child", "script/child", "script/deep"), say("done")}, say("shallow"))
	w.others["deep"] = llmtest.Script(delegates("script/child"), say("deep"))
	w.cfg.ConcurrentRuns, w.cfg.Subagents.Depth = 1, 2
	w.start()
	if run := w.ask("hi"); run.State != session.Succeeded {
		t.Fatalf("%s: %s", run.State, run.Reason)
	}
	var said []string
	for _, p := range w.messages(false)[2].Parts {
		said = append(said, p.Content[0].Text)
	}
	if !slices.Equal(said, []string{"shallow", "shallow", "deep"}) {
		t.Errorf("results %q", said)
	}
	var below []session.Session
	for _, s := range w.children() {
		below = append(below, w.at(s.ID).children()...)
	}
	if len(below) != 1 || below[0].Parent.Root != w.id || below[0].Parent.Depth != 2 {
		t.Fatalf("below the deep one: %+v", below)
	}
	for _, r := range w.others["child"].Requests() {
		if deepest := r.Messages[0].Parts[0].Text == "task 1" && len(r.Tools) == 0; !deepest && len(r.Tools) != 1 {
			t.Errorf("%q was offered %+v", r.Messages[0].Parts[0].Text, r.Tools)
		}
	}
}

// F18, N41: what a subagent shows, runs and breaks off speaks against nothing that its parent does:
// of that, the ledger knows a tool of a committed step. Main fails clean: it is repeated, and where
// that does not help, the second tier may go on.
func TestSubagentTaintsNothing(t *testing.T) {
	broken := []llmtest.Step{llmtest.Text("streams "), fail(failure.StreamInterrupted)}
	overloaded := []llmtest.Step{fail(failure.Overloaded)}
	w := newTree(t, [][]llmtest.Step{delegates("script/child"), overloaded, say("done"), delegates("script/child"), overloaded}, broken)
	w.start()
	if run := w.ask("hi"); run.State != session.Succeeded {
		t.Fatalf("%s: %s", run.State, run.Reason)
	}
	w.sent(3)
	w.at(w.child().ID).expect("operator: task 1", "reply: streams  (stream_interrupted)")
	if n := len(w.others["child"].Requests()); n != 1 {
		t.Errorf("what was shown was repeated: %d requests", n)
	}
	run := w.ask("again")
	w.sent(3 + 1 + 3)
	if r := run.Recovery; run.State != session.Failed || !r.Auto || !r.ReplaySafe || r.Verb != replay.Resume || r.Evidence != 0 {
		t.Errorf("%s: %+v", run.State, r)
	}
}

// F93, N75: a subagent that recovers is invisible: its parent sees its result. One that cannot is
// one error, in the words of the failure, with all that was tried. It arms nothing: what comes of
// the failure is its parent's business.
func TestSubagentFails(t *testing.T) {
	for name, c := range map[string]struct {
		child [][]llmtest.Step
		want  []string // of the result
		sent  int
	}{
		"N75 recovers":     {[][]llmtest.Step{{fail(failure.RateLimited)}, say("there")}, []string{"there"}, 2},
		"N75 all fail":     {[][]llmtest.Step{{fail(failure.Overloaded)}}, []string{"The subagent failed: the provider's words It was tried 3 times", "\nAttempt 1, script/child, from ", "\nAttempt 3, script/child", ": overloaded"}, 3},
		"F93 not worth it": {[][]llmtest.Step{{fail(failure.InvalidRequest)}}, []string{"The subagent failed: the provider's words\nAttempt 1, script/child, from ", ": invalid_request"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTree(t, delegating(), c.child...)
			w.cfg.Unattended = true
			w.start()
			if run := w.ask("hi"); run.State != session.Succeeded {
				t.Errorf("%s: %s", run.State, run.Reason)
			}
			results := w.messages(false)[2].Parts
			if len(results) != 1 || len(results[0].Content) != 1 {
				t.Fatalf("results %+v", results)
			}
			text := results[0].Content[0].Text
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q does not say %q", text, want)
				}
			}
			if failed := len(c.want) > 1; results[0].IsError != failed {
				t.Errorf("the result is an error: %v", results[0].IsError)
			}
			if n := len(w.others["child"].Requests()); n != c.sent {
				t.Errorf("the subagent sent %d requests, want %d", n, c.sent)
			}
			if s := w.child(); s.Schedule != nil && s.Schedule.State.Waiting() || s.State != session.Idle {
				t.Errorf("the subagent's session %+v, %+v", s, s.Schedule)
			}
		})
	}
}

// N76: the call's progress names who is asked, also when that is another one, and the tool that
// runs.
func TestSubagentProgress(t *testing.T) {
	waits := make(chan struct{})
	read := &tool{name: "read", run: func(context.Context) error { <-waits; return nil }}
	w := newTree(t, [][]llmtest.Step{delegates("chain"), say("done")})
	held := []llmtest.Step{{Wait: 500 * time.Millisecond, Event: llm.Event{Kind: llm.EventPing}}}
	w.chain = []recovery.Entry{
		entry("first", "one", llmtest.Script([]llmtest.Step{fail(failure.QuotaExhausted)})),
		entry("second", "two", llmtest.Script(append(held, call("", "read", "r")...), say("there"))),
	}
	w.cfg.Tools = toolbox(read)
	w.start()
	o := w.watch("")
	defer o.stop()
	r := w.post("hi")
	tells := func(want string) {
		t.Helper()
		o.until(func(e session.Event) bool {
			return e.Tool != nil && e.Tool.CallID == "c1" && e.Tool.RunID == r.RunID && strings.Contains(e.Tool.Text, want)
		})
	}
	tells("step 1: asks script/two, in place of first/one: quota_exhausted")
	tells("step 1: runs read")
	close(waits)
	if run := w.ended(r.RunID); run.State != session.Succeeded {
		t.Errorf("%s: %s", run.State, run.Reason)
	}
}

// A cancel of the parent is one of all that it has begun, in the same transaction: after it is
// acknowledged nothing of the tree is sent.
func TestCancelOfATree(t *testing.T) {
	w := newTree(t, [][]llmtest.Step{delegates("script/deep")}, []llmtest.Step{llmtest.Text("so far"), {Stall: true}})
	w.others["deep"] = llmtest.Script(delegates("script/child"))
	w.cfg.Subagents.Depth = 2
	w.start()
	r := w.post("hi")
	deep := w.at(w.child().ID)
	child := deep.at(deep.child().ID)
	o := child.watch("")
	o.shows("so far")
	o.stop()
	if sys, err := w.m.System(t.Context()); err != nil || sys.Running != 1 {
		t.Errorf("%d runs take a slot, %v", sys.Running, err)
	}
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); err != nil {
		t.Fatal(err)
	}
	if run := w.ended(r.RunID); run.State != session.Cancelled {
		t.Fatalf("%s: %s", run.State, run.Reason)
	}
	for _, one := range []*world{deep, child} {
		if run := one.session().LastRun; run.State != session.Cancelled || run.CancelledBy != "ann" {
			t.Errorf("below, %s by %s", run.State, run.CancelledBy)
		}
	}
	child.expect("operator: task 1", "reply: so far (cancelled)")
	w.sent(1)
	if n := len(w.others["deep"].Requests()) + len(w.others["child"].Requests()); n != 2 {
		t.Errorf("%d requests below", n)
	}
	if s := w.states(); s != "c1 cancelled" { // nothing below it has run that could have changed something
		t.Errorf("calls: %s", s)
	}
	if _, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, r.RunID); err != nil {
		t.Error(err)
	}
}

// A subagent that is stopped by itself is an error to its parent, which goes on.
func TestCancelOfASubagent(t *testing.T) {
	w := newTree(t, delegating(), []llmtest.Step{llmtest.Text("so far"), {Stall: true}})
	w.start()
	r := w.post("hi")
	child := w.at(w.child().ID)
	o := child.watch("")
	o.shows("so far")
	o.stop()
	if _, err := w.m.Cancel(t.Context(), "ann", child.id, child.session().LastRun.ID); err != nil {
		t.Fatal(err)
	}
	if run := w.ended(r.RunID); run.State != session.Succeeded {
		t.Errorf("%s: %s", run.State, run.Reason)
	}
	w.expect("operator: hi", "reply: [delegate]", "tool: The subagent was stopped by ann before it had answered.", "reply: done")
	archived := true
	if _, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Archived: &archived}); err != nil {
		t.Error(err)
	}
}

// N80: a stream breaks after the subagent's tool has changed something: its run ends as failed, its
// session is idle and takes the next message, and nothing starts a second writer.
func TestSubagentBreaksAfterATool(t *testing.T) {
	write := &tool{name: "write"}
	w := newTree(t, delegating(), call("", "write", "w"), []llmtest.Step{llmtest.Text("I have "), fail(failure.StreamInterrupted)}, say("steered"))
	w.cfg.Tools, w.cfg.Unattended = toolbox(write), true
	w.start()
	if run := w.ask("hi"); run.State != session.Succeeded {
		t.Errorf("%s: %s", run.State, run.Reason)
	}
	s := w.child()
	if s.State != session.Idle || s.LastRun.State != session.Failed || s.LastRun.Failure.RetryClass != failure.StreamInterrupted || s.Paused || s.LastRun.Recovery.Auto {
		t.Errorf("the subagent's session %+v, run %+v", s, s.LastRun)
	}
	child := w.at(s.ID)
	if run := child.ask("go on"); run.State != session.Succeeded || run.Parent != "" {
		t.Errorf("steered: %+v", run)
	}
	if n := write.times(); n != 1 {
		t.Errorf("written %d times", n)
	}
	child.expect("operator: task 1", "reply: [write]", "tool: result of write", "reply: I have  (stream_interrupted)", "operator: go on", "reply: steered")
}

// A crash at any moment of a tree: the call is gone on with, by what is stored of its subagent,
// whose run is judged like every other. No tool starts twice.
func TestCrashOfATree(t *testing.T) {
	for _, c := range []struct {
		after string
		nth   int32
		ran   int    // at most
		want  string // of the call's result
	}{
		{"start tool", 1, 1, "there"}, // the call is recorded, its subagent is not
		{"insert operator", 2, 1, "there"},
		{"open attempt", 2, 1, "there"},
		{"insert reply", 2, 1, "there"}, // the subagent asks for its tool
		{"start tool", 2, 1, "Nobody knows how its call of write ended"},
		{"end tool", 1, 1, "there"},
		{"insert reply", 3, 1, "there"}, // the subagent has answered
		{"end tool", 2, 1, "there"},     // its parent has its answer
	} {
		t.Run(fmt.Sprintf("%s %d", c.after, c.nth), func(t *testing.T) {
			write := &tool{name: "write"}
			w := newTree(t, delegating(), call("", "write", "w"), say("there"))
			w.cfg.Tools = toolbox(write)
			r := w.dies(c.after, c.nth)
			run := w.ended(r.RunID)
			if run.State != session.Succeeded {
				t.Fatalf("%s: %s", run.State, run.Reason)
			}
			if text := w.messages(false)[2].Parts[0].Content[0].Text; !strings.Contains(text, c.want) {
				t.Errorf("the result is %q, want %q", text, c.want)
			}
			if n := write.times(); n > c.ran {
				t.Errorf("written %d times", n)
			}
			if n := len(w.children()); n != 1 {
				t.Errorf("%d subagents", n)
			}
		})
	}
}

// A stop of the server queues a tree again, and its next start goes on with it, however often it
// has to wait for its subagents.
func TestStopOfATree(t *testing.T) {
	stalls := []llmtest.Step{{Stall: true}}
	w := newTree(t, [][]llmtest.Step{delegates("script/one"), delegates("script/two"), say("done")})
	w.others = map[string]*llmtest.Provider{"one": llmtest.Script(stalls), "two": llmtest.Script(stalls)}
	w.start()
	r := w.post("hi")
	for n, stop := range []struct {
		works string
		last  bool // of that subagent
	}{{"one", true}, {"two", false}, {"two", true}} {
		var child session.Session
		o := w.watch("")
		o.until(func(session.Event) bool {
			for _, child = range w.children() {
				if child.Model == "script/"+stop.works && child.State == session.StateRunning {
					return true
				}
			}
			return false
		})
		o.stop()
		w.m.Close()
		if s, of := w.session(), w.at(child.ID).session(); s.State != session.StateQueued || of.State != session.StateQueued {
			t.Fatalf("after stop %d it is %s, its subagent %s", n+1, s.State, of.State)
		}
		if stop.last {
			w.others[stop.works] = llmtest.Script(say(stop.works))
		}
		w.start()
	}
	if run := w.ended(r.RunID); run.State != session.Succeeded {
		t.Errorf("%s: %s", run.State, run.Reason)
	}
	w.expect("operator: hi", "reply: [delegate]", "tool: one", "reply: [delegate]", "tool: two", "reply: done")
}

// The limit of the first session is that of its tree: what subagents cost counts against it, and
// one that would exceed it, or its own limit, is not asked. The error says so.
func TestSpendOfATree(t *testing.T) {
	for name, c := range map[string]struct {
		tree, own llm.Money
		want      string
	}{
		"the tree's": {tree: 15_000, // the first step costs 10000, the next one may cost as much
			want: "The session has a limit of"},
		"its own": {own: 5_000, want: "The subagent has a limit of"},
		"none":    {want: "there"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := delegates("script/child")
			asked = slices.Insert(asked, len(asked)-1, llmtest.Step{Event: llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Input: 1, Output: 10}}})
			w := newTree(t, [][]llmtest.Step{asked, used("done", 1, 1)}, used("there", 1, 1))
			w.facts = llm.ModelFacts{MaxOutput: 10, Price: &llm.Price{Rates: llm.Rates{Output: llm.Dollar}}} // 1000 a token
			w.cfg.Spend.Session, w.cfg.Subagents.Spend = c.tree, c.own
			w.start()
			run := w.ask("hi")
			text := w.messages(false)[2].Parts[0].Content[0].Text
			if !strings.Contains(text, c.want) {
				t.Errorf("the result is %q, want %q", text, c.want)
			}
			whole := llm.Money(10_000)
			if run.State == session.Succeeded {
				whole += 1_000
			}
			if c.want == "there" {
				whole += 1_000
			}
			s := w.session()
			if list, err := w.m.Sessions(t.Context(), false, 0); err != nil || s.Spend.Amount != whole || list[0].Spend != s.Spend {
				t.Errorf("the tree cost %v, in the list %v, want %v; %v", s.Spend, list[0].Spend, whole, err)
			}
		})
	}
}

// A subagent's call is asked about in its own session; the first one of the tree counts it, and the
// call that waits for it says so.
func TestSubagentAsks(t *testing.T) {
	write := &tool{name: "write"}
	w := newTree(t, delegating(), call("", "write", "w"), say("there"))
	w.cfg.Tools, w.cfg.Subagents.Ask = toolbox(asking(write)), true
	w.start()
	r := w.post("hi")
	w.until("c1 asked")
	if n := len(w.children()); n != 0 {
		t.Fatalf("%d subagents before anybody approved", n)
	}
	o := w.watch("")
	defer o.stop()
	w.approve("c1")
	o.until(func(e session.Event) bool {
		return e.Tool != nil && strings.HasPrefix(e.Tool.Text, "step 1: asks whether write may start")
	})
	child := w.at(w.child().ID)
	if s := w.session(); s.Asks != 1 || child.session().Asks != 1 {
		t.Errorf("the tree asks %d times, its subagent %d", s.Asks, child.session().Asks)
	}
	if list, err := w.m.Sessions(t.Context(), false, 0); err != nil || list[0].Asks != 1 {
		t.Errorf("the list says %+v, %v", list, err)
	}
	child.approve("w")
	o.until(func(e session.Event) bool {
		return e.Type == session.EventSession && e.SessionID == w.id && e.Session.Asks == 0
	})
	if run := w.ended(r.RunID); run.State != session.Succeeded || write.times() != 1 {
		t.Errorf("%s: %s", run.State, run.Reason)
	}
}

// Where a crash leaves a call beside the subagent's unknown, its run ends, and the subagent with it:
// nobody goes on for a parent that does not. What the operator then lets run again is another one.
func TestCrashBesideASubagent(t *testing.T) {
	asked := delegates("script/child")
	asked = slices.Insert(asked, len(asked)-1,
		llmtest.Step{Event: llm.Event{Kind: llm.EventCallStart, Part: 1, ID: "w", Name: "write"}},
		llmtest.Step{Event: llm.Event{Kind: llm.EventCallDelta, Part: 1, Text: "{}"}},
		llmtest.Step{Event: llm.Event{Kind: llm.EventCallEnd, Part: 1}})
	w := newTree(t, [][]llmtest.Step{asked, say("done")}, call("", "read", "r"), say("another"))
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	w.cfg.Tools = toolbox(
		traited{&tool{name: "write", run: hangs}, agent.Traits{Effect: true, Parallel: true}},
		traited{&tool{name: "read", run: hangs}, agent.Traits{Parallel: true}})
	r := w.dies("start tool", 3)
	run := w.ended(r.RunID)
	if run.State != session.Failed || run.Failure.RetryClass != failure.Interrupted {
		t.Fatalf("%s: %s", run.State, run.Reason)
	}
	child := w.at(w.child().ID)
	if of := child.ended(child.session().LastRun.ID); of.State != session.Cancelled {
		t.Errorf("the subagent is %s: %s", of.State, of.Reason)
	}
	if s := w.states(); s != "c1 unknown, w unknown" && s != "w unknown, c1 unknown" {
		t.Errorf("calls: %s", s)
	}
	for id, how := range map[string]session.Resolution{"w": session.MarkDone, "c1": session.RunAgain} {
		if _, err := w.m.ResolveCall(t.Context(), "ann", w.id, id, how); err != nil {
			t.Fatal(err)
		}
	}
	again, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if run := w.ended(again.RunID); run.State != session.Succeeded || len(w.children()) != 2 {
		t.Errorf("%s: %s; %d subagents", run.State, run.Reason, len(w.children()))
	}
	if parts := w.messages(false)[2].Parts; parts[0].Content[0].Text != "another" {
		t.Errorf("results %+v", parts)
	}
}

// A model that nobody serves begins nothing.
func TestDelegateToNobody(t *testing.T) {
	w := newTree(t, [][]llmtest.Step{delegates("nobody/knows"), say("done")})
	w.start()
	if run := w.ask("hi"); run.State != session.Succeeded || len(w.children()) != 0 {
		t.Errorf("%s: %s; %d subagents", run.State, run.Reason, len(w.children()))
	}
	if r := w.messages(false)[2].Parts[0]; !r.IsError || !strings.Contains(r.Content[0].Text, `no provider serves "nobody/knows"`) {
		t.Errorf("the result is %+v", r)
	}
}
