package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// desk has hooks open, and counts and reads what they say.
type desk struct {
	*Hooks
	mu     sync.Mutex
	counts map[string]int // hook and outcome
	log    bytes.Buffer
}

func (d *desk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(b)
}

func (d *desk) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

func (d *desk) count(hook string, o Outcome) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[hook+" "+string(o)]
}

func open(t *testing.T, list ...Hook) *desk {
	d := &desk{counts: map[string]int{}}
	d.Hooks = Open(list, Options{
		Log:  slog.New(slog.NewTextHandler(d, nil)),
		Base: map[string]string{"PATH": os.Getenv("PATH")},
		Count: func(hook string, o Outcome) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.counts[hook+" "+string(o)]++
		},
	})
	t.Cleanup(func() { d.Close(0) })
	return d
}

func noticeOf(e session.HookEvent, n int) session.Notice {
	return session.Notice{ID: fmt.Sprintf("ntc_%d", n), Event: e, At: 1_790_000_000_000, Attempt: "att_1",
		Scope: llm.Scope{Session: "ses_1", Run: "run_1", Step: 2, Lineage: llm.LineageMain, Generation: 7}}
}

func is(s string) func() (string, error) { return func() (string, error) { return s, nil } }

// receiver is a webhook.
func receiver(t *testing.T, f http.HandlerFunc) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// The patterns, and which hooks have an effect.
func TestAsks(t *testing.T) {
	d := open(t,
		Hook{Name: "all", On: []string{"*"}, Observe: true, Command: []string{"true"}},
		Hook{Name: "runs", On: []string{"run.*"}, Command: []string{"true"}},
		Hook{Name: "one", On: []string{"run.failed", "tool.ended"}, Command: []string{"true"}})
	for e, want := range map[session.HookEvent][]string{
		session.HookRunFailed: {"runs", "one"}, session.HookRunStarted: {"runs"}, session.HookToolEnded: {"one"}, session.HookRetryWaiting: nil,
	} {
		if any, effects := d.Asks(e); !any || !slices.Equal(effects, want) {
			t.Errorf("%s: %v, %q, want %q", e, any, effects, want)
		}
	}
	if any, _ := open(t).Asks(session.HookRunFailed); any {
		t.Error("without hooks somebody asks")
	}
	for pattern, want := range map[string]int{"run.*": 4, "*": len(session.HookEvents), "run.failed": 1, "run.*ed": 0, "run*": 0, "run": 0, "": 0, "nothing.*": 0} {
		if got := len(Events(pattern)); got != want {
			t.Errorf("%q names %d events, want %d", pattern, got, want)
		}
	}
}

// A command reads the event on stdin and its scope in the environment, of which it has only what
// it needs: no key of a provider.
func TestCommand(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "very-secret")
	out := filepath.Join(t.TempDir(), "out")
	d := open(t, Hook{Name: "notify", On: []string{"run.*"}, Command: []string{"sh", "-c", `{ cat; echo; env; } > "$OUT"`},
		Env: func() (map[string]string, error) {
			return map[string]string{"OUT": out, "REPRISE_RUN": "not mine"}, nil
		}})
	n := noticeOf(session.HookRunFailed, 1)
	n.Run = &session.Run{ID: "run_1", Reason: "the provider's words"}
	d.Tell(n)
	d.Close(time.Minute)
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err, d.said())
	}
	first, env, _ := strings.Cut(string(b), "\n")
	var m message
	if err := json.Unmarshal([]byte(first), &m); err != nil {
		t.Fatal(err)
	}
	if m.Delivery != "ntc_1.notify" || m.Hook != "notify" || m.Observe || m.Event != n.Event || m.Scope != n.Scope || m.Attempt != "att_1" || m.Run.Reason != n.Run.Reason {
		t.Errorf("%+v", m)
	}
	for _, want := range []string{"REPRISE_SESSION=ses_1", "REPRISE_RUN=run_1", "REPRISE_STEP=2", "REPRISE_ATTEMPT=att_1", "REPRISE_GENERATION=7",
		"REPRISE_LINEAGE=main", "REPRISE_EVENT=run.failed", "REPRISE_HOOK=notify", "REPRISE_DELIVERY=ntc_1.notify", "OUT="} {
		if !strings.Contains(env, want) {
			t.Errorf("the environment has no %s:\n%s", want, env)
		}
	}
	if strings.Contains(string(b), "very-secret") {
		t.Errorf("the environment has a key:\n%s", env)
	}
	dl := delivery{notice: n}
	vars := dl.variables(&hook{})
	for _, v := range Variables {
		if _, ok := vars[v]; !ok {
			t.Errorf("%s is not among the variables", v)
		}
	}
	if len(vars) != len(Variables) {
		t.Errorf("%d variables, %d are listed", len(vars), len(Variables))
	}
	if d.count("notify", Delivered) != 1 {
		t.Errorf("counted %v", d.counts)
	}
}

// What a failed command said is in the log; it is not called again.
func TestCommandFails(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	d := open(t, Hook{Name: "notify", On: []string{"*"}, Command: []string{"sh", "-c", `echo . >> ` + ran + `; echo "no bell here" >&2; exit 3`}},
		Hook{Name: "gone", On: []string{"*"}, Command: []string{"/does/not/exist"}})
	d.Tell(noticeOf(session.HookRunFailed, 1))
	d.Close(time.Minute)
	if s := d.said(); !strings.Contains(s, "no bell here") || !strings.Contains(s, "exit status 3") || !strings.Contains(s, "ntc_1.notify") || !strings.Contains(s, "/does/not/exist") {
		t.Errorf("the log says %q", s)
	}
	if b, _ := os.ReadFile(ran); string(b) != ".\n" {
		t.Errorf("it ran %q", b)
	}
	if d.count("notify", Failed) != 1 || d.count("gone", Failed) != 1 {
		t.Errorf("counted %v", d.counts)
	}
}

// A command that takes too long is killed, with everything it has started. N34.
func TestCommandTimeout(t *testing.T) {
	dir := t.TempDir()
	child := filepath.Join(dir, "child")
	d := open(t, Hook{Name: "slow", On: []string{"*"}, Timeout: 300 * time.Millisecond, Command: []string{"sh", "-c", `sleep 600 & echo $! > ` + child + `; wait`}})
	began := time.Now()
	d.Tell(noticeOf(session.HookAttemptFailed, 1))
	d.Close(time.Minute)
	if d.count("slow", TimedOut) != 1 || time.Since(began) > 30*time.Second || !strings.Contains(d.said(), "longer than its timeout") {
		t.Errorf("counted %v after %v: %s", d.counts, time.Since(began), d.said())
	}
	b, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	for alive(t, strings.TrimSpace(string(b))) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("the grandchild lives on")
		}
		<-time.After(time.Millisecond)
	}
}

// alive reports whether a process runs.
func alive(t *testing.T, pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

// A webhook gets one POST with a signature over its body.
func TestWebhook(t *testing.T) {
	got := make(chan *http.Request, 1)
	var body []byte
	at := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		got <- r
	})
	d := open(t, Hook{Name: "chat", On: []string{"run.failed"}, Observe: true, URL: is(at + "/in?x=1"), Secret: is("s3cret")})
	d.Tell(noticeOf(session.HookRunStarted, 1)) // not asked for
	d.Tell(noticeOf(session.HookRunFailed, 2))
	r := <-got
	d.Close(time.Minute)
	if r.Method != "POST" || r.URL.String() != "/in?x=1" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get(HeaderEvent) != "run.failed" || r.Header.Get(HeaderDelivery) != "ntc_2.chat" {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	if got := r.Header.Get(HeaderSignature); got != Sign("s3cret", body) || !strings.HasPrefix(got, "sha256=") {
		t.Errorf("signature %s", got)
	}
	if want := "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"; Sign("key", []byte("The quick brown fox jumps over the lazy dog")) != want {
		t.Errorf("the signature is not HMAC-SHA256")
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil || !m.Observe || m.Delivery != "ntc_2.chat" {
		t.Errorf("%s: %v", body, err)
	}
	if d.count("chat", Delivered) != 1 {
		t.Errorf("counted %v", d.counts)
	}
}

// A webhook is sent once, whatever comes back: no redirect is followed, nothing is repeated.
func TestWebhookOnce(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	hit := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
	}
	at := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		hit(r)
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
		case "/busy":
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/reset":
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		}
	})
	var list []Hook
	for _, path := range []string{"redirect", "busy", "reset"} {
		list = append(list, Hook{Name: path, On: []string{"*"}, URL: is(at + "/" + path + "?token=very-secret")})
	}
	list = append(list, Hook{Name: "unset", On: []string{"*"}, URL: is(at + "/unset"), Secret: func() (string, error) { return "", errors.New("the variable is not set") }})
	d := open(t, list...)
	d.Tell(noticeOf(session.HookRunFailed, 1))
	d.Tell(noticeOf(session.HookRunFailed, 2))
	d.Close(time.Minute)
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"redirect", "busy", "reset"} {
		if seen["/"+path] != 2 || d.count(path, Failed) != 2 {
			t.Errorf("%s: %d requests, counted %v", path, seen["/"+path], d.counts)
		}
	}
	if seen["/target"]+seen["/unset"] != 0 || d.count("unset", Failed) != 2 {
		t.Errorf("%v, counted %v", seen, d.counts)
	}
	if s := d.said(); strings.Contains(s, "very-secret") || !strings.Contains(s, "it answered 503") {
		t.Errorf("the log says %s", s)
	}
}

// Of one session a hook is told in order, one after the other; a full queue drops, counts and says so, and holds nobody up.
func TestQueue(t *testing.T) {
	release := make(chan struct{})
	var mu sync.Mutex
	var order []string
	atWork := 0
	at := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(HeaderDelivery)
		mu.Lock()
		if atWork++; atWork > 1 {
			t.Error("two events of one session at a time")
		}
		mu.Unlock()
		<-release
		mu.Lock()
		defer mu.Unlock()
		atWork--
		order = append(order, id)
	})
	d := open(t, Hook{Name: "slow", On: []string{"*"}, URL: is(at), Timeout: time.Minute})
	const told = queued + 50
	began := time.Now()
	for i := range told {
		d.Tell(noticeOf(session.HookToolEnded, i))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("telling took %v", took)
	}
	dropped := d.count("slow", Dropped)
	if dropped < 49 || dropped > 50 { // one may be under way already
		t.Errorf("%d dropped", dropped)
	}
	if s := d.said(); strings.Count(s, "an event is dropped") != 1 {
		t.Errorf("the log says %q", s)
	}
	close(release)
	d.Close(time.Minute)
	mu.Lock()
	defer mu.Unlock()
	if len(order) != told-dropped || d.count("slow", Delivered) != len(order) {
		t.Fatalf("%d of %d were delivered, counted %v", len(order), told, d.counts)
	}
	for i, id := range order {
		if id != fmt.Sprintf("ntc_%d.slow", i) {
			t.Fatalf("number %d is %s", i, id)
		}
	}
	if !strings.Contains(d.said(), fmt.Sprintf("dropped=%d", dropped)) {
		t.Errorf("the log says %q", d.said())
	}
}

// A stop waits for so long, and then cuts off; what was not told is counted.
func TestClose(t *testing.T) {
	started := make(chan struct{}, 1)
	at := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	})
	d := open(t, Hook{Name: "slow", On: []string{"*"}, URL: is(at)})
	for i := range 3 {
		d.Tell(noticeOf(session.HookRunFailed, i))
	}
	<-started
	d.Close(10 * time.Millisecond)
	d.Tell(noticeOf(session.HookRunFailed, 4))
	d.Close(0)
	if d.count("slow", Failed) != 1 || d.count("slow", Dropped) != 3 {
		t.Errorf("counted %v", d.counts)
	}
	if s := d.said(); !strings.Contains(s, "the server has stopped") {
		t.Errorf("the log says %q", s)
	}
}
