package storetest

import (
	"errors"
	"maps"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// reserved opens an attempt that has cost so much and may cost more.
func (w *world) reserved(id session.AttemptID, r session.Run, step int, at session.Time, c llm.Cost, more llm.Money) session.Attempt {
	w.Helper()
	a := newAttempt(id, r)
	a.OpenedAt, a.Evidence.Scope.Step, a.Cost = at, step, &c
	if c.Kind != llm.CostUnknown {
		a.Price = &llm.Price{Rates: llm.Rates{Input: 3, Output: 15}, Long: &llm.Rates{Input: 6}, Above: 9}
	}
	w.do(func(tx session.Tx) error {
		if _, err := tx.OpenAttempt(a); err != nil {
			return err
		}
		return tx.Reserve(a, more)
	})
	return a
}

func (w *world) spent(q session.Spending) session.Spend {
	w.Helper()
	return read(w, func(tx session.ReadTx) (session.Spend, error) { return tx.Spent(q) })
}

func spend(w *world) {
	w.session("ses_1")
	w.session("ses_2")
	r, other := w.running("run_1", "ses_1"), w.running("run_2", "ses_2")
	w.same("nothing", w.spent(session.Spending{Session: "ses_1"}), session.Spend{})

	estimated, unknown := llm.Cost{Amount: 10, Kind: llm.CostEstimated}, llm.Cost{Kind: llm.CostUnknown}
	first := w.reserved("att_1", r, 0, t0, estimated, 90)
	w.reserved("att_2", r, 1, t0+1, unknown, 0)
	w.reserved("att_3", other, 0, t0+2, estimated, 5)
	w.lost(func(tx session.Tx) error { return tx.Reserve(first, 1) })

	// What is open counts as what it may come to, and has no cost yet.
	if got := w.attempt("att_1"); got.Cost != nil {
		w.Fatalf("an open attempt costs %+v", got.Cost)
	}
	w.same("price", w.attempt("att_1").Price, first.Price)
	w.same("session", w.spent(session.Spending{Session: "ses_1"}), session.Spend{Amount: 10, AtLeast: true, Unpriced: true, Reserved: 90})
	w.same("step 1", w.spent(session.Spending{Session: "ses_1", Run: "run_1", Step: 1}), session.Spend{Amount: 10, AtLeast: true, Reserved: 90})
	w.same("since", w.spent(session.Spending{Since: t0 + 1}), session.Spend{Amount: 10, AtLeast: true, Unpriced: true, Reserved: 5})
	w.same("all", w.spent(session.Spending{}), session.Spend{Amount: 20, AtLeast: true, Unpriced: true, Reserved: 95})

	known := llm.Cost{Amount: 70, Kind: llm.CostKnown}
	w.do(func(tx session.Tx) error { return tx.Settle("att_1", known) })
	w.same("cost", *w.attempt("att_1").Cost, known)
	w.same("unknown", *w.attempt("att_2").Cost, unknown)
	steps := read(w, func(tx session.ReadTx) (map[session.StepOf]session.Spend, error) { return tx.SpentBySteps("ses_1") })
	if !maps.Equal(steps, map[session.StepOf]session.Spend{{Run: "run_1", Step: 0}: {Amount: 70}, {Run: "run_1", Step: 1}: {AtLeast: true, Unpriced: true}}) {
		w.Fatalf("steps: %+v", steps)
	}
	w.same("read session", read(w, func(tx session.ReadTx) (session.Session, error) { return tx.Session("ses_1") }).Spend,
		session.Spend{Amount: 70, AtLeast: true, Unpriced: true})
	for _, s := range read(w, func(tx session.ReadTx) ([]session.Session, error) { return tx.Sessions(false, 0, 0) }) {
		w.same("listed session", s.Spend, w.spent(session.Spending{Session: s.ID}))
	}

	// Nobody saw the end of the other one: it stays counted at its most.
	w.do(func(tx session.Tx) error { return tx.SealOpen("run_2", t0+9) })
	w.same("lost", *w.attempt("att_3").Cost, estimated)
	w.same("lost session", w.spent(session.Spending{Session: "ses_2"}), session.Spend{Amount: 10, AtLeast: true, Reserved: 5})
	w.do(func(tx session.Tx) error { return tx.SealOpen("run_1", t0+9) }) // settled and unknown costs stay
	w.same("cost", *w.attempt("att_1").Cost, known)
	w.same("unknown", *w.attempt("att_2").Cost, unknown)

	w.lost(func(tx session.Tx) error { return tx.Settle("att_none", known) })
	if err := w.update(func(tx session.Tx) error { return tx.Settle("att_1", llm.Cost{Kind: "free"}) }); err == nil {
		w.Fatal("a kind that nobody knows was stored")
	}
}

// spendRace: of runs that each look at what is left and then reserve, no more go through than
// there is room for.
func spendRace(w *world) {
	w.session("ses_1")
	r := w.running("run_1", "ses_1")
	errFull := errors.New("nothing is left")
	won := w.race(func(s session.Store, i int) error {
		a := newAttempt(session.AttemptID("att_"+string(rune('a'+i))), r)
		a.Cost = &llm.Cost{Amount: 1, Kind: llm.CostEstimated}
		return s.Update(w.Context(), session.Soft, func(tx session.Tx) error {
			spent, err := tx.Spent(session.Spending{Since: t0 - 1})
			if err != nil {
				return err
			}
			if spent.Amount+spent.Reserved+10 > 50 {
				return errFull
			}
			if _, err := tx.OpenAttempt(a); err != nil {
				return err
			}
			return tx.Reserve(a, 9)
		})
	}, errFull)
	if got := w.spent(session.Spending{}); won != 5 || got.Amount != 5 || got.Reserved != 45 {
		w.Fatalf("%d attempts, %+v", won, got)
	}
}
