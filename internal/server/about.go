package server

import (
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/catalogue"
	"github.com/reprise-run/reprise/llm"
)

// about is what is known of a provider's model: what the operator has set for it, over what is
// set for every model of the provider, over the catalogue. The rehearsal costs nothing, unless
// that is set otherwise.
func (c *Config) about(provider, model string) llm.ModelFacts {
	var m llm.ModelFacts
	if isRehearsal(provider) {
		m.Price = new(llm.Price)
	} else if u, err := url.Parse(c.Providers[provider].BaseURL); err == nil {
		m = catalogue.Find(u.Hostname(), model)
	}
	for _, name := range []string{provider + "/*", provider + "/" + model} {
		if set, ok := c.Models[name]; ok {
			m = set.over(m)
		}
	}
	return m
}

// warnUnbounded tells of models that a cap on cost lets nothing out for.
func (m *Models) warnUnbounded(log *slog.Logger) {
	if m.cfg.Spend == (Spend{}) {
		return
	}
	for _, model := range m.List() {
		if _, ok := model.About.Most(llm.Needs{}); !ok && !isRehearsal(model.Provider) {
			log.Warn("a limit on cost lets no request out whose cost has no bound: set its price and max_output", "setting", "models."+model.Name)
		}
	}
}

// over completes what is set by what is known otherwise. A price replaces the whole price, and
// holds for inputs of every length.
func (s Model) over(m llm.ModelFacts) llm.ModelFacts {
	if s.Context > 0 {
		m.Context = s.Context
	}
	if s.MaxOutput > 0 {
		m.MaxOutput = s.MaxOutput
	}
	for _, f := range []struct{ to, from **bool }{
		{&m.Tools, &s.Tools}, {&m.Images, &s.Images}, {&m.StructuredOutput, &s.StructuredOutput}, {&m.Prefill, &s.Prefill},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	if s.Input == nil && s.CacheRead == nil && s.CacheWrite == nil && s.Output == nil {
		return m
	}
	var p llm.Price
	for _, f := range []struct {
		to   *llm.Money
		from *USD
	}{{&p.Input, s.Input}, {&p.CacheRead, s.CacheRead}, {&p.CacheWrite, s.CacheWrite}, {&p.Output, s.Output}} {
		if f.from != nil {
			*f.to = llm.Money(*f.from)
		}
	}
	m.Price = &p
	return m
}

// checkModels finds what is wrong with the section models.
func (c *Config) checkModels(bad func(key, format string, args ...any)) {
	for _, n := range slices.Sorted(maps.Keys(c.Models)) {
		m, key := c.Models[n], "models."+n
		p, model, ok := strings.Cut(n, "/")
		if _, known := c.Providers[p]; !ok || model == "" {
			bad(key, "want provider/model, or provider/* for every model of a provider")
		} else if !known && !isRehearsal(p) {
			bad(key, "there is no provider %q; known are %s", p, strings.Join(c.providerNames(), ", "))
		}
		if m.Context < 0 || m.MaxOutput < 0 {
			bad(key, "context and max_output count tokens: want 1 or more")
		}
		set := m.Input != nil || m.CacheRead != nil || m.CacheWrite != nil || m.Output != nil
		if set && (m.Input == nil || m.Output == nil) {
			bad(key, "a price has an input and an output, in US dollars for a million tokens; a model that costs nothing has 0 for both")
		}
	}
}
