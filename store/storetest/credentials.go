package storetest

import (
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

func (w *world) coolOffs() []recovery.CoolOff {
	w.Helper()
	return read(w, func(tx session.ReadTx) ([]recovery.CoolOff, error) { return tx.CoolOffs() })
}

// coolOff is a key at one model, cooling off until so many milliseconds after the beginning.
func coolOff(until session.Time) recovery.CoolOff {
	return recovery.CoolOff{Lane: recovery.Lane{Key: "hash", Model: "openai/org/gpt"},
		Candidate: recovery.Candidate{Provider: "openai", Model: "org/gpt", Key: "env:A"},
		Reason:    failure.RateLimited, Until: (t0 + until).Std(), Stated: true, Failures: 2}
}

// coolOffs: of two times the later one stands, a probe is one, and whoever comes late changes
// nothing.
func coolOffs(w *world) {
	put := func(c recovery.CoolOff) {
		w.Helper()
		w.do(func(tx session.Tx) error { return tx.PutCoolOff(c) })
	}
	probe := func(c recovery.CoolOff, until session.Time) (generation int64) {
		w.Helper()
		w.do(func(tx session.Tx) (err error) {
			generation, err = tx.ProbeCoolOff(c, until)
			return err
		})
		return generation
	}
	whole := recovery.CoolOff{Lane: recovery.Lane{Key: "hash"}, Candidate: recovery.Candidate{Provider: "openai", Key: "env:A"},
		Reason: failure.AuthFailed, Until: (t0 + 900).Std(), Failures: 1}
	put(coolOff(500))
	put(whole)
	put(recovery.CoolOff{Lane: recovery.Lane{Model: "local/llama"}, Candidate: recovery.Candidate{Provider: "local", Model: "llama"},
		Reason: failure.Overloaded, Until: (t0 + 700).Std()})
	list := w.coolOffs()
	if len(list) != 3 || list[0].Lane != coolOff(0).Lane || list[1].Model != "llama" || list[2].Lane != whole.Lane {
		w.Fatalf("cool-offs %+v", list)
	}
	w.same("a cool-off", list[0], coolOff(500))
	first := list[0]

	put(coolOff(100))
	if c := w.coolOffs()[0]; !c.Until.Equal((t0 + 500).Std()) || c.Generation == first.Generation {
		w.Fatalf("an earlier time has moved the deadline: %+v", c)
	}
	w.lost(func(tx session.Tx) error {
		_, err := tx.ProbeCoolOff(first, t0+9999)
		return err
	})
	first = w.coolOffs()[0]
	taken := first
	taken.Generation = probe(first, t0+9999)
	w.lost(func(tx session.Tx) error {
		_, err := tx.ProbeCoolOff(first, t0+9999)
		return err
	})
	if c := w.coolOffs()[0]; !c.Probed.Equal((t0 + 9999).Std()) || !c.Until.Equal(first.Until) {
		w.Fatalf("probed: %+v", c)
	}
	w.do(func(tx session.Tx) error { return tx.SettleCoolOff(taken, false) })
	if c := w.coolOffs()[0]; !c.Probed.IsZero() || c.Generation == taken.Generation {
		w.Fatalf("given back: %+v", c)
	}
	w.lost(func(tx session.Tx) error { return tx.SettleCoolOff(taken, true) })

	// A probe that was overtaken by a new failure does not open the lane.
	taken = w.coolOffs()[0]
	taken.Generation = probe(taken, t0+9999)
	put(coolOff(800))
	w.lost(func(tx session.Tx) error { return tx.SettleCoolOff(taken, true) })
	for _, c := range w.coolOffs() {
		if c.Lane == taken.Lane && (!c.Probed.IsZero() || !c.Until.Equal((t0 + 800).Std())) {
			w.Fatalf("after the new failure: %+v", c)
		}
	}

	// It survives a restart, and a generation is not used again after its lane was forgotten.
	w.ok(w.s.Close())
	w.s = w.another()
	for _, c := range w.coolOffs() {
		if c.Lane == taken.Lane {
			taken = c
		}
	}
	old := taken
	taken.Generation = probe(taken, t0+9999)
	w.do(func(tx session.Tx) error { return tx.SettleCoolOff(taken, true) })
	if n := len(w.coolOffs()); n != 2 {
		w.Fatalf("%d cool-offs after an answer", n)
	}
	put(coolOff(800))
	w.lost(func(tx session.Tx) error { return tx.SettleCoolOff(old, true) })
	w.lost(func(tx session.Tx) error { return tx.SettleCoolOff(taken, true) })

	w.do(func(tx session.Tx) error { return tx.Prune(t0 + 850) })
	if left := w.coolOffs(); len(left) != 1 || left[0].Lane != whole.Lane {
		w.Fatalf("after a prune: %+v", left)
	}
}

// coolOffRace: of many who see a lane that has cooled off, one gets the probe.
func coolOffRace(w *world) {
	w.do(func(tx session.Tx) error { return tx.PutCoolOff(coolOff(1)) })
	seen := w.coolOffs()[0]
	won := w.race(func(s session.Store, _ int) error {
		return s.Update(w.Context(), session.Soft, func(tx session.Tx) error {
			_, err := tx.ProbeCoolOff(seen, session.At(t0.Std().Add(time.Minute)))
			return err
		})
	}, session.ErrLost)
	if won != 1 {
		w.Fatalf("%d got the probe", won)
	}
}

// coolOffLifted: a lane is forgotten by the name that a person has for it, and no other is.
func coolOffLifted(w *world) {
	lanes := []recovery.CoolOff{coolOff(500), coolOff(600), coolOff(700)}
	lanes[1].Lane.Model, lanes[1].Model = "", ""
	lanes[2].Lane.Key, lanes[2].Key = "", ""
	for _, c := range lanes {
		w.do(func(tx session.Tx) error { return tx.PutCoolOff(c) })
	}
	for i, c := range lanes {
		w.do(func(tx session.Tx) error { return tx.DeleteCoolOff(c.Candidate) })
		w.lost(func(tx session.Tx) error { return tx.DeleteCoolOff(c.Candidate) })
		if left := w.coolOffs(); len(left) != len(lanes)-1-i {
			w.Fatalf("after %s: %+v", c.Candidate, left)
		}
	}
}
