package storetest

import (
	"fmt"

	"github.com/reprise-run/reprise/session"
)

func (w *world) fences(now session.Time) []session.Fence {
	w.Helper()
	return read(w, func(tx session.ReadTx) ([]session.Fence, error) { return tx.Fences(now) })
}

// fence is one of a client, that begins so many milliseconds after the beginning and stands for a
// second.
func fence(id session.FenceID, client, hash string, at session.Time) session.Fence {
	return session.Fence{ID: id, Client: client, Session: "one", Dialect: "chat", Model: "gpt", CallID: "gw_" + string(id),
		Reason: "stream_interrupted", CreatedAt: t0 + at, ExpiresAt: t0 + at + 1000, Hash: hash}
}

// fences: one stands for a client's request, in its conversation and dialect, until it ends or is
// taken down.
func fences(w *world) {
	put := func(f session.Fence) {
		w.Helper()
		w.do(func(tx session.Tx) error { return tx.PutFence(f, 9) })
	}
	of := func(f session.Fence, now session.Time) (found session.Fence, err error) {
		err = w.s.View(w.Context(), func(tx session.ReadTx) error {
			found, err = tx.FenceOf(f, t0+now)
			return err
		})
		return found, err
	}
	first := fence("1", "laptop", "a", 0)
	put(first)
	put(fence("2", "laptop", "b", 10))
	put(fence("3", "server", "a", 20))
	found, err := of(session.Fence{Client: "laptop", Session: "one", Dialect: "chat", Hash: "a"}, 999)
	w.ok(err)
	w.same("the fence", found, first)
	for _, other := range []func(f *session.Fence){
		func(f *session.Fence) { f.Client = "other" }, func(f *session.Fence) { f.Session = "" },
		func(f *session.Fence) { f.Dialect = "messages" }, func(f *session.Fence) { f.Hash = "c" },
	} {
		f := first
		other(&f)
		_, err := of(f, 0)
		w.is(err, session.ErrNotFound)
	}
	_, err = of(first, 1000)
	w.is(err, session.ErrNotFound)

	// The same request breaks again: it is one fence, the newer one, and nothing has come against it.
	w.do(func(tx session.Tx) error { return tx.HitFence("1") })
	w.do(func(tx session.Tx) error { return tx.HitFence("1") })
	if list := w.fences(t0); len(list) != 3 || list[0].ID != "3" || list[2].Hits != 2 {
		w.Fatalf("fences %+v", list)
	}
	again := fence("4", "laptop", "a", 30)
	put(again)
	list := w.fences(t0)
	if len(list) != 3 {
		w.Fatalf("fences %+v", list)
	}
	w.same("the newer one", list[0], again)
	w.lost(func(tx session.Tx) error { return tx.HitFence("1") })

	until := func(client string) session.Time {
		w.Helper()
		return read(w, func(tx session.ReadTx) (session.Time, error) { return tx.FencedUntil(client) })
	}
	if until("laptop") != t0+1030 || until("server") != t0+1020 || until("nobody") != 0 {
		w.Fatalf("fenced until %d, %d, %d", until("laptop"), until("server"), until("nobody"))
	}
	w.do(func(tx session.Tx) error { return tx.DeleteFence("4") })
	w.lost(func(tx session.Tx) error { return tx.DeleteFence("4") })
	if until("laptop") != t0+1010 {
		w.Fatalf("fenced until %d", until("laptop"))
	}
	w.ok(w.s.Close())
	w.s = w.another()
	if list := w.fences(t0); len(list) != 2 {
		w.Fatalf("after a restart: %+v", list)
	}
	w.do(func(tx session.Tx) error { return tx.Prune(t0 + 1015) })
	if list := w.fences(t0); len(list) != 1 || list[0].ID != "3" {
		w.Fatalf("after a prune: %+v", list)
	}
}

// fencesBounded: a client has so many, the newest, whoever else has some; those that have ended go
// when the next one comes.
func fencesBounded(w *world) {
	w.do(func(tx session.Tx) error { return tx.PutFence(fence("other", "server", "a", 0), 3) })
	for i := range session.Time(5) {
		w.do(func(tx session.Tx) error {
			return tx.PutFence(fence(session.FenceID(fmt.Sprint(i)), "laptop", fmt.Sprint(i), i), 3)
		})
	}
	if list := w.fences(t0); len(list) != 4 || list[0].ID != "4" || list[2].ID != "2" || list[3].ID != "other" {
		w.Fatalf("fences %+v", list)
	}
	w.do(func(tx session.Tx) error { return tx.PutFence(fence("late", "laptop", "z", 1003), 3) })
	if list := w.fences(t0); len(list) != 2 || list[0].ID != "late" || list[1].ID != "4" {
		w.Fatalf("those that ended are there: %+v", list)
	}
}
