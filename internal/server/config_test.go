package server

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider"
	"github.com/reprise-run/reprise/recovery"
)

// sourcesOf is a machine with this file, and this environment beside a home folder.
func sourcesOf(t *testing.T, file string, env Env) Sources {
	t.Helper()
	e := Env{"HOME": t.TempDir()}
	maps.Copy(e, env)
	dir := filepath.Join(e["HOME"], ".config", "reprise")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "reprise.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return Sources{Env: e}
}

func load(t *testing.T, s Sources) Config {
	t.Helper()
	c, err := Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNothingIsNeeded(t *testing.T) {
	home := t.TempDir()
	c := load(t, Sources{Env: Env{"HOME": home}})
	if c.Listen != "127.0.0.1:7337" { // K-002
		t.Errorf("listens on %s", c.Listen)
	}
	if want := filepath.Join(home, ".local/share/reprise"); c.Data != want {
		t.Errorf("data in %s, want %s", c.Data, want)
	}
	if got := c.Recovery.policy(); got != recovery.DefaultPolicy() {
		t.Errorf("policy %+v", got)
	}
	if c.Model() != "rehearsal/ok" {
		t.Errorf("default model %q", c.Model())
	}
	data := load(t, Sources{Env: Env{"HOME": home, "XDG_DATA_HOME": "/var/data"}}).Data
	if data != "/var/data/reprise" {
		t.Errorf("data in %s", data)
	}
}

// K-007: flags over environment over file over defaults.
func TestPrecedence(t *testing.T) {
	file := "listen: 127.0.0.1:1\nlimits: {concurrent_runs: 1}\nrecovery: {tier1: {attempts: 5, base: 2s}}\n"
	env := Env{"REPRISE_LISTEN": "127.0.0.1:2", "REPRISE_RECOVERY_TIER1_ATTEMPTS": "6"}
	s := sourcesOf(t, file, env)
	s.Flags = []string{"listen=127.0.0.1:3", "listen=127.0.0.1:4"}
	c := load(t, s)
	if c.Listen != "127.0.0.1:4" {
		t.Errorf("listen %s: not the last flag", c.Listen)
	}
	if c.Recovery.Tier1.Attempts != 6 {
		t.Errorf("attempts %d: not the environment", c.Recovery.Tier1.Attempts)
	}
	if c.Limits.ConcurrentRuns != 1 || c.Recovery.Tier1.Base != Duration(2*time.Second) {
		t.Errorf("%+v %+v: not the file", c.Limits, c.Recovery.Tier1)
	}
	if c.Recovery.Tier1.Cap != Duration(30*time.Second) {
		t.Errorf("cap %v: not the default", c.Recovery.Tier1.Cap)
	}
}

func TestLayersUniteMaps(t *testing.T) {
	s := sourcesOf(t, "providers:\n  a: {base_url: http://a.test/v1, models: [x]}\n", nil)
	s.Flags = []string{"providers.a.http2=true", "providers.b.base_url=http://b.test"}
	c := load(t, s)
	if a := c.Providers["a"]; !a.HTTP2 || a.BaseURL != "http://a.test/v1" || !slices.Equal(a.Models, []string{"x"}) {
		t.Errorf("a: %+v", a)
	}
	if c.Providers["b"].BaseURL != "http://b.test" {
		t.Errorf("b: %+v", c.Providers["b"])
	}
}

// F46: what is allowed is what a value says, not that its key is there.
func TestValues(t *testing.T) {
	c := load(t, sourcesOf(t, `
providers:
  a: {base_url: http://a.test, timeouts: {idle: 0, first_content: 600s}}
recovery:
  hold: {for: 250ms}
  unknown: bounded
  tier2: {mode: "off", auto_within: 0}
`, nil))
	want := provider.DefaultTimeouts
	want.Idle, want.FirstContent, want.FirstEvent = 0, 10*time.Minute, 10*time.Minute
	if got := c.Providers["a"].Timeouts.provider(); got != want {
		t.Errorf("timeouts %+v, want %+v", got, want)
	}
	if got := c.Recovery.Hold.replay(); got != (replay.Hold{Mode: replay.HoldFor, For: 250 * time.Millisecond}) {
		t.Errorf("hold %+v", got)
	}
	if got := load(t, sourcesOf(t, "chains: {fast: [rehearsal/ok]}\nrecovery: {holds: {fast: {bytes: 9}}}", nil)).Recovery.holds()["fast"]; got != (replay.Hold{Mode: replay.HoldBytes, Bytes: 9}) {
		t.Errorf("the chain's hold %+v", got)
	}
	p := c.Recovery.policy()
	if !p.Unknown || p.HandOver || p.AutoWithin != 0 {
		t.Errorf("policy %+v", p)
	}
	for value, want := range map[string]replay.HoldMode{
		"first_content": replay.HoldFirstContent, "first_block": replay.HoldFirstBlock, "whole": replay.HoldWhole,
		`"bytes: 4096"`: replay.HoldBytes, "{bytes: 4096}": replay.HoldBytes,
	} {
		if got := load(t, sourcesOf(t, "recovery: {hold: "+value+"}", nil)).Recovery.Hold.replay().Mode; got != want {
			t.Errorf("hold %s is %v, want %v", value, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	endpoint := "providers: {a: {base_url: http://a.test}}\n"
	for name, c := range map[string]struct {
		file  string
		env   Env
		flags []string
		want  string // all of these, by line
	}{
		"unknown key":           {file: "listen: 127.0.0.1:0\nlisten_on: x\n", want: `reprise.yaml:2: there is no setting "listen_on" here`},
		"unknown nested key":    {file: "recovery:\n  tier1:\n    atempts: 1\n", want: `reprise.yaml:3: there is no setting "atempts" here`},
		"unknown provider key":  {file: "providers:\n  a:\n    url: x\n", want: `reprise.yaml:3: there is no setting "url" here`},
		"wrong kind":            {file: "limits:\n  concurrent_runs: many\n", want: "reprise.yaml:2: cannot unmarshal"},
		"no duration":           {file: "recovery:\n  tier1: {base: 5}\n", want: `reprise.yaml:2: "5" is not a duration`},
		"negative duration":     {file: "recovery:\n  tier1: {base: -5s}\n", want: `reprise.yaml:2: "-5s" is not a duration`},
		"no hold policy":        {file: "recovery:\n  hold: {for: ever}\n", want: "reprise.yaml:2: hold policy"},
		"no YAML":               {file: "listen: [\n", want: "reprise.yaml:"},
		"twice the same key":    {file: "listen: a:1\nlisten: b:2\n", want: `reprise.yaml:2: mapping key "listen" already defined`},
		"two documents":         {file: "listen: 127.0.0.1:0\n---\nlisten: 127.0.0.1:1\n", want: "reprise.yaml:2: there is more than one document"},
		"variable":              {env: Env{"REPRISE_LIMITS_CONCURRENT_RUNS": "many"}, want: "REPRISE_LIMITS_CONCURRENT_RUNS: cannot unmarshal"},
		"unknown variable":      {env: Env{"REPRISE_LISTEN_ON": "x", "REPRISE_SERVICE_PORT_HTTP": "80", "REPRISE_PORT_80_TCP_ADDR": "10.0.0.1"}, want: "no setting for the environment variable REPRISE_LISTEN_ON"},
		"flag":                  {flags: []string{"nothing.like=this"}, want: `--set nothing.like: there is no setting "nothing" here`},
		"flag without value":    {flags: []string{"listen"}, want: "--set listen: want key=value"},
		"listen":                {file: "listen: nowhere", want: "listen: want host:port"},
		"open to all":           {file: "listen: 0.0.0.0:0\nauth: {mode: none}", want: "needs authentication"},
		"auth mode":             {file: "auth: {mode: maybe}", want: "auth.mode: want launch or none"},
		"literal key":           {file: "providers: {a: {base_url: http://a.test, keys: [sk-very-secret]}}", want: "providers.a.keys: a key is named, not written down"},
		"literal nonce":         {file: "auth: {proxy_nonce: very-secret}", want: "auth.proxy_nonce: a key is named, not written down"},
		"dialect":               {file: "providers: {a: {dialect: telnet}}", want: "providers.a.dialect: want one of chat, gemini, messages, responses"},
		"chat without address":  {file: "providers: {a: {models: [x]}}", want: "providers.a.base_url: is missing"},
		"address":               {file: "providers: {a: {base_url: localhost}}", want: "providers.a.base_url: want http://"},
		"provider's name":       {file: "providers: {A/b: {base_url: http://a.test}}", want: "providers.A/b: a name is lower-case"},
		"rehearsal's name":      {file: "providers: {rehearsal: {base_url: http://a.test}}", want: "belongs to the provider without a model"},
		"twice the same model":  {file: endpoint + "chains: {default: [a/x, a/y, a/x]}", want: "chains.default: a/x is named twice"},
		"second model":          {file: endpoint + "chains: {default: [a/x, b/y]}", want: `chains.default: there is no provider "b"`},
		"empty chain":           {file: "chains: {default: []}", want: "chains.default: names no model"},
		"chain without slash":   {file: "chains: {default: [x]}", want: `chains.default: "x" is not provider/model`},
		"chain to nobody":       {file: endpoint + "chains: {default: [b/x]}", want: `chains.default: there is no provider "b"; known are a, rehearsal`},
		"attempts":              {file: "recovery: {tier1: {attempts: 0}}", want: "recovery.tier1.attempts: want 1 or more"},
		"cap":                   {file: "recovery: {tier1: {cap: 1ms}}", want: "recovery.tier1.cap: is less than"},
		"unknown failures":      {file: "recovery: {unknown: always}", want: "recovery.unknown: want never or bounded"},
		"requests":              {file: "recovery: {max_requests_per_step: 0}", want: "recovery.max_requests_per_step: want 1 or more"},
		"mode":                  {file: "recovery: {tier2: {mode: sometimes}}", want: "recovery.tier2.mode: want interactive, unattended or off"},
		"approve":               {file: "tools: {approve: {x: maybe}}", want: "tools.approve: x: want allow, ask or deny"},
		"approve pattern":       {file: "tools: {approve: {'[': ask}}", want: `tools.approve: "[" is not a name or pattern`},
		"approval timeout":      {file: "tools: {approval_timeout: 0}", want: "tools.approval_timeout: want a time above 0"},
		"unattended":            {file: "recovery: {tier2: {mode: unattended}}", want: "recovery.tier2.max_elapsed: unattended retries need a ceiling: want a time, as 12h"},
		"several at once":       {file: "database: mysql://x\nevents: x", want: "database: want postgres://user@host/name, or env:NAME or file:PATH where it is a secret\nevents: want nats://host:4222"},
		"NATS of nothing":       {file: "nats: {replicas: 3}", want: "nats: has no effect without events"},
		"NATS secret":           {file: "events: nats://user:hush@x", want: "events: a password or token is named, not written down"},
		"NATS bounds":           {file: "events: nats://x\nnats: {replicas: 2, max_bytes: 1, max_age: 1m}", want: "nats.replicas: want 1, 3 or 5\nnats.max_bytes: want\nnats.max_age: want 1h or more"},
		"NATS proofs":           {file: "events: nats://x\nnats: {certificate: a, credentials: b, nkey: c}", want: "nats.certificate: want\nnats.nkey: want"},
		"password written down": {file: "database: postgres://me:secret@x/y", want: "database: a password is named, not written down: use postgres://user:env:NAME@host/name, PGPASSWORD or a password file"},
		"password in the query": {file: "database: postgres://me@x/y?password=secret", want: "database: a password is named, not written down"},
		"tier 2":                {file: "recovery: {tier2: {base: 3s, cap: 2s, max_attempts: -1}}", want: "tier2.cap\ntier2.max_attempts"},
		"spend":                 {file: "spend:\n  session: -1\n  day: 1e3\n", want: "reprise.yaml:2: \"-1\" is not an amount in US dollars\nreprise.yaml:3: \"1e3\" is not"},
		"compaction":            {file: "compaction: {strategy: forget}", want: "compaction.strategy: want summarize, drop or off"},
		"compaction's measures": {file: "compaction: {threshold: 80, turns: 0}", want: "compaction.threshold: want a share\ncompaction.turns: want 1"},
		"large requests":        {file: "providers: {a: {base_url: http://a.test, large_requests: {bytes: 1000}}}", want: "providers.a.large_requests: want both"},
		"hold of no chain":      {file: "recovery: {holds: {fast: whole}}", want: `recovery.holds.fast: there is no chain "fast"`},
		"no workspace":          {file: "tools: {workspace: /no/such/folder}", want: "tools.workspace: there is no folder /no/such/folder: make it, or name another"},
		"workspace of a file":   {file: "tools: {workspace: /dev/null}", want: "tools.workspace: /dev/null is not a folder"},
		"workspace of secrets":  {file: "tools: {workspace: ~/}", want: "must not be one in the other"},
		"workspace in secrets":  {file: "tools: {workspace: /dev}\ndata: /", want: "must not be one in the other"},
		"hook's event":          {file: "hooks: {a: {on: [run.ended], command: [x]}}", want: `hooks.a.on: there is no event "run.ended"; there are run.started, run.succeeded, run.failed,`},
		"hook of nothing":       {file: "hooks: {a: {}}", want: "hooks.a.on: names no event\nhooks.a: want command or url"},
		"hook of both":          {file: "hooks: {a: {on: [run.*], command: [x], url: http://a.test}}", want: "hooks.a: want command or url"},
		"hook's address":        {file: "hooks: {a: {on: [run.*], url: localhost, secret: very-secret, env: {A: b}}}", want: "hooks.a.url: want http\nhooks.a.secret: a key is named\nhooks.a.env: is for a command"},
		"hook's secret":         {file: "hooks: {a: {on: [run.*], command: [x], secret: env:A}}", want: "hooks.a.secret: signs what is sent"},
		"hook's name":           {file: "hooks: {A b: {on: [run.*], command: [\"\"]}}", want: "hooks.A b: a name is lower-case\nhooks.A b.command: names no program"},
		"hook that foretells":   {file: "hooks: {a: {on: [\"*\"], command: [x]}}", want: "hooks.a.on: retry.waiting tells of a repetition\nhooks.a.on: schedule.armed tells"},
		"tools":                 {file: "tools: {mcp: {a: {}}}", want: "tools.mcp.a: want either command or url"},
		"tool server's key":     {file: "tools:\n  mcp:\n    a:\n      comand: [x]\n", want: `reprise.yaml:4: there is no setting "comand" here`},
		"tool server's name":    {file: "tools: {mcp: {A: {command: [x]}, 1a: {command: [x]}}}", want: "tools.mcp.A: a name is\ntools.mcp.1a: a name is"},
		"tool server twice":     {file: "tools: {mcp: {a: {command: [x], url: http://a.test}}}", want: "tools.mcp.a: want either command or url"},
		"tool server's address": {file: "tools: {mcp: {a: {url: a.test}, b: {url: 'http://u:very-secret@b.test'}}}", want: "tools.mcp.a.url: want http://\ntools.mcp.b.url: want http://"},
		"tool server's extras":  {file: "tools: {mcp: {a: {url: http://a.test, env: {A: b}}, b: {command: [x], headers: {A: b}}}}", want: "tools.mcp.a.env: belongs to command\ntools.mcp.b.headers: belong to url"},
		"tool server's headers": {file: "tools: {mcp: {a: {url: http://a.test, headers: {Mcp-Session-Id: x, 'a b': y, A: \"x\\ny\"}}}}", want: `"Mcp-Session-Id" is no header's name` + "\n" + `"a b" is no header's name` + "\ntools.mcp.a.headers.A: is more than a line"},
		"trust":                 {file: "tools: {mcp: {a: {command: [x], trust: [idempotent, all]}}}", want: "tools.mcp.a.trust: idempotent has no use\ntools.mcp.a.trust: want read_only, not \"all\""},
		"tool server's wait":    {file: "tools: {mcp: {a: {command: [x], start_timeout: 0}}}", want: "tools.mcp.a.start_timeout: want a time above 0"},
		"provider's key (env)":  {file: "providers: {p: {base_url: http://a.test, keys: [env:K]}}\ntools: {mcp: {a: {command: [x], env: {OPENAI_API_KEY: env:K}}}}", want: "tools.mcp.a.env.OPENAI_API_KEY: env:K is a key of provider p"},
		"found key (header)":    {file: "tools: {mcp: {a: {url: http://a.test, headers: {Authorization: env:OPENAI_API_KEY}}}}", env: Env{"OPENAI_API_KEY": "very-secret"}, want: "tools.mcp.a.headers.Authorization: env:OPENAI_API_KEY is a key of provider openai"},
		"runs":                  {file: "limits: {concurrent_runs: -1}", want: "limits.concurrent_runs: want 0 or more"},
		"kept calls":            {file: "gateway: {keep_calls: 1h}", want: "gateway.keep_calls: want 48h or more"},
		"number of kept calls":  {file: "gateway: {max_calls: -1}", want: "gateway.max_calls: want 0 or more"},
		"key of nothing":        {env: Env{"REPRISE_KEY": "env:A"}, want: "--key belongs to --base-url"},
		"address without model": {env: Env{"REPRISE_BASE_URL": "http://a.test"}, want: "--base-url needs --model"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sourcesOf(t, c.file, c.env)
			s.Flags = c.flags
			_, err := Load(s)
			if err == nil {
				t.Fatal("accepted")
			}
			for want := range strings.SplitSeq(c.want, "\n") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %s", err, want)
				}
			}
			if strings.Contains(err.Error(), "very-secret") {
				t.Errorf("the secret is in the error: %v", err)
			}
		})
	}
}

// A service named reprise in a cluster does not keep its own server from starting.
func TestVariablesOfAClusterAreNoSettings(t *testing.T) {
	load(t, sourcesOf(t, "", Env{"REPRISE_SERVICE_HOST": "10.0.0.1", "REPRISE_SERVICE_PORT": "80", "REPRISE_SERVICE_PORT_HTTP": "80",
		"REPRISE_PORT": "tcp://10.0.0.1:80", "REPRISE_PORT_80_TCP": "tcp://10.0.0.1:80", "REPRISE_PORT_80_TCP_PROTO": "tcp",
		"REPRISE_METRICS_SERVICE_HOST": "10.0.0.2"}))
}

func TestNamedFileMustBeThere(t *testing.T) {
	if _, err := Load(Sources{Env: Env{"HOME": t.TempDir()}, File: filepath.Join(t.TempDir(), "no.yaml")}); err == nil {
		t.Error("accepted")
	}
	if _, err := Load(Sources{Env: Env{}}); err == nil || !strings.Contains(err.Error(), "data: there is no home folder") {
		t.Errorf("without a home folder: %v", err)
	}
}

// K-162: keys come from environment variables by name.
func TestFoundInTheEnvironment(t *testing.T) {
	key := func(n string) []string { return []string{"env:" + n} }
	for name, c := range map[string]struct {
		env   Env
		want  map[string]Provider
		model string
	}{
		"OpenAI": {Env{"OPENAI_API_KEY": "k"},
			map[string]Provider{"openai": {Dialect: "responses", BaseURL: "https://api.openai.com/v1", Keys: key("OPENAI_API_KEY"), Models: []string{"gpt-5.2"}}}, "openai/gpt-5.2"},
		"compatible with OpenAI, no key": {Env{"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"},
			map[string]Provider{"openai": {Dialect: "chat", BaseURL: "http://127.0.0.1:8000/v1"}}, ""},
		"OpenAI by its address": {Env{"OPENAI_BASE_URL": "https://api.openai.com/v1", "OPENAI_API_KEY": "k"},
			map[string]Provider{"openai": {Dialect: "responses", BaseURL: "https://api.openai.com/v1", Keys: key("OPENAI_API_KEY")}}, ""},
		"Anthropic": {Env{"ANTHROPIC_API_KEY": "k"},
			map[string]Provider{"claude": {Dialect: "messages", BaseURL: "https://api.anthropic.com", Keys: key("ANTHROPIC_API_KEY"), Models: []string{"claude-sonnet-5"}}}, "claude/claude-sonnet-5"},
		"Google, either name": {Env{"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "https://g.test"},
			map[string]Provider{"gemini": {Dialect: "gemini", BaseURL: "https://g.test", Keys: key("GOOGLE_API_KEY")}}, ""},
		"Google, both names": {Env{"GOOGLE_API_KEY": "k", "GEMINI_API_KEY": "k"},
			map[string]Provider{"gemini": {Dialect: "gemini", BaseURL: "https://generativelanguage.googleapis.com", Keys: key("GEMINI_API_KEY"), Models: []string{"gemini-flash-latest"}}}, "gemini/gemini-flash-latest"},
		"Ollama": {Env{"OLLAMA_HOST": "0.0.0.0"},
			map[string]Provider{"ollama": {Dialect: "chat", BaseURL: "http://127.0.0.1:11434/v1"}}, ""},
		"empty": {Env{"OPENAI_API_KEY": "", "OLLAMA_HOST": ""}, map[string]Provider{}, "rehearsal/ok"},
	} {
		t.Run(name, func(t *testing.T) {
			got := load(t, sourcesOf(t, "", c.env))
			if !reflect.DeepEqual(got.Providers, c.want) {
				t.Errorf("found %+v, want %+v", got.Providers, c.want)
			}
			if got.Model() != c.model {
				t.Errorf("default model %q, want %q", got.Model(), c.model)
			}
		})
	}
	own := load(t, sourcesOf(t, "providers: {a: {base_url: http://a.test}}", Env{"OPENAI_API_KEY": "k"}))
	if len(own.Providers) != 1 {
		t.Errorf("beside configured ones: %v", own.Providers)
	}
}

func TestOllamaHost(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.1":                 "http://10.0.0.1:11434/v1",
		"10.0.0.1:80":              "http://10.0.0.1:80/v1",
		"https://o.test":           "https://o.test:443/v1",
		"http://o.test/":           "http://o.test:11434/v1",
		"https://o.test/ollama":    "https://o.test:443/ollama/v1",
		"[::]:9":                   "http://127.0.0.1:9/v1",
		":9":                       "http://127.0.0.1:9/v1",
		"http://[2001:db8::1]:900": "http://[2001:db8::1]:900/v1",
	} {
		if got := ollama(host); got != want {
			t.Errorf("%s is %s, want %s", host, got, want)
		}
	}
}

// An address and a model are enough, as flags or as variables.
func TestBaseURLAndModel(t *testing.T) {
	byFlags := sourcesOf(t, "", nil)
	byFlags.BaseURL, byFlags.Model, byFlags.Key = "http://127.0.0.1:1/v1", "org/some-model", "env:K"
	byEnv := sourcesOf(t, "", Env{"REPRISE_BASE_URL": "http://127.0.0.1:1/v1", "REPRISE_MODEL": "org/some-model", "REPRISE_KEY": "env:K"})
	for _, s := range []Sources{byFlags, byEnv} {
		c := load(t, s)
		want := Provider{Dialect: "chat", BaseURL: "http://127.0.0.1:1/v1", Models: []string{"org/some-model"}, Keys: []string{"env:K"}}
		if !reflect.DeepEqual(c.Providers["endpoint"], want) {
			t.Errorf("%+v, want %+v", c.Providers, want)
		}
		if model, ok := c.Endpoint(); !ok || model != "endpoint/org/some-model" {
			t.Errorf("model %q", model)
		}
		if c.Model() != "default" {
			t.Errorf("default model %q", c.Model())
		}
	}
	s := sourcesOf(t, "", nil)
	s.Model = "rehearsal/slow"
	c := load(t, s)
	if _, ok := c.Endpoint(); ok || !slices.Equal(c.Chains["default"], []string{"rehearsal/slow"}) {
		t.Errorf("%+v", c.Chains)
	}
}

func TestSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := Env{"K": " from-env ", "EMPTY": " "}
	for ref, want := range map[string]string{"env:K": "from-env", "file:" + path: "from-file"} {
		if got, err := env.secret(ref); err != nil || got != want {
			t.Errorf("%s is %q, %v", ref, got, err)
		}
	}
	for _, ref := range []string{"env:EMPTY", "env:NONE", "env:", "file:", "file:" + path + "x", "K", ""} {
		if got, err := env.secret(ref); err == nil {
			t.Errorf("%q is %q", ref, got)
		}
	}
}

func TestDocumentationListsEverySetting(t *testing.T) {
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "## Every key")
	table, _, _ = strings.Cut(table, "## An example")
	var listed []string
	for line := range strings.Lines(table) {
		if key, ok := strings.CutPrefix(line, "| `"); ok {
			key, _, _ = strings.Cut(key, "`")
			listed = append(listed, key)
		}
	}
	if want := Keys(); !slices.Equal(listed, want) {
		t.Errorf("the table has\n%s\nthe settings are\n%s", strings.Join(listed, "\n"), strings.Join(want, "\n"))
	}
}

// The example is part of the contract: it loads.
func TestDocumentedExampleLoads(t *testing.T) {
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(b), "```yaml\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("there is no example")
	}
	if c := load(t, sourcesOf(t, example, nil)); len(c.Providers) != 3 {
		t.Errorf("providers %v", c.Providers)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("listen: a:1\nproviders: {a: {keys: [env:X]}}\n"))
	f.Add([]byte("recovery: {hold: {for: 1s}, tier1: {base: 0}}"))
	f.Add([]byte("a: &x {b: *x}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		root, err := parse(inFile("file"), b)
		if err == nil && root != nil {
			c := Defaults()
			if err := root.Decode(&c); err != nil {
				t.Errorf("parsed, and not read: %v", err)
			}
		}
	})
}
