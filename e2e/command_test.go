package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// N77, N78: `reprise run` waits for the result, through whatever is repeated on the way;
// stdout has the text and nothing else, partial where it broke off, or with --json the events, stderr
// has the error, and the exit code tells them apart. It is the same in each output mode, and whether a
// server has the data folder or not.
func TestRun(t *testing.T) {
	up := newUpstream(t)
	config := up.config("ok-fast", "recovery: {tier1: {attempts: 2, base: 5ms}}")
	cases := []struct {
		model    string
		set      string
		code     int
		requests int
		stdout   string // begins with
		stderr   []string
	}{
		{"responses/ok-fast", "", 0, 1, "You asked: **hi**", nil},
		{"responses/overloaded-then-ok-fast", "", 0, 2, "You asked: **hi**", []string{"waiting  overloaded  attempt 2  next "}},
		{"chat/failed-before-text-then-ok-fast", "", 0, 2, "You asked: **hi**", []string{"waiting  "}},
		{"messages/tool-fast", "", 0, 2, "Let me look at the clock. \nYou asked: **hi**", []string{"tool  clock  ended"}},
		{"gemini/auth-failed", "", 1, 1, "", []string{"auth_failed: ", "worth retrying: no   safe to repeat: yes"}},
		{"responses/failed-inside-text-fast", "", 4, 1, "You asked: **hi**", []string{"stream_interrupted: ", "worth retrying: yes   safe to repeat: no (text_shown)"}},
		{"responses/cut-after-text-fast", "", 4, 1, "You asked: **hi**", []string{"safe to repeat: no (text_shown)"}},
		{"responses/overloaded-then-failed-inside-text-fast", "", 4, 2, "You asked: **hi**", []string{"waiting  overloaded", "safe to repeat: no"}},
		{"responses/overloaded", "recovery.tier2.mode=off", 5, 2, "", []string{"overloaded: ", "safe to repeat: yes"}},
		{"responses/overloaded", "", 6, 2, "", []string{"overloaded: ", "worth retrying: yes   safe to repeat: yes"}},
		{"responses/rate-limited-3000s", "", 6, 1, "", []string{"rate_limited: ", "not before "}},
		{"nobody/x", "", 2, 0, "", []string{`no provider "nobody"`}},
		{"responses/no-such-script", "", 1, 1, "", []string{"model_not_found: ", "worth retrying: no"}},
	}
	// The servers that have the data folders, by their settings.
	servers := map[string]*server{"": serve(t, config), "recovery.tier2.mode=off": serve(t, config, "--set", "recovery.tier2.mode=off")}
	for _, shared := range []bool{true, false} {
		for _, tc := range cases {
			for _, asJSON := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s shared=%t json=%t", tc.model, tc.set, shared, asJSON), func(t *testing.T) {
					up.Reset()
					args := []string{"run", "--model", tc.model, "hi"}
					if tc.set != "" {
						args = append(args, "--set", tc.set)
					}
					if asJSON {
						args = append(args, "--json")
					}
					code, stdout, stderr := reprise(t, servers[tc.set].home, args...)
					if code != tc.code {
						t.Errorf("exit code %d, want %d", code, tc.code)
					}
					if stdout != "" && !strings.HasSuffix(stdout, "\n") {
						t.Error("stdout does not end a line")
					}
					if asJSON && tc.code != 2 { // else there is no run
						stdout = eventsOf(t, stdout, tc.code)
					}
					if !strings.HasPrefix(stdout, tc.stdout) || tc.stdout == "" && stdout != "" {
						t.Errorf("stdout %q", stdout)
					}
					for _, want := range tc.stderr {
						if !strings.Contains(stderr, want) {
							t.Errorf("stderr has no %q: %s", want, stderr)
						}
					}
					_, model, _ := strings.Cut(tc.model, "/")
					if n := up.quiet(t).ByModel[model]; n != tc.requests {
						t.Errorf("%d requests, want %d", n, tc.requests)
					}
				})
			}
		}
		if shared {
			for _, s := range servers {
				s.stop()
			}
		}
	}
}

// eventsOf reads what --json writes, one event a line, up to the end of the run, which says why where
// it is a bad one. It returns the text, each step's from a new line on.
func eventsOf(t testing.TB, stdout string, code int) string {
	t.Helper()
	var text strings.Builder
	var last session.Event
	step := 0
	for line := range strings.Lines(stdout) {
		var e session.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		last = e
		if e.Output != nil {
			if e.Output.Step > step {
				text.WriteString("\n")
				step = e.Output.Step
			}
			for i := range e.Output.Events {
				if e.Output.Events[i].Kind == llm.EventText {
					text.WriteString(e.Output.Events[i].Text)
				}
			}
		}
	}
	if last.Run == nil || !last.Run.State.Terminal() {
		t.Fatalf("the last event is no end of a run: %s", last.Type)
	}
	if why := last.Run.Failure != nil && last.Run.Recovery != nil; why != (code != 0) {
		t.Errorf("exit code %d, and the end says: %+v", code, last.Run)
	}
	if code == 4 && last.Run.Recovery.ReplaySafe {
		t.Errorf("the end does not say why: %+v", last.Run.Recovery)
	}
	return text.String()
}

// N78: the answer comes by another key, or another model, after the first was refused: the
// command waits for it, in each output mode, and ends well.
func TestRunWaitsForARotation(t *testing.T) {
	refused := rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.RateLimited, Wait: rehearsal.Duration(time.Hour)}}}
	slowly := rehearsal.Take{{Do: rehearsal.Wait, For: rehearsal.Duration(300 * time.Millisecond)}, say("by the other")}
	up := newUpstream(t, script("rotates", 0, refused, slowly), script("refuses", 0, refused), script("answers", 0, slowly))
	dir := t.TempDir()
	for _, key := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, key), []byte("sk-"+key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf("providers:\n  a: {base_url: %s/v1, keys: ['file:%s/one', 'file:%s/two']}\n  b: {base_url: %s/v1}\n"+
		"chains: {keys: [a/rotates], models: [b/refuses, b/answers]}\n", up.URL, dir, dir, up.URL)
	for _, shared := range []bool{true, false} {
		for _, chain := range []string{"keys", "models"} {
			for _, asJSON := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s shared=%t json=%t", chain, shared, asJSON), func(t *testing.T) {
					up.Reset()
					s := serve(t, config) // of its own: what was refused cools off
					if !shared {
						s.stop()
					}
					args := []string{"run", "--chain", chain, "hi"}
					if asJSON {
						args = append(args, "--json")
					}
					code, stdout, stderr := reprise(t, s.home, args...)
					if asJSON {
						stdout = eventsOf(t, stdout, code)
					}
					if code != 0 || strings.TrimSpace(stdout) != "by the other" {
						t.Errorf("exit %d: %q %s", code, stdout, stderr)
					}
					if r := up.quiet(t); r.Total != 2 {
						t.Errorf("%+v", r.Requests)
					}
				})
			}
		}
	}
}

// The prompt comes from stdin where there is none among the arguments, and a session goes on
// by its id.
func TestRunReadsStdin(t *testing.T) {
	home := t.TempDir()
	for _, args := range [][]string{{"run"}, {"run", "-"}} {
		p := start(t, home, strings.NewReader("from a pipe\n"), append(args, "--model", "rehearsal/ok-fast")...)
		if code := p.wait(); code != 0 || !strings.HasPrefix(p.stdout.String(), "You asked: **from a pipe**") {
			t.Errorf("%v: exit %d: %q", args, code, p.stdout)
		}
		id := regexp.MustCompile(`session (ses_\w+)`).FindStringSubmatch(p.stderr.String())
		if id == nil {
			t.Fatalf("no session is named: %s", p.stderr)
		}
		code, stdout, _ := reprise(t, home, "run", "--session", id[1], "and on")
		if code != 0 || !strings.HasPrefix(stdout, "You asked: **and on**") {
			t.Errorf("exit %d: %q", code, stdout)
		}
	}
	for _, empty := range []string{"", " \n"} {
		p := start(t, home, strings.NewReader(empty), "run")
		if code := p.wait(); code != 2 || !strings.Contains(p.stderr.String(), "prompt is empty") {
			t.Errorf("%q: exit %d: %s", empty, code, p.stderr)
		}
	}
}

// Ctrl-C asks for a cancel and waits until it is acknowledged: exit 3, what was said stays on
// stdout and in the session, and nothing is sent again.
func TestRunInterrupted(t *testing.T) {
	text := tokens("kept", 8)
	up := newUpstream(t,
		script("hang", time.Millisecond, rehearsal.Take{{Do: rehearsal.Say, Text: text}, {Do: rehearsal.Stall}}),
		script("busy", 0, rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.RateLimited, Wait: rehearsal.Duration(20 * time.Second)}}}))
	for _, shared := range []bool{false, true} {
		for model, shown := range map[string]string{"hang": text, "busy": ""} {
			t.Run(fmt.Sprintf("%s shared=%t", model, shared), func(t *testing.T) {
				up.Reset()
				s := serve(t, up.config(model, everyRetry))
				if !shared {
					s.stop()
				}
				p := start(t, s.home, nil, "run", "hi")
				if shown != "" {
					p.stdout.await(t, "text", func(out string) bool { return strings.Contains(out, strings.TrimSpace(shown)) })
				} else {
					p.stderr.await(t, "wait", func(out string) bool { return strings.Contains(out, "waiting  rate_limited") })
				}
				p.signal(syscall.SIGINT)
				if code := p.wait(); code != 3 {
					t.Errorf("exit %d", code)
				}
				if out := strings.TrimRight(p.stdout.String(), "\n"); out != shown {
					t.Errorf("stdout %q", out)
				}
				if !strings.Contains(p.stderr.String(), "cancelled") {
					t.Errorf("stderr: %s", p.stderr)
				}
				run := regexp.MustCompile(`run (run_\w+)`).FindStringSubmatch(p.stderr.String())
				if run == nil {
					t.Fatalf("no run is named: %s", p.stderr)
				}
				code, stdout, _ := reprise(t, s.home, "explain", run[1])
				if code != 0 || !strings.Contains(stdout, "  cancelled  ") {
					t.Errorf("explain: exit %d: %s", code, stdout)
				}
				if r := up.quiet(t); r.Total != 1 || shown != "" && !r.Requests[0].ClosedEarly {
					t.Errorf("%+v", r.Requests)
				}
			})
		}
	}
}

// A server that speaks Chat Completions needs nothing but its address and a model's name.
func TestBaseURL(t *testing.T) {
	up := newUpstream(t)
	home := t.TempDir()
	code, stdout, stderr := reprise(t, home, "run", "--base-url", up.URL+"/v1", "--model", "ok-fast", "hi")
	if code != 0 || !strings.HasPrefix(stdout, "You asked: **hi**") {
		t.Errorf("exit %d: %q %s", code, stdout, stderr)
	}
	if r := up.Requests(); r.Total != 1 || r.Requests[0].Path != "/v1/chat/completions" || !r.Requests[0].Stream {
		t.Errorf("%+v", r.Requests)
	}
	if code, _, stderr := reprise(t, home, "run", "--base-url", up.URL+"/v1", "hi"); code != 2 || !strings.Contains(stderr, "--model") {
		t.Errorf("without a model: exit %d: %s", code, stderr)
	}

	up.Reset()
	s := serve(t, "", "--base-url", up.URL+"/v1", "--model", "ok-fast")
	id := s.session("")
	o := watch(s, id)
	if r := o.end(s.post(id, "hi").RunID); r.State != session.Succeeded {
		t.Errorf("%+v", r)
	}
	if r := up.Requests(); r.Total != 1 {
		t.Errorf("%+v", r.Requests)
	}
}

// What the configuration has that makes no sense is said with its file and line, and nothing
// is started.
func TestConfiguration(t *testing.T) {
	for name, tc := range map[string]struct{ config, want string }{
		"unknown key":     {"listen: 127.0.0.1:0\nrecovery:\n  tier1: {attemps: 3}\n", `reprise.yaml:3: there is no setting "attemps" here`},
		"wrong type":      {"limits:\n  concurrent_runs: many\n", "reprise.yaml:2: "},
		"wrong duration":  {"recovery:\n  tier1:\n    base: soon\n", `reprise.yaml:3: "soon" is not a duration`},
		"not yaml":        {"listen: [\n", "reprise.yaml:"},
		"a key in clear":  {"providers:\n  a: {dialect: chat, base_url: 'http://127.0.0.1:9/v1', keys: [sk-secret]}\n", "env:NAME"},
		"unknown dialect": {"providers:\n  a: {dialect: morse, base_url: 'http://127.0.0.1:9/v1'}\n", "providers.a.dialect"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, "reprise.yaml")
			if err := os.WriteFile(path, []byte(tc.config), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, verb := range [][]string{{"serve"}, {"run", "hi"}, {"explain", "run_1"}} {
				code, stdout, stderr := reprise(t, home, append(verb, "--config", path)...)
				if code != 2 || stdout != "" || !strings.Contains(stderr, tc.want) || strings.Contains(stderr, "sk-secret") {
					t.Errorf("%v: exit %d: %q %s", verb, code, stdout, stderr)
				}
			}
		})
	}
}

func TestUsage(t *testing.T) {
	home := t.TempDir()
	if code, stdout, _ := reprise(t, home, "version"); code != 0 || !regexp.MustCompile(`^reprise \S+ go1\.\d+\S* \w+/\w+\n$`).MatchString(stdout) {
		t.Errorf("version: exit %d: %q", code, stdout)
	}
	for _, args := range [][]string{{"fly"}, {"run", "--fly", "hi"}, {"run", "a", "b"}, {"run", ""}, {"explain"},
		{"explain", "run_nobody"}, {"run", "--session", "ses_nobody", "hi"}, {"serve", "--set", "listen"}} {
		code, stdout, stderr := reprise(t, home, args...)
		if code == 0 || stdout != "" || !strings.HasPrefix(stderr, "reprise: ") {
			t.Errorf("%v: exit %d: %q %s", args, code, stdout, stderr)
		}
		if args[0] != "explain" && code != 2 {
			t.Errorf("%v: exit %d, want 2: %s", args, code, stderr)
		}
	}
}

// One process at a time uses a data folder; a second one is told who has it.
func TestDataFolder(t *testing.T) {
	s := serve(t, "")
	code, _, stderr := reprise(t, s.home, "serve", "--listen", "127.0.0.1:0")
	if code == 0 || !strings.Contains(stderr, "in use by the server at "+s.Base) {
		t.Errorf("exit %d: %s", code, stderr)
	}
	dir := filepath.Join(s.home, ".local", "share", "reprise")
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	s.stop()
	if _, err := os.Stat(filepath.Join(dir, "server.json")); !os.IsNotExist(err) {
		t.Errorf("the server's address is still there: %v", err)
	}
}

// The rehearsal alone is an upstream for anybody's client.
func TestRehearse(t *testing.T) {
	home := t.TempDir()
	p := start(t, home, nil, "rehearse", "--listen", "127.0.0.1:0")
	out := p.stdout.await(t, "list", func(out string) bool { return strings.Contains(out, "failed-inside-text") })
	base := regexp.MustCompile(`http://[^\s/]+/v1`).FindString(out)
	code, stdout, stderr := reprise(t, home, "run", "--base-url", base, "--model", "overloaded-then-ok-fast", "--set", "recovery.tier1.base=5ms", "hi")
	if code != 0 || !strings.Contains(stdout, "overloaded") {
		t.Errorf("exit %d: %q %s", code, stdout, stderr)
	}
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d: %s", code, p.stderr)
	}
}

// K-134, K-135: `serve --check` sends each provider one tiny request and says what came back.
func TestCheck(t *testing.T) {
	up := newUpstream(t)
	home := t.TempDir()
	code, stdout, stderr := reprise(t, home, "serve", "--check", "--base-url", up.URL+"/v1", "--model", "ok-fast")
	if code != 0 || !strings.Contains(stdout, "endpoint  ok") {
		t.Errorf("exit %d: %q %s", code, stdout, stderr)
	}
	code, stdout, _ = reprise(t, home, "serve", "--check", "--base-url", up.URL+"/v1", "--model", "auth-failed")
	if code != 1 || !strings.Contains(stdout, "endpoint  "+failure.AuthFailed.String()) {
		t.Errorf("exit %d: %q", code, stdout)
	}
	if r := up.Requests(); r.Total != 2 {
		t.Errorf("%+v", r.Requests)
	}
	code, stdout, _ = reprise(t, home, "serve", "--check", "--base-url", "http://127.0.0.1:1/v1", "--model", "x")
	if code != 1 || !strings.Contains(stdout, "endpoint  "+failure.Network.String()) {
		t.Errorf("exit %d: %q", code, stdout)
	}
}

// `reprise watch` shows each text once, through kill -9 of the server and all that comes after
// it, and ends with 0 when it is asked to.
func TestWatchCommand(t *testing.T) {
	partial, whole := tokens("broken", 10), tokens("whole", 10)
	up := newUpstream(t, script("hang", time.Millisecond, rehearsal.Take{say(partial), {Do: rehearsal.Stall}}, rehearsal.Take{say(whole)}))
	s := serve(t, up.config("hang", ""))
	id := s.session("")
	p := start(t, s.home, nil, "watch", string(id))
	p.stderr.await(t, "state", func(out string) bool { return strings.Contains(out, "idle") })
	r := s.post(id, "hi")
	p.stdout.await(t, "text", func(out string) bool { return strings.Contains(out, strings.TrimSpace(partial)) })
	s.restartThere()
	p.stderr.await(t, "end of the run", func(out string) bool { return strings.Contains(out, "failed  "+string(r.RunID)) })
	code, stdout, stderr := reprise(t, s.home, "regenerate", string(id))
	if code != 0 || !strings.Contains(stdout, "superseded 1") {
		t.Errorf("exit %d: %s %s", code, stdout, stderr)
	}
	p.stderr.await(t, "end of the next", func(out string) bool { return strings.Contains(out, "succeeded") })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if out := p.stdout.String(); out != partial+"\n"+whole+"\n" {
		t.Errorf("stdout %q", out)
	}
	if said := p.stderr.String(); strings.Count(said, "connection lost") != 1 {
		t.Errorf("stderr %s", said)
	}
	if r := up.quiet(t); r.Total != 2 {
		t.Errorf("%d requests", r.Total)
	}
}
