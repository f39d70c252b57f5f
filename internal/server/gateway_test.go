package server

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/internal/httpapi"
)

const gatewayFile = `
providers:
  oa: {dialect: chat, base_url: http://127.0.0.1:9/v1, models: [gpt, both]}
  vl: {dialect: chat, base_url: http://127.0.0.1:9/v1, models: [llama, both]}
  cl: {dialect: messages, base_url: http://127.0.0.1:9, models: [claude]}
chains:
  mixed: [cl/claude, oa/gpt, vl/llama]
  fast: [oa/gpt]
`

// A client's name for a model, of a client that speaks a dialect.
func TestGatewayNames(t *testing.T) {
	m, err := OpenModels(configOf(t, gatewayFile))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, c := range []struct{ dialect, name, want string }{
		{"chat", "oa/gpt", "oa/gpt"},
		{"chat", "oa/never/heard", "oa/never/heard"},
		{"chat", "gpt", "oa/gpt"},
		{"chat", "llama", "vl/llama"},
		{"chat", "both", "!"},    // two have it
		{"chat", "unheard", "!"}, // two could have it
		{"messages", "claude", "cl/claude"},
		{"messages", "claude-next", "cl/claude-next"}, // one speaks the dialect
		{"messages", "vendor/claude", "cl/vendor/claude"},
		{"messages", "", "!"},
		{"messages", "oa/gpt", "oa/gpt"},
		{"chat", "mixed", "cl/claude oa/gpt vl/llama"},
		{"messages", "mixed", "cl/claude oa/gpt vl/llama"},
		{"messages", "fast", "oa/gpt"},
		{"gemini", "rehearsal/ok", "rehearsal-gemini/ok"},
		{"chat", "rehearsal/ok", "rehearsal-chat/ok"},
		{"gemini", "gemini-pro", "!"},
	} {
		entries, err := m.Resolve(c.dialect, c.name)
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if want, refused := strings.CutPrefix(c.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
				t.Errorf("%s %q: %v, %v", c.dialect, c.name, got, err)
			}
		} else if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s %q: %v, %v, want %s", c.dialect, c.name, got, err, c.want)
		}
	}
}

// asks asks a gateway for a reply of the rehearsal.
func asks(t *testing.T, base, key string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/messages",
		strings.NewReader(`{"model":"rehearsal/ok-fast","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hello?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// The server has the gateway, and the gateway is there alone; neither answers to a key that is
// not one of its own, to another site, or under a name that is not its own.
func TestGateway(t *testing.T) {
	for name, start := range map[string]func(*testing.T, Config) string{
		"serve": func(t *testing.T, cfg Config) string {
			link, _ := serving(t, cfg)
			u, err := url.Parse(link)
			if err != nil {
				t.Fatal(err)
			}
			return "http://" + u.Host
		},
		"alone": func(t *testing.T, cfg Config) string {
			ctx, cancel := context.WithCancel(context.Background())
			bases, ended := make(chan string, 1), make(chan error, 1)
			go func() { ended <- ServeGateway(ctx, cfg, quiet(), func(base string) { bases <- base }) }()
			t.Cleanup(func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			return <-bases
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(t, "")
			base := start(t, cfg)
			token, err := httpapi.LocalToken(cfg.Data)
			if err != nil {
				t.Fatal(err)
			}
			if status, body := asks(t, base, token); status != 200 || !strings.Contains(body, "event: message_stop") {
				t.Errorf("%d %s", status, body)
			}
			// Google's SDKs take a name with a slash for a whole resource name.
			for _, path := range []string{"/v1beta/rehearsal/ok-fast:generateContent", "/v1/models/rehearsal/ok-fast:generateContent", "/v1beta/models/rehearsal/ok-fast:generateContent"} {
				resp, err := http.Post(base+path+"?key="+token, "application/json", strings.NewReader(`{"contents":[{"parts":[{"text":"Hello?"}]}]}`))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != 200 || resp.Header.Get("X-Reprise-Model") != "rehearsal-gemini/ok-fast" {
					t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
				}
			}
			for _, c := range [][]string{{"wrong"}, {""}, {token, "Sec-Fetch-Site", "cross-site"}, {token, "Host", "evil.test"}} {
				if status, body := asks(t, base, c[0], c[1:]...); status != 401 || !strings.Contains(body, "authentication_error") {
					t.Errorf("%q: %d %s", c, status, body)
				}
			}
		})
	}
}
