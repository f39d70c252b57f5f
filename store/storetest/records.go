package storetest

import (
	"fmt"

	"github.com/reprise-run/reprise/session"
)

func outbox(w *world) {
	w.session("ses_1")
	all := func(limit int) []session.Outboxed {
		return read(w, func(tx session.ReadTx) ([]session.Outboxed, error) { return tx.Outbox(0, limit) })
	}
	add := func(data ...string) {
		var rows [][]byte
		for _, d := range data {
			rows = append(rows, []byte(d))
		}
		w.do(func(tx session.Tx) error { return tx.AppendOutbox("ses_1", rows...) })
	}
	add("a", "\xff\x00 not UTF-8")
	add("c")
	rows := all(0)
	var data []string
	for i, r := range rows {
		if i > 0 && r.Seq <= rows[i-1].Seq || r.SessionID != "ses_1" {
			w.Fatalf("row %d: %+v", i, r)
		}
		data = append(data, string(r.Data))
	}
	if fmt.Sprintf("%q", data) != `["a" "\xff\x00 not UTF-8" "c"]` {
		w.Fatalf("outbox %q", data)
	}
	if got := all(2); len(got) != 2 || got[0].Seq != rows[0].Seq {
		w.Fatalf("the first two: %v", got)
	}
	if got := read(w, func(tx session.ReadTx) ([]session.Outboxed, error) { return tx.Outbox(rows[0].Seq, 1) }); len(got) != 1 || got[0].Seq != rows[1].Seq {
		w.Fatalf("the one after the first: %v", got)
	}
	w.do(func(tx session.Tx) error { return tx.DeleteOutbox(rows[1].Seq) })
	if got := all(0); len(got) != 1 || string(got[0].Data) != "c" {
		w.Fatalf("outbox %v", got)
	}
	// A number is never used again: it is part of what the log knows an event by.
	w.do(func(tx session.Tx) error { return tx.DeleteOutbox(rows[2].Seq) })
	w.ok(w.s.Close())
	w.s = w.another()
	add("d")
	if got := all(0); len(got) != 1 || got[0].Seq <= rows[2].Seq {
		w.Fatalf("after %d comes %v", rows[2].Seq, got)
	}
	many := make([]string, 50)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	before := len(all(0))
	add(many...)
	rows = all(0)[before:]
	if len(rows) != len(many) {
		w.Fatalf("%d rows of %d", len(rows), len(many))
	}
	for i, r := range rows {
		if r.Seq != rows[0].Seq+int64(i) || string(r.Data) != many[i] {
			w.Fatalf("row %d of many is %d, %q", i, r.Seq, r.Data)
		}
	}
}

func idempotency(w *world) {
	i := session.Idempotent{Scope: "ann POST /messages", Key: "k", Hash: "h", Status: 202, Answer: []byte("{\"a\":\xff}"), At: t0}
	put := func(i session.Idempotent) error {
		return w.update(func(tx session.Tx) error { return tx.PutIdempotent(i) })
	}
	get := func(scope, key string) (got session.Idempotent, err error) {
		err = w.s.View(w.Context(), func(tx session.ReadTx) (err error) {
			got, err = tx.Idempotent(scope, key)
			return err
		})
		return got, err
	}
	w.ok(put(i))
	got, err := get(i.Scope, i.Key)
	w.ok(err)
	if fmt.Sprint(got) != fmt.Sprint(i) {
		w.Fatalf("got %v, want %v", got, i)
	}
	other := i
	other.Scope = "bob POST /messages"
	w.ok(put(other))
	_, err = get(i.Scope, "none")
	w.is(err, session.ErrNotFound)

	const day = 24 * 60 * 60 * 1000
	later := i
	later.Hash = "h2"
	later.At = t0 + day - 1
	w.is(put(later), session.ErrLost)
	later.At = t0 + day
	w.ok(put(later))
	got, err = get(i.Scope, i.Key)
	w.ok(err)
	if fmt.Sprint(got) != fmt.Sprint(later) {
		w.Fatalf("got %v, want %v", got, later)
	}
	w.do(func(tx session.Tx) error { return tx.Prune(t0 + 1) })
	_, err = get(other.Scope, other.Key)
	w.is(err, session.ErrNotFound)
	_, err = get(i.Scope, i.Key)
	w.ok(err)

	won := w.race(func(s session.Store, n int) error {
		mine := i
		mine.Key = "race"
		mine.Hash = fmt.Sprint(n)
		return s.Update(w.Context(), session.Soft, func(tx session.Tx) error { return tx.PutIdempotent(mine) })
	}, session.ErrLost)
	if won != 1 {
		w.Fatalf("%d answers were stored for one key", won)
	}
}

func audit(w *world) {
	acts := []session.Audit{
		{At: t0 + 1, Actor: "ann", Act: "post", SessionID: "ses_1", RunID: "run_1", Detail: "words"},
		{At: t0 + 1, Actor: "bob", Act: "cancel", SessionID: "ses_1"},
		{At: t0, Actor: "ann", Act: "sign in"},
	}
	for _, a := range acts {
		w.do(func(tx session.Tx) error { return tx.InsertAudit(a) })
	}
	expect := func(id session.ID, limit int, want ...session.Audit) {
		w.Helper()
		w.same("audit", read(w, func(tx session.ReadTx) ([]session.Audit, error) { return tx.Audit(id, limit) }), want)
	}
	expect("ses_1", 0, acts[1], acts[0])
	expect("ses_1", 1, acts[1])
	expect("", 0, acts[2], acts[1], acts[0])
}

func meta(w *world) {
	get := func() (string, error) {
		var v string
		err := w.s.View(w.Context(), func(tx session.ReadTx) (err error) {
			v, err = tx.Meta("incarnation")
			return err
		})
		return v, err
	}
	_, err := get()
	w.is(err, session.ErrNotFound)
	for _, want := range []string{"a", "b", ""} {
		w.do(func(tx session.Tx) error { return tx.PutMeta("incarnation", want) })
		if got, err := get(); got != want || err != nil {
			w.Fatalf("meta %q, error %v; want %q", got, err, want)
		}
	}
}
