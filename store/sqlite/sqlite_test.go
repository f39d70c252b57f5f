package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store"
	"github.com/reprise-run/reprise/store/storetest"
)

func create(t testing.TB) func() (session.Store, error) {
	path := filepath.Join(t.TempDir(), "a folder #1 ?x", "reprise.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() (session.Store, error) { return Open(path) }
}

func TestStore(t *testing.T) { storetest.Run(t, create) }

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, create)
	b.Run("RawSync", func(b *testing.B) { // what a full update cannot beat
		f, err := os.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		frame := make([]byte, 4096+24)
		for b.Loop() {
			if _, err := f.WriteAt(frame, 0); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// opened makes a store and returns it with a second way into its file.
func opened(t *testing.T) (s session.Store, raw *sql.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "reprise.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if raw, err = open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	return s, raw, path
}

func exec(t *testing.T, raw *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := raw.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func TestFileModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reprise.db")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("reprise.db%s has mode %o", suffix, info.Mode().Perm())
		}
	}
}

func TestNewerSchema(t *testing.T) {
	s, raw, path := opened(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	exec(t, raw, `INSERT INTO schema_versions VALUES (99, 'of tomorrow', 0)`)
	_, err := Open(path)
	if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), path) {
		t.Fatalf("error %v", err)
	}
	exec(t, raw, `DELETE FROM schema_versions WHERE version = 99`)
	if s, err = Open(path); err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "no", "such", "folder.db"), text} {
		if s, err := Open(path); err == nil {
			s.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("the error does not name the file: %v", err)
		}
	}
}

// The durability is a setting of the connection, and takes effect each time.
func TestSynchronous(t *testing.T) {
	_, raw, _ := opened(t)
	c, err := raw.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, d := range []session.Durability{session.Full, session.Soft, session.Full, session.Soft} {
		for _, q := range []string{dialect.Durable[d], dialect.Begin, "COMMIT"} {
			if _, err := c.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		var level int
		if err := c.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil {
			t.Fatal(err)
		}
		if want := 1 + int(d); level != want {
			t.Errorf("synchronous is %d for durability %d, want %d", level, d, want)
		}
	}
	var mode string
	if err := c.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode %q, %v", mode, err)
	}
}

// A value that this program does not know, or cannot read, is an error: never a default that
// looks safe. Evidence that is not there is missing. F14, F16.
func TestDamagedRows(t *testing.T) {
	s, raw, _ := opened(t)
	scope := llm.Scope{Session: "ses_1", Run: "run_1", Lineage: llm.LineageMain, Generation: 1}
	run := session.Run{ID: "run_1", SessionID: "ses_1", State: session.Queued, Trigger: session.TriggerMessage}
	err := s.Update(t.Context(), session.Soft, func(tx session.Tx) error {
		if err := tx.InsertSession(session.Session{ID: "ses_1"}); err != nil {
			return err
		}
		if err := tx.InsertRun(run); err != nil {
			return err
		}
		run.State, run.Generation = session.Running, 1
		if err := tx.PutRun(run, session.Queued, 0); err != nil {
			return err
		}
		if _, err := tx.OpenAttempt(session.Attempt{ID: "att_1", RunID: "run_1", SessionID: "ses_1",
			Evidence: replay.Evidence{Scope: scope}}); err != nil {
			return err
		}
		return tx.SealAttempt("att_1", scope, replay.Seal{Marks: replay.TextShown}, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	var evidence string
	if err := raw.QueryRowContext(t.Context(), `SELECT evidence FROM attempts`).Scan(&evidence); err != nil {
		t.Fatal(err)
	}
	attempt := func() (a session.Attempt, err error) {
		err = s.View(t.Context(), func(tx session.ReadTx) (err error) {
			a, err = tx.Attempt("att_1")
			return err
		})
		return a, err
	}
	for _, c := range []struct{ old, new string }{
		{`"text_shown"`, `"smell_shown"`},
		{`"sealed"`, `"signed"`},
		{`"marks":["text_shown"]`, `"marks":1`},
		{evidence, `sealed`},
		{evidence, ``},
	} {
		damaged := strings.Replace(evidence, c.old, c.new, 1)
		if damaged == evidence {
			t.Fatalf("%s is not in %s", c.old, evidence)
		}
		exec(t, raw, `UPDATE attempts SET evidence = $1`, damaged)
		a, err := attempt()
		if err == nil || errors.Is(err, session.ErrNotFound) {
			t.Errorf("evidence %s: error %v", damaged, err)
		}
		if a.Evidence != (replay.Evidence{}) {
			t.Errorf("evidence %s reads as %+v", damaged, a.Evidence)
		}
		for name, f := range map[string]func(tx session.Tx) error{
			"mark": func(tx session.Tx) error { return tx.MarkAttempt("att_1", scope, replay.HookRan, 1) },
			"seal": func(tx session.Tx) error { return tx.SealAttempt("att_1", scope, replay.Seal{}, 1) },
		} {
			if err := s.Update(t.Context(), session.Soft, f); err == nil {
				t.Errorf("a %s wrote over evidence %s", name, damaged)
			}
		}
	}
	for _, missing := range []string{`{}`, `null`, `{"state":"sealed"}`} {
		exec(t, raw, `UPDATE attempts SET evidence = $1`, missing)
		a, err := attempt()
		if err != nil {
			t.Fatal(err)
		}
		if ok, why := a.Evidence.Safe(); ok || why&replay.Missing == 0 {
			t.Errorf("evidence %s: safe %v, %v", missing, ok, why)
		}
	}
	exec(t, raw, `UPDATE attempts SET evidence = $1`, evidence)
	for _, c := range []struct{ query, undo string }{
		{`UPDATE attempts SET decision = '{"verdict":"shrug"}'`, `UPDATE attempts SET decision = NULL`},
		{`UPDATE attempts SET decision = '{"evidence":["smell_shown"]}'`, `UPDATE attempts SET decision = NULL`},
		{`UPDATE attempts SET failure = '{"class":"bad_mood"}'`, `UPDATE attempts SET failure = NULL`},
		{`UPDATE runs SET state = 'dreaming'`, `UPDATE runs SET state = 'running'`},
		{`UPDATE runs SET trigger = 'whim'`, `UPDATE runs SET trigger = 'message'`},
		{`UPDATE runs SET origin = '{"verb":"redo"}'`, `UPDATE runs SET origin = '{}'`},
		{`UPDATE runs SET recovery = '{"verb":"redo"}'`, `UPDATE runs SET recovery = NULL`},
		{`UPDATE sessions SET settings = '{"hold":"forever"}'`, `UPDATE sessions SET settings = '{}'`},
	} {
		all := func() error {
			return s.View(t.Context(), func(tx session.ReadTx) error {
				_, err := tx.Attempts("run_1")
				_, err2 := tx.Session("ses_1")
				return errors.Join(err, err2)
			})
		}
		exec(t, raw, c.query)
		if all() == nil {
			t.Errorf("%s: read without an error", c.query)
		}
		exec(t, raw, c.undo)
		if err := all(); err != nil {
			t.Fatal(err)
		}
	}
}
