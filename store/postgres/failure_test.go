package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-run/reprise/internal/pgtest"
	"github.com/reprise-run/reprise/session"
)

func opened(t *testing.T, url string) session.Store {
	t.Helper()
	s, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// load is updates that each leave one row of the outbox.
type load struct {
	mu   sync.Mutex
	errs map[string]error // by what the row holds
	runs atomic.Int64
}

// run updates from several goroutines at once until stop is closed.
func (l *load) run(ctx context.Context, stores []session.Store, stop chan struct{}, wait *sync.WaitGroup) {
	l.errs = map[string]error{}
	for g := range 8 {
		wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d.%d", g, i)
				err := stores[g%len(stores)].Update(ctx, session.Durability(i%2), func(tx session.Tx) error {
					l.runs.Add(1)
					return tx.AppendOutbox("ses_1", []byte(id))
				})
				l.mu.Lock()
				l.errs[id] = err
				l.mu.Unlock()
			}
		})
	}
}

// check compares what the updates were told with what is stored.
func (l *load) check(t *testing.T, s session.Store) {
	t.Helper()
	stored := map[string]int{}
	err := s.View(t.Context(), func(tx session.ReadTx) error {
		clear(stored)
		rows, err := tx.Outbox(0, 0)
		for i, r := range rows {
			stored[string(r.Data)]++
			if int64(i+1) != r.Seq {
				t.Errorf("row %d has number %d", i+1, r.Seq)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for id, err := range l.errs {
		switch n := stored[id]; {
		case err == nil && n != 1:
			t.Errorf("update %s was told that it is stored, and is so %d times", id, n)
		case err != nil && errors.Is(err, session.ErrUncertain):
			t.Errorf("update %s: %v", id, err)
		case err != nil && n != 0:
			t.Errorf("update %s was told %v, and is stored %d times", id, err, n)
		}
		if err != nil {
			failed++
		}
	}
	t.Logf("%d updates, %d of them failed, %d runs", len(l.errs), failed, l.runs.Load())
	if len(stored) == 0 {
		t.Error("nothing was stored")
	}
}

// Whoever's connections the server ends at any moment, each update is stored once, or not at all and
// its caller knows.
func TestBackendsTerminated(t *testing.T) {
	db := pgtest.Start(t)
	url := db.NewDatabase(t)
	stores := []session.Store{opened(t, url), opened(t, url)}
	var l load
	var wait sync.WaitGroup
	stop := make(chan struct{})
	l.run(t.Context(), stores, stop, &wait)
	for range 30 {
		db.Exec(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'reprise'`)
	}
	close(stop)
	wait.Wait()
	l.check(t, stores[0])
}

// The same for a server that is stopped, or crashes, and is started again.
func TestServerRestarts(t *testing.T) {
	db := pgtest.Start(t)
	url := db.NewDatabase(t)
	stores := []session.Store{opened(t, url), opened(t, url)}
	var l load
	var wait sync.WaitGroup
	stop := make(chan struct{})
	l.run(t.Context(), stores, stop, &wait)
	for i := range 4 {
		before := l.runs.Load()
		if i%2 == 0 {
			db.Stop(t)
		} else {
			db.Kill(t)
		}
		db.Restart(t)
		for l.runs.Load() < before+100 { // they are at work again
			db.Exec(t, url, "SELECT 1")
		}
	}
	close(stop)
	wait.Wait()
	l.check(t, stores[1])
}

// cut is when a connection breaks.
type cut int32

const (
	never     cut = iota
	unsent        // in place of the next message to the server
	unheard       // in place of the next answer, which has come
	unheardOf     // at the next message, right after it
)

// breaking connects to the server so that the next message of a test's choice breaks the connection.
func breaking(t *testing.T, url string) (session.Store, *atomic.Int32) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	next := new(atomic.Int32)
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return &fragile{Conn: c, next: next}, err
	}
	s, err := open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, next
}

type fragile struct {
	net.Conn
	next *atomic.Int32
}

func (f *fragile) Write(b []byte) (int, error) {
	if f.next.CompareAndSwap(int32(unsent), int32(never)) {
		return 0, errors.Join(io.ErrClosedPipe, f.Close())
	}
	n, err := f.Conn.Write(b)
	if f.next.CompareAndSwap(int32(unheardOf), int32(never)) {
		err = errors.Join(err, f.Close())
	}
	return n, err
}

func (f *fragile) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.next.CompareAndSwap(int32(unheard), int32(never)) {
		return 0, errors.Join(io.ErrUnexpectedEOF, err, f.Close())
	}
	return n, err
}

// A commit that was cut off is looked up, and run again only where it has not happened.
func TestCommitCutOff(t *testing.T) {
	s, next := breaking(t, pgtest.NewDatabase(t))
	for _, c := range []struct {
		at   cut
		runs []int
	}{{unsent, []int{2}}, {unheard, []int{1}}, {unheardOf, []int{1, 2}}} {
		for i := range 20 {
			id, runs := fmt.Sprint(c.at, ".", i), 0
			err := s.Update(t.Context(), session.Full, func(tx session.Tx) error {
				if err := tx.AppendOutbox("ses_1", []byte(id)); err != nil {
					return err
				}
				if runs++; runs == 1 {
					next.Store(int32(c.at)) // what follows is the COMMIT
				}
				return nil
			})
			if err != nil || runs < c.runs[0] || runs > c.runs[len(c.runs)-1] {
				t.Errorf("cut %d: %v after %d runs, want %v", c.at, err, runs, c.runs)
			}
			err = s.Update(t.Context(), session.Full, func(tx session.Tx) error {
				rows, err := tx.Outbox(0, 0)
				if err == nil && (len(rows) != 1 || string(rows[0].Data) != id) {
					err = fmt.Errorf("it is stored %d times", len(rows))
				}
				return errors.Join(err, tx.DeleteOutbox(1<<60))
			})
			if err != nil {
				t.Errorf("cut %d: %v", c.at, err)
			}
		}
	}
}

// A view whose connection breaks is run again, and one that has failed by itself is not.
func TestViewCutOff(t *testing.T) {
	s, next := breaking(t, pgtest.NewDatabase(t))
	for _, at := range []cut{unsent, unheard, unheardOf} {
		runs := 0
		if err := s.View(t.Context(), func(tx session.ReadTx) error {
			if runs++; runs == 1 {
				next.Store(int32(at))
			}
			_, err := tx.Sessions(false, 0, 0)
			return err
		}); err != nil || runs != 2 {
			t.Errorf("cut %d: %v after %d runs", at, err, runs)
		}
		mine, runs := errors.New("mine"), 0
		if err := s.View(t.Context(), func(tx session.ReadTx) error {
			runs++
			next.Store(int32(at)) // the ROLLBACK
			return mine
		}); err != mine || runs != 1 {
			t.Errorf("cut %d after its end: %v after %d runs", at, err, runs)
		}
	}
}

// A process that is stopped in an update keeps nobody else waiting, and nothing of that update stays
// before it is run again.
func TestStoppedWriter(t *testing.T) {
	url := pgtest.NewDatabase(t)
	s, other := opened(t, url), opened(t, url)
	runs := 0
	err := s.Update(t.Context(), session.Full, func(tx session.Tx) error {
		if err := tx.AppendOutbox("ses_1", []byte("late")); err != nil {
			return err
		}
		if runs++; runs > 1 {
			return nil
		}
		// It stands still until another has written.
		return other.Update(t.Context(), session.Full, func(tx session.Tx) error {
			if rows, err := tx.Outbox(0, 0); err != nil || len(rows) != 0 {
				return fmt.Errorf("rows %v, %w", rows, err)
			}
			return tx.AppendOutbox("ses_1", []byte("first"))
		})
	})
	if err != nil || runs != 2 {
		t.Fatalf("%v after %d runs", err, runs)
	}
	if err := s.View(t.Context(), func(tx session.ReadTx) error {
		rows, err := tx.Outbox(0, 0)
		if err == nil && (len(rows) != 2 || string(rows[0].Data) != "first" || string(rows[1].Data) != "late") {
			err = fmt.Errorf("rows %v", rows)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// The server takes the settings by which it frees the lock, and those that make a commit safe.
func TestSettings(t *testing.T) {
	cfg, err := pgx.ParseConfig(pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, settings := range []map[string]string{writing, reading, migrating} {
		db := connections(cfg, silence, settings)
		defer db.Close()
		for name, want := range settings {
			var got string
			if err := db.QueryRowContext(t.Context(), `SELECT setting FROM pg_settings WHERE name = $1`, name).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q, %v; want %q", name, got, err, want)
			}
		}
		var commit string
		if err := db.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&commit); err != nil || commit != "on" {
			t.Errorf("synchronous_commit is %q, %v", commit, err)
		}
	}
}

// An error of a statement ends the transaction at the server, so the update fails also where its function
// goes on.
func TestSwallowedError(t *testing.T) {
	s := opened(t, pgtest.NewDatabase(t))
	err := s.Update(t.Context(), session.Full, func(tx session.Tx) error {
		if err := tx.PutMeta("a", "1"); err != nil {
			return err
		}
		if _, err := tx.InsertMessage(session.Message{ID: "msg_1", SessionID: "ses_none", Role: session.RoleReply}); err == nil {
			t.Error("a message of no session was stored")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "23503") {
		t.Fatalf("error %v, want that of the statement", err)
	}
}

// What is no text to the server is stored all the same, and found by what it was.
func TestTexts(t *testing.T) {
	s := opened(t, pgtest.NewDatabase(t))
	id := session.ID("ses_\xff")
	for _, title := range []string{"a\x00b", "\x00", "\xffü\xfe", "", "plain ü"} {
		err := s.Update(t.Context(), session.Full, func(tx session.Tx) error {
			if err := tx.InsertSession(session.Session{ID: id, Title: title, Settings: session.Settings{System: title}}); err != nil && !errors.Is(err, session.ErrLost) {
				return err
			}
			return tx.PutSession(session.Session{ID: id, Title: title})
		})
		if err != nil {
			t.Fatalf("%q: %v", title, err)
		}
		if err := s.View(t.Context(), func(tx session.ReadTx) error {
			got, err := tx.Session(id)
			if want := strings.ReplaceAll(strings.ToValidUTF8(title, "\uFFFD"), "\x00", "\uFFFD"); got.Title != want {
				t.Errorf("%q reads as %q", title, got.Title)
			}
			return err
		}); err != nil {
			t.Errorf("%q: %v", title, err)
		}
	}
}

// Without a server, updates and views fail in the end, and nothing of them was done.
func TestUnavailable(t *testing.T) {
	db := pgtest.Start(t)
	url := db.NewDatabase(t)
	s := opened(t, url)
	db.Stop(t)
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			if err := s.Update(t.Context(), session.Soft, func(tx session.Tx) error {
				return tx.AppendOutbox("ses_1", []byte("x"))
			}); !errors.Is(err, session.ErrUnavailable) || errors.Is(err, session.ErrUncertain) {
				t.Errorf("update: %v", err)
			}
		})
		wait.Go(func() {
			if err := s.View(t.Context(), func(tx session.ReadTx) error {
				_, err := tx.Outbox(0, 0)
				return err
			}); !errors.Is(err, session.ErrUnavailable) {
				t.Errorf("view: %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.View(ctx, func(session.ReadTx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("view: %v", err)
	}
	wait.Wait()
	soon, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := Open(soon, url); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), db.Addr()) {
		t.Errorf("open: %v", err)
	}
	db.Restart(t)
	var rows []session.Outboxed
	if err := s.View(t.Context(), func(tx session.ReadTx) (err error) { rows, err = tx.Outbox(0, 0); return err }); err != nil || len(rows) != 0 {
		t.Errorf("rows %v, %v", rows, err)
	}
	if err := s.Update(t.Context(), session.Full, func(tx session.Tx) error { return tx.PutMeta("a", "1") }); err != nil {
		t.Error(err)
	}
}

// Several processes that start on an empty database make its tables once.
func TestMigrateTogether(t *testing.T) {
	url := pgtest.NewDatabase(t)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			s, err := Open(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wait.Wait()
}

// What cannot be opened says why, and where, without a password.
func TestOpenErrors(t *testing.T) {
	url := pgtest.NewDatabase(t)
	for _, c := range []struct{ url, want string }{
		{strings.Replace(url, "/test_", "/no_such_", 1), "no_such_"},
		{strings.Replace(url, "reprise@", "nobody:sekret@", 1), "nobody"},
		{"postgres://me:sekret@x:y/db", ""},
	} {
		_, err := Open(t.Context(), c.url)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sekret") {
			t.Errorf("%s: %v", c.url, err)
		}
	}
}
