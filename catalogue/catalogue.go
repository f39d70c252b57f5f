// Package catalogue knows the sizes, abilities and prices of the models of well-known vendors,
// from a table that comes with the program (models.json names its sources and their dates).
//
// It promises to say nothing that the table does not say: a price holds only at its vendor's
// own address, a size also where the model's name says whose it is. It refuses to guess from
// similar names, to ask anybody, and to know what an operator has set: that goes over it.
package catalogue

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/reprise-run/reprise/llm"
)

//go:embed models.json
var table []byte

// hosts are the vendors by the address of their API, and prefixes by what others put before
// the names of their models.
var (
	hosts = map[string]string{
		"api.openai.com":                    "openai",
		"api.anthropic.com":                 "anthropic",
		"generativelanguage.googleapis.com": "gemini",
		"api.x.ai":                          "xai",
		"api.deepseek.com":                  "deepseek",
	}
	prefixes = map[string]string{
		"openai": "openai", "anthropic": "anthropic", "google": "gemini", "gemini": "gemini",
		"x-ai": "xai", "xai": "xai", "deepseek": "deepseek",
	}
)

type name struct{ vendor, model string }

// dated is the date that ends the name of a snapshot: -20251001 or -2025-12-11.
var dated = regexp.MustCompile(`-20\d{2}-?\d{2}-?\d{2}$`)

// Find returns what is known of a model, by the host of the endpoint that serves it and the
// name that it has there. At its vendor's, a name without a date also finds the one snapshot
// that the table has, and a snapshot without an entry of its own the model that it is of.
func Find(host, model string) llm.ModelFacts {
	if vendor, ok := hosts[strings.ToLower(host)]; ok {
		m, _ := find(vendor, strings.TrimPrefix(model, "models/")) // Google's own form
		return m
	}
	prefix, model, _ := strings.Cut(model, "/")
	m, _ := find(prefixes[prefix], model)
	m.Price = nil // whoever resells a model sets a price of their own
	return m
}

func find(vendor, model string) (llm.ModelFacts, bool) {
	all := load()
	m, ok := all[name{vendor, model}]
	if !ok && dated.MatchString(model) {
		m, ok = all[name{vendor, dated.ReplaceAllString(model, "")}]
		ok = ok && !m.snapshot
	}
	if !ok {
		return llm.ModelFacts{}, false
	}
	return m.facts, true
}

type entry struct {
	facts    llm.ModelFacts
	snapshot bool // found by a name that is not its own, which has a date
}

// load reads the table, once.
var load = sync.OnceValue(func() map[name]entry {
	var file struct {
		Models []struct {
			Vendor    string `json:"vendor"`
			Model     string `json:"model"`
			Context   int64  `json:"context"`
			MaxOutput int64  `json:"max_output"`
			Tools     *bool  `json:"tools"`
			Images    *bool  `json:"images"`
			Prefill   *bool  `json:"prefill"`
			Price     *price `json:"price"`
		} `json:"models"`
	}
	if err := json.Unmarshal(table, &file); err != nil {
		panic(fmt.Sprintf("catalogue: models.json: %v", err)) // it is part of the program
	}
	all := make(map[name]entry, len(file.Models))
	for _, m := range file.Models {
		all[name{m.Vendor, m.Model}] = entry{facts: llm.ModelFacts{Context: m.Context, MaxOutput: m.MaxOutput,
			Tools: m.Tools, Images: m.Images, Prefill: m.Prefill, Price: m.Price.money()}}
	}
	for _, m := range file.Models {
		undated := name{m.Vendor, dated.ReplaceAllString(m.Model, "")}
		if _, taken := all[undated]; !taken {
			all[undated] = entry{all[name{m.Vendor, m.Model}].facts, true}
		}
	}
	return all
})

// rates are written in US dollars for a million tokens.
type rates struct {
	Input      dollars `json:"input"`
	CacheRead  dollars `json:"cache_read"`
	CacheWrite dollars `json:"cache_write"`
	Output     dollars `json:"output"`
}

type price struct {
	rates
	Long *struct {
		Above int64 `json:"above"`
		rates
	} `json:"long"`
}

func (r rates) money() llm.Rates {
	return llm.Rates{Input: llm.Money(r.Input), CacheRead: llm.Money(r.CacheRead),
		CacheWrite: llm.Money(r.CacheWrite), Output: llm.Money(r.Output)}
}

func (p *price) money() *llm.Price {
	if p == nil {
		return nil
	}
	out := &llm.Price{Rates: p.rates.money()}
	if p.Long != nil {
		long := p.Long.rates.money()
		out.Above, out.Long = p.Long.Above, &long
	}
	return out
}

type dollars llm.Money

// UnmarshalText reads a decimal number.
func (d *dollars) UnmarshalText(b []byte) error {
	m, err := llm.ParseMoney(string(b))
	*d = dollars(m)
	return err
}
