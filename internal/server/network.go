package server

import (
	"context"
	"strings"
)

// Remote implements session.Network: all of the model's providers are on other machines.
func (m *Models) Remote(model string) bool {
	models, ok := m.cfg.Chains[model]
	if !ok {
		models = []string{model}
	}
	for _, one := range models {
		name, _, _ := strings.Cut(one, "/")
		if e := m.providers[name]; e == nil || e.Local() {
			return false
		}
	}
	return len(models) > 0
}

// Reach implements session.Network. It asks every provider on another machine at once, and
// returns with the first answer.
func (m *Models) Reach(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asked int
	answers := make(chan bool, len(m.providers))
	for _, e := range m.providers {
		if !e.Local() {
			asked++
			go func() { answers <- e.Reach(ctx) }()
		}
	}
	for range asked {
		if <-answers {
			return true
		}
	}
	return asked == 0
}
