package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

func openModels(t *testing.T, file string, env Env) *Models {
	t.Helper()
	m, err := OpenModels(load(t, sourcesOf(t, file, env)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// K-164: an unknown provider fails at once with a clear error, which lists those that are
// known.
func TestResolve(t *testing.T) {
	m := openModels(t, `
providers:
  a: {base_url: http://127.0.0.1:1, keys: [env:A_KEY]}
  b: {base_url: http://127.0.0.1:1}
  c: {base_url: http://127.0.0.1:1, keys: [env:NONE]}
chains: {default: [a/org/model]}
`, Env{"A_KEY": "secret"})
	for _, c := range []struct {
		model, provider, upstream string
		class                     failure.Class
		says                      string
	}{
		{model: "default", provider: "a", upstream: "org/model"},
		{model: "b/x", provider: "b", upstream: "x"},
		{model: "rehearsal/ok", provider: "rehearsal", upstream: "ok"},
		{model: "rehearsal-gemini/ok", provider: "rehearsal-gemini", upstream: "ok"},
		{model: "d/x", class: failure.ModelNotFound, says: `There is no provider "d". Providers are: a, b, c, rehearsal.`},
		{model: "x", class: failure.ModelNotFound, says: `"x" is not the name of a chain, nor provider/model`},
		{model: "a/", class: failure.ModelNotFound, says: "nor provider/model"},
		{model: "", class: failure.ModelNotFound, says: "set chains.default"},
		{model: "c/x", class: failure.CredentialsUnresolved, says: "the environment variable NONE is not set"},
	} {
		entries, err := m.Entries(c.model)
		var f *failure.Failure
		if errors.As(err, &f) {
			if f.Class != c.class || !strings.Contains(f.Message, c.says) || f.Delivered != llm.NeverSent {
				t.Errorf("%q: %+v, want %v: %s", c.model, f, c.class, c.says)
			}
			continue
		}
		if err != nil || len(entries) != 1 || entries[0].Provider != c.provider || entries[0].Model != c.upstream ||
			entries[0].Keys[0].Provider.Name() != c.provider {
			t.Errorf("%q is %+v, %v", c.model, entries, err)
		}
	}
	entries, err := m.Entries("a/x")
	if err != nil {
		t.Fatal(err)
	}
	if k, ok := entries[0].Keys[0].Provider.(llm.Keyed); !ok || k.KeyLabel() != "env:A_KEY" {
		t.Errorf("the key's label: %v", k)
	}
}

func TestKeyIsReadAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	m := openModels(t, "providers: {a: {base_url: http://127.0.0.1:1, keys: ['file:"+path+"']}}", nil)
	if _, err := m.Entries("a/x"); err == nil {
		t.Error("resolved without a key")
	}
	if err := os.WriteFile(path, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Entries("a/x"); err != nil {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	m := openModels(t, `
providers: {a: {base_url: http://127.0.0.1:1, models: [x, y], timeouts: {idle: 7s}}}
chains: {default: [a/z], fast: [a/x]}
`, nil)
	var names []string
	for _, model := range m.List() {
		if model.Provider != rehearsalName {
			names = append(names, model.Name+" "+model.Dialect)
			if model.IdleMillis != 7000 {
				t.Errorf("%s may be silent for %d ms", model.Name, model.IdleMillis)
			}
		}
	}
	if want := []string{"a/x chat", "a/y chat", "a/z chat"}; !slices.Equal(names, want) {
		t.Errorf("models %v, want %v", names, want)
	}
	if !slices.ContainsFunc(m.List(), func(m httpapi.Model) bool { return m.Name == "rehearsal/overloaded-then-ok" }) {
		t.Error("the rehearsal's scripts are not listed")
	}
	if chains := m.Chains(); len(chains) != 2 || chains[0].Name != "default" || chains[1].Models[0] != "a/x" {
		t.Errorf("chains %+v", chains)
	}
}

// K-163: a provider's test reports success or the class of failure. K-165: in every dialect.
func TestCheck(t *testing.T) {
	var seen http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
	}))
	defer upstream.Close()
	m := openModels(t, `
providers:
  refused: {base_url: `+upstream.URL+`, keys: [env:K], models: [x], headers: {X-Title: reprise}}
  gone: {base_url: "http://127.0.0.1:1", models: [x]}
  nameless: {base_url: "http://127.0.0.1:1"}
  keyless: {base_url: "http://127.0.0.1:1", keys: [env:NONE], models: [x]}
`, Env{"K": "the-key"})
	for d := range dialects {
		c, err := m.Check(t.Context(), rehearsalName+"-"+d)
		if err != nil || !c.OK || c.Model != "ok-fast" {
			t.Errorf("%s: %+v, %v", d, c, err)
		}
	}
	for name, want := range map[string]failure.Class{"refused": failure.AuthFailed, "gone": failure.Network,
		"nameless": failure.ModelNotFound, "keyless": failure.CredentialsUnresolved} {
		c, err := m.Check(t.Context(), name)
		var f *failure.Failure
		if !errors.As(err, &f) || f.Class != want || c.OK {
			t.Errorf("%s: %+v, %v, want %v", name, c, err, want)
		}
	}
	if seen.Get("Authorization") != "Bearer the-key" || seen.Get("X-Title") != "reprise" {
		t.Errorf("headers %v", seen)
	}
	if _, err := m.Check(t.Context(), "nobody"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("an unknown provider: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := m.Check(ctx, "rehearsal"); err == nil || c.OK {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
}

func TestScriptsOfOnesOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scripts.yaml")
	script := "- name: mine\n  shows: what I want\n  scenes: [[[{do: say, text: Hello}]]]\n"
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	m := openModels(t, "rehearsal: {scripts: "+path+"}", nil)
	if !slices.ContainsFunc(m.List(), func(m httpapi.Model) bool { return m.Name == "rehearsal/mine" && m.Description == "what I want" }) {
		t.Error("the script is not listed")
	}
	for name, wrong := range map[string]string{"no list": "name: x", "unknown key": "- name: x\n  scene: []", "unplayable": "- name: x\n  scenes: [[[{do: dance}]]]"} {
		if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := OpenModels(load(t, sourcesOf(t, "rehearsal: {scripts: "+path+"}", nil))); err == nil {
			t.Errorf("%s: accepted", name)
			m.Close()
		}
	}
}

// K-157: the operator's word on a model wins over the catalogue, and one model's over that of all.
func TestModelsAreOverridden(t *testing.T) {
	cfg := load(t, sourcesOf(t, `
providers:
  openai: {dialect: responses}
  local: {base_url: http://127.0.0.1:1/v1}
models:
  openai/gpt-5.2: {context: 1000, images: false}
  openai/gpt-5: {input: 0.5, output: 1.25}
  local/*: {context: 32768, max_output: 4096, input: 0, output: 0}
  local/big: {context: 131072, tools: true}
  rehearsal/*: {input: 1, output: 10}
`, nil))
	if m := cfg.about("openai", "gpt-5.2"); m.Context != 1000 || *m.Images || m.MaxOutput != 128_000 || m.Price.Input != 1_750_000_000 {
		t.Errorf("gpt-5.2: %+v, %+v", m, m.Price)
	}
	if p := cfg.about("openai", "gpt-5").Price; *p != (llm.Price{Rates: llm.Rates{Input: 500_000_000, Output: 1_250_000_000}}) {
		t.Errorf("gpt-5: %+v", p)
	}
	if m := cfg.about("local", "big"); m.Context != 131_072 || m.MaxOutput != 4096 || !*m.Tools || *m.Price != (llm.Price{}) {
		t.Errorf("local/big: %+v", m)
	}
	m := openModels(t, `
providers: {a: {base_url: http://127.0.0.1:1/v1}}
models: {a/*: {context: 9, tools: false, images: true}}
`, nil)
	if e, err := m.Entries("a/x"); err != nil || e[0].Facts.Context != 9 || *e[0].Facts.Tools || !*e[0].Facts.Images {
		t.Errorf("a chain knows %+v, %v", e, err)
	}
	if p := cfg.about("rehearsal", "ok").Price; p.Output != 10*llm.Dollar {
		t.Errorf("rehearsal: %+v", p)
	}
	var said bytes.Buffer
	unpriced := openModels(t, "providers: {a: {base_url: http://127.0.0.1:1/v1, models: [x, y]}}\nmodels: {a/y: {max_output: 9, input: 0, output: 0}}\nspend: {day: 1}\n", nil)
	unpriced.warnUnbounded(slog.New(slog.NewTextHandler(&said, nil)))
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "setting=models.a/x") {
		t.Errorf("it warns of %s", got)
	}
	for set, want := range map[string]string{
		"gpt-5.2: {context: 1}":        "want provider/model",
		"nobody/x: {context: 1}":       `there is no provider "nobody"`,
		"rehearsal/x: {context: -1}":   "count tokens",
		"rehearsal/x: {input: 1}":      "an input and an output",
		"rehearsal/x: {input: 1e3}":    "not an amount",
		"rehearsal/x: {input: [1, 2]}": "not an amount",
		"rehearsal/x: {inputs: 1}":     "inputs",
	} {
		if _, err := Load(sourcesOf(t, "models: {"+set+"}\n", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
}
