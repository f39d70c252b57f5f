package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/gemini"
	"github.com/reprise-run/reprise/wire/messages"
	"github.com/reprise-run/reprise/wire/responses"
)

// dialectsByName names each provider's dialect.
func (m *Models) dialectsByName() map[string]string {
	all := make(map[string]string, len(m.providers))
	for name, e := range m.providers {
		all[name] = e.dialect
	}
	return all
}

// dialects are the codecs by their names in the configuration. Mistral refuses fields that
// other compatible servers must be sent (https://docs.mistral.ai/api).
var dialects = map[string]func(host string) wire.Codec{
	"chat":      func(host string) wire.Codec { return chat.Codec{Strict: host == "api.mistral.ai"} },
	"responses": func(string) wire.Codec { return responses.Codec{} },
	"messages":  func(string) wire.Codec { return messages.Codec{} },
	"gemini":    func(string) wire.Codec { return gemini.Codec{} },
}

// Models are the providers of a configuration, and the rehearsal, which listens on loopback.
// They are safe for concurrent use.
type Models struct {
	cfg       Config
	providers map[string]*endpoint
	scripts   []rehearsal.Script
	state     recovery.CredentialState // nil: there are no sessions
	stop      context.CancelFunc
	rehearsal chan error // its server's end
	once      sync.Once
	err       error
}

// endpoint is a provider and where its keys are.
type endpoint struct {
	*provider.Provider
	dialect string
	base    string
	keys    []string // references; none: it needs none
}

// keyed is a provider with the label of its key.
type keyed struct {
	*provider.Provider
	label string
}

// KeyLabel implements llm.Keyed.
func (k keyed) KeyLabel() string { return k.label }

// WithGrace implements llm.Patient.
func (k keyed) WithGrace(d time.Duration) llm.Provider {
	return keyed{k.Provider.Patient(d), k.label}
}

// OpenModels makes the providers, reaching none, and starts the rehearsal.
func OpenModels(cfg Config) (*Models, error) {
	m := &Models{cfg: cfg, providers: map[string]*endpoint{}, rehearsal: make(chan error, 1)}
	for name, p := range cfg.Providers {
		header := http.Header{}
		for k, v := range p.Headers {
			header.Set(k, v)
		}
		e := &endpoint{dialect: p.Dialect, base: p.BaseURL, keys: p.Keys}
		if err := m.add(e, provider.Config{Name: name, BaseURL: p.BaseURL, Header: header,
			Timeouts: p.Timeouts.provider(), HTTP2: p.HTTP2}); err != nil {
			return nil, err
		}
	}
	return m, m.rehearse()
}

func (m *Models) add(e *endpoint, c provider.Config) error {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return fmt.Errorf("provider %s: base URL: %w", c.Name, err)
	}
	c.Codec = dialects[e.dialect](u.Hostname())
	if e.Provider, err = provider.New(c); err != nil {
		return err
	}
	m.providers[c.Name] = e
	return nil
}

// rehearse starts the rehearsal. It is a provider under its own name, and once more for each
// dialect.
func (m *Models) rehearse() error {
	var own []rehearsal.Script
	if path := m.cfg.Rehearsal.Scripts; path != "" {
		var err error
		if own, err = ReadScripts(path); err != nil {
			return err
		}
	}
	upstream, err := rehearsal.New(own...)
	if err != nil {
		return fmt.Errorf("rehearsal: %w", err)
	}
	m.scripts = upstream.Scripts()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("rehearsal: %w", err)
	}
	base := "http://" + l.Addr().String()
	suffix := map[string]string{"chat": "/v1", "responses": "/v1"}
	for d := range dialects {
		for _, name := range []string{rehearsalName + "-" + d, rehearsalName} {
			if name == rehearsalName && d != "responses" {
				continue
			}
			if err := m.add(&endpoint{dialect: d}, provider.Config{Name: name, BaseURL: base + suffix[d],
				Timeouts: provider.DefaultTimeouts}); err != nil {
				return errors.Join(err, l.Close())
			}
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() { m.rehearsal <- rehearsal.Serve(ctx, l, upstream) }()
	return nil
}

// Close ends the rehearsal and the idle connections. Closing twice is fine.
func (m *Models) Close() error {
	m.once.Do(func() {
		for _, e := range m.providers {
			e.CloseIdle()
		}
		m.stop()
		m.err = <-m.rehearsal
	})
	return m.err
}

// rehearsing reports that there is no other provider.
func (m *Models) rehearsing() bool { return len(m.cfg.Providers) == 0 }

// chain lists the models that a name stands for: those of a chain, or the model alone.
func (c *Config) chain(name string) []string {
	if models, ok := c.Chains[name]; ok {
		return models
	}
	return []string{name}
}

// Entries implements session.Models. A model is provider/model or the name of a chain. The
// keys are read anew each time.
func (m *Models) Entries(model string) ([]recovery.Entry, error) {
	chain := m.cfg.chain(model)
	entries := make([]recovery.Entry, 0, len(chain))
	var unread *failure.Failure
	ready := false
	for _, model := range chain {
		e, err := m.entry(model)
		if err != nil {
			return nil, err
		}
		for _, k := range e.Keys {
			if ready = ready || k.Err == nil; k.Err != nil && unread == nil {
				unread = k.Err
			}
		}
		entries = append(entries, e)
	}
	if !ready {
		return nil, unread
	}
	return entries, nil
}

func (m *Models) entry(model string) (recovery.Entry, error) {
	if model == "" {
		return recovery.Entry{}, m.notFound("", "", "No model is named, and there is no default: set chains.default, or name one as provider/model.")
	}
	name, upstream, ok := strings.Cut(model, "/")
	if !ok || upstream == "" {
		return recovery.Entry{}, m.notFound("", model, fmt.Sprintf("%q is not the name of a chain, nor provider/model.", model))
	}
	p := m.providers[name]
	if p == nil {
		return recovery.Entry{}, m.notFound(name, upstream, fmt.Sprintf("There is no provider %q.", name))
	}
	e := recovery.Entry{Provider: name, Model: upstream, Facts: m.About(name, upstream), Keys: p.ready(m.cfg.env)}
	e.Large = recovery.Ceiling(m.cfg.Providers[name].Large)
	for i := range e.Keys {
		if k := &e.Keys[i]; k.Err != nil {
			k.Err.Model = upstream
		}
	}
	return e, nil
}

// About is what is known of a provider's model.
func (m *Models) About(provider, model string) llm.ModelFacts { return m.cfg.about(provider, model) }

// notFound lists what there is.
func (m *Models) notFound(name, model, message string) error {
	return &failure.Failure{
		Class: failure.ModelNotFound, Provider: name, Model: model, Phase: failure.PhaseOpen, Delivered: llm.NeverSent,
		Message: message + " Providers are: " + strings.Join(m.cfg.providerNames(), ", ") + ".",
		Rule:    "unknown_provider", Source: "our own configuration",
	}
}

// ready reads the keys.
func (e *endpoint) ready(env Env) []recovery.Key {
	if len(e.keys) == 0 {
		return []recovery.Key{{Provider: e.Provider}}
	}
	keys := make([]recovery.Key, 0, len(e.keys))
	for _, label := range e.keys {
		k := recovery.Key{Label: label}
		secret, err := env.secret(label)
		if err != nil {
			k.Err = failure.NewUnresolved(failure.Facts{Provider: e.Name(), Dialect: e.dialect, Phase: failure.PhaseOpen},
				fmt.Sprintf("The key of provider %s cannot be read: %s.", e.Name(), err))
		} else {
			sum := sha256.Sum256([]byte(e.base + "\x00" + secret))
			k.Hash, k.Provider = hex.EncodeToString(sum[:16]), keyed{e.WithKey(secret), label}
		}
		keys = append(keys, k)
	}
	return keys
}

// List implements httpapi.Models: the models that the configuration names, and the scripts of
// the rehearsal.
func (m *Models) List() []httpapi.Model {
	var list []httpapi.Model
	for _, name := range slices.Sorted(maps.Keys(m.cfg.Providers)) {
		for _, model := range m.modelsOf(name) {
			list = append(list, m.model(name, model, ""))
		}
	}
	for _, s := range m.scripts {
		list = append(list, m.model(rehearsalName, s.Name, s.Shows))
	}
	return list
}

func (m *Models) model(provider, name, description string) httpapi.Model {
	e := m.providers[provider]
	return httpapi.Model{Name: provider + "/" + name, Provider: provider, Dialect: e.dialect, Description: description,
		IdleMillis: e.Timeouts().Idle.Milliseconds(), About: m.About(provider, name)}
}

// modelsOf lists the models of a provider that the configuration names, without repetition.
func (m *Models) modelsOf(name string) []string {
	models := slices.Clone(m.cfg.Providers[name].Models)
	for _, c := range slices.Sorted(maps.Keys(m.cfg.Chains)) {
		for _, named := range m.cfg.Chains[c] {
			if p, model, _ := strings.Cut(named, "/"); p == name && !slices.Contains(models, model) {
				models = append(models, model)
			}
		}
	}
	return models
}

// Chains implements httpapi.Models.
func (m *Models) Chains() []httpapi.Chain {
	var list []httpapi.Chain
	for _, n := range slices.Sorted(maps.Keys(m.cfg.Chains)) {
		list = append(list, httpapi.Chain{Name: n, Models: m.cfg.Chains[n]})
	}
	return list
}

// Check implements httpapi.Models. The requests pass the gate as an operator's; the
// provider's own timeouts bound them.
func (m *Models) Check(ctx context.Context, name string) (httpapi.Check, error) {
	if m.providers[name] == nil {
		return httpapi.Check{}, session.ErrNotFound
	}
	c := httpapi.Check{Provider: name}
	switch models := m.modelsOf(name); {
	case isRehearsal(name):
		c.Model = "ok-fast"
	case len(models) > 0:
		c.Model = models[0]
	default:
		return c, m.notFound(name, "", fmt.Sprintf("No model of provider %s is known: name one under providers.%s.models.", name, name))
	}
	e, err := m.entry(name + "/" + c.Model)
	if err != nil {
		return c, err
	}
	start := time.Now()
	var first error
	for _, k := range e.Keys {
		err := m.try(ctx, e, k)
		c.Millis = time.Since(start).Milliseconds()
		var f *failure.Failure
		if err != nil && !errors.As(err, &f) {
			return c, err
		}
		if first == nil && f != nil {
			first = f
		}
		if len(e.Keys) > 1 {
			c.Keys = append(c.Keys, httpapi.KeyCheck{Key: k.Label, OK: f == nil, Failure: f})
		}
	}
	c.OK = first == nil
	return c, first
}

// try asks a model one thing, with one key.
func (m *Models) try(ctx context.Context, e recovery.Entry, k recovery.Key) error {
	if k.Err != nil {
		return k.Err
	}
	e.Keys = []recovery.Key{k}
	ledger := replay.NewMemory()
	scope := llm.Scope{Session: "check", Run: "check", Lineage: llm.LineageMain, Generation: ledger.Claim("check")}
	gate := replay.New(scope, ledger, replay.Operator{Actor: httpapi.Operator, Message: "check"})
	route := &recovery.Route{Entries: func() []recovery.Entry { return []recovery.Entry{e} }, State: m.state, Person: true}
	_, err := recovery.Do(ctx, recovery.Plan{Route: route, Policy: recovery.Policy{MaxRequests: 1}, Trace: nobody{}}, gate, nobody{},
		&llm.Request{MaxOutputTokens: 16, Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Say ok.")}}}})
	return err
}

// nobody watches a check.
type nobody struct{}

// Append implements replay.Sink.
func (nobody) Append(context.Context, []llm.Event) error { return nil }

// Chosen implements recovery.Trace.
func (nobody) Chosen(recovery.Choice) {}

// Decided implements recovery.Trace.
func (nobody) Decided(context.Context, string, *failure.Failure, recovery.Decision) error { return nil }

// Providers lists what Check can be asked about: the configured providers, or the rehearsal
// where there is none.
func (m *Models) Providers() []string {
	if m.rehearsing() {
		return []string{rehearsalName}
	}
	return slices.Sorted(maps.Keys(m.cfg.Providers))
}
