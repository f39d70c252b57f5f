package storetest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

func openAttempt(w *world) {
	w.session("ses_1")
	r := w.queued("run_1", "ses_1")
	open := func(a session.Attempt) error {
		return w.update(func(tx session.Tx) error {
			_, err := tx.OpenAttempt(a)
			return err
		})
	}
	w.is(open(newAttempt("att_0", r)), session.ErrLost) // not running
	r = w.move(r, session.Running)

	want := newAttempt("att_1", r)
	want.After, want.Automatic, want.Key, want.Evidence.Remote = "att_0", true, "second", true
	want.Evidence.Marks = replay.HookRan
	former := recovery.Former{Candidate: recovery.Candidate{Provider: "openai", Model: "gpt", Key: "env:A"}, Reason: recovery.SkipCooling}
	want.SwitchedFrom, want.InsteadOf = &former, &former
	want.Skipped = []recovery.Outcome{{Candidate: former.Candidate, Skipped: former.Reason, Until: (t0 + 7).Std()}}
	given := want
	given.Evidence.State, given.Evidence.Delivery = replay.StateSealed, llm.Refused // it is open all the same
	given.Evidence.Published.Text, given.EndedAt, given.OK = 7, t0, true
	w.ok(open(given))
	want.Number, want.Evidence.State, want.Evidence.Attempt = 1, replay.StateOpen, "att_1"
	w.same("attempt", w.attempt("att_1"), want)
	if ok, _ := w.attempt("att_1").Evidence.Safe(); ok {
		w.Fatal("an open attempt is safe")
	}

	second := newAttempt("att_2", r)
	w.ok(open(second))
	second.Number, second.Evidence.State, second.Evidence.Attempt = 2, replay.StateOpen, "att_2"
	all := read(w, func(tx session.ReadTx) ([]session.Attempt, error) { return tx.Attempts("run_1") })
	w.same("attempts", all, []session.Attempt{want, second})
	if n := w.run("run_1").Requests; n != 2 {
		w.Fatalf("%d requests, want 2", n)
	}

	stale := newAttempt("att_3", r)
	stale.Evidence.Scope.Generation--
	w.is(open(stale), session.ErrLost)
	w.is(open(newAttempt("att_2", r)), session.ErrLost) // the id is taken
	foreign := newAttempt("att_3", r)
	foreign.Evidence.Scope.Run = "run_2"
	if err := open(foreign); err == nil {
		w.Fatal("an attempt with the scope of another run was opened")
	}
	r = w.run("run_1")
	r.CancelRequested = true
	w.do(func(tx session.Tx) error { return tx.PutRun(r, session.Running, r.Generation) })
	w.is(open(newAttempt("att_3", r)), session.ErrLost)
	w.same("attempts", read(w, func(tx session.ReadTx) ([]session.Attempt, error) { return tx.Attempts("run_1") }), all)
	if n := w.run("run_1").Requests; n != 2 {
		w.Fatalf("%d requests after refusals, want 2", n)
	}
	r.CancelRequested, r.Steps, r.Requests = false, 1, 0 // a step was committed
	w.do(func(tx session.Tx) error { return tx.PutRun(r, session.Running, r.Generation) })
	w.opened("att_3", r)
	if got := w.attempt("att_3"); got.Number != 3 || w.run("run_1").Requests != 1 {
		w.Fatalf("attempt %d, %d requests; want 3 and 1", got.Number, w.run("run_1").Requests)
	}
}

// begin stores a session, a running run and an open attempt.
func (w *world) begin() session.Run {
	w.Helper()
	w.session("ses_1")
	r := w.running("run_1", "ses_1")
	w.opened("att_1", r)
	return w.run("run_1")
}

func (w *world) mark(id session.AttemptID, s llm.Scope, marks replay.Reasons, now session.Time) error {
	return w.update(func(tx session.Tx) error { return tx.MarkAttempt(id, s, marks, now) })
}

func (w *world) seal(id session.AttemptID, s llm.Scope, seal replay.Seal, now session.Time) error {
	return w.update(func(tx session.Tx) error { return tx.SealAttempt(id, s, seal, now) })
}

func marks(w *world) {
	r := w.begin()
	var all replay.Reasons
	for i, m := range []replay.Reasons{0, replay.TextShown, replay.ToolStarted, 0, replay.TextShown | replay.HookRan} {
		// Reasons that are no effects are no marks.
		w.ok(w.mark("att_1", scope(r), m|replay.Stale, t0+10+session.Time(i)))
		all |= m
		got := w.attempt("att_1")
		if got.Evidence.Marks != all || got.Evidence.State != replay.StateOpen {
			w.Fatalf("marks %v, state %v; want %v, open", got.Evidence.Marks, got.Evidence.State, all)
		}
		if want := (session.Time(0)); all == 0 && got.MarkedAt != want || all != 0 && got.MarkedAt != t0+11 {
			w.Fatalf("marked at %d after mark %d", got.MarkedAt, i)
		}
	}
	// A run that was asked to cancel, or has ended, still takes what has happened.
	r.CancelRequested = true
	w.do(func(tx session.Tx) error { return tx.PutRun(r, session.Running, r.Generation) })
	w.ok(w.mark("att_1", scope(r), replay.ProviderTool, t0))
	w.move(r, session.Cancelled)
	w.ok(w.mark("att_1", scope(r), replay.CommandRan, t0))
	if got := w.attempt("att_1").Evidence.Marks; got != all|replay.ProviderTool|replay.CommandRan {
		w.Fatalf("marks %v", got)
	}
}

func seals(w *world) {
	r := w.begin()
	w.ok(w.mark("att_1", scope(r), replay.ThinkingShown, t0+10))
	w.ok(w.seal("att_1", scope(r), replay.Seal{Marks: replay.TextShown, Published: replay.Counts{Text: 5, Thinking: 6},
		Delivery: llm.Refused, Usage: &llm.Usage{Input: 3}, Model: "steady-1"}, t0+20))
	want := newAttempt("att_1", r)
	want.Number, want.Answered, want.MarkedAt, want.EndedAt, want.Usage = 1, "steady-1", t0+10, t0+20, &llm.Usage{Input: 3}
	want.Evidence = replay.Evidence{Scope: scope(r), Attempt: "att_1", State: replay.StateSealed,
		Marks: replay.ThinkingShown | replay.TextShown, Published: replay.Counts{Text: 5, Thinking: 6}, Delivery: llm.Refused}
	w.same("attempt", w.attempt("att_1"), want)

	// A second seal replaces the counts and takes no mark back.
	w.ok(w.seal("att_1", scope(r), replay.Seal{OK: true, Published: replay.Counts{Text: 9, Calls: 1}, Model: "steady-1"}, t0+21))
	want.OK, want.EndedAt = true, t0+21
	want.Evidence.Published, want.Evidence.Delivery = replay.Counts{Text: 9, Calls: 1}, llm.MaybeAccepted
	w.same("attempt", w.attempt("att_1"), want)
	w.ok(w.mark("att_1", scope(r), replay.HookRan, t0+22))
	want.Evidence.Marks |= replay.HookRan
	w.same("attempt", w.attempt("att_1"), want)

	// A clean one is safe.
	w.opened("att_2", r)
	w.ok(w.seal("att_2", scope(r), replay.Seal{Delivery: llm.Refused}, t0+23))
	if ok, why := w.attempt("att_2").Evidence.Safe(); !ok {
		w.Fatalf("a clean attempt is not safe: %v", why)
	}
	if at := w.attempt("att_2").MarkedAt; at != 0 {
		w.Fatalf("a clean attempt was marked at %d", at)
	}
}

func lateMark(w *world) {
	old := w.begin()
	successor := old
	successor.Generation++
	w.do(func(tx session.Tx) error { // a takeover
		if err := tx.PutRun(successor, session.Running, old.Generation); err != nil {
			return err
		}
		return tx.SealOpen("run_1", t0+30)
	})
	before := w.attempt("att_1")
	w.opened("att_2", successor)
	clean := w.attempt("att_2")
	now := scope(old)
	now.Generation++
	for _, s := range []llm.Scope{scope(old), now} { // att_1 is not of the new generation either
		w.is(w.mark("att_1", s, replay.TextShown, t0+31), session.ErrLost)
		w.is(w.seal("att_1", s, replay.Seal{OK: true, Marks: replay.TextShown}, t0+31), session.ErrLost)
	}
	w.is(w.mark("att_2", scope(old), replay.TextShown, t0+31), session.ErrLost)
	w.is(w.seal("att_2", scope(old), replay.Seal{Marks: replay.TextShown}, t0+31), session.ErrLost)
	w.same("old attempt", w.attempt("att_1"), before)
	w.same("successor", w.attempt("att_2"), clean)
	w.ok(w.seal("att_2", scope(successor), replay.Seal{Delivery: llm.NeverSent}, t0+32))
	if ok, why := w.attempt("att_2").Evidence.Safe(); !ok {
		w.Fatalf("the successor is tainted: %v", why)
	}
}

func wrongScope(w *world) {
	r := w.begin()
	before := w.attempt("att_1")
	for _, change := range []func(*llm.Scope){
		func(s *llm.Scope) { s.Session = "ses_2" },
		func(s *llm.Scope) { s.Run = "run_2" },
		func(s *llm.Scope) { s.Step++ },
		func(s *llm.Scope) { s.Lineage = "title" },
		func(s *llm.Scope) { s.Generation++ },
		func(s *llm.Scope) { *s = llm.Scope{} },
	} {
		s := scope(r)
		change(&s)
		w.is(w.mark("att_1", s, replay.TextShown, t0), session.ErrLost)
		w.is(w.seal("att_1", s, replay.Seal{}, t0), session.ErrLost)
	}
	w.is(w.mark("att_9", scope(r), replay.TextShown, t0), session.ErrLost)
	w.is(w.seal("att_9", scope(r), replay.Seal{}, t0), session.ErrLost)
	w.same("attempt", w.attempt("att_1"), before)
}

func sealOpen(w *world) {
	r := w.begin()
	w.ok(w.seal("att_1", scope(r), replay.Seal{OK: true, Delivery: llm.Refused}, t0+10))
	sealed := w.attempt("att_1")
	remote := newAttempt("att_2", r)
	remote.Evidence.Remote = true
	side := newAttempt("att_3", r)
	side.Evidence.Scope.Lineage = "title"
	w.do(func(tx session.Tx) error {
		_, err := tx.OpenAttempt(remote)
		if err == nil {
			_, err = tx.OpenAttempt(side)
		}
		return err
	})
	w.ok(w.mark("att_3", side.Evidence.Scope, replay.TextShown, t0+11))
	w.session("ses_2")
	other := w.running("run_2", "ses_2")
	w.opened("att_4", other)
	w.do(func(tx session.Tx) error { return tx.SealOpen("run_1", t0+20) })
	w.same("sealed before", w.attempt("att_1"), sealed)
	for id, marks := range map[session.AttemptID]replay.Reasons{"att_2": 0, "att_3": replay.TextShown} {
		a := w.attempt(id)
		if e := a.Evidence; e.State != replay.StateSealed || e.Delivery != llm.MaybeAccepted || e.Marks != marks || a.OK || a.EndedAt != t0+20 {
			w.Errorf("%s: %+v", id, a)
		}
	}
	// The provider may have acted on it.
	if ok, why := w.attempt("att_2").Evidence.Safe(); ok || why != replay.RemoteUnknown {
		w.Errorf("remote attempt: safe %v, %v", ok, why)
	}
	if got := w.attempt("att_4").Evidence.State; got != replay.StateOpen {
		w.Errorf("the attempt of another run is %v", got)
	}
	w.do(func(tx session.Tx) error { return tx.SealOpen("run_none", t0) })
}

func missingEvidence(w *world) {
	w.session("ses_1")
	w.running("run_1", "ses_1")
	var got session.Attempt
	w.is(w.s.View(w.Context(), func(tx session.ReadTx) (err error) {
		got, err = tx.Attempt("att_none")
		return err
	}), session.ErrNotFound)
	if got.Evidence != (replay.Evidence{}) {
		w.Fatalf("evidence of nothing: %+v", got.Evidence)
	}
	if ok, why := got.Evidence.Safe(); ok || why&replay.Missing == 0 {
		w.Fatalf("missing evidence: safe %v, %v", ok, why)
	}
	if all := read(w, func(tx session.ReadTx) ([]session.Attempt, error) { return tx.Attempts("run_1") }); len(all) != 0 {
		w.Fatalf("%d attempts", len(all))
	}
}

func decisions(w *world) {
	r := w.begin()
	zone := time.FixedZone("somewhere", 2*60*60)
	at := time.Date(2026, 9, 21, 14, 13, 20, 123456789, zone)
	verdicts := []recovery.Verdict{recovery.Stop, recovery.Retry, recovery.Rotate, recovery.Advance, recovery.Compact, recovery.HandOver}
	for i, class := range failure.Classes() {
		f := &failure.Failure{Class: class, Retryable: class.Retryable(), NotBefore: at, Hint: "retry-after",
			Provider: "openai", Dialect: "chat", Phase: failure.PhaseStream, Status: 429, Code: "new <code>",
			Transport: "reset", Delivered: llm.Delivery(i % 3), Message: "Slow\x00 down…", Body: "{}", KeyInvalid: true, Rule: "r"}
		d := recovery.Decision{Eligible: i%2 == 0, Class: class, Safe: i%3 == 0, Evidence: replay.Reasons(1) << (i % 14),
			Verdict: verdicts[i%len(verdicts)], NotBefore: at, NextAt: at.Add(time.Second), Rule: recovery.RuleTier1}
		wantFailure, err := json.Marshal(f)
		w.ok(err)
		wantDecision, err := json.Marshal(d)
		w.ok(err)
		w.do(func(tx session.Tx) error { return tx.PutDecision("att_1", f, d) })
		got := w.attempt("att_1")
		w.same("failure", got.Failure, json.RawMessage(wantFailure))
		w.same("decision", got.Decision, json.RawMessage(wantDecision))
	}
	w.do(func(tx session.Tx) error { return tx.PutDecision("att_1", nil, recovery.Decision{}) })
	if got := w.attempt("att_1"); got.Failure != nil || got.Decision == nil {
		w.Fatalf("failure %v, decision %v", got.Failure, got.Decision)
	}
	if got := w.attempt("att_1").Evidence; got.State != replay.StateOpen || got.Scope != scope(r) {
		w.Fatalf("a decision changed the evidence: %+v", got)
	}
	w.lost(func(tx session.Tx) error { return tx.PutDecision("att_none", nil, recovery.Decision{}) })
}

// markRace: marks from many sides are all there, also those made as a seal is written.
func markRace(w *world) {
	r := w.begin()
	bits := []replay.Reasons{replay.TextShown, replay.ThinkingShown, replay.ContentShown, replay.CallShown,
		replay.ToolStarted, replay.ProviderTool, replay.HookRan}
	won := w.race(func(s session.Store, i int) error {
		return s.Update(w.Context(), session.Full, func(tx session.Tx) error {
			if i%8 == 7 {
				return tx.SealAttempt("att_1", scope(r), replay.Seal{Marks: replay.CommandRan}, t0)
			}
			return tx.MarkAttempt("att_1", scope(r), bits[i%8], t0)
		})
	})
	if won != 16 {
		w.Fatalf("%d of 16 marks and seals were stored", won)
	}
	if e := w.attempt("att_1").Evidence; e.Marks != replay.Effects || e.State != replay.StateSealed {
		w.Fatalf("evidence %+v", e)
	}

	// Of a takeover and a mark that race, the mark is either there or refused.
	next := r
	next.Generation++
	w.opened("att_2", r)
	errs := make(map[int]error)
	results := make(chan func(), 16)
	w.race(func(s session.Store, i int) error {
		err := s.Update(w.Context(), session.Soft, func(tx session.Tx) error {
			if i == 0 {
				if err := tx.PutRun(next, session.Running, r.Generation); err != nil {
					return err
				}
				return tx.SealOpen("run_1", t0)
			}
			return tx.MarkAttempt("att_2", scope(r), bits[i%7], t0)
		})
		results <- func() { errs[i] = err }
		return err
	}, session.ErrLost)
	var want replay.Reasons
	for range 16 {
		(<-results)()
	}
	for i, err := range errs {
		if i != 0 && err == nil {
			want |= bits[i%7]
		} else if i != 0 && !errors.Is(err, session.ErrLost) {
			w.Fatal(err)
		}
	}
	w.ok(errs[0])
	if got := w.attempt("att_2").Evidence; got.Marks != want || got.State != replay.StateSealed {
		w.Fatalf("marks %v, want %v; state %v", got.Marks, want, got.State)
	}
}
