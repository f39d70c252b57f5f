package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-run/reprise/internal/pgtest"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store"
	"github.com/reprise-run/reprise/store/sqlite"
	"github.com/reprise-run/reprise/store/storetest"
)

// populated is a SQLite file with something of every kind in it.
func populated(t *testing.T) (path string, from store.Base) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "reprise.db")
	s, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Populate(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, based(t)(sqlite.Base(path))
}

// based closes a database at the test's end.
func based(t *testing.T) func(store.Base, error) store.Base {
	return func(b store.Base, err error) store.Base {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.DB.Close() })
		return b
	}
}

func quiet(string, int64, int64) {}

// contents is what a store says of some of what Populate has stored.
func contents(t *testing.T, s session.Store) (all []any) {
	t.Helper()
	err := s.View(t.Context(), func(tx session.ReadTx) error {
		first, err := tx.Session("ses_1")
		second, err2 := tx.Session("ses_2")
		second.Title = strings.Map(func(r rune) rune { // as it is in Postgres
			if r == 0 {
				return '\uFFFD'
			}
			return r
		}, second.Title)
		messages, err3 := tx.Messages("ses_1", true, 0, 0)
		more, err4 := tx.Messages("ses_2", true, 0, 0)
		attempts, err5 := tx.Attempts("run_1")
		outbox, err6 := tx.Outbox(0, 0)
		answer, err7 := tx.Idempotent("a", "k")
		empty, err8 := tx.Idempotent("a", "empty")
		none, err9 := tx.Idempotent("a", "none")
		calls, err10 := tx.ToolCalls("run_1")
		offs, err11 := tx.CoolOffs()
		all = []any{first, second, messages, more, attempts, outbox, answer, empty.Answer == nil, none.Answer == nil, calls, offs}
		return errors.Join(err, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// same finds in the database of a URL what is in a file.
func same(t *testing.T, path, url string) {
	t.Helper()
	file, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := opened(t, url)
	a, b := contents(t, file), contents(t, s)
	for i := range a {
		if !reflect.DeepEqual(a[i], b[i]) {
			t.Errorf("differs:\n%.300v\n%.300v", fmt.Sprintf("%+v", a[i]), fmt.Sprintf("%+v", b[i]))
		}
	}
	// Numbers go on where they were.
	if err := s.Update(t.Context(), session.Full, func(tx session.Tx) error { return tx.AppendOutbox("ses_1", []byte("next")) }); err != nil {
		t.Error(err)
	}
}

// A move that is interrupted after each of its pages, and in its last part, goes on where it was.
func TestMoveInterrupted(t *testing.T) {
	path, from := populated(t)
	url := pgtest.NewDatabase(t)
	to := based(t)(Base(t.Context(), url))
	pages, compared := 0, false
	for {
		ctx, cancel := context.WithCancel(t.Context())
		all, cleaned, err := store.Move(ctx, from, to, path, func(table string, rows, of int64) {
			if what, ok := strings.CutPrefix(table, "comparing "); ok {
				if what == "runs" && !compared {
					compared = true
					cancel()
				}
				return
			}
			if pages++; rows > of {
				t.Errorf("%s: %d of %d", table, rows, of)
			}
			cancel()
		})
		cancel()
		if err == nil {
			for _, m := range all {
				if m.Rows == 0 {
					t.Errorf("nothing was in %s", m.Table)
				}
			}
			if cleaned != 1 {
				t.Errorf("%d texts were cleaned, want the title", cleaned)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), url); !errors.Is(err, store.ErrMoving) {
			t.Fatalf("opened after %d pages: %v", pages, err)
		}
	}
	if pages < 20 || !compared {
		t.Errorf("%d pages", pages)
	}
	same(t, path, url)
	if _, _, err := store.Move(t.Context(), from, to, path, quiet); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("moved again: %v", err)
	}
}

// limited breaks a connection after so many messages, every other time once the last was sent.
type limited struct {
	net.Conn
	left *atomic.Int64
}

func (l *limited) Write(b []byte) (int, error) {
	left := l.left.Add(-1)
	if left == 0 && len(b)%2 == 0 {
		_, _ = l.Conn.Write(b)
	}
	if left <= 0 {
		return 0, errors.Join(errors.New("cut"), l.Close())
	}
	return l.Conn.Write(b)
}

// The same where the connection breaks, at any message.
func TestMoveCutOff(t *testing.T) {
	path, from := populated(t)
	url := pgtest.NewDatabase(t)
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return &limited{c, &left}, err
	}
	for n := int64(1); ; n += 3 {
		left.Store(n)
		db := connections(cfg, 0, migrating)
		_, _, err := store.Move(t.Context(), from, store.Base{DB: db, Dialect: dialect(newWriter())}, path, quiet)
		db.Close()
		if err == nil {
			t.Logf("the last took %d messages at most", n)
			break
		}
	}
	same(t, path, url)
}

// A move goes into an empty database, from one source that rests.
func TestMoveRefused(t *testing.T) {
	path, from := populated(t)
	url := pgtest.NewDatabase(t)
	to := based(t)(Base(t.Context(), url))
	move := func(source string, told func(string, int64, int64)) error {
		_, _, err := store.Move(t.Context(), from, to, source, told)
		return err
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	exec := func(db *sql.DB, query string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	// A server of an empty database has stored something.
	if err := opened(t, url).Update(t.Context(), session.Full, func(tx session.Tx) error { return tx.PutMeta("a", "1") }); err != nil {
		t.Fatal(err)
	}
	refused(move(path, quiet), "in use: its table meta has 1 rows")
	exec(to.DB, `DELETE FROM meta WHERE key = 'a'`)

	// The source changes behind the move.
	once := false
	err := move(path, func(table string, _, _ int64) {
		if table == "attempts" && !once {
			once = true
			exec(from.DB, `UPDATE sessions SET title = 'another' WHERE id = 'ses_1'`)
		}
	})
	refused(err, "table sessions differs: 2 rows and 2")
	refused(err, "begin again")
	refused(move("elsewhere", quiet), "a part of what is in "+path)
	exec(from.DB, `UPDATE sessions SET title = 'A title' WHERE id = 'ses_1'`)

	// So does the target.
	refused(move(path, func(string, int64, int64) { exec(to.DB, `DELETE FROM runs WHERE id = 'run_2'`) }), "table runs differs: 2 rows and 1")
	exec(to.DB, `UPDATE meta SET value = '{"source":"`+path+`","table":"pending","after":["msg_p"]}' WHERE key = 'moving'`)
	exec(to.DB, `DELETE FROM hook_marks; DELETE FROM spend; DELETE FROM attempts; DELETE FROM schedules; DELETE FROM tool_calls; DELETE FROM runs`)
	refused(move(path, quiet), "outbox") // which is there already

	// Two at once.
	other := pgtest.NewDatabase(t)
	to = based(t)(Base(t.Context(), other))
	refused(move(path, func(string, int64, int64) { exec(to.DB, `UPDATE meta SET value = value || ' ' WHERE key = 'moving'`) }), "another move")
}

// Every table is moved.
func TestMoveKnowsEveryTable(t *testing.T) {
	_, from := populated(t)
	to := based(t)(Base(t.Context(), pgtest.NewDatabase(t)))
	all, _, err := store.Move(t.Context(), from, to, "x", quiet)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := to.DB.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'public'`).Scan(&n); err != nil || n != len(all)+1 {
		t.Errorf("%d tables and schema_versions, %d moved, %v", n, len(all), err)
	}
}
