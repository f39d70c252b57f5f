package storetest

import (
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// hookMarks: each is there once, in order, and shown with the attempt that it is of.
func hookMarks(w *world) {
	r := w.begin()
	w.opened("att_2", r)
	w.ok(w.mark("att_1", scope(r), replay.HookRan, t0))
	insert := func(h session.HookMark) error {
		return w.update(func(tx session.Tx) error { return tx.InsertHookMark(h) })
	}
	ofRun := session.HookMark{Notice: "ntc_2", Hook: "notify", Event: session.HookRunStarted, RunID: "run_1", Generation: 7, At: t0}
	ofAttempt := session.HookMark{Notice: "ntc_1", Hook: "notify", Event: session.HookAttemptOpened, RunID: "run_1", Step: 3, Generation: 7, AttemptID: "att_1", At: t0 + 1}
	other := ofAttempt
	other.Hook = "book"
	for _, h := range []session.HookMark{ofRun, ofAttempt, other} {
		w.ok(insert(h))
		w.is(insert(h), session.ErrLost)
	}
	w.same("marks", read(w, func(tx session.ReadTx) ([]session.HookMark, error) { return tx.HookMarks("run_1") }), []session.HookMark{ofRun, ofAttempt, other})
	if none := read(w, func(tx session.ReadTx) ([]session.HookMark, error) { return tx.HookMarks("run_2") }); len(none) != 0 {
		w.Fatalf("marks of another run: %+v", none)
	}
	all := read(w, func(tx session.ReadTx) ([]session.Attempt, error) { return tx.Attempts("run_1") })
	w.same("the first attempt's", all[0].Hooks, []session.HookMark{ofAttempt, other})
	w.same("the same, alone", w.attempt("att_1").Hooks, all[0].Hooks)
	if len(all[1].Hooks) != 0 {
		w.Fatalf("the second attempt has %+v", all[1].Hooks)
	}
}
