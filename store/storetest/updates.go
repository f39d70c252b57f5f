package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/reprise-run/reprise/session"
)

func put(key, value string) func(tx session.Tx) error {
	return func(tx session.Tx) error { return tx.PutMeta(key, value) }
}

// value reads a value of the store; "" where there is none.
func value(t testing.TB, s session.Store, key string) (v string) {
	t.Helper()
	err := s.View(t.Context(), func(tx session.ReadTx) (err error) {
		v, err = tx.Meta(key)
		return err
	})
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		t.Fatal(err)
	}
	return v
}

func rollback(w *world) {
	mine := errors.New("mine")
	err := w.update(func(tx session.Tx) error {
		w.ok(tx.PutMeta("a", "1"))
		if v, err := tx.Meta("a"); v != "1" || err != nil {
			w.Fatalf("its own write reads as %q, %v", v, err)
		}
		return mine
	})
	if err != mine {
		w.Fatalf("error %v, want the function's own", err)
	}
	if v := value(w, w.s, "a"); v != "" {
		w.Fatalf("a failed update left %q", v)
	}
	if err := w.s.Update(w.Context(), session.Full+1, put("a", "1")); err == nil {
		w.Fatal("an unknown durability was accepted")
	}
	if err := w.s.View(w.Context(), func(session.ReadTx) error { return mine }); err != mine {
		w.Fatalf("error %v, want the function's own", err)
	}
}

func reopen(w *world) {
	w.conversation()
	r := w.running("run_1", "ses_1")
	w.opened("att_1", r)
	for _, d := range []session.Durability{session.Soft, session.Full} {
		w.ok(w.s.Update(w.Context(), d, put(fmt.Sprint(d), "kept")))
	}
	everything := func() []any {
		return []any{w.readSession("ses_1"), w.messages("ses_1", true), w.run("run_1"), w.attempt("att_1"),
			value(w, w.s, "0"), value(w, w.s, "1")}
	}
	before := everything()
	for range 2 {
		w.ok(w.s.Close())
		w.s = w.another()
		w.same("after a restart", everything(), before)
	}
}

func snapshot(w *world) {
	w.do(put("a", "1"))
	w.do(put("b", "1"))
	w.ok(w.s.View(w.Context(), func(tx session.ReadTx) error {
		if v, err := tx.Meta("a"); v != "1" || err != nil {
			return fmt.Errorf("a is %q, %v", v, err)
		}
		w.do(func(tx session.Tx) error {
			w.ok(tx.PutMeta("a", "2"))
			return tx.PutMeta("b", "2")
		})
		for _, key := range []string{"a", "b"} {
			if v, err := tx.Meta(key); v != "1" || err != nil {
				return fmt.Errorf("%s is %q, %v within the view", key, v, err)
			}
		}
		return nil
	}))
	if v := value(w, w.s, "b"); v != "2" {
		w.Fatalf("b is %q after the update", v)
	}
}

func overTransaction(w *world) {
	var kept session.Tx
	w.do(func(tx session.Tx) error { kept = tx; return nil })
	if err := kept.PutMeta("a", "1"); err == nil {
		w.Fatal("a transaction was used after its end")
	}
	var view session.ReadTx
	w.ok(w.s.View(w.Context(), func(tx session.ReadTx) error { view = tx; return nil }))
	if _, err := view.Meta("a"); err == nil || errors.Is(err, session.ErrNotFound) {
		w.Fatalf("a view was used after its end: %v", err)
	}
}

// panics: a function's panic is its caller's, and changes nothing.
func panics(w *world) {
	for range 20 { // more than there are connections
		func() {
			defer func() {
				if recover() != "mine" {
					w.Fatal("the panic did not arrive")
				}
			}()
			w.update(func(tx session.Tx) error {
				w.ok(tx.PutMeta("a", "1"))
				panic("mine")
			})
		}()
		func() {
			defer func() { recover() }()
			w.s.View(w.Context(), func(session.ReadTx) error { panic("mine") })
		}()
	}
	w.do(put("b", "1"))
	if a, b := value(w, w.s, "a"), value(w, w.s, "b"); a != "" || b != "1" {
		w.Fatalf("a is %q, b is %q", a, b)
	}
}

// contexts: one that has ended stops views at once and updates before they run. It is tried
// often: a choice between two ways that are open is not good enough.
func contexts(w *world) {
	for range 20 {
		ctx, cancel := context.WithCancel(w.Context())
		w.is(w.s.View(ctx, func(tx session.ReadTx) error {
			if _, err := tx.Sessions(false, 0, 0); err != nil {
				w.Error(err)
			}
			cancel()
			_, err := tx.Sessions(false, 0, 0)
			return err
		}), context.Canceled)
		w.is(w.s.View(ctx, func(session.ReadTx) error { return nil }), context.Canceled)
		w.is(w.s.Update(ctx, session.Soft, put("a", "1")), context.Canceled)
	}
	if v := value(w, w.s, "a"); v != "" {
		w.Fatal("an update was run after its context had ended")
	}
	w.do(put("a", "1"))
}

func closing(w *world) {
	running, finish := make(chan bool), make(chan bool)
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := w.s.View(w.Context(), func(tx session.ReadTx) error {
			running <- true
			<-finish
			_, err := tx.Sessions(false, 0, 0)
			return err
		}); err != nil {
			w.Errorf("a view that ran at the close: %v", err)
		}
	})
	wait.Go(func() {
		if err := w.update(func(tx session.Tx) error {
			running <- true
			<-finish
			return tx.PutMeta("running", "1")
		}); err != nil {
			w.Errorf("an update that ran at the close: %v", err)
		}
	})
	<-running
	<-running
	var closed sync.WaitGroup
	for range 2 {
		closed.Go(func() {
			if err := w.s.Close(); err != nil {
				w.Errorf("close: %v", err)
			}
		})
	}
	close(finish)
	wait.Wait()
	closed.Wait()
	w.ok(w.s.Close())
	w.is(w.update(put("a", "1")), session.ErrClosed)
	w.is(w.s.View(w.Context(), func(session.ReadTx) error { return nil }), session.ErrClosed)
	w.s = w.another()
	if value(w, w.s, "running") != "1" {
		w.Fatal("an update that ran at the close is gone")
	}
}

// openTogether: several processes start on an empty database at once.
func openTogether(w *world) {
	w.ok(w.s.Close())
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			s, err := w.open()
			if err != nil {
				w.Errorf("open: %v", err)
				return
			}
			defer s.Close()
			if err := s.Update(w.Context(), session.Soft, put(fmt.Sprint(i), "here")); err != nil {
				w.Errorf("update: %v", err)
			}
		})
	}
	wait.Wait()
	w.s = w.another()
	for i := range 6 {
		if value(w, w.s, fmt.Sprint(i)) != "here" {
			w.Errorf("the update of process %d is gone", i)
		}
	}
}

// grouped holds the writer in a first update until every one of the given functions waits in
// a goroutine of its own, then lets them run and waits for them: they share a commit.
func grouped(t *testing.T, create Create, f func(t *testing.T, s session.Store, hold func(waiting ...func()))) {
	open := create(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f(t, s, func(waiting ...func()) {
			release := make(chan bool)
			var wait sync.WaitGroup
			wait.Go(func() {
				if err := s.Update(t.Context(), session.Soft, func(session.Tx) error { <-release; return nil }); err != nil {
					t.Errorf("first: %v", err)
				}
			})
			synctest.Wait()
			for _, w := range waiting {
				wait.Go(w)
				synctest.Wait() // in this order
			}
			close(release)
			wait.Wait()
		})
	})
}

func groupIndependence(t *testing.T, create Create) {
	grouped(t, create, func(t *testing.T, s session.Store, hold func(...func())) {
		mine := errors.New("mine")
		var waiting []func()
		for i := range 40 {
			waiting = append(waiting, func() {
				d := session.Durability(i % 2)
				err := s.Update(t.Context(), d, func(tx session.Tx) error {
					if err := tx.PutMeta(fmt.Sprint(i), "here"); err != nil {
						return err
					}
					switch i % 4 {
					case 1:
						return mine
					case 2: // an error of the database
						return tx.InsertRun(newRun(session.RunID(fmt.Sprint("run_", i)), "ses_none"))
					}
					return nil
				})
				if ok := err == nil; ok != (i%4 == 0 || i%4 == 3) {
					t.Errorf("update %d: %v", i, err)
				}
				if i%4 == 1 && err != mine {
					t.Errorf("update %d: %v, want its own error", i, err)
				}
			})
		}
		hold(waiting...)
		for i := range 40 {
			if kept := value(t, s, fmt.Sprint(i)) == "here"; kept != (i%4 == 0 || i%4 == 3) {
				t.Errorf("update %d: kept %v", i, kept)
			}
		}
	})
}

func groupContext(t *testing.T, create Create) {
	grouped(t, create, func(t *testing.T, s session.Store, hold func(...func())) {
		ctx, cancel := context.WithCancel(t.Context())
		waiting := []func(){
			func() { // its context ends as it runs: it gets its true outcome
				if err := s.Update(ctx, session.Soft, func(tx session.Tx) error {
					cancel()
					return tx.PutMeta("ran", "1")
				}); err != nil {
					t.Errorf("the one that ran: %v", err)
				}
			},
		}
		for range 20 {
			waiting = append(waiting, func() { // these wait and are not run
				if err := s.Update(ctx, session.Soft, put("waited", "1")); !errors.Is(err, context.Canceled) {
					t.Errorf("one that waited: %v", err)
				}
			})
		}
		hold(append(waiting, func() {
			if err := s.Update(t.Context(), session.Soft, put("other", "1")); err != nil {
				t.Errorf("another: %v", err)
			}
		})...)
		if a, b, c := value(t, s, "ran"), value(t, s, "waited"), value(t, s, "other"); a != "1" || b != "" || c != "1" {
			t.Errorf("ran %q, waited %q, other %q", a, b, c)
		}
	})
}

func groupPanic(t *testing.T, create Create) {
	grouped(t, create, func(t *testing.T, s session.Store, hold func(...func())) {
		hold(
			func() {
				defer func() {
					if recover() != "mine" {
						t.Error("the panic did not arrive")
					}
				}()
				s.Update(t.Context(), session.Soft, func(tx session.Tx) error {
					if err := tx.PutMeta("panic", "1"); err != nil {
						t.Error(err)
					}
					panic("mine")
				})
			},
			func() {
				s.Update(t.Context(), session.Soft, func(tx session.Tx) error {
					if err := tx.PutMeta("exit", "1"); err != nil {
						t.Error(err)
					}
					runtime.Goexit()
					return nil
				})
			},
			func() {
				if err := s.Update(t.Context(), session.Full, put("other", "1")); err != nil {
					t.Error(err)
				}
			},
		)
		if a, b, c := value(t, s, "panic"), value(t, s, "exit"), value(t, s, "other"); a+b != "" || c != "1" {
			t.Errorf("panic %q, exit %q, other %q", a, b, c)
		}
	})
}
