package server

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// Config is every setting. docs/configuration.md describes each.
type Config struct {
	Listen     string              `yaml:"listen"`
	Data       string              `yaml:"data"`
	Database   string              `yaml:"database"`
	Events     string              `yaml:"events"`
	NATS       NATS                `yaml:"nats"`
	Auth       Auth                `yaml:"auth"`
	Providers  map[string]Provider `yaml:"providers"`
	Chains     map[string][]string `yaml:"chains"`
	Models     map[string]Model    `yaml:"models"`
	Recovery   Recovery            `yaml:"recovery"`
	Compaction Compaction          `yaml:"compaction"`
	Limits     Limits              `yaml:"limits"`
	Gateway    Gateway             `yaml:"gateway"`
	Spend      Spend               `yaml:"spend"`
	Tools      Tools               `yaml:"tools"`
	Hooks      map[string]Hook     `yaml:"hooks"`
	Rehearsal  Rehearsal           `yaml:"rehearsal"`
	Log        Log                 `yaml:"log"`
	Telemetry  Telemetry           `yaml:"telemetry"`

	env  Env               // for the references to keys
	from map[string]string // where each changeable setting is from: file, environment or flag
}

// Auth says who may use the server.
type Auth struct {
	Mode       string   `yaml:"mode"`
	TokensFile string   `yaml:"tokens_file"`
	ProxyNonce string   `yaml:"proxy_nonce"` // a reference
	Hosts      []string `yaml:"hosts"`

	env Env
}

// Provider is one endpoint.
type Provider struct {
	Dialect  string            `yaml:"dialect"`
	BaseURL  string            `yaml:"base_url"`
	Keys     []string          `yaml:"keys"` // references
	Models   []string          `yaml:"models"`
	Headers  map[string]string `yaml:"headers"`
	Timeouts Timeouts          `yaml:"timeouts"`
	HTTP2    bool              `yaml:"http2"`
	Large    Large             `yaml:"large_requests"`
}

// Large bounds how often a provider is asked for one step's large request.
type Large struct {
	Bytes    int64 `yaml:"bytes"` // from so many on; 0: no bound of its own
	Requests int   `yaml:"requests"`
}

// Timeouts are a provider's; nil leaves the default, 0 turns one off.
type Timeouts struct {
	Connect      *Duration `yaml:"connect"`
	FirstEvent   *Duration `yaml:"first_event"`
	FirstContent *Duration `yaml:"first_content"`
	Idle         *Duration `yaml:"idle"`
}

// Model is what the operator knows of a model, or of every other model of a provider; what is
// set goes over the catalogue. Prices are in US dollars for a million tokens.
type Model struct {
	Context          int64 `yaml:"context"`
	MaxOutput        int64 `yaml:"max_output"`
	Tools            *bool `yaml:"tools"`
	Images           *bool `yaml:"images"`
	StructuredOutput *bool `yaml:"structured_output"`
	Prefill          *bool `yaml:"prefill"`
	Input            *USD  `yaml:"input"`
	CacheRead        *USD  `yaml:"cache_read"`
	CacheWrite       *USD  `yaml:"cache_write"`
	Output           *USD  `yaml:"output"`
}

// Recovery says what may be repeated without asking.
type Recovery struct {
	Tier1              Tier1           `yaml:"tier1"`
	Tier2              Tier2           `yaml:"tier2"`
	Hold               Hold            `yaml:"hold"`
	Holds              map[string]Hold `yaml:"holds"` // by chain
	Unknown            string          `yaml:"unknown"`
	MaxRequestsPerStep int             `yaml:"max_requests_per_step"`
}

// Tier1 is the fast retry inside a run.
type Tier1 struct {
	Attempts int      `yaml:"attempts"`
	Base     Duration `yaml:"base"`
	Cap      Duration `yaml:"cap"`
}

// Tier2 is the slow retry after a failed run.
type Tier2 struct {
	Mode        string   `yaml:"mode"`
	Ask         bool     `yaml:"ask"`
	Base        Duration `yaml:"base"`
	Cap         Duration `yaml:"cap"`
	AutoWithin  Duration `yaml:"auto_within"`
	MaxAttempts int      `yaml:"max_attempts"`
	MaxElapsed  Duration `yaml:"max_elapsed"`
	MaxSpend    USD      `yaml:"max_spend"`
}

// Compaction says when and how conversations that become too long are made shorter.
type Compaction struct {
	Strategy  string  `yaml:"strategy"`  // summarize, drop or off
	Threshold float64 `yaml:"threshold"` // of the model's context; 0: only where it refuses
	Turns     int     `yaml:"turns"`
}

func (c Compaction) agent() agent.Compaction {
	if c.Strategy == "off" {
		return agent.Compaction{}
	}
	return agent.Compaction{Strategy: agent.Strategy(c.Strategy), Threshold: c.Threshold, Turns: c.Turns}
}

// Gateway says how other programs' model calls are treated.
type Gateway struct {
	FenceWindow Duration `yaml:"fence_window"` // how long a call that broke is not repeated; 0: it may be at once
	KeepCalls   Duration `yaml:"keep_calls"`   // how long the record of a call is kept; 0: for ever
	MaxCalls    int      `yaml:"max_calls"`    // how many are; 0: no bound
}

// Limits bound what the server does at a time.
type Limits struct {
	ConcurrentRuns int    `yaml:"concurrent_runs"`
	Queued         string `yaml:"queued"` // auto or operator: who starts what found no slot
}

// Spend caps cost; 0: no cap.
type Spend struct {
	Session USD `yaml:"session"`
	Day     USD `yaml:"day"`
}

// Tools configures what models may ask for.
type Tools struct {
	Workspace string         `yaml:"workspace"` // a folder
	MCP       map[string]MCP `yaml:"mcp"`
	// Approve says, by a tool's name or a pattern of names, whether it is called without asking.
	Approve         map[string]string `yaml:"approve"` // allow, ask, deny, or empty: ask for an effect
	ApprovalTimeout Duration          `yaml:"approval_timeout"`
	Subagents       Subagents         `yaml:"subagents"`
}

// Subagents says whether models may give tasks to subagents, and bounds these.
type Subagents struct {
	Enabled  bool `yaml:"enabled"`
	Depth    int  `yaml:"depth"`     // how deep they may be nested
	MaxSteps int  `yaml:"max_steps"` // of each; 0: those of the session that asks for it
	Spend    USD  `yaml:"spend"`     // each; 0: no limit but that of the session that asks for it
}

// Rehearsal configures the provider without a model.
type Rehearsal struct {
	Scripts string `yaml:"scripts"` // a file
}

// Log says what is logged, and how it is written.
type Log struct {
	Level  string `yaml:"level"` // debug, info, warn or error; empty: as the command has it
	Format string `yaml:"format"`
}

// Telemetry says where traces go. Metrics are at /metrics.
type Telemetry struct {
	Traces string `yaml:"traces"` // address of an OTLP receiver over HTTP
}

// Defaults returns the settings of a server that is told nothing.
func Defaults() Config {
	p := recovery.DefaultPolicy()
	return Config{
		Listen: "127.0.0.1:7337",
		NATS:   NATS{Stream: "reprise", MaxBytes: 1 << 30, MaxAge: Duration(7 * 24 * time.Hour)},
		Auth:   Auth{Mode: string(httpapi.ModeLaunch)},
		Recovery: Recovery{
			Tier1: Tier1{Attempts: p.Tier1.Attempts, Base: Duration(p.Tier1.Base), Cap: Duration(p.Tier1.Cap)},
			Tier2: Tier2{Mode: "interactive", Base: Duration(2 * time.Second), Cap: Duration(300 * time.Second),
				AutoWithin: Duration(p.AutoWithin)},
			Unknown:            "never",
			MaxRequestsPerStep: p.MaxRequests,
		},
		Compaction: Compaction{Strategy: string(agent.Summarize), Threshold: 0.8, Turns: 2},
		Limits:     Limits{ConcurrentRuns: 16, Queued: "auto"},
		Gateway:    Gateway{FenceWindow: Duration(10 * time.Minute), KeepCalls: Duration(30 * 24 * time.Hour), MaxCalls: 200_000},
		Tools:      Tools{ApprovalTimeout: Duration(10 * time.Minute), Subagents: Subagents{Depth: 1}},
		Log:        Log{Format: "text"},
	}
}

func (r Recovery) policy() recovery.Policy {
	return recovery.Policy{
		Tier1:    recovery.Tier1{Attempts: r.Tier1.Attempts, Base: time.Duration(r.Tier1.Base), Cap: time.Duration(r.Tier1.Cap)},
		HandOver: r.Tier2.Mode != "off",
		Tier2: recovery.Tier2{
			Base: time.Duration(r.Tier2.Base), Cap: time.Duration(r.Tier2.Cap),
			MaxAttempts: r.Tier2.MaxAttempts, MaxElapsed: time.Duration(r.Tier2.MaxElapsed),
			MaxSpend: llm.Money(r.Tier2.MaxSpend),
		},
		AutoWithin:  time.Duration(r.Tier2.AutoWithin),
		Unknown:     r.Unknown == "bounded",
		MaxRequests: r.MaxRequestsPerStep,
	}
}

func (s Spend) limits() session.Limits {
	return session.Limits{Session: llm.Money(s.Session), Day: llm.Money(s.Day)}
}

func (t Timeouts) provider() provider.Timeouts {
	out := provider.DefaultTimeouts
	for _, f := range []struct {
		to   *time.Duration
		from *Duration
	}{{&out.Connect, t.Connect}, {&out.FirstEvent, t.FirstEvent}, {&out.FirstContent, t.FirstContent}, {&out.Idle, t.Idle}} {
		if f.from != nil {
			*f.to = time.Duration(*f.from)
		}
	}
	if t.FirstEvent == nil && t.FirstContent != nil && out.FirstContent > out.FirstEvent {
		out.FirstEvent = out.FirstContent // a local model may say nothing at all before its first token
	}
	return out
}

// holds are the hold policies of the chains that have one of their own.
func (r Recovery) holds() map[string]replay.Hold {
	out := make(map[string]replay.Hold, len(r.Holds))
	for chain, h := range r.Holds {
		out[chain] = h.replay()
	}
	return out
}

func (h Hold) replay() replay.Hold { return replay.Hold(h) }

// proxyNonce reads the secret; empty where there is none.
func (a Auth) proxyNonce() (string, error) {
	if a.ProxyNonce == "" {
		return "", nil
	}
	s, err := a.env.secret(a.ProxyNonce)
	if err != nil {
		return "", fmt.Errorf("auth.proxy_nonce: %w", err)
	}
	return s, nil
}

// Model is the model of a session that names none; empty: there is none.
func (c *Config) Model() string {
	if _, ok := c.Chains[defaultChain]; ok {
		return defaultChain
	}
	if len(c.Providers) == 0 {
		return rehearsalName + "/ok"
	}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		if models := c.Providers[name].Models; len(models) > 0 {
			return name + "/" + models[0]
		}
	}
	return ""
}

// Endpoint is the model of the provider that --base-url, or REPRISE_BASE_URL, describes.
func (c *Config) Endpoint() (model string, ok bool) {
	if _, ok := c.Providers[endpointName]; !ok || len(c.Chains[defaultChain]) == 0 {
		return "", false
	}
	return c.Chains[defaultChain][0], true
}

const (
	defaultChain  = "default"
	rehearsalName = "rehearsal"
)

// name is what providers and chains may be called.
var name = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)

// validate finds everything that is wrong, or that would have no effect.
func (c *Config) validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}

	if c.Data == "" {
		bad("data", "there is no home folder, so the data folder must be named")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		bad("listen", "want host:port, as in 127.0.0.1:7337")
	} else if c.Auth.Mode == string(httpapi.ModeNone) && !loopback(host) {
		bad("listen", "%s can be reached from other machines, which needs authentication: set auth.mode to launch", c.Listen)
	}
	switch httpapi.Mode(c.Auth.Mode) {
	case httpapi.ModeLaunch, httpapi.ModeNone:
	default:
		bad("auth.mode", "want launch or none")
	}
	if c.Auth.ProxyNonce != "" {
		if err := checkReference(c.Auth.ProxyNonce); err != nil {
			bad("auth.proxy_nonce", "%s", err)
		}
	}

	for _, n := range slices.Sorted(maps.Keys(c.Providers)) {
		p, key := c.Providers[n], "providers."+n
		if !name.MatchString(n) {
			bad(key, "a name is lower-case letters, digits, and _ . - between them")
		}
		if n == rehearsalName || strings.HasPrefix(n, rehearsalName+"-") {
			bad(key, "the name belongs to the provider without a model")
		}
		if _, ok := dialects[p.Dialect]; !ok {
			bad(key+".dialect", "want one of %s", strings.Join(slices.Sorted(maps.Keys(dialects)), ", "))
		}
		if p.BaseURL == "" {
			bad(key+".base_url", "is missing")
		} else if u, err := url.Parse(p.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			bad(key+".base_url", "want http://host/path or https://host/path")
		}
		if l := p.Large; l.Bytes < 0 || l.Requests < 0 || (l.Bytes > 0) != (l.Requests > 0) {
			bad(key+".large_requests", "want both bytes and requests, or neither")
		}
		for _, k := range p.Keys {
			if err := checkReference(k); err != nil {
				bad(key+".keys", "%s", err)
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.Chains)) {
		key := "chains." + n
		if !name.MatchString(n) {
			bad(key, "a name is lower-case letters, digits, and _ . - between them")
		}
		if len(c.Chains[n]) == 0 {
			bad(key, "names no model")
		}
		for i, model := range c.Chains[n] {
			p, m, ok := strings.Cut(model, "/")
			if _, known := c.Providers[p]; !ok || m == "" {
				bad(key, "%q is not provider/model", model)
			} else if !known && !isRehearsal(p) {
				bad(key, "there is no provider %q; known are %s", p, strings.Join(c.providerNames(), ", "))
			} else if slices.Contains(c.Chains[n][:i], model) {
				bad(key, "%s is named twice: a model that failed is not asked again in the same step", model)
			}
		}
	}

	for _, n := range slices.Sorted(maps.Keys(c.Recovery.Holds)) {
		if _, ok := c.Chains[n]; !ok {
			bad("recovery.holds."+n, "there is no chain %q", n)
		}
	}
	c.checkModels(bad)
	c.checkHooks(bad)
	c.checkTools(bad)

	r := c.Recovery
	if r.Tier1.Attempts < 1 {
		bad("recovery.tier1.attempts", "want 1 or more; 1 never retries")
	}
	if r.Tier1.Cap < r.Tier1.Base {
		bad("recovery.tier1.cap", "is less than recovery.tier1.base")
	}
	if r.MaxRequestsPerStep < 1 {
		bad("recovery.max_requests_per_step", "want 1 or more")
	}
	if r.Unknown != "never" && r.Unknown != "bounded" {
		bad("recovery.unknown", "want never or bounded")
	}
	switch k := c.Compaction; k.Strategy {
	case string(agent.Summarize), string(agent.Drop), "off":
		if k.Threshold < 0 || k.Threshold > 1 {
			bad("compaction.threshold", "want a share of the model's context, from 0 to 1; 0 waits until the model refuses")
		}
		if k.Turns < 1 {
			bad("compaction.turns", "want 1 or more")
		}
	default:
		bad("compaction.strategy", "want summarize, drop or off")
	}
	switch r.Tier2.Mode {
	case "interactive", "off":
	case "unattended":
		if r.Tier2.MaxElapsed <= 0 && r.Tier2.MaxSpend <= 0 {
			bad("recovery.tier2.max_elapsed", "unattended retries need a ceiling: want a time, as 12h, or set recovery.tier2.max_spend")
		}
	default:
		bad("recovery.tier2.mode", "want interactive, unattended or off")
	}
	if r.Tier2.Base <= 0 {
		bad("recovery.tier2.base", "want a time above 0")
	}
	if r.Tier2.Cap < r.Tier2.Base {
		bad("recovery.tier2.cap", "is less than recovery.tier2.base")
	}
	if r.Tier2.MaxAttempts < 0 {
		bad("recovery.tier2.max_attempts", "want 0 or more; 0 is no limit")
	}
	if c.Limits.ConcurrentRuns < 0 {
		bad("limits.concurrent_runs", "want 0 or more; 0 leaves every run queued")
	}
	if c.Limits.Queued != "auto" && c.Limits.Queued != "operator" {
		bad("limits.queued", "want auto or operator")
	}
	if w := time.Duration(c.Gateway.FenceWindow); w < 0 || w > 24*time.Hour {
		bad("gateway.fence_window", "want a time from 0 to 24h; 0 lets what broke be repeated")
	}
	if k := time.Duration(c.Gateway.KeepCalls); k > 0 && k < 48*time.Hour {
		bad("gateway.keep_calls", "want 48h or more, which limits on a day's cost look back on; 0 keeps calls for ever")
	}
	if c.Gateway.MaxCalls < 0 {
		bad("gateway.max_calls", "want 0 or more; 0 is no limit")
	}
	if _, ok := levels[c.Log.Level]; !ok && c.Log.Level != "" {
		bad("log.level", "want debug, info, warn or error")
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		bad("log.format", "want text or json")
	}
	if t := c.Telemetry.Traces; t != "" {
		if u, err := url.Parse(t); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			bad("telemetry.traces", "want http://host:port or https://host:port")
		}
	}
	if err := c.checkWorkspace(); err != nil {
		bad("tools.workspace", "%s", err)
	}
	if err := checkDatabase(c.Database); err != nil {
		bad("database", "%s", err)
	}
	c.checkEvents(bad)
	c.Tools.check(bad)
	return errors.Join(errs...)
}

// checkWorkspace finds what is wrong with the folder that tools work in.
func (c *Config) checkWorkspace() error {
	if c.Tools.Workspace == "" {
		return nil
	}
	dir, err := filepath.EvalSymlinks(c.Tools.Workspace)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s: make it, or name another", c.Tools.Workspace)
	case err != nil:
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a folder", c.Tools.Workspace)
	}
	data := c.Data
	if there, err := filepath.EvalSymlinks(data); err == nil { // else it is not there yet
		data = there
	}
	if within(dir, data) || within(data, dir) {
		return fmt.Errorf("%s and the data folder %s must not be one in the other: models would read every session, and the token of this user", c.Tools.Workspace, c.Data)
	}
	return nil
}

// within reports whether a path is a folder, or lies in it.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func isRehearsal(provider string) bool {
	d, ok := strings.CutPrefix(provider, rehearsalName+"-")
	return provider == rehearsalName || ok && dialects[d] != nil
}

// providerNames lists what a model's name may begin with.
func (c *Config) providerNames() []string {
	return append(slices.Sorted(maps.Keys(c.Providers)), rehearsalName)
}

// hosts are the names by which clients reach the server: those that the operator lists, and
// the one that it listens on.
func (c *Config) hosts() []string {
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		return c.Auth.Hosts
	}
	return append(slices.Clone(c.Auth.Hosts), host)
}

// absolute makes the folders and files of the configuration independent of the current
// folder. A leading ~ is the home folder.
func (c *Config) absolute(home string) error {
	for _, p := range []*string{
		&c.Data, &c.Auth.TokensFile, &c.Tools.Workspace, &c.Rehearsal.Scripts,
		&c.NATS.Credentials, &c.NATS.NKey, &c.NATS.CA, &c.NATS.Certificate, &c.NATS.Key,
	} {
		if *p == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(*p, "~/"); ok && home != "" {
			*p = filepath.Join(home, rest)
		}
		var err error
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	return nil
}
