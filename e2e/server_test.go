package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// upstream is a provider that counts. It runs in the test's process.
type upstream struct {
	*rehearsal.Server
	URL string
}

func newUpstream(t testing.TB, scripts ...rehearsal.Script) *upstream {
	t.Helper()
	s, err := rehearsal.New(scripts...)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return &upstream{s, h.URL}
}

// await returns as soon as the upstream's report satisfies the condition.
func (u *upstream) await(t testing.TB, what string, condition func(rehearsal.Report) bool) rehearsal.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var at rehearsal.Report
	if err := u.Await(ctx, func(r rehearsal.Report) bool { at = r; return condition(r) }); err != nil {
		t.Fatalf("the upstream has not seen %s: %v", what, err)
	}
	return at
}

// quiet waits until nothing is being answered.
func (u *upstream) quiet(t testing.TB) rehearsal.Report {
	t.Helper()
	return u.await(t, "the end of every request", func(r rehearsal.Report) bool { return r.Open == 0 })
}

// keyOf is under which key the upstream counts a question to a model.
func keyOf(model, question string) string {
	sum := sha256.Sum256([]byte(model + "\x00" + question))
	return hex.EncodeToString(sum[:6])
}

// config is a configuration file in which the upstream is a provider in every dialect, and
// "default" plays the given script.
func (u *upstream) config(script, more string) string {
	var b strings.Builder
	b.WriteString("providers:\n")
	for dialect, path := range map[string]string{"responses": "/v1", "chat": "/v1", "messages": "", "gemini": ""} {
		fmt.Fprintf(&b, "  %s: {dialect: %s, base_url: %s%s}\n", dialect, dialect, u.URL, path)
	}
	fmt.Fprintf(&b, "chains:\n  default: [responses/%s]\n%s\n", script, more)
	return b.String()
}

// everyRetry is a configuration with all automatic recovery at its most eager.
const everyRetry = `recovery:
  tier1: {attempts: 8, base: 5ms, cap: 30s}
  tier2: {mode: interactive, auto_within: 0}
  unknown: bounded
  max_requests_per_step: 50`

// server is the binary, serving, and a client of it.
type server struct {
	*client.Client
	t    testing.TB
	home string
	args []string
	proc *process
	link string // launch link
}

// serve starts a server with a data folder of its own and waits until it serves.
func serve(t testing.TB, config string, args ...string) *server {
	t.Helper()
	s := &server{t: t, home: t.TempDir(), args: args}
	path := filepath.Join(s.home, ".config", "reprise", "reprise.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	return s
}

// start starts the server, again on the same data folder.
func (s *server) start() {
	s.t.Helper()
	s.listen("127.0.0.1:0")
}

func (s *server) listen(address string) {
	s.t.Helper()
	s.proc = start(s.t, s.home, nil, append([]string{"serve", "--listen", address}, s.args...)...)
	line := s.proc.stdout.await(s.t, "launch link", func(out string) bool { return strings.HasSuffix(out, "\n") })
	s.link = strings.TrimSpace(line)
	base, _, _ := strings.Cut(s.link, "/#")
	token, err := httpapi.LocalToken(filepath.Join(s.home, ".local", "share", "reprise"))
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	s.Client = &client.Client{Base: base, Token: token, HTTP: &http.Client{Transport: transport}}
}

// restart kills the server with kill -9 and starts it on what it left.
func (s *server) restart() {
	s.t.Helper()
	s.proc.kill()
	s.start()
}

// restartThere is restart at the same address, where others find it again.
func (s *server) restartThere() {
	s.t.Helper()
	s.proc.kill()
	s.listen(strings.TrimPrefix(s.Base, "http://"))
}

// stop ends the server in good order.
func (s *server) stop() {
	s.t.Helper()
	s.proc.signal(syscall.SIGTERM)
	if code := s.proc.wait(); code != 0 {
		s.t.Errorf("the server ended with %d", code)
	}
}

// within is a context for one thing that must happen.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// session makes a session.
func (s *server) session(model string) session.ID {
	s.t.Helper()
	made, err := s.CreateSession(within(s.t), session.NewSession{Model: model})
	if err != nil {
		s.t.Fatal(err)
	}
	return made.ID
}

// post posts a message.
func (s *server) post(id session.ID, text string) session.Receipt {
	s.t.Helper()
	r, err := s.Post(within(s.t), id, []llm.Part{llm.Text(text)}, session.Routing{}, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// messages reads a session's messages, also the superseded ones.
func (s *server) messages(id session.ID) []session.Message {
	s.t.Helper()
	list, err := s.Messages(within(s.t), id, true, 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func (s *server) attempts(id session.ID, run session.RunID) []session.Attempt {
	s.t.Helper()
	list, err := s.Attempts(within(s.t), id, run)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// explain is what the command line says about a run.
func (s *server) explain(run session.RunID) string {
	s.t.Helper()
	code, stdout, stderr := reprise(s.t, s.home, "explain", string(run))
	if code != 0 {
		s.t.Fatalf("explain: exit %d: %s", code, stderr)
	}
	return stdout
}

// textOf is the text of a message, or of what a run has written.
func textOf(parts []llm.Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Kind == llm.PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// replies are the texts of a run's reply rows, in order.
func replies(list []session.Message, run session.RunID) (rows []session.Message) {
	for _, m := range list {
		if m.RunID == run && m.Role == session.RoleReply {
			rows = append(rows, m)
		}
	}
	return rows
}

// tokens is a text of n words that each occur once.
func tokens(name string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s-%03d ", name, i)
	}
	return b.String()
}

// script is a script of takes for one model call.
func script(name string, pause time.Duration, takes ...rehearsal.Take) rehearsal.Script {
	return rehearsal.Script{Name: name, Pause: rehearsal.Duration(pause), Scenes: []rehearsal.Scene{takes}}
}
