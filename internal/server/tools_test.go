package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// A command is given little of our environment, what it is configured with, and never a provider's key, by whatever name it
// comes.
func TestEnvironmentOfToolServers(t *testing.T) {
	c := load(t, sourcesOf(t, `
providers: {p: {base_url: http://a.test, keys: [env:K]}}
tools:
  mcp:
    a: {command: [x], trust: [read_only], timeout: 0, env: {LANG: C, MODE: fast, TOKEN: env:T}}
    b: {command: [x], env: {SNEAKY: env:ALIAS}}
    c: {url: http://c.test, headers: {authorization: env:T, X-Mode: fast}, start_timeout: 5s}
    d: {command: [x], env: {MISSING: env:NOTHING}}
`, Env{"K": "provider-key", "ALIAS": "Bearer provider-key", "T": "token", "PATH": "/bin", "LANG": "de_DE", "REPRISE_LISTEN": "127.0.0.1:0"}))
	servers := c.toolServers()
	env, err := servers["a"].Env()
	slices.Sort(env)
	if want := []string{"HOME=" + c.env["HOME"], "LANG=C", "MODE=fast", "PATH=/bin", "TOKEN=token"}; err != nil || !slices.Equal(env, want) {
		t.Errorf("%v, %v, want %v", env, err, want)
	}
	if s := servers["a"].Secrets(); !slices.Equal(s, []string{"token"}) {
		t.Errorf("secrets: %v", s)
	}
	for name, want := range map[string]string{"b": "this is a key of provider p", "d": "NOTHING is not set"} {
		if env, err := servers[name].Env(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "provider-key") {
			t.Errorf("%s: %v, %v", name, env, err)
		}
	}
	if h, err := servers["c"].Header(); err != nil || h.Get("Authorization") != "token" || h.Get("X-Mode") != "fast" {
		t.Errorf("%v, %v", h, err)
	}
	if a, d := servers["a"], servers["d"]; !a.ReadOnly || a.Timeout != 0 || a.StartTimeout != toolStartTimeout || d.ReadOnly || d.Timeout != toolTimeout || servers["c"].StartTimeout != 5*time.Second {
		t.Errorf("%+v\n%+v", a, d)
	}
}

func TestServersThatASessionMayUse(t *testing.T) {
	for patterns, want := range map[string]bool{"": true, "none": false, "edit_file": false, "files_read": true, "files_*": true, "*": true, "f*": true,
		"file?_read": true, "fi[l]es_x": true, "filesystem_*": false, "g* clock": false, "clock files_x": true, "files_read*": true} {
		if got := mayName(strings.Fields(patterns), "files"); got != want {
			t.Errorf("%s: %v", patterns, got)
		}
	}
}

// Models may delegate where that is switched on and not denied. To do so is asked about only where
// the operator says so of that very tool, or of all.
func TestSubagentsByConfiguration(t *testing.T) {
	for text, want := range map[string]session.Subagents{
		``:                           {},
		`subagents: {depth: 2}`:      {},
		`subagents: {enabled: true}`: {Depth: 1},
		`subagents: {enabled: true, depth: 2, max_steps: 9, spend: 0.5}`: {Depth: 2, MaxSteps: 9, Spend: llm.Dollar / 2},
		`{subagents: {enabled: true}, approve: {delegate: deny}}`:        {},
		`{subagents: {enabled: true}, approve: {"*": ask}}`:              {Depth: 1, Ask: true},
		`{subagents: {enabled: true}, approve: {"*": ask, "del*": ""}}`:  {Depth: 1},
	} {
		if got := load(t, sourcesOf(t, "tools:\n  "+text+"\n", Env{})).Tools.subagents(); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	if _, err := Load(sourcesOf(t, "tools: {subagents: {enabled: true, depth: 0}}\n", Env{})); err == nil || !strings.Contains(err.Error(), "tools.subagents") {
		t.Errorf("a depth of nothing: %v", err)
	}
}
