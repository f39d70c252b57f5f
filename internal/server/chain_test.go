package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// upstream is a rehearsal that refuses some keys and counts the requests of each.
type upstream struct {
	*httptest.Server
	mu      sync.Mutex
	counts  map[string]int
	refuses map[string]int // status by key
}

func newUpstream(t *testing.T, refuses map[string]int) *upstream {
	t.Helper()
	scripts, err := rehearsal.New()
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{counts: map[string]int{}, refuses: refuses}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key")
		u.mu.Lock()
		u.counts[key]++
		status := u.refuses[key]
		u.mu.Unlock()
		switch status {
		case 429:
			w.Header().Set("Retry-After", "1800")
			w.WriteHeader(status)
			io.WriteString(w, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`)
		case 401:
			w.WriteHeader(status)
			io.WriteString(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
		default:
			scripts.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// saw is how many requests came with each key, as "key=n".
func (u *upstream) saw() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []string
	for k, n := range u.counts {
		list = append(list, fmt.Sprint(k, "=", n))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// ask asks one question in a new session and waits for its run's end.
func ask(t *testing.T, c *Connection, model string) (session.Run, []session.Attempt, []session.Message) {
	t.Helper()
	id := post(t, c, model)
	var run session.Run
	errEnded := errors.New("ended")
	err := c.Watch(t.Context(), session.Watch{Session: id}, func(session.Frame) error {
		s, err := c.Session(t.Context(), id)
		if err == nil && s.LastRun != nil && s.LastRun.State.Terminal() {
			run, err = *s.LastRun, errEnded
		}
		return err
	})
	if !errors.Is(err, errEnded) {
		t.Fatal(err)
	}
	attempts, err := c.Attempts(t.Context(), id, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages(t.Context(), id, false, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return run, attempts, messages
}

func connect(t *testing.T, cfg Config) *Connection {
	t.Helper()
	c, err := Connect(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// K-161, K-162, F40, F69: two keys and two providers, end to end, by the requests that each has
// seen; what was limited is left alone after a restart, too.
func TestKeysAndChains(t *testing.T) {
	alpha := newUpstream(t, map[string]int{"key-one": 429})
	beta := newUpstream(t, nil)
	s := sourcesOf(t, `
providers:
  alpha: {dialect: responses, base_url: `+alpha.URL+`/v1, keys: [env:ONE, env:TWO]}
  beta:  {dialect: messages, base_url: `+beta.URL+`, keys: [env:THREE]}
chains:
  default: [alpha/overloaded, beta/ok-fast]
  keys:    [alpha/ok-fast, beta/ok-fast]
recovery: {tier1: {base: 1ms}}
`, Env{"ONE": "key-one", "TWO": "key-two", "THREE": "key-three"})
	cfg := load(t, s)

	c := connect(t, cfg)
	run, attempts, messages := ask(t, c, "keys")
	if run.State != session.Succeeded || len(attempts) != 2 || attempts[0].Key != "env:ONE" || attempts[1].Key != "env:TWO" {
		t.Fatalf("%+v, %+v", run, attempts)
	}
	if alpha.saw() != "key-one=1 key-two=1" || beta.saw() != "" || messages[1].SwitchedFrom != nil {
		t.Errorf("alpha saw %s, beta %s; %+v", alpha.saw(), beta.saw(), messages[1].SwitchedFrom)
	}
	told, err := json.Marshal([]any{run, attempts, messages})
	if err != nil || strings.Contains(string(told), "key-one") || strings.Contains(string(told), "key-two") {
		t.Errorf("a key is in the records: %s, %v", told, err)
	}

	// Limits are a model's: the key is asked for the other one, once. That is overloaded with the
	// second key, and the chain goes on.
	run, attempts, messages = ask(t, c, "")
	if run.State != session.Succeeded || len(attempts) != 5 || attempts[4].Provider != "beta" {
		t.Fatalf("%+v, %+v", run, attempts)
	}
	if from := messages[1].SwitchedFrom; messages[1].Provider != "beta" || from == nil || from.Provider != "alpha" || from.Reason != "overloaded" {
		t.Errorf("%+v", messages[1])
	}
	if beta.saw() != "key-three=1" {
		t.Errorf("beta saw %s", beta.saw())
	}
	before := alpha.saw()
	if before != "key-one=2 key-two=4" {
		t.Errorf("alpha saw %s", before)
	}
	sys, err := c.System(t.Context())
	if err != nil || len(sys.CoolOffs) != 3 {
		t.Errorf("%+v, %v", sys.CoolOffs, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	c = connect(t, cfg)
	_, attempts, _ = ask(t, c, "")
	if len(attempts) != 1 || attempts[0].InsteadOf == nil || len(attempts[0].Skipped) == 0 || alpha.saw() != before {
		t.Errorf("after a restart %+v; alpha saw %s, then %s", attempts, before, alpha.saw())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// N47: a key is what the file holds now; another name for a secret that was refused is no
// other key.
func TestAReplacedKeyIsTriedAtOnce(t *testing.T) {
	up := newUpstream(t, map[string]int{"old": 401})
	path := filepath.Join(t.TempDir(), "key")
	write := func(key string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	cfg := load(t, sourcesOf(t, `
providers: {a: {dialect: responses, base_url: `+up.URL+`/v1, keys: ['file:`+path+`', env:SAME, env:NONE]}}
`, Env{"SAME": "old"}))
	c := connect(t, cfg)
	run, attempts, _ := ask(t, c, "a/ok-fast")
	if run.State != session.Failed || len(attempts) != 1 || up.saw() != "old=1" {
		t.Errorf("%+v; saw %s", run, up.saw())
	}
	if f := run.Failure; f == nil || f.RetryClass.String() != "auth_failed" || len(f.Tried) != 3 || f.Tried[1].Key != "env:SAME" || f.Tried[2].Key != "env:NONE" {
		t.Errorf("%+v", f)
	}
	write("new")
	if run, _, _ := ask(t, c, "a/ok-fast"); run.State != session.Succeeded || up.saw() != "new=1 old=1" {
		t.Errorf("%+v; saw %s", run, up.saw())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// K-163: a test tries each key, and one that is answered is asked again by everybody.
func TestCheckOfSeveralKeys(t *testing.T) {
	up := newUpstream(t, map[string]int{"one": 429, "two": 401})
	cfg := load(t, sourcesOf(t, `
providers: {a: {dialect: responses, base_url: `+up.URL+`/v1, keys: [env:ONE, env:TWO, env:THREE, env:NONE], models: [ok-fast]}}
`, Env{"ONE": "one", "TWO": "two", "THREE": "three"}))
	c := connect(t, cfg)
	if run, _, _ := ask(t, c, "a/ok-fast"); run.State != session.Succeeded || up.saw() != "one=1 three=1 two=1" {
		t.Fatalf("%+v; saw %s", run, up.saw())
	}
	up.mu.Lock()
	delete(up.refuses, "one")
	up.mu.Unlock()
	k, err := c.Check(t.Context(), "a")
	if err != nil || k.OK || k.Failure == nil || k.Failure.Class.String() != "auth_failed" || len(k.Keys) != 4 ||
		!k.Keys[0].OK || k.Keys[1].OK || !k.Keys[2].OK || k.Keys[3].Failure.Class.String() != "credentials_unresolved" {
		t.Errorf("%+v, %v", k, err)
	}
	sys, err := c.System(t.Context())
	if err != nil || len(sys.CoolOffs) != 1 || sys.CoolOffs[0].Key != "env:TWO" || sys.CoolOffs[0].Model != "" {
		t.Errorf("%+v, %v", sys.CoolOffs, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// A caller's limits come with the message.
func TestLimitsOfAMessage(t *testing.T) {
	alpha, beta := newUpstream(t, nil), newUpstream(t, nil)
	cfg := load(t, sourcesOf(t, `
providers:
  alpha: {dialect: chat, base_url: `+alpha.URL+`/v1}
  beta:  {dialect: chat, base_url: `+beta.URL+`/v1}
chains: {default: [alpha/overloaded, beta/ok-fast]}
recovery: {tier1: {base: 1ms}, tier2: {mode: "off"}}
`, nil))
	c := connect(t, cfg)
	s, err := c.CreateSession(t.Context(), session.NewSession{Settings: session.Settings{Routing: session.Routing{OneAttempt: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Settings.Routing != (session.Routing{OneAttempt: true}) {
		t.Errorf("settings %+v", s.Settings)
	}
	r, err := c.Post(t.Context(), s.ID, []llm.Part{llm.Text("Hello")}, session.Routing{}, "")
	if err != nil {
		t.Fatal(err)
	}
	errEnded := errors.New("ended")
	err = c.Watch(t.Context(), session.Watch{Session: s.ID}, func(session.Frame) error {
		if run, err := c.Run(t.Context(), s.ID, r.RunID); err != nil || run.State.Terminal() {
			return errors.Join(errEnded, err)
		}
		return nil
	})
	if !errors.Is(err, errEnded) {
		t.Fatal(err)
	}
	if alpha.saw() != "=1" || beta.saw() != "" {
		t.Errorf("alpha saw %s, beta %s", alpha.saw(), beta.saw())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
