package server

import (
	"context"
	"strings"
)

// Remote implements session.Network: all of the model's providers are on other machines.
func (m *Models) Remote(model string) bool {
	for _, one := range m.cfg.chain(model) {
		name, _, _ := strings.Cut(one, "/")
		if e := m.providers[name]; e == nil || e.Local() {
			return false
		}
	}
	return true
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
