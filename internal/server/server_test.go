package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

func quiet() Options {
	return Options{Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Grace: 50 * time.Millisecond}
}

func configOf(t *testing.T, file string) Config {
	t.Helper()
	s := sourcesOf(t, file, nil)
	s.Flags = []string{"listen=127.0.0.1:0"}
	return load(t, s)
}

// serving starts a server and returns its launch link, and a function that stops it and gives
// its error.
func serving(t *testing.T, cfg Config) (link string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	links, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, cfg, quiet(), func(l string) { links <- l }) }()
	select {
	case link = <-links:
	case err := <-ended:
		t.Fatalf("serve: %v", err)
	}
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return link, stop
}

// K-001, K-008, K-171: one process serves API, stream and page; its link logs in.
func TestServe(t *testing.T) {
	cfg := configOf(t, "")
	start := time.Now()
	link, _ := serving(t, cfg)
	t.Logf("listening after %s", time.Since(start))
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	secret, ok := strings.CutPrefix(u.Fragment, "launch=")
	if !ok || u.RawQuery != "" || strings.ContainsAny(link, " \n") {
		t.Errorf("the link %s has its secret elsewhere than in the fragment", link)
	}
	base := "http://" + u.Host
	for path, want := range map[string]int{"/": 200, "/healthz": 200, "/readyz": 200, "/openapi.json": 200, "/api/v1/sessions": 401} {
		resp, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s answers %d, want %d", path, resp.StatusCode, want)
		}
	}
	anonymous := client.Client{Base: base}
	if _, err := anonymous.Login(t.Context(), secret); err != nil {
		t.Errorf("log in: %v", err)
	}
	if _, err := anonymous.Login(t.Context(), secret); err == nil {
		t.Error("the link works twice")
	}
	c, err := Running(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sys, err := c.System(t.Context())
	if err != nil || sys.Version != "test" || !sys.Rehearsal {
		t.Errorf("system %+v, %v", sys, err)
	}
}

func TestDataFolderIsItsOwnersAlone(t *testing.T) {
	cfg := configOf(t, "")
	if err := os.MkdirAll(cfg.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	serving(t, cfg)
	err := filepath.WalkDir(cfg.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		// Beneath a folder that nobody else can enter the event log's files are what they are.
		if err == nil && filepath.Dir(path) == cfg.Data && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(cfg.Data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
}

// One process has the data folder; a second one is its client, or is told who has it.
func TestSecondProcess(t *testing.T) {
	cfg := configOf(t, "")
	if _, err := Running(cfg); err == nil || !strings.Contains(err.Error(), "reprise serve") {
		t.Errorf("before any: %v", err)
	}
	own, err := Connect(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if own.Shared {
		t.Error("shared with nobody")
	}
	var held *Held
	if _, err := Connect(t.Context(), cfg, quiet()); !errors.As(err, &held) || held.URL != "" || held.PID != os.Getpid() {
		t.Errorf("beside a process that serves nobody: %v", err)
	}
	id := post(t, own, "rehearsal/ok-fast")
	if err := errors.Join(own.Close(), own.Close()); err != nil {
		t.Fatal(err)
	}

	_, stop := serving(t, cfg)
	if err := Serve(t.Context(), cfg, quiet(), func(string) {}); !errors.As(err, &held) || held.URL == "" {
		t.Errorf("a second server: %v", err)
	}
	shared, err := Connect(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := shared.Session(t.Context(), id); err != nil || !shared.Shared {
		t.Errorf("through the server: %+v, %v", s, err)
	}
	if err := errors.Join(shared.Close(), stop()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, stateFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a stopped server still says where it is: %v", err)
	}
}

// post asks one question in a new session, without waiting for the answer.
func post(t *testing.T, c *Connection, model string) session.ID {
	t.Helper()
	s, err := c.CreateSession(t.Context(), session.NewSession{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Post(t.Context(), s.ID, []llm.Part{llm.Text("Hello")}, session.Routing{}, ""); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// K-010: a stop leaves no run marked running, and what was shown of it is kept.
func TestStopDuringARun(t *testing.T) {
	cfg := configOf(t, "")
	s, err := Open(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientOf(cfg.Data, "http://localhost")
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP = s.pipe()
	id := post(t, &Connection{Client: c}, "rehearsal/stall-before-text")
	errRunning := errors.New("running")
	err = c.Watch(t.Context(), session.Watch{Session: id}, func(session.Frame) error {
		if s, err := c.Session(t.Context(), id); err != nil || s.State == session.StateRunning {
			return errors.Join(errRunning, err)
		}
		return nil
	})
	if !errors.Is(err, errRunning) {
		t.Fatal(err)
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > stopTime {
		t.Errorf("the stop took %s", took)
	}
	again, err := Open(t.Context(), configWithout(cfg), quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	list, err := again.sessions.Sessions(t.Context(), false, 0)
	if err != nil || len(list) != 1 || list[0].State == session.StateRunning {
		t.Errorf("after the stop: %+v, %v", list, err)
	}
}

// configWithout leaves every run queued, as it was found.
func configWithout(c Config) Config {
	c.Limits.ConcurrentRuns = 0
	return c
}

func TestInspectNeedsNoServer(t *testing.T) {
	cfg := configOf(t, "")
	if _, err := Inspect(t.Context(), cfg, "run_x"); err == nil || !strings.Contains(err.Error(), "there are no sessions in") {
		t.Errorf("an empty folder: %v", err)
	}
	conn, err := Connect(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	id := post(t, conn, "rehearsal/ok-fast")
	s, err := conn.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(t.Context(), cfg, s.LastRun.ID); err == nil {
		t.Error("read a folder that another process has")
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Inspect(t.Context(), cfg, s.LastRun.ID)
	run, attempts := r.Run, r.Attempts
	if err != nil || run.SessionID != id {
		t.Errorf("%+v, %+v, %v", run, attempts, err)
	}
	if _, err := Inspect(t.Context(), cfg, "run_x"); err == nil || !strings.Contains(err.Error(), "there is no run run_x") {
		t.Errorf("an unknown run: %v", err)
	}
}

// Whoever starts a second server on the same address is told what it is, not what bind says.
func TestAddressTaken(t *testing.T) {
	cfg := configOf(t, "")
	link, _ := serving(t, cfg)
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen = u.Host
	var held *Held
	if err := Serve(t.Context(), cfg, quiet(), nil); !errors.As(err, &held) || held.URL != "http://"+u.Host {
		t.Errorf("the same folder: %v", err)
	}
	other := configOf(t, "")
	other.Listen = u.Host
	if err := Serve(t.Context(), other, quiet(), nil); err == nil || errors.As(err, &held) || !strings.Contains(err.Error(), "listen: ") {
		t.Errorf("another folder: %v", err)
	}
}

func TestHosts(t *testing.T) {
	for listen, want := range map[string]string{"192.0.2.1:80": "a.test 192.0.2.1", "[2001:db8::1]:80": "a.test 2001:db8::1",
		"box.test:80": "a.test box.test", "0.0.0.0:80": "a.test", "[::]:80": "a.test", ":80": "a.test"} {
		c := Config{Listen: listen, Auth: Auth{Hosts: []string{"a.test"}}}
		if got := strings.Join(c.hosts(), " "); got != want {
			t.Errorf("listening on %s it is %s, want %s", listen, got, want)
		}
	}
}

func TestOpenStopsWhatItStarted(t *testing.T) {
	cfg := configOf(t, "")
	cfg.Auth.TokensFile = filepath.Join(t.TempDir(), "none")
	if _, err := Open(t.Context(), cfg, quiet()); err == nil {
		t.Fatal("opened without its tokens")
	}
	cfg.Auth.TokensFile = ""
	s, err := Open(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatalf("the folder is still held: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
