package catalogue

import (
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
)

func TestFind(t *testing.T) {
	const openai, anthropic, google = "api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"
	for _, c := range []struct {
		host, model string
		context     int64
		input       llm.Money // for a million tokens; -1: no price
	}{
		{openai, "gpt-5.2", 400_000, 1_750_000_000},
		{"API.OpenAI.com", "gpt-5.2", 400_000, 1_750_000_000},
		{openai, "gpt-5.2-2025-12-11", 400_000, 1_750_000_000}, // a snapshot of it
		{openai, "gpt-4o-2024-05-13", 128_000, 5 * llm.Dollar}, // one with a price of its own
		{openai, "gpt-5.2-whatever", 0, -1},
		{openai, "gpt-5", 400_000, 1_250_000_000},
		{openai, "openai/gpt-5", 0, -1},
		{anthropic, "claude-haiku-4-5-20251001", 200_000, llm.Dollar},
		{anthropic, "claude-haiku-4-5", 200_000, llm.Dollar}, // the one snapshot that there is
		{anthropic, "claude-haiku-4-5-20260301", 0, -1},      // another one may differ
		{anthropic, "gpt-5.2", 0, -1},
		{google, "models/gemini-2.5-flash", 1_048_576, 300_000_000},
		// Elsewhere the size is the vendor's, and the price is not.
		{"openrouter.ai", "anthropic/claude-sonnet-5", 1_000_000, -1},
		{"openrouter.ai", "google/gemini-2.5-pro", 1_048_576, -1},
		{"openrouter.ai", "anthropic/claude-sonnet-5:free", 0, -1},
		{"127.0.0.1", "gpt-4o", 0, -1}, // anything may be called so
		{"", "", 0, -1},
	} {
		m := Find(c.host, c.model)
		if m.Context != c.context {
			t.Errorf("%s at %s: context %d, want %d", c.model, c.host, m.Context, c.context)
		}
		if got := m.Price; (got == nil) != (c.input < 0) || got != nil && got.Input != c.input {
			t.Errorf("%s at %s: price %+v, want %d", c.model, c.host, got, c.input)
		}
	}
}

// What a model refuses is known where it is said.
func TestPrefill(t *testing.T) {
	if can := Find("openrouter.ai", "anthropic/claude-opus-4-6").Prefill; can == nil || *can {
		t.Error(can)
	}
	if can := Find("api.anthropic.com", "claude-haiku-4-5").Prefill; can != nil {
		t.Error(*can)
	}
}

// The table has no entry that nobody finds, none twice, and no price that cannot be.
func TestTable(t *testing.T) {
	vendors := map[string]string{}
	for host, v := range hosts {
		vendors[v] = host
	}
	for n, found := range load() {
		e := found.facts
		if vendors[n.vendor] == "" {
			t.Errorf("%v: no host has this vendor", n)
		}
		if p := e.Price; p != nil && (p.Input <= 0 || p.Output < p.Input || p.CacheRead >= p.Input ||
			p.CacheWrite != 0 && p.CacheWrite <= p.Input ||
			p.Long != nil && (p.Above <= 0 || p.Long.Input <= p.Input || p.Long.Output <= p.Output)) {
			t.Errorf("%v: price %+v", n, *p)
		}
		if e.Context <= 0 || e.MaxOutput > e.Context {
			t.Errorf("%v: context %d, output %d", n, e.Context, e.MaxOutput)
		}
	}
	if n := strings.Count(string(table), `"vendor"`); n < 60 {
		t.Errorf("%d rows", n)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		key, _, ok := strings.Cut(line, `"context"`)
		if ok && seen[key] {
			t.Errorf("twice: %s", key)
		}
		seen[key] = true
	}
}
