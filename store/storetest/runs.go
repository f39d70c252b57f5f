package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

func oneActiveRun(w *world) {
	w.session("ses_1")
	w.session("ses_2")
	second := func() error {
		return w.update(func(tx session.Tx) error { return tx.InsertRun(newRun("run_2", "ses_1")) })
	}
	r := w.queued("run_1", "ses_1")
	w.is(second(), session.ErrActive)
	r = w.move(r, session.Running)
	w.is(second(), session.ErrActive)
	w.queued("run_3", "ses_2")
	// A transaction goes on after it, and may end the active run in the same breath.
	w.do(func(tx session.Tx) error {
		if err := tx.InsertRun(newRun("run_2", "ses_1")); !errors.Is(err, session.ErrActive) {
			return fmt.Errorf("error %v, want ErrActive", err)
		}
		ended := r
		ended.State = session.Succeeded
		if err := tx.PutRun(ended, session.Running, r.Generation); err != nil {
			return err
		}
		return tx.InsertRun(newRun("run_2", "ses_1"))
	})
	w.lost(func(tx session.Tx) error { return tx.InsertRun(newRun("run_1", "ses_9")) })
	if err := w.update(func(tx session.Tx) error {
		r := newRun("run_4", "ses_1")
		r.State = session.Running
		return tx.InsertRun(r)
	}); err == nil {
		w.Fatal("a new run that is not queued was stored")
	}
}

func putRun(w *world) {
	w.session("ses_1")
	r := newRun("run_1", "ses_1")
	r.Trigger, r.Continues = session.TriggerResume, "run_0"
	r.Origin = session.Origin{Verb: replay.Resume, Run: replay.RunEvidence{Run: "run_0", Committed: 2,
		Whole: replay.ToolStarted | replay.TextShown, Tail: replay.HookRan}}
	w.do(func(tx session.Tx) error { return tx.InsertRun(r) })
	w.same("run", w.run("run_1"), r)

	put := r
	put.State = session.Running
	put.Origin = session.Origin{Verb: replay.Restart, Run: replay.RunEvidence{Run: "run_1"}}
	put.Generation, put.Claims, put.Owner = 3, 2, "node-1"
	put.Steps, put.Requests, put.CancelRequested, put.CancelledBy = 4, 5, true, "bob"
	put.StartedAt, put.EndedAt, put.Reason = t0+1, t0+2, "because"
	put.Failure = &session.Failure{Message: "m", RetryClass: failure.Timeout}
	put.Recovery = &session.Recovery{Reason: "r", Evidence: replay.Missing}
	for _, expect := range []struct {
		state      session.RunState
		generation int64
	}{{session.Running, 0}, {session.Queued, 1}, {session.Succeeded, 0}} {
		w.lost(func(tx session.Tx) error { return tx.PutRun(put, expect.state, expect.generation) })
		w.same("run", w.run("run_1"), r)
	}
	changed := put // these may not change
	changed.MessageID, changed.Trigger, changed.Continues, changed.Actor = "msg_x", session.TriggerMessage, "x", "eve"
	changed.Model, changed.QueuedAt = "x", 1
	w.do(func(tx session.Tx) error { return tx.PutRun(changed, session.Queued, 0) })
	w.same("run", w.run("run_1"), put)
	put.Failure, put.Recovery = nil, nil
	w.do(func(tx session.Tx) error { return tx.PutRun(put, session.Running, 3) })
	w.same("run", w.run("run_1"), put)
	w.is(w.s.View(w.Context(), func(tx session.ReadTx) error {
		_, err := tx.Run("run_none")
		return err
	}), session.ErrNotFound)
	w.is(w.s.View(w.Context(), func(tx session.ReadTx) error {
		_, err := tx.Claimed("run_none")
		return err
	}), session.ErrNotFound)
}

func terminalOnce(w *world) {
	states := []session.RunState{session.Queued, session.Running, session.Succeeded, session.Failed, session.Cancelled}
	for i, end := range []session.RunState{session.Succeeded, session.Failed, session.Cancelled} {
		id := session.ID(fmt.Sprintf("ses_%d", i))
		w.session(id)
		r := w.move(w.running(session.RunID(fmt.Sprintf("run_%d", i)), id), end)
		for _, other := range states {
			if other == end {
				continue
			}
			for _, expect := range states {
				if expect == end && other == end {
					continue
				}
				next := r
				next.State = other
				w.lost(func(tx session.Tx) error { return tx.PutRun(next, expect, r.Generation) })
			}
		}
		w.same("run", w.run(r.ID), r)
		r.Reason = "a word more"
		w.do(func(tx session.Tx) error { return tx.PutRun(r, end, r.Generation) })
		w.same("run", w.run(r.ID), r)
	}
}

func runLists(w *world) {
	for i, at := range []session.Time{3, 1, 2, 1} {
		id := session.ID(fmt.Sprintf("ses_%d", i))
		w.session(id)
		r := newRun(session.RunID(fmt.Sprintf("run_%d", i)), id)
		r.QueuedAt = t0 + at
		w.do(func(tx session.Tx) error { return tx.InsertRun(r) })
	}
	list := func(want []session.RunID, f func(tx session.ReadTx) ([]session.Run, error)) {
		w.Helper()
		var got []session.RunID
		for _, r := range read(w, f) {
			w.same("run", r, w.run(r.ID))
			got = append(got, r.ID)
		}
		w.same("runs", got, want)
	}
	queued := func(limit int) func(tx session.ReadTx) ([]session.Run, error) {
		return func(tx session.ReadTx) ([]session.Run, error) { return tx.QueuedRuns(limit) }
	}
	list([]session.RunID{"run_1", "run_3", "run_2", "run_0"}, queued(0))
	list([]session.RunID{"run_1", "run_3"}, queued(2))
	stopping := w.run("run_2")
	stopping.CancelRequested = true
	w.do(func(tx session.Tx) error { return tx.PutRun(stopping, session.Queued, stopping.Generation) })
	list([]session.RunID{"run_2", "run_1"}, queued(2))
	w.move(w.run("run_1"), session.Running)
	w.move(w.run("run_0"), session.Running)
	w.move(w.run("run_3"), session.Cancelled)
	list([]session.RunID{"run_2"}, queued(0))
	list([]session.RunID{"run_0", "run_1"}, session.ReadTx.RunningRuns)
	owned := w.run("run_0")
	owned.Owner = "node_a"
	w.do(func(tx session.Tx) error { return tx.PutRun(owned, session.Running, owned.Generation) })
	counts := read(w, func(tx session.ReadTx) (session.Counts, error) { return tx.CountRuns("node_a") })
	if counts != (session.Counts{Running: 2, Own: 1, Queued: 1}) {
		w.Fatalf("there are %+v", counts)
	}
}

// race runs f from several goroutines on two opened stores, as two processes would, and
// returns how many got no error. The others must get one of the given errors.
func (w *world) race(f func(s session.Store, i int) error, others ...error) int {
	w.Helper()
	stores := []session.Store{w.s, w.another()}
	errs := make([]error, 16)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { errs[i] = f(stores[i%2], i) })
	}
	wait.Wait()
	won := 0
next:
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		for _, want := range others {
			if errors.Is(err, want) {
				continue next
			}
		}
		w.Fatalf("unexpected error: %v", err)
	}
	return won
}

func claimRace(w *world) {
	w.session("ses_1")
	r := w.queued("run_1", "ses_1")
	claim := func(s session.Store, i int) error {
		mine := r
		mine.State, mine.Generation, mine.Owner = session.Running, r.Generation+1, fmt.Sprint("node-", i)
		return s.Update(w.Context(), session.Full, func(tx session.Tx) error {
			return tx.PutRun(mine, session.Queued, r.Generation)
		})
	}
	if won := w.race(claim, session.ErrLost); won != 1 {
		w.Fatalf("%d claims won, want 1", won)
	}
	r = w.run("run_1")
	ends := []session.RunState{session.Succeeded, session.Failed, session.Cancelled}
	end := func(s session.Store, i int) error {
		mine := r
		mine.State = ends[i%3]
		return s.Update(w.Context(), session.Soft, func(tx session.Tx) error {
			return tx.PutRun(mine, session.Running, r.Generation)
		})
	}
	if won := w.race(end, session.ErrLost); won != 1 {
		w.Fatalf("%d ends won, want 1", won)
	}
}

func insertRunRace(w *world) {
	w.session("ses_1")
	insert := func(s session.Store, i int) error {
		return s.Update(w.Context(), session.Soft, func(tx session.Tx) error {
			return tx.InsertRun(newRun(session.RunID(fmt.Sprint("run_", i)), "ses_1"))
		})
	}
	if won := w.race(insert, session.ErrActive); won != 1 {
		w.Fatalf("%d runs were stored, want 1", won)
	}
}

func toolCalls(w *world) {
	w.session("ses_1")
	w.running("run_1", "ses_1")
	call := func(step int, id string) session.ToolCall {
		return session.ToolCall{SessionID: "ses_1", RunID: "run_1", Step: step, CallID: id, Name: "ls",
			Arguments: `{"dir": "/"}`, State: session.CallStarted, Effect: true, StartedAt: t0}
	}
	// Started in this order, in the same millisecond.
	started := []session.ToolCall{call(1, "z"), call(0, "z"), call(1, "a"), call(0, "a")}
	for _, c := range started {
		w.do(func(tx session.Tx) error { return tx.InsertToolCall(c) })
		w.lost(func(tx session.Tx) error { return tx.InsertToolCall(c) })
	}
	want := []session.ToolCall{started[1], started[3], started[0], started[2]}
	expect := func() {
		w.Helper()
		w.same("calls", read(w, func(tx session.ReadTx) ([]session.ToolCall, error) { return tx.ToolCalls("run_1") }), want)
	}
	expect()
	want[0].State, want[0].EndedAt = session.CallEnded, t0+5
	want[0].Result = &llm.Part{Kind: llm.PartToolResult, CallID: "z", Content: []llm.Part{llm.Text("etc")}}
	w.lost(func(tx session.Tx) error { return tx.PutToolCall(want[0], session.CallUnknown) })
	w.do(func(tx session.Tx) error { return tx.PutToolCall(want[0], session.CallStarted) })
	w.lost(func(tx session.Tx) error { return tx.PutToolCall(want[0], session.CallStarted) })
	expect()
	want[1].State = session.CallUnknown
	w.do(func(tx session.Tx) error { return tx.PutToolCall(want[1], session.CallStarted) })
	expect()
}

// approvals: what is asked is kept with its answer, counted by session and listed over all, the
// oldest first.
func approvals(w *world) {
	w.session("ses_1")
	w.session("ses_2")
	w.running("run_1", "ses_1")
	w.running("run_2", "ses_2")
	asked := func(of session.ID, run session.RunID, id string, at session.Time) session.ToolCall {
		c := session.ToolCall{SessionID: of, RunID: run, CallID: id, Name: "rm", Arguments: "{}", Effect: true,
			State: session.CallAsked, Approval: &session.Approval{AskedAt: at, ExpiresAt: at + 9}}
		w.do(func(tx session.Tx) error { return tx.InsertToolCall(c) })
		return c
	}
	a, b := asked("ses_1", "run_1", "a", t0+5), asked("ses_2", "run_2", "b", t0+4)
	c := asked("ses_1", "run_1", "c", t0+5)
	expect := func(first, second int, want ...session.ToolCall) {
		w.Helper()
		w.same("asked", read(w, func(tx session.ReadTx) ([]session.ToolCall, error) { return tx.Asked() }), want)
		for id, n := range map[session.ID]int{"ses_1": first, "ses_2": second} {
			if s := read(w, func(tx session.ReadTx) (session.Session, error) { return tx.Session(id) }); s.Asks != n {
				w.Errorf("%s asks %d times, want %d", id, s.Asks, n)
			}
		}
		for _, s := range read(w, func(tx session.ReadTx) ([]session.Session, error) { return tx.Sessions(false, 0, 0) }) {
			if want := map[session.ID]int{"ses_1": first, "ses_2": second}[s.ID]; s.Asks != want {
				w.Errorf("in the list %s asks %d times, want %d", s.ID, s.Asks, want)
			}
		}
	}
	expect(2, 1, b, a, c)
	a.State, a.Approval = session.CallApproved, &session.Approval{AskedAt: t0 + 5, ExpiresAt: t0 + 14, AnsweredAt: t0 + 6, AnsweredBy: "ann"}
	w.do(func(tx session.Tx) error { return tx.PutToolCall(a, session.CallAsked) })
	w.lost(func(tx session.Tx) error { return tx.PutToolCall(a, session.CallAsked) })
	b.State, b.Approval = session.CallDenied, &session.Approval{AskedAt: t0 + 4, ExpiresAt: t0 + 13, AnsweredAt: t0 + 6, AnsweredBy: "ann", Reason: "no"}
	w.do(func(tx session.Tx) error { return tx.PutToolCall(b, session.CallAsked) })
	expect(1, 0, c)
	a.State, a.StartedAt = session.CallStarted, t0+7
	w.do(func(tx session.Tx) error { return tx.PutToolCall(a, session.CallApproved) })
	a.State = session.CallUnknown
	w.do(func(tx session.Tx) error { return tx.PutToolCall(a, session.CallStarted) })
	a.State, a.EndedAt, a.Resolved = session.CallAgain, t0+8, &session.Resolved{How: session.RunAgain, By: "bob", At: t0 + 8}
	w.do(func(tx session.Tx) error { return tx.PutToolCall(a, session.CallUnknown) })
	calls := func(run session.RunID) []session.ToolCall {
		return read(w, func(tx session.ReadTx) ([]session.ToolCall, error) { return tx.ToolCalls(run) })
	}
	w.same("calls", calls("run_1"), []session.ToolCall{a, c})
	w.same("calls", calls("run_2"), []session.ToolCall{b})
}

// unknownWords: a word that is in no set is refused, and not taken for another.
func unknownWords(w *world) {
	w.session("ses_1")
	r := w.queued("run_1", "ses_1")
	for name, f := range map[string]func(tx session.Tx) error{
		"role": func(tx session.Tx) error {
			_, err := tx.InsertMessage(session.Message{ID: "msg_1", SessionID: "ses_1", Role: "prophet"})
			return err
		},
		"state": func(tx session.Tx) error {
			bad := r
			bad.State = "dreaming"
			return tx.PutRun(bad, session.Queued, 0)
		},
		"trigger": func(tx session.Tx) error {
			bad := newRun("run_2", "ses_1")
			bad.Trigger = "whim"
			return tx.InsertRun(bad)
		},
		"call state": func(tx session.Tx) error {
			return tx.InsertToolCall(session.ToolCall{SessionID: "ses_1", RunID: "run_1", CallID: "c", State: "done"})
		},
	} {
		if err := w.update(f); err == nil || errors.Is(err, session.ErrLost) || errors.Is(err, session.ErrActive) {
			w.Errorf("an unknown %s: error %v", name, err)
		}
	}
}
