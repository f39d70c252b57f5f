package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// gatewayAlone starts the gateway alone, on the data folder of a server that has ended.
func (s *server) gatewayAlone() *server {
	s.t.Helper()
	g := &server{t: s.t, home: s.home, proc: start(s.t, s.home, nil, "gateway", "--listen", "127.0.0.1:0")}
	base := g.proc.stdout.await(s.t, "address", func(out string) bool { return strings.HasSuffix(out, "\n") })
	g.Client = &client.Client{Base: strings.TrimSpace(base), Token: s.Token, HTTP: s.HTTP}
	return g
}

// key makes a client key and returns it with its id.
func (s *server) key(label string, flags ...string) (secret string, id session.ClientKeyID) {
	s.t.Helper()
	code, stdout, stderr := reprise(s.t, s.home, append([]string{"keys", "create", label}, flags...)...)
	secret = strings.TrimSpace(stdout)
	_, rest, _ := strings.Cut(stderr, "(")
	name, _, _ := strings.Cut(rest, ")")
	if code != 0 || !strings.HasPrefix(secret, "rpk_") || !strings.HasPrefix(name, "key_") {
		s.t.Fatalf("create %s: %d %q %q", label, code, stdout, stderr)
	}
	return secret, session.ClientKeyID(name)
}

// A client key lets in where it may, in each dialect; what was asked is in the books, and told; the
// key goes to no provider, no log and no file.
func TestClientKeys(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, up.config("ok-fast", ""))
	secret, id := s.key("laptop", "--models", "*/ok-fast,*/overloaded-then-ok-fast,*/cut-after-text-fast", "--rate", "100")
	with := func(s *server, dialect, model string) (*http.Response, string) {
		return s.ask(dialect, model, "Hello, "+dialect+"?", "Authorization", "Bearer "+secret)
	}
	stories := map[string][]string{
		"overloaded-then-ok-fast": {"whole  of laptop", "with the key " + string(id), "answered by", "Attempt 1", "worth retrying: yes (overloaded)", "safe to repeat: yes", "by the rule", "Attempt 2", "it went through"},
		"cut-after-text-fast":     {"interrupted  of laptop", "the answer broke after something of it was sent", "worth retrying: yes (stream_interrupted)", "safe to repeat: no (text_shown)", "The call stopped"},
		"steady":                  {"refused  of laptop", "404 model_not_found", "laptop may not ask"},
	}
	told := map[string]string{} // a call by its story
	for dialect := range modelCalls {
		if resp, body := with(s, dialect, "ok-fast"); resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s", dialect, resp.StatusCode, body)
		}
		for model := range stories {
			resp, body := with(s, dialect, model)
			if want := map[bool]int{true: 404, false: 200}[model == "steady"]; resp.StatusCode != want {
				t.Errorf("%s %s: %d %s", dialect, model, resp.StatusCode, body)
			}
			call := resp.Header.Get("X-Reprise-Id")
			told[call] = model
			explained(t, s, call, stories[model])
		}
		if resp, _ := s.ask(dialect, "ok-fast", "Hello?", "Authorization", "Bearer rpk_unknown"); resp.StatusCode != 401 {
			t.Errorf("%s, unknown: %d", dialect, resp.StatusCode)
		}
		// R4: a repetition that a fence refuses is in the books, too.
		resp, _ := with(s, dialect, "cut-after-text-fast")
		explained(t, s, resp.Header.Get("X-Reprise-Id"), []string{"refused  of laptop", "400 replay_refused"})
	}
	calls, err := s.GatewayCalls(within(t), session.GatewayQuery{Key: id, Limit: 3})
	if err != nil || len(calls) != 3 {
		t.Fatalf("%v %v", calls, err)
	}
	rest, err := s.GatewayCalls(within(t), session.GatewayQuery{Key: id, Before: calls[2].ID})
	if err != nil || len(rest) != 5*len(modelCalls)-3 {
		t.Errorf("%d calls, %v", len(rest), err)
	}
	code, list, stderr := reprise(t, s.home, "keys")
	if code != 0 || !strings.Contains(list, fmt.Sprintf("%s  laptop  holds  %d calls, ", id, 5*len(modelCalls))) || !strings.Contains(list, "100 a minute") {
		t.Errorf("keys: %d %q %q", code, list, stderr)
	}

	// The same without a server, and beside a gateway that is alone; and after kill -9.
	s.proc.kill()
	g := s.gatewayAlone()
	for call, model := range told {
		explained(t, s, call, stories[model])
	}
	if resp, body := with(g, "messages", "ok-fast"); resp.StatusCode != 200 {
		t.Errorf("alone: %d %s", resp.StatusCode, body)
	}
	if code, stdout, stderr := reprise(t, s.home, "fences"); code != 0 || strings.Count(stdout, "1 refused") != len(modelCalls) {
		t.Errorf("fences: %d %q %q", code, stdout, stderr)
	} else if fence, _, _ := strings.Cut(stdout, " "); true {
		if code, left, stderr := reprise(t, s.home, "fences", "--lift", fence); code != 0 || strings.Contains(left, fence) {
			t.Errorf("lift: %d %q %q", code, left, stderr)
		}
		if code, _, _ := reprise(t, s.home, "fences", "--lift", fence); code != 2 {
			t.Errorf("lift twice: %d", code)
		}
	}
	if code, stdout, stderr := reprise(t, s.home, "cool-offs"); code != 0 {
		t.Errorf("cool-offs: %d %q %q", code, stdout, stderr)
	}
	if code, _, stderr := reprise(t, s.home, "sessions"); code != 1 || !strings.Contains(stderr, "in use by reprise gateway at http://") {
		t.Errorf("sessions beside a gateway: %d %q", code, stderr)
	}
	if code, stdout, stderr := reprise(t, s.home, "keys", "revoke", string(id)); code != 0 || !strings.Contains(stdout, "laptop  revoked ") {
		t.Errorf("revoke: %d %q %q", code, stdout, stderr)
	}
	g.proc.kill()
	g = s.gatewayAlone() // what it has read counts for two seconds
	if resp, _ := with(g, "messages", "ok-fast"); resp.StatusCode != 401 {
		t.Errorf("revoked: %d", resp.StatusCode)
	}
	for _, args := range [][]string{{"revoke", "key_none"}, {"create", "x", "--hold", "odd"}, {"create", "x", "--chain", "none"}, {"create", "x", "--cap", "much"}} {
		if code, _, stderr := reprise(t, s.home, append([]string{"keys"}, args...)...); code != 2 || stderr == "" {
			t.Errorf("keys %v: %d %q", args, code, stderr)
		}
	}
	for _, p := range []*process{s.proc, g.proc} {
		if strings.Contains(p.stderr.String()+p.stdout.String(), secret) {
			t.Error("the key is in the log")
		}
	}
	err = filepath.WalkDir(s.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), secret) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// explained checks what reprise explain tells of a call.
func explained(t testing.TB, s *server, call string, want []string) {
	t.Helper()
	code, stdout, stderr := reprise(t, s.home, "explain", call)
	if code != 0 {
		t.Errorf("explain %s: %d %s", call, code, stderr)
		return
	}
	for at, rest := 0, stdout; at < len(want); at++ {
		_, after, ok := strings.Cut(rest, want[at])
		if !ok {
			t.Errorf("explain %s has no %q after %q:\n%s", call, want[at], want[:at], stdout)
			return
		}
		rest = after
	}
}

// K-155: a cap of a key holds through kill -9: what was set aside for a call whose end nobody saw
// stays so, and the call is told of.
func TestCapOfKeyThroughKill(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, up.config("ok-fast", "models: {\"messages/*\": {max_output: 100, input: 0, output: 10000}}")) // a dollar for 100 tokens
	secret, id := s.key("laptop", "--cap", "1.5")
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, s.Base+"/v1/messages",
		strings.NewReader(`{"model":"messages/stall-after-text-fast","max_tokens":100,"messages":[],"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", secret)
	resp, err := s.HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	call := resp.Header.Get("X-Reprise-Id")
	s.restart()
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	again, body := s.ask("messages", "ok-fast", "Hello?", "Authorization", "Bearer "+secret)
	if again.StatusCode != 400 || again.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, "of which $0.50 is left") || up.quiet(t).Total != 1 {
		t.Errorf("%d %s", again.StatusCode, body)
	}
	explained(t, s, call, []string{"lost  of laptop", "nobody knows how it ended", "up to $1.00 is set aside"})
	keys, err := s.ClientKeys(within(t))
	if err != nil || len(keys.ClientKeys) != 1 || keys.ClientKeys[0].ID != id || keys.ClientKeys[0].Total.Spend.Reserved != llm.Dollar {
		t.Errorf("%+v %v", keys, err)
	}
	total := 3 * llm.Dollar
	if _, err := s.ChangeClientKey(within(t), id, session.ClientTermsPatch{SpendTotal: &total}); err != nil {
		t.Fatal(err)
	}
	if again, body := s.ask("messages", "ok-fast", "Hello?", "Authorization", "Bearer "+secret); again.StatusCode != 200 {
		t.Errorf("with a higher cap: %d %s", again.StatusCode, body)
	}
}
