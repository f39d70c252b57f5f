package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/reprise-run/reprise/recovery"
)

// credentials is the state of credentials in the store. A power loss may cost the last
// changes: then one request more finds out.
type credentials struct {
	store   Store
	opened  *signal
	changed func()
}

// signal wakes everybody who waits for it. It is safe for concurrent use; its zero value is ready.
type signal struct {
	mu sync.Mutex
	c  chan struct{}
}

// next is closed when the signal is given next.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

func (s *signal) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}

var _ recovery.CredentialState = credentials{}

// Credentials returns what cools off, for whoever asks a model outside a session. It works as
// long as the store does.
func (m *Manager) Credentials() recovery.CredentialState {
	return credentials{m.store, &m.opened, func() { kick(m.counts) }}
}

// CoolOffs implements recovery.CredentialState.
func (c credentials) CoolOffs(ctx context.Context) (list []recovery.CoolOff, err error) {
	err = c.store.View(ctx, func(tx ReadTx) error {
		list, err = tx.CoolOffs()
		return err
	})
	return list, err
}

// CoolOff implements recovery.CredentialState.
func (c credentials) CoolOff(ctx context.Context, off recovery.CoolOff) error {
	off.Until = NotBefore(off.Until).Std()
	return c.update(ctx, func(tx Tx) error { return tx.PutCoolOff(off) })
}

// Probe implements recovery.CredentialState.
func (c credentials) Probe(ctx context.Context, lanes []recovery.CoolOff, until time.Time) (taken []recovery.CoolOff, err error) {
	err = c.update(ctx, func(tx Tx) (err error) {
		taken = slices.Clone(lanes)
		for i, l := range lanes {
			taken[i].Probed = until
			if taken[i].Generation, err = tx.ProbeCoolOff(l, At(until)); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, ErrLost) {
		return nil, nil
	}
	return taken, err
}

// Settle implements recovery.CredentialState.
func (c credentials) Settle(ctx context.Context, lanes []recovery.CoolOff, answered bool) error {
	err := c.update(ctx, func(tx Tx) error {
		for _, l := range lanes {
			if err := tx.SettleCoolOff(l, answered); err != nil && !errors.Is(err, ErrLost) {
				return err
			}
		}
		return nil
	})
	if answered && err == nil {
		c.opened.give()
	}
	return err
}

// Opened implements recovery.CredentialState.
func (c credentials) Opened() <-chan struct{} { return c.opened.next() }

// update changes what cools off, and lets observers know.
func (c credentials) update(ctx context.Context, f func(tx Tx) error) error {
	err := c.store.Update(ctx, Soft, f)
	if err == nil {
		c.changed()
	}
	return err
}

// cooling lists what cools off at a time.
func cooling(tx ReadTx, now time.Time) ([]recovery.CoolOff, error) {
	list, err := tx.CoolOffs()
	return slices.DeleteFunc(list, func(c recovery.CoolOff) bool { return !c.Until.After(now) }), err
}
