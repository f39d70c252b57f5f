package server

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/pgtest"
	"github.com/reprise-run/reprise/session"
)

// answeredBy waits until the session's run has ended, and returns its messages.
func answeredBy(t *testing.T, c *Connection, id session.ID) []session.Message {
	t.Helper()
	errIdle := errors.New("idle")
	err := c.Watch(t.Context(), session.Watch{Session: id}, func(session.Frame) error {
		if s, err := c.Session(t.Context(), id); err != nil || s.State == session.Idle {
			return errors.Join(errIdle, err)
		}
		return nil
	})
	if !errors.Is(err, errIdle) {
		t.Fatal(err)
	}
	list, err := c.Messages(t.Context(), id, false, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A server on Postgres keeps nothing in a file. While the database is away it is not ready, says what
// to do, and goes on by itself when the database is back.
func TestPostgres(t *testing.T) {
	db := pgtest.Start(t)
	cfg := configOf(t, "database: "+db.NewDatabase(t))
	_, stop := serving(t, cfg)
	c, err := Connect(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	id := post(t, c, "rehearsal/ok-fast")
	if list := answeredBy(t, c, id); len(list) != 2 {
		t.Fatalf("messages %+v", list)
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, databaseFile)); !os.IsNotExist(err) {
		t.Errorf("the file of SQLite: %v", err)
	}

	db.Stop(t)
	var refused *client.Error
	if err := c.Ready(t.Context()); !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
		t.Errorf("ready without a database: %v", err)
	}
	start := time.Now()
	_, err = c.Session(t.Context(), id)
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || !strings.Contains(refused.Message, "try again") {
		t.Errorf("without a database: %v", err)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the answer took %s", took)
	}
	db.Restart(t)
	if _, err := c.Session(t.Context(), id); err != nil {
		t.Errorf("with the database: %v", err)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("ready again: %v", err)
	}
	if list := answeredBy(t, c, post(t, c, "rehearsal/ok-fast")); len(list) != 2 {
		t.Errorf("messages %+v", list)
	}
	if err := errors.Join(c.Close(), stop()); err != nil {
		t.Fatal(err)
	}

	own, err := Connect(t.Context(), cfg, quiet()) // as reprise run without a server
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if s, err := own.Session(t.Context(), id); err != nil || own.Shared {
		t.Errorf("%+v, %v", s, err)
	}
}

// A password comes from where the address says, and is nowhere else.
func TestDatabasePassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("se cret/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := Env{"DB_PASSWORD": "p@ss:1", "DATABASE_URL": "postgres://me:written@host/db"}
	for set, want := range map[string]string{
		"postgres://me@host/db": "postgres://me@host/db",
		"postgres://me:env:DB_PASSWORD@host:5433/db?sslmode=require": "postgres://me:p%40ss%3A1@host:5433/db?sslmode=require",
		"postgres://me:file:" + url.PathEscape(file) + "@host/db":    "postgres://me:se%20cret%2F@host/db",
		"postgresql:///db?host=/run/postgresql":                      "postgresql:///db?host=/run/postgresql",
		"env:DATABASE_URL":                                           "postgres://me:written@host/db",
	} {
		if err := checkDatabase(set); err != nil {
			t.Errorf("%s: %v", set, err)
		}
		if got, err := env.database(set); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", set, got, err, want)
		}
	}
	for _, set := range []string{"postgres://me:sekret@host/db", "postgres://me:@host/db", "postgres://me@host/db?password=sekret",
		"host=x password=sekret", "postgres://me:sek ret@host:x y/db", "/var/lib/sekret.db"} {
		if err := checkDatabase(set); err == nil || strings.Contains(err.Error(), "sek") {
			t.Errorf("%s: %v", set, err)
		}
	}
	if _, err := env.database("postgres://me:env:NOBODY@host/db"); err == nil || !strings.Contains(err.Error(), "NOBODY") {
		t.Error(err)
	}
}
