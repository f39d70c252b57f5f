package sqlite

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"modernc.org/sqlite"

	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store"
)

// impatient opens a store that does not wait for other processes, in a dialect of its own,
// and returns a second way into its file.
func impatient(t *testing.T, d store.Dialect) (session.Store, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reprise.db")
	dbs := make([]*sql.DB, 3)
	for i := range dbs {
		u := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)"}
		var err error
		if dbs[i], err = sql.Open("sqlite", u.String()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(t.Context(), dbs[0], dbs[1], d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), dbs[2].Close()); err != nil {
			t.Error(err)
		}
	})
	return s, dbs[2]
}

// Another process that writes costs an error at most; when it is gone the store goes on.
func TestBusy(t *testing.T) {
	s, raw := impatient(t, dialect)
	put := func(tx session.Tx) error { return tx.PutMeta("a", "1") }
	c, err := raw.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if _, err := c.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), session.Full, put); !dialect.Conflict(err) {
			t.Fatalf("error %v, want busy", err)
		}
		if err := s.View(t.Context(), func(tx session.ReadTx) error { _, err := tx.Sessions(false, 0, 0); return err }); err != nil {
			t.Fatalf("a reader waits for a writer: %v", err)
		}
		if _, err := c.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), session.Full, put); err != nil {
			t.Fatal(err)
		}
	}
}

// A transaction that lost to another one is run again as a whole, whatever its function made
// of the error, and nothing of the lost one stays.
func TestConflictRunsAgain(t *testing.T) {
	var conflicts, runs atomic.Int64
	d := dialect
	d.Conflict = func(err error) bool {
		var e *sqlite.Error
		return errors.As(err, &e) && conflicts.Add(-1) >= 0
	}
	s, _ := impatient(t, d)
	for _, swallow := range []bool{true, false} {
		conflicts.Store(4) // each is asked about where it appears, and at the end of the group
		runs.Store(0)
		err := s.Update(t.Context(), session.Soft, func(tx session.Tx) error {
			n := runs.Add(1)
			if err := tx.AppendOutbox("ses_1", []byte{byte(n)}); err != nil {
				return err
			}
			if n > 2 {
				return nil
			}
			// No session has this id: the database refuses.
			_, err := tx.InsertMessage(session.Message{ID: "msg_1", SessionID: "ses_1", Role: session.RoleReply})
			if err == nil {
				t.Error("a message of no session was stored")
			}
			if swallow {
				return nil
			}
			return err
		})
		if err != nil || runs.Load() != 3 {
			t.Fatalf("error %v after %d runs, want none after 3", err, runs.Load())
		}
		err = s.Update(t.Context(), session.Soft, func(tx session.Tx) error {
			rows, err := tx.Outbox(0, 0)
			if err != nil {
				return err
			}
			if len(rows) != 1 || rows[0].Data[0] != 3 {
				t.Errorf("outbox %v, want the third run's row", rows)
			}
			return tx.DeleteOutbox(rows[0].Seq)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// One that always loses is an error in the end.
	conflicts.Store(1000)
	runs.Store(0)
	err := s.Update(t.Context(), session.Soft, func(tx session.Tx) error {
		runs.Add(1)
		_, err := tx.InsertMessage(session.Message{ID: "msg_1", SessionID: "ses_1", Role: session.RoleReply})
		return err
	})
	if err == nil || runs.Load() != 5 {
		t.Fatalf("error %v after %d runs, want one after 5", err, runs.Load())
	}
}

// One update that must survive a power loss makes its whole group do so, wherever it waits.
func TestGroupDurability(t *testing.T) {
	for _, c := range []struct {
		group []session.Durability
		want  string
	}{
		{[]session.Durability{session.Soft, session.Soft}, ""},
		{[]session.Durability{session.Full, session.Soft}, "f"},
		{[]session.Durability{session.Soft, session.Full, session.Soft}, "f"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := dialect
			d.Durable[session.Full] += `; INSERT INTO meta (key, value)
VALUES ('full', 'f') ON CONFLICT (key) DO UPDATE SET value = meta.value || 'f'`
			s, _ := impatient(t, d)
			update := func(d session.Durability, f func(tx session.Tx) error) func() {
				return func() {
					if err := s.Update(t.Context(), d, f); err != nil {
						t.Error(err)
					}
				}
			}
			release := make(chan bool)
			var wait sync.WaitGroup
			wait.Go(update(session.Soft, func(session.Tx) error { <-release; return nil }))
			synctest.Wait()
			for _, d := range c.group {
				wait.Go(update(d, func(session.Tx) error { return nil }))
				synctest.Wait()
			}
			close(release)
			wait.Wait()
			var got string
			update(session.Soft, func(tx session.Tx) (err error) {
				if got, err = tx.Meta("full"); errors.Is(err, session.ErrNotFound) {
					err = nil
				}
				return err
			})()
			if got != c.want {
				t.Errorf("full commits of %v: %q, want %q", c.group, got, c.want)
			}
		})
	}
}

// A group that is run again passes over a member whose caller has left in a panic.
func TestConflictAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conflicts, runs atomic.Int64
		d := dialect
		d.Conflict = func(err error) bool { return err != nil && conflicts.Add(-1) >= 0 }
		s, _ := impatient(t, d)
		conflicts.Store(2)
		release := make(chan bool)
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := s.Update(t.Context(), session.Soft, func(session.Tx) error { <-release; return nil }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		wait.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not arrive")
				}
			}()
			s.Update(t.Context(), session.Soft, func(session.Tx) error { panic("mine") })
		})
		synctest.Wait()
		wait.Go(func() {
			if err := s.Update(t.Context(), session.Soft, func(tx session.Tx) error {
				if runs.Add(1) > 1 {
					return tx.PutMeta("a", "1")
				}
				_, err := tx.InsertMessage(session.Message{ID: "msg_1", SessionID: "ses_1", Role: session.RoleReply})
				return err
			}); err != nil || runs.Load() != 2 {
				t.Errorf("error %v after %d runs", err, runs.Load())
			}
		})
		synctest.Wait()
		close(release)
		wait.Wait()
	})
}
