package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// home is a machine: its environment, and the ends of what was started on it.
type home struct {
	t   *testing.T
	env []string
}

func newHome(t *testing.T, env ...string) *home {
	return &home{t, append(env, "HOME="+t.TempDir(), "REPRISE_LISTEN=127.0.0.1:0")}
}

// ran is what a command left.
type ran struct {
	code           int
	stdout, stderr string
}

func (h *home) run(args ...string) ran { return h.with(context.Background(), "", nil, args...) }

// with runs a command with this stdin. onOutput, where it is set, is called after each write
// to stdout with all that was written.
func (h *home) with(ctx context.Context, stdin string, onOutput func(string), args ...string) ran {
	h.t.Helper()
	stdout, stderr := &output{on: onOutput}, &output{}
	code := run(ctx, args, h.env, strings.NewReader(stdin), stdout, stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// output collects what is written, from any goroutine.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
	on  func(string)
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(b)
	if o.on != nil {
		o.on(o.buf.String())
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// serve starts a server and returns a function that stops it.
func (h *home) serve(args ...string) (stop func() ran) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan struct{}), make(chan ran, 1)
	var once sync.Once
	go func() {
		ended <- h.with(ctx, "", func(string) { once.Do(func() { close(listening) }) }, append([]string{"serve"}, args...)...)
	}()
	select {
	case <-listening:
	case r := <-ended:
		h.t.Fatalf("serve: %+v", r)
	}
	return func() ran {
		cancel()
		return <-ended
	}
}

func (r ran) want(t *testing.T, code int) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
}

var ids = regexp.MustCompile(`(ses|run)_[0-9a-z]+`)

// id finds the first id of a kind in what a command said.
func (r ran) id(t *testing.T, kind string) string {
	t.Helper()
	for _, id := range ids.FindAllString(r.stderr, -1) {
		if strings.HasPrefix(id, kind) {
			return id
		}
	}
	t.Fatalf("no %s in %q", kind, r.stderr)
	return ""
}

// F92: the exit codes of UX c.14, and N77: a partial reply and its error are both delivered.
func TestExitCodes(t *testing.T) {
	h := newHome(t, "REPRISE_RECOVERY_TIER1_BASE=1ms")
	off := newHome(t, "REPRISE_RECOVERY_TIER1_BASE=1ms", "REPRISE_RECOVERY_TIER2_MODE=off")
	for _, c := range []struct {
		h      *home
		model  string
		code   int
		stdout string // is in it; empty: it is empty
		stderr []string
	}{
		{h, "ok-fast", exitDone, "You asked: **Hello**", []string{"queued", "running"}},
		{h, "overloaded-then-ok-fast", exitDone, "Request 1 failed", []string{"waiting  overloaded  attempt 2  next "}},
		{h, "tool-fast", exitDone, "You asked", []string{"tool  clock  started", "tool  clock  ended"}},
		{h, "auth-failed", exitFailed, "", []string{"failed\n  auth_failed: ", "worth retrying: no"}},
		{h, "failed-inside-text-fast", exitRefused, "You asked: **Hello**", []string{"worth retrying: yes   safe to repeat: no (text_shown)", "reprise explain run_"}},
		{off, "overloaded", exitExhausted, "", []string{"worth retrying: yes   safe to repeat: yes"}},
		{h, "overloaded", exitLater, "", []string{"attempt 3", "safe to repeat: yes"}},
		{h, "rate-limited-3000s", exitLater, "", []string{"not before "}},
		{off, "rate-limited-3000s", exitFailed, "", []string{"not before "}},
		{h, "always-503-2h", exitFailed, "", []string{"not before "}},
	} {
		t.Run(fmt.Sprint(c.model, c.code), func(t *testing.T) {
			r := c.h.run("run", "--model", "rehearsal/"+c.model, "Hello")
			r.want(t, c.code)
			if c.stdout == "" && r.stdout != "" || !strings.Contains(r.stdout, c.stdout) {
				t.Errorf("stdout %q, want %q", r.stdout, c.stdout)
			}
			if r.stdout != "" && (!strings.HasSuffix(r.stdout, "\n") || strings.HasSuffix(r.stdout, "\n\n")) {
				t.Errorf("stdout ends in %q", r.stdout[max(0, len(r.stdout)-10):])
			}
			for _, want := range c.stderr {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("stderr %q, want %q", r.stderr, want)
				}
			}
		})
	}
}

func TestUsage(t *testing.T) {
	h := newHome(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"verb":             {[]string{"frobnicate"}, `unknown command "frobnicate"`},
		"flag":             {[]string{"run", "--frob", "x"}, "unknown flag: --frob"},
		"two prompts":      {[]string{"run", "a", "b"}, "accepts at most 1 arg"},
		"no prompt":        {[]string{"run", "-"}, "the prompt is empty"},
		"blank prompt":     {[]string{"run", " "}, "the prompt is empty"},
		"setting":          {[]string{"run", "--set", "nothing=1", "x"}, `there is no setting "nothing"`},
		"unknown provider": {[]string{"run", "--model", "nobody/x", "x"}, "Providers are: rehearsal"}, // K-164
		"unknown session":  {[]string{"run", "--session", "ses_x", "x"}, "there is no such thing"},
		"address alone":    {[]string{"run", "--base-url", "http://127.0.0.1:1", "x"}, "--base-url needs --model"},
		"explain nothing":  {[]string{"explain"}, "accepts 1 arg"},
		"serve something":  {[]string{"serve", "x"}, "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			r := h.run(c.args...)
			r.want(t, exitUsage)
			if !strings.Contains(r.stderr, c.want) || r.stdout != "" {
				t.Errorf("said %q and %q, want %q", r.stderr, r.stdout, c.want)
			}
		})
	}
}

func TestPromptFromStdin(t *testing.T) {
	h := newHome(t)
	for _, args := range [][]string{{"run", "--model", "rehearsal/ok-fast"}, {"run", "--model", "rehearsal/ok-fast", "-"}} {
		r := h.with(t.Context(), "From a pipe\n", nil, args...)
		r.want(t, exitDone)
		if !strings.Contains(r.stdout, "You asked: **From a pipe**") {
			t.Errorf("%v: %q", args, r.stdout)
		}
	}
}

// N78: the same session goes on, with a server that comes and goes between.
func TestSessionGoesOn(t *testing.T) {
	h := newHome(t)
	first := h.run("run", "--model", "rehearsal/ok-fast", "One")
	first.want(t, exitDone)
	id := first.id(t, "ses")
	h.run("run", "--session", id, "Two").want(t, exitDone)
	stop := h.serve()
	third := h.run("run", "--session", id, "--model", "rehearsal/tool-fast", "Three")
	third.want(t, exitDone)
	if got := third.id(t, "ses"); got != id || !strings.Contains(third.stderr, "rehearsal/tool-fast") {
		t.Errorf("went on in %s: %s", got, third.stderr)
	}
	refused := h.run("run", "--base-url", "http://127.0.0.1:1", "--model", "x", "Four")
	refused.want(t, exitUsage)
	if !strings.Contains(refused.stderr, "does not know --base-url") {
		t.Error(refused.stderr)
	}
	stop().want(t, exitDone)
}

// A message behind a run waits for it, and does not wait for ever where that run fails.
func TestBehindAnotherRun(t *testing.T) {
	scripts := filepath.Join(t.TempDir(), "scripts.yaml")
	soon := "- name: soon\n  scenes: [[[{do: wait, for: 300ms}, {do: say}]]]\n" +
		"- name: soon-broken\n  scenes: [[[{do: say, text: Hm}, {do: wait, for: 300ms}, {do: cut}]]]\n"
	if err := os.WriteFile(scripts, []byte(soon), 0o600); err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int{"soon-fast": exitDone, "soon-broken": exitFailed} {
		h := newHome(t, "REPRISE_REHEARSAL_SCRIPTS="+scripts)
		stop := h.serve()
		started := make(chan string, 1)
		var once sync.Once
		first := &output{on: func(text string) {
			if id := ids.FindString(text); strings.Contains(text, "running") {
				once.Do(func() { started <- id })
			}
		}}
		ended := make(chan int, 1)
		go func() {
			ended <- run(t.Context(), []string{"run", "--model", "rehearsal/" + model, "One"}, h.env, strings.NewReader(""), &output{}, first)
		}()
		second := h.run("run", "--session", <-started, "Two")
		second.want(t, want)
		if !strings.HasPrefix(second.stderr, "pending ") {
			t.Errorf("%s: it was not pending: %s", model, second.stderr)
		}
		if want == exitFailed && !strings.Contains(second.stderr, "the session's queue is paused") {
			t.Error(second.stderr)
		}
		<-ended
		stop().want(t, exitDone)
	}
}

// A server that restarts is waited for, and one that is gone is not, however often it fails
// to answer.
func TestServerGone(t *testing.T) {
	f := &follower{stderr: &output{}}
	now := time.Now()
	if f.disconnected(io.EOF, now) || f.disconnected(io.EOF, now.Add(awayTime)) {
		t.Error("given up at once")
	}
	if !f.disconnected(io.EOF, now.Add(awayTime+1)) {
		t.Error("not given up")
	}
	f.receipt.RunID, f.session = "run_1", "ses_1"
	if err := f.frame(session.Frame{Data: []byte(`{"type":"system"}`)}); err != nil {
		t.Fatal(err)
	}
	if f.disconnected(io.EOF, now.Add(2*awayTime)) {
		t.Error("the time from before it was back counts")
	}
	if said := fmt.Sprint(f.stderr); strings.Count(said, "connection lost") != 2 {
		t.Errorf("said %q", said)
	}
}

// Events are what observers get: JSON, of this session alone, to the run's end. N77: a failed
// run is a failure here too.
func TestEventsAsJSON(t *testing.T) {
	h := newHome(t)
	r := h.run("run", "--json", "--model", "rehearsal/failed-inside-text-fast", "Hello")
	r.want(t, exitRefused)
	types := map[session.EventType]bool{}
	var last session.Event
	for line := range strings.Lines(r.stdout) {
		last = session.Event{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if string(last.SessionID) != r.id(t, "ses") {
			t.Errorf("an event of session %q", last.SessionID)
		}
		types[last.Type] = true
	}
	for _, want := range []session.EventType{session.EventOutput, session.EventMessage, session.EventRun, session.EventAttempt} {
		if !types[want] {
			t.Errorf("no %s among %v", want, types)
		}
	}
	if last.Run == nil || last.Run.State != session.Failed {
		t.Errorf("the last event is %+v", last)
	}
}

// A signal cancels the run, and the command ends when that is acknowledged.
func TestSignalCancels(t *testing.T) {
	for _, how := range []string{"alone", "with a server"} {
		t.Run(how, func(t *testing.T) {
			h := newHome(t)
			if how != "alone" {
				stop := h.serve()
				defer func() { stop().want(t, exitDone) }()
			}
			ctx, cancel := context.WithCancel(t.Context())
			r := h.with(ctx, "", func(text string) {
				if strings.Contains(text, "You") {
					cancel()
				}
			}, "run", "--model", "rehearsal/stall-after-text", "Hello")
			r.want(t, exitCancelled)
			if !strings.HasPrefix(r.stdout, "You") || !strings.Contains(r.stderr, "cancelled") {
				t.Errorf("said %q and %q", r.stdout, r.stderr)
			}
			e := h.run("explain", "--json", r.id(t, "run"))
			e.want(t, exitDone)
			if !strings.Contains(e.stdout, `"state": "cancelled"`) {
				t.Errorf("the run: %s", e.stdout)
			}
		})
	}
	h := newHome(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.with(ctx, "", nil, "run", "Hello").want(t, exitCancelled)
}

// K-161, F63: a run says who answers instead of whom, and explain who was asked and who was not.
func TestChain(t *testing.T) {
	h := newHome(t, "REPRISE_RECOVERY_TIER1_BASE=1ms")
	pair := []string{"run", "--set", "chains.pair=[rehearsal/overloaded, rehearsal/ok-fast]", "--model", "pair", "Hello"}
	r := h.run(pair...)
	r.want(t, exitDone)
	if !strings.Contains(r.stderr, "switched  rehearsal/ok-fast  from rehearsal/overloaded: overloaded\n") {
		t.Errorf("said %q", r.stderr)
	}
	r = h.run(pair...) // another process: the first one still cools off
	r.want(t, exitDone)
	e := h.run("explain", r.id(t, "run"))
	if strings.Contains(r.stderr, "waiting") || !strings.Contains(e.stdout, "rehearsal/overloaded was not asked: cooling_off, not before ") ||
		strings.Contains(e.stdout, "Attempt 2") {
		t.Errorf("said %q, explained\n%s", r.stderr, e.stdout)
	}
	none := h.run("run", "--set", "chains.none=[rehearsal/auth-failed, rehearsal/overloaded]", "--model", "none", "Hello")
	none.want(t, exitLater)
	for _, want := range []string{"  rehearsal/auth-failed: auth_failed\n", "  rehearsal/overloaded", "not before "} {
		if !strings.Contains(none.stderr, want) {
			t.Errorf("said %q, want %q", none.stderr, want)
		}
	}
}

// Both verdicts, apart, and the rule.
func TestExplain(t *testing.T) {
	h := newHome(t, "REPRISE_RECOVERY_TIER1_BASE=1ms")
	broken := h.run("run", "--set", "models.rehearsal/*.output=10", "--set", "models.rehearsal/*.input=1", "--model", "rehearsal/overloaded-then-failed-inside-text", "Hello")
	broken.want(t, exitRefused)
	stop := h.serve()
	served := h.run("explain", broken.id(t, "run"))
	nothing := h.run("explain", "run_x")
	stop().want(t, exitDone)
	alone := h.run("explain", broken.id(t, "run"))
	alone.want(t, exitDone)
	if served.stdout != alone.stdout {
		t.Errorf("the server explains\n%s\nthe folder\n%s", served.stdout, alone.stdout)
	}
	for _, want := range []string{
		"Attempt 1  step 1  asked for  rehearsal/overloaded-then-failed-inside-text",
		"worth retrying: yes (overloaded)\n  safe to repeat: yes\n  verdict:        retry, by the rule tier1",
		"Attempt 2  step 1  automatic",
		"worth retrying: yes (stream_interrupted)\n  safe to repeat: no (text_shown)\n  verdict:        stop, by the rule not_safe",
		"Something of this attempt has become observable",
		", estimated: no usage was reported\n  failed: overloaded, status 503",
		", estimated: no usage was reported\n  failed: stream_interrupted",
		"\nAll attempts cost >= $0.00",
		"by itself:      no (not_safe)",
	} {
		if !strings.Contains(alone.stdout, want) {
			t.Errorf("explained\n%s\nwant %s", alone.stdout, want)
		}
	}
	for _, r := range []ran{nothing, h.run("explain", "run_x")} {
		r.want(t, exitFailed)
		if !strings.Contains(r.stderr, "there is no run run_x") {
			t.Error(r.stderr)
		}
	}
}

// A compatible server needs nothing but an address and a model, also to be checked.
func TestCompatibleServer(t *testing.T) {
	upstream, err := rehearsal.New()
	if err != nil {
		t.Fatal(err)
	}
	http := httptest.NewServer(upstream)
	defer http.Close()
	h := newHome(t)
	address := []string{"--base-url", http.URL + "/v1", "--model", "ok-fast"}
	r := h.run(append(append([]string{"run"}, address...), "Hello")...)
	r.want(t, exitDone)
	if !strings.Contains(r.stdout, "You asked: **Hello**") {
		t.Errorf("said %q", r.stdout)
	}
	report := upstream.Requests()
	if report.Total != 1 || report.Requests[0].Dialect != "chat" {
		t.Errorf("the upstream saw %+v", report)
	}
	check := h.run(append([]string{"serve", "--check"}, address...)...)
	check.want(t, exitDone)
	if !strings.Contains(check.stdout, "settings  ok\nendpoint  ok  ok-fast answered in ") {
		t.Errorf("checked: %q", check.stdout)
	}
	http.Close()
	check = h.run(append([]string{"serve", "--check"}, address...)...)
	check.want(t, exitFailed)
	if !strings.Contains(check.stdout, "endpoint  network  ") {
		t.Errorf("checked: %q", check.stdout)
	}
}

// The model of the environment is that of new sessions, whoever answers; one that is there
// keeps its own.
func TestModelOfTheEnvironment(t *testing.T) {
	h := newHome(t)
	stop := h.serve()
	first := h.run("run", "--model", "rehearsal/ok-fast", "One")
	h.env = append(h.env, "REPRISE_MODEL=rehearsal/tool-fast")
	for _, c := range []struct{ session, want string }{{"", "running  rehearsal/tool-fast"}, {first.id(t, "ses"), "running  rehearsal/ok-fast"}} {
		r := h.run("run", "--session", c.session, "Two")
		r.want(t, exitDone)
		if !strings.Contains(r.stderr, c.want) {
			t.Errorf("in session %q: %s", c.session, r.stderr)
		}
	}
	stop().want(t, exitDone)
}

func TestServeSaysOneLine(t *testing.T) {
	h := newHome(t)
	stop := h.serve()
	link := h.run("link")
	link.want(t, exitDone)
	second := h.run("serve")
	second.want(t, exitFailed)
	if !strings.Contains(second.stderr, "is in use by the server at http://127.0.0.1:") {
		t.Error(second.stderr)
	}
	r := stop()
	r.want(t, exitDone)
	for _, said := range []string{r.stdout, link.stdout} {
		if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/#launch=\w+\n$`).MatchString(said) {
			t.Errorf("said %q", said)
		}
	}
	none := h.run("link")
	none.want(t, exitFailed)
	if !strings.Contains(none.stderr, "start one with reprise serve") {
		t.Error(none.stderr)
	}
	for _, want := range []string{"msg=listening", "msg=stopping"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("logged %q, want %s", r.stderr, want)
		}
	}
}

func TestRehearse(t *testing.T) {
	h := newHome(t)
	path := filepath.Join(t.TempDir(), "scripts.yaml")
	if err := os.WriteFile(path, []byte("- name: mine\n  scenes: [[[{do: say}]]]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := h.with(ctx, "", func(string) { cancel() }, "rehearse", "--listen", "127.0.0.1:0", "--scripts", path)
	r.want(t, exitDone)
	for _, want := range []string{"/v1\n", "overloaded-then-ok", "mine"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("said %q, want %q", r.stdout, want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h.run("rehearse", "--listen", l.Addr().String()).want(t, exitFailed)
}

func TestVersionAndHelp(t *testing.T) {
	h := newHome(t)
	v := h.run("version")
	v.want(t, exitDone)
	if !strings.HasPrefix(v.stdout, "reprise ") || strings.Count(v.stdout, "\n") != 1 {
		t.Errorf("said %q", v.stdout)
	}
	help := h.run()
	help.want(t, exitDone)
	for _, verb := range []string{"serve", "run", "explain", "link", "rehearse", "classify", "version", "sessions", "show", "send",
		"regenerate", "resume", "cancel", "retry", "waiting", "watch", "completion"} {
		if !strings.Contains(help.stdout, "\n  "+verb+" ") {
			t.Errorf("the help does not say %s", verb)
		}
	}
}
