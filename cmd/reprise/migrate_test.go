package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/internal/pgtest"
)

// A machine's sessions are in Postgres after the move, and nothing serves them from there before.
func TestMigrate(t *testing.T) {
	h := newHome(t)
	if r := h.run("run", "--model", "rehearsal/ok-fast", "Hello"); r.code != exitDone {
		t.Fatalf("%+v", r)
	}
	data := filepath.Join(strings.TrimPrefix(h.env[len(h.env)-2], "HOME="), ".local", "share", "reprise")
	file, url := "sqlite:"+filepath.Join(data, "reprise.db"), pgtest.Start(t).NewDatabase(t)
	for _, c := range []struct{ from, to, want string }{
		{url, file, "no other way"},
		{file, file, "no other way"},
		{url, url, "no other way"},
		{file, "", "no other way"},
		{"sqlite:" + filepath.Join(data, "none.db"), url, "none.db"},
		{file, "postgres://reprise:sekret@127.0.0.1/x", "no other way"},
		{file, "env:NOT_SET", "NOT_SET"},
	} {
		if r := h.run("migrate", "--from", c.from, "--to", c.to); r.code != exitFailed || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "sekret") {
			t.Errorf("%s to %s: %+v", c.from, c.to, r)
		}
	}
	stop := h.serve()
	if r := h.run("migrate", "--from", file, "--to", url); r.code != exitFailed || !strings.Contains(r.stderr, "is in use by the server") {
		t.Errorf("beside a server: %+v", r)
	}
	stop()

	h.env = append(h.env, "NEW="+url)
	r := h.run("migrate", "--from", file, "--to", "env:NEW")
	if r.code != exitDone || !regexp.MustCompile(`(?m)^messages +2 +[0-9a-f]{32}$`).MatchString(r.stdout) || !strings.Contains(r.stderr, "messages: 2 of 2") {
		t.Fatalf("%+v", r)
	}
	if err := os.Remove(filepath.Join(data, "reprise.db")); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "REPRISE_DATABASE=env:NEW")
	stop = h.serve()
	defer stop()
	if r := h.run("sessions"); r.code != exitDone || !strings.Contains(r.stdout, "Hello") {
		t.Errorf("from Postgres: %+v", r)
	}
	if r := h.run("migrate", "--from", file, "--to", "env:NEW"); r.code != exitFailed {
		t.Errorf("again: %+v", r)
	}
}
