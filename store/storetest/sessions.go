package storetest

import (
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

func (w *world) readSession(id session.ID) session.Session {
	w.Helper()
	return read(w, func(tx session.ReadTx) (session.Session, error) { return tx.Session(id) })
}

func sessions(w *world) {
	want := session.Session{ID: "ses_1", Title: "Tëst\x01 <&>", Model: "openai/gpt", Actor: "ann",
		Settings: session.Settings{System: "Be brief.", MaxSteps: 3, MaxOutputTokens: 500, Tools: []string{"read_*", "clock"},
			Hold: replay.Hold{Mode: replay.HoldBytes, Bytes: 4096}},
		Archived: true, Paused: true, CreatedAt: t0, UpdatedAt: t0 + 5, Revision: 7, State: session.Idle}
	w.do(func(tx session.Tx) error { return tx.InsertSession(want) })
	w.same("session", w.readSession("ses_1"), want)
	w.same("settings", read(w, func(tx session.ReadTx) (session.Settings, error) {
		set, _, err := tx.Settings("ses_1")
		return set, err
	}), want.Settings)
	w.lost(func(tx session.Tx) error { return tx.InsertSession(want) })

	put := want
	put.Title, put.Model, put.Archived, put.Paused = "Other", "claude/opus", false, false
	put.Settings = session.Settings{}
	put.UpdatedAt = t0 + 6
	// These may not change.
	put.Revision, put.Actor, put.CreatedAt = 99, "eve", 1
	w.do(func(tx session.Tx) error { return tx.PutSession(put) })
	put.Revision, put.Actor, put.CreatedAt = want.Revision, want.Actor, want.CreatedAt
	w.same("session", w.readSession("ses_1"), put)

	for i, now := range []session.Time{t0 + 10, t0 + 3} { // the second clock is behind
		var revision int64
		w.do(func(tx session.Tx) (err error) {
			revision, err = tx.Touch("ses_1", i+1, now)
			return err
		})
		put.Revision, put.UpdatedAt = 8+2*int64(i), t0+10
		if revision != put.Revision {
			w.Fatalf("revision %d, want %d", revision, put.Revision)
		}
		w.same("session", w.readSession("ses_1"), put)
	}

	w.is(w.s.View(w.Context(), func(tx session.ReadTx) error {
		_, err := tx.Session("ses_none")
		return err
	}), session.ErrNotFound)
	w.is(w.s.View(w.Context(), func(tx session.ReadTx) error {
		_, _, err := tx.Settings("ses_none")
		return err
	}), session.ErrNotFound)
	w.lost(func(tx session.Tx) error { return tx.PutSession(session.Session{ID: "ses_none"}) })
	w.lost(func(tx session.Tx) error {
		_, err := tx.Touch("ses_none", 1, t0)
		return err
	})
}

func sessionDerived(w *world) {
	w.session("ses_1")
	expect := func(state session.State, last session.RunID) {
		w.Helper()
		got := w.readSession("ses_1")
		list := read(w, func(tx session.ReadTx) ([]session.Session, error) { return tx.Sessions(false, 0, 0) })
		w.same("session in the list", list[0], got)
		if got.State != state {
			w.Fatalf("state %s, want %s", got.State, state)
		}
		if last == "" {
			if got.LastRun != nil {
				w.Fatalf("last run %s, want none", got.LastRun.ID)
			}
			w.is(w.s.View(w.Context(), func(tx session.ReadTx) error {
				_, err := tx.LastRun("ses_1")
				return err
			}), session.ErrNotFound)
			return
		}
		w.same("last run", got.LastRun, w.run(last))
		w.same("last run", read(w, func(tx session.ReadTx) (session.Run, error) {
			return tx.LastRun("ses_1")
		}), w.run(last))
	}
	expect(session.Idle, "")
	// The ids fall and the times are equal: neither says which run is newer.
	r := w.queued("run_9", "ses_1")
	expect(session.StateQueued, "run_9")
	r = w.move(r, session.Running)
	expect(session.StateRunning, "run_9")
	w.move(r, session.Failed)
	expect(session.Idle, "run_9")
	r = w.queued("run_5", "ses_1")
	expect(session.StateQueued, "run_5")
	w.move(r, session.Cancelled)
	expect(session.Idle, "run_5")
	w.queued("run_1", "ses_1")
	expect(session.StateQueued, "run_1")
	w.session("ses_2")
	w.queued("run_6", "ses_2")
	w.same("runs", read(w, func(tx session.ReadTx) ([]session.Run, error) { return tx.Runs("ses_1") }),
		[]session.Run{w.run("run_9"), w.run("run_5"), w.run("run_1")})
}

func sessionList(w *world) {
	w.session("ses_1")
	w.session("ses_2")
	w.session("ses_3")
	w.do(func(tx session.Tx) error {
		s, err := tx.Session("ses_2")
		s.Archived = true
		if err == nil {
			err = tx.PutSession(s)
		}
		return err
	})
	list := func(archived bool, after session.Time, limit int, want ...session.ID) {
		w.Helper()
		var got []session.ID
		for _, s := range read(w, func(tx session.ReadTx) ([]session.Session, error) {
			return tx.Sessions(archived, after, limit)
		}) {
			got = append(got, s.ID)
		}
		w.same("sessions", got, want)
	}
	list(false, 0, 10, "ses_3", "ses_1")
	list(true, 0, 10, "ses_2")
	w.queued("run_1", "ses_1")
	w.do(func(tx session.Tx) error {
		_, err := tx.Touch("ses_1", 1, t0+1)
		return err
	})
	list(false, 0, 10, "ses_1", "ses_3")
	list(false, 0, 1, "ses_1")
	list(false, 0, 0, "ses_1", "ses_3")
	list(false, t0, 0, "ses_1")
	list(false, t0+1, 0)
	list(true, t0-1, 0, "ses_2")
}
