package session

import (
	"context"
	"sync"
	"time"
)

// Network says whether providers can be reached at all. It is safe for concurrent use.
type Network interface {
	// Remote reports whether a model's provider is on another machine. What is on this one is
	// reached without a network.
	Remote(model string) bool
	// Reach reports whether something answers on the way to any provider on another machine.
	// It sends no request, and returns soon after ctx is done.
	Reach(ctx context.Context) bool
}

// network is what is known of it. The zero value is that nobody has looked lately.
type network uint8

const (
	networkUnknown network = iota
	networkThere
	networkGone
)

const (
	reachTime  = 3 * time.Second // of one look
	reachFresh = 5 * time.Second // how long it counts
)

// lookout keeps the last look at the network.
type lookout struct {
	mu    sync.Mutex
	state network
	at    time.Time
}

func (l *lookout) saw(n network, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.at = n, now
}

func (l *lookout) known(now time.Time) network {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.at) > reachFresh {
		return networkUnknown
	}
	return l.state
}

// lookoutLoop looks at the network when a schedule depends on it, so that no other schedule
// waits for the answer.
func (m *Manager) lookoutLoop() {
	for {
		select {
		case <-m.look:
		case <-m.accept.Done():
			return
		}
		ctx, cancel := context.WithTimeout(m.accept, reachTime)
		seen := networkGone
		if m.cfg.Network.Reach(ctx) {
			seen = networkThere
		}
		cancel()
		m.lookout.saw(seen, time.Now())
		kick(m.clock)
	}
}

// networkFor is what a schedule needs to know of the network: for one that does not depend on
// it, it is there.
func (m *Manager) networkFor(tx ReadTx, s Schedule, now time.Time) (network, error) {
	if m.cfg.Network == nil || !s.asksNetwork(now) {
		return networkThere, nil
	}
	run, err := tx.Run(s.RunID)
	if err != nil || !m.cfg.Network.Remote(run.Model) {
		return networkThere, err
	}
	n := m.lookout.known(now)
	if n == networkUnknown {
		kick(m.look)
	}
	return n, nil
}
