package gateway_test

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/internal/accounts"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/sqlite"
)

// A call that goes on is listed among those that have ended, although nothing was written of it.
func TestGoingOn(t *testing.T) {
	kept(t, session.ClientTerms{}, func(w *world, b *books) {
		list := func(q session.GatewayQuery) (ids []string) {
			t.Helper()
			calls, err := b.Calls(w.t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range calls {
				ids = append(ids, string(c.Outcome))
			}
			return ids
		}
		b.ask(w, "chat", "ok-fast", true)
		<-time.After(time.Second)
		var done sync.WaitGroup
		done.Go(func() { b.ask(w, "chat", "drip", true) })
		<-time.After(3 * time.Second)
		b.ask(w, "chat", "ok-fast", true)
		if got := list(session.GatewayQuery{}); !slices.Equal(got, []string{"whole", "open", "whole"}) {
			t.Errorf("%q", got)
		}
		for _, c := range []struct {
			q    session.GatewayQuery
			want int
		}{{session.GatewayQuery{Outcome: session.GatewayOpen}, 1}, {session.GatewayQuery{Key: b.id, Limit: 2}, 2}, {session.GatewayQuery{Client: "other"}, 0}} {
			if got := list(c.q); len(got) != c.want {
				t.Errorf("%+v: %q", c.q, got)
			}
		}
		open, err := b.Calls(w.t.Context(), session.GatewayQuery{Outcome: session.GatewayOpen})
		if err != nil || len(open) != 1 {
			t.Fatalf("%v %+v", err, open)
		}
		if got := list(session.GatewayQuery{Before: open[0].ID}); !slices.Equal(got, []string{"whole"}) {
			t.Errorf("before it: %q", got)
		}
		if _, err := b.Calls(w.t.Context(), session.GatewayQuery{Before: "gw_none"}); !errors.Is(err, session.ErrNotFound) {
			t.Error(err)
		}
		c, err := b.Call(w.t.Context(), open[0].ID)
		if err != nil || len(c.Attempts) != 1 || c.Attempts[0].EndedAt != 0 || c.Answered == nil || c.Answered.Model != "drip" || c.Requests != 1 || c.Reserved != 0 {
			t.Errorf("%v %+v", err, c)
		}
		if err := b.store.View(w.t.Context(), func(tx session.ReadTx) error {
			_, err := tx.GatewayCall(c.ID)
			return err
		}); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("it was written: %v", err)
		}
		done.Wait()
		if got := list(session.GatewayQuery{}); !slices.Equal(got, []string{"whole", "whole", "whole"}) {
			t.Errorf("%q", got)
		}
	})
}

// A setting that was changed counts for the calls that come.
func TestLivePolicy(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(filepath.Join(dir, "db"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := accounts.Open(t.Context(), accounts.Options{Store: store, Live: func(set map[string]string) session.Live {
			return session.Live{Policy: recovery.Policy{MaxRequests: len(set)}}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if n := a.Policy().MaxRequests; n != 0 {
			t.Error(n)
		}
		if err := store.Update(t.Context(), session.Soft, func(tx session.Tx) error { return tx.PutMeta("settings", `{"a":"1","b":"2"}`) }); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		if n := a.Policy().MaxRequests; n != 2 {
			t.Error(n)
		}
		if err := errors.Join(a.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
}
