package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// modelCalls are a model call of each dialect to the gateway, streamed.
var modelCalls = map[string][2]string{
	"chat":      {"/v1/chat/completions", `{"model":"chat/%s","messages":[{"role":"user","content":%q}],"stream":true}`},
	"responses": {"/v1/responses", `{"model":"responses/%s","input":%q,"stream":true}`},
	"messages":  {"/v1/messages", `{"model":"messages/%s","max_tokens":100,"messages":[{"role":"user","content":%q}],"stream":true}`},
	"gemini":    {"/v1beta/models/gemini/%s:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":%q}]}]}`},
}

// ask sends a model call to the gateway and returns what a client gets of it.
func (s *server) ask(dialect, model, text string, header ...string) (*http.Response, string) {
	s.t.Helper()
	path, body := modelCalls[dialect][0], modelCalls[dialect][1]
	if strings.Contains(path, "%s") {
		path, body = fmt.Sprintf(path, model), fmt.Sprintf(body, text)
	} else {
		body = fmt.Sprintf(body, model, text)
	}
	r, err := http.NewRequestWithContext(within(s.t), http.MethodPost, s.Base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.HTTP.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	// Where its dialect has no words for it, a broken answer is one whose body fails.
	got, err := io.ReadAll(resp.Body)
	if err != nil && dialect != "gemini" {
		s.t.Fatal(err)
	}
	return resp, string(got)
}

// R4: what broke is asked of the provider once, through kill -9 as well, until a person lifts it.
func TestFences(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, up.config("ok-fast", ""))
	ids := map[string]string{}
	for dialect := range modelCalls {
		resp, body := s.ask(dialect, "cut-after-text-fast", "Hello?")
		if resp.StatusCode != 200 || !strings.Contains(body, "rehearsed") {
			t.Fatalf("%s: %d %s", dialect, resp.StatusCode, body)
		}
		ids[dialect] = resp.Header.Get("X-Reprise-Id")
	}
	s.restart()
	for dialect, id := range ids {
		for range 3 {
			if resp, body := s.ask(dialect, "cut-after-text-fast", "Hello?"); resp.StatusCode != 400 || resp.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, id) {
				t.Errorf("%s again: %d %s", dialect, resp.StatusCode, body)
			}
		}
	}
	if n := up.quiet(t).Total; n != len(modelCalls) {
		t.Errorf("%d requests", n)
	}
	code, stdout, stderr := reprise(t, s.home, "fences")
	if code != 0 || strings.Count(stdout, "3 refused") != len(modelCalls) {
		t.Fatalf("fences: %d %s %s", code, stdout, stderr)
	}
	for _, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
		id, _, _ := strings.Cut(line, " ")
		if code, _, stderr := reprise(t, s.home, "fences", "--lift", id); code != 0 {
			t.Errorf("lift %s: %d %s", id, code, stderr)
		}
		if code, _, _ := reprise(t, s.home, "fences", "--lift", id); code != 2 {
			t.Errorf("lift %s twice: %d", id, code)
		}
	}
	for dialect := range modelCalls {
		if resp, _ := s.ask(dialect, "cut-after-text-fast", "Hello?"); resp.StatusCode != 200 {
			t.Errorf("%s, lifted: %d", dialect, resp.StatusCode)
		}
	}
	acts, err := s.Audit(within(t), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	lifted := 0
	for _, a := range acts {
		if a.Act == "lift fence" && strings.HasPrefix(a.Detail, "fen_") {
			lifted++
		}
	}
	if lifted != len(modelCalls) {
		t.Errorf("%d lifts in the audit", lifted)
	}
}

// keyed is a configuration in which the upstream is a provider in every dialect, asked with a key.
func (u *upstream) keyed(t testing.TB) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(u.config("ok-fast", ""), "base_url:", fmt.Sprintf("keys: [%q], base_url:", "file:"+key))
}

// R6, R7: what a client gets of a provider that refuses, and what the provider is asked of five
// repetitions.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		script  string
		status  int // of the first answer
		said    string
		most    int // requests of five calls
		dialect []string
	}{
		{"rate-limited-1s-then-ok-fast", 200, "", 10, []string{"chat", "messages"}},
		{"rate-limited-3000s-fast", 400, "rate_limit_exceeded", 1, []string{"chat", "responses"}},
		{"rate-limited-3000s-fast", 400, "It may pass at 20", 1, []string{"messages", "gemini"}},
		{"quota-fast", 400, "insufficient_quota", 1, []string{"chat", "responses"}},
		{"auth-failed-fast", 400, "invalid_api_key", 1, []string{"chat", "responses", "messages"}},
		{"context-overflow-fast", 400, "context_length_exceeded", 5, []string{"chat", "responses"}},
	} {
		for _, dialect := range c.dialect {
			up := newUpstream(t)
			s := serve(t, up.keyed(t))
			for i := range 5 {
				resp, body := s.ask(dialect, c.script, "Hello?")
				if resp.StatusCode != c.status || !strings.Contains(body, c.said) {
					t.Errorf("%s %s %d: %d %s", dialect, c.script, i, resp.StatusCode, body)
				}
				if c.status == 400 && (resp.Header.Get("X-Should-Retry") != "false" || c.most == 1 && i > 0 && resp.Header.Get("X-Reprise-Retry-At") == "") {
					t.Errorf("%s %s %d: %v", dialect, c.script, i, resp.Header)
				}
			}
			if n := up.quiet(t).Total; n > c.most {
				t.Errorf("%s %s: %d requests", dialect, c.script, n)
			}
			if c.most > 1 { // nothing rests
				continue
			}
			_, list, _ := reprise(t, s.home, "cool-offs")
			name, rest, _ := strings.Cut(strings.TrimSpace(list), " with ")
			key, _, _ := strings.Cut(rest, "  ")
			if code, left, stderr := reprise(t, s.home, "cool-offs", "--lift", name, "--key", key); code != 0 || left != "" {
				t.Errorf("lift %q: %d %s %s", list, code, left, stderr)
			}
			s.ask(dialect, c.script, "Hello?")
			if n := up.quiet(t).Total; n != c.most+1 {
				t.Errorf("%s %s, lifted: %d requests", dialect, c.script, n)
			}
		}
	}
}

// R7: a provider that is busy for ever is a status that may pass, with a time.
func TestBusyForEver(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, up.keyed(t), "--set", "recovery.tier1.base=10ms")
	for dialect := range modelCalls {
		resp, body := s.ask(dialect, "always-503-fast", "Hello?")
		if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); resp.StatusCode != 503 && resp.StatusCode != 529 || err != nil || after < 1 {
			t.Errorf("%s: %d %v %s", dialect, resp.StatusCode, resp.Header, body)
		}
	}
}
