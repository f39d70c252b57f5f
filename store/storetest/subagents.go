package storetest

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// subagents stores a tree: its first session, two below it, and one below the second of these.
func subagents(w *world) {
	top := w.session("ses_1")
	above := w.running("run_1", "ses_1")
	below := func(id, parent session.ID, depth int, run, of session.RunID) (session.Session, session.Run) {
		s := top
		s.ID, s.Parent = id, &session.Parent{SessionID: parent, RunID: of, Step: 2, CallID: "call_1", Root: "ses_1", Depth: depth}
		r := newRun(run, id)
		r.Parent = of
		w.do(func(tx session.Tx) error {
			if err := tx.InsertSession(s); err != nil {
				return err
			}
			return tx.InsertRun(r)
		})
		return s, r
	}
	second, queued := below("ses_2", "ses_1", 1, "run_2", "run_1")
	third, _ := below("ses_3", "ses_1", 1, "run_3", "run_1")
	_, deepest := below("ses_4", "ses_3", 2, "run_4", "run_3")
	w.same("run", w.run("run_2"), queued)
	second.State, second.LastRun = session.StateQueued, &queued
	w.same("session", w.readSession("ses_2"), second)

	children := func(id session.ID) (ids []session.ID) {
		for _, s := range read(w, func(tx session.ReadTx) ([]session.Session, error) { return tx.Children(id) }) {
			ids = append(ids, s.ID)
		}
		return ids
	}
	w.same("children", children("ses_1"), []session.ID{"ses_2", "ses_3"})
	w.same("children's children", children("ses_3"), []session.ID{"ses_4"})
	w.same("none", children("ses_4"), []session.ID(nil))
	parent := read(w, func(tx session.ReadTx) (*session.Parent, error) {
		_, p, err := tx.Settings("ses_3")
		return p, err
	})
	w.same("parent", parent, third.Parent)
	list := read(w, func(tx session.ReadTx) ([]session.Session, error) { return tx.Sessions(false, 0, 0) })
	if len(list) != 1 || list[0].ID != "ses_1" {
		w.Fatalf("the list has %+v", list)
	}

	// Their runs take no slot, and nobody but their parent starts them; a cancel needs no parent.
	counts := func() session.Counts {
		return read(w, func(tx session.ReadTx) (session.Counts, error) { return tx.CountRuns("") })
	}
	if c := counts(); c.Running != 1 || c.Queued != 0 {
		w.Fatalf("there are %+v", c)
	}
	waiting := func() []session.Run {
		return read(w, func(tx session.ReadTx) ([]session.Run, error) { return tx.QueuedRuns(0) })
	}
	w.same("queued", len(waiting()), 0)
	deepest.CancelRequested = true
	w.do(func(tx session.Tx) error { return tx.PutRun(deepest, session.Queued, 0) })
	w.same("queued", waiting(), []session.Run{deepest})
	started := w.move(queued, session.Running)
	if c := counts(); c.Running != 1 {
		w.Fatalf("there are %+v", c)
	}
	runs := read(w, func(tx session.ReadTx) ([]session.Run, error) { return tx.ChildRuns("run_1") })
	if len(runs) != 2 || runs[0].ID != "run_2" || runs[1].ID != "run_3" {
		w.Fatalf("runs below: %+v", runs)
	}

	// What they cost, and what they ask, is the first session's too.
	w.reserved("att_1", above, 0, t0, llm.Cost{Amount: 1, Kind: llm.CostEstimated}, 0)
	w.reserved("att_2", started, 0, t0, llm.Cost{Amount: 10, Kind: llm.CostEstimated}, 0)
	w.do(func(tx session.Tx) error {
		return tx.InsertToolCall(session.ToolCall{SessionID: "ses_2", RunID: "run_2", CallID: "c", Name: "write", State: session.CallAsked,
			Child: "ses_5", Approval: &session.Approval{AskedAt: t0}})
	})
	w.same("tree", w.spent(session.Spending{Session: "ses_1"}), session.Spend{Amount: 11, AtLeast: true})
	w.same("one", w.spent(session.Spending{Session: "ses_2"}), session.Spend{Amount: 10, AtLeast: true})
	w.same("run", w.spent(session.Spending{Session: "ses_1", Run: "run_1"}), session.Spend{Amount: 1, AtLeast: true})
	list = read(w, func(tx session.ReadTx) ([]session.Session, error) { return tx.Sessions(false, 0, 0) })
	w.same("in the list", list[0], w.readSession("ses_1"))
	if list[0].Asks != 1 || list[0].Spend.Amount != 11 {
		w.Fatalf("the first session %+v", list[0])
	}
	calls := read(w, func(tx session.ReadTx) ([]session.ToolCall, error) { return tx.ToolCalls("run_2") })
	if len(calls) != 1 || calls[0].Child != "ses_5" {
		w.Fatalf("calls %+v", calls)
	}
}
