package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/recovery"
)

// FenceID names a fence: "fen_…".
type FenceID string

// Fence keeps a client of the gateway from repeating by itself a request whose answer broke after
// something of it was shown, or may have had an effect.
type Fence struct {
	ID        FenceID `json:"id"`
	Client    string  `json:"client"`            // the label of its key
	Session   string  `json:"session,omitempty"` // what the client calls its conversation, where it says so
	Dialect   string  `json:"dialect"`
	Model     string  `json:"model"`   // as the client named it
	CallID    string  `json:"call_id"` // that broke
	Reason    string  `json:"reason"`  // the class of its failure
	CreatedAt Time    `json:"created_at"`
	ExpiresAt Time    `json:"expires_at"`
	Hits      int64   `json:"hits"` // repetitions that it has refused
	Hash      string  `json:"-"`    // of the request
}

// fencesOfClient is how many fences one client has at most: then the oldest goes.
const fencesOfClient = 1000

// Barriers are what keeps requests back: the fences of the gateway's clients, and keys and models
// that cool off. They work as long as the store does, and are safe for concurrent use.
type Barriers struct {
	store   Store
	opened  *signal
	changed func()
}

// Barriers returns the manager's, whose observers learn of changes.
func (m *Manager) Barriers() *Barriers {
	return &Barriers{m.store, &m.opened, func() { kick(m.counts) }}
}

// NewBarriers returns those of a store that has no manager in this process.
func NewBarriers(s Store) *Barriers { return &Barriers{s, new(signal), func() {}} }

// Credentials returns what cools off, for whoever asks a model.
func (b *Barriers) Credentials() recovery.CredentialState {
	return credentials{b.store, b.opened, b.changed}
}

// Fences lists the fences that stand, the newest first.
func (b *Barriers) Fences(ctx context.Context) (list []Fence, err error) {
	err = b.store.View(ctx, func(tx ReadTx) error {
		list, err = tx.Fences(At(time.Now()))
		return err
	})
	return list, err
}

// FencedUntil is when the last fence of a client ends.
func (b *Barriers) FencedUntil(ctx context.Context, client string) (until Time, err error) {
	err = b.store.View(ctx, func(tx ReadTx) error {
		until, err = tx.FencedUntil(client)
		return err
	})
	return until, err
}

// FenceOf returns the fence that stands with the client, session, dialect and hash of f;
// ErrNotFound where there is none.
func (b *Barriers) FenceOf(ctx context.Context, f Fence) (found Fence, err error) {
	err = b.store.View(ctx, func(tx ReadTx) error {
		found, err = tx.FenceOf(f, At(time.Now()))
		return err
	})
	return found, err
}

// RaiseFence stores a fence, which outlives a power loss when it returns.
func (b *Barriers) RaiseFence(ctx context.Context, f Fence) error {
	return b.store.Update(ctx, Full, func(tx Tx) error { return tx.PutFence(f, fencesOfClient) })
}

// HitFence counts a repetition that the fence has refused.
func (b *Barriers) HitFence(ctx context.Context, id FenceID) error {
	err := b.store.Update(ctx, Soft, func(tx Tx) error { return tx.HitFence(id) })
	if errors.Is(err, ErrLost) { // it was lifted meanwhile
		return nil
	}
	return err
}

// LiftFence takes a fence down, so that its request may be asked again; ErrNotFound where it does
// not stand any more.
func (b *Barriers) LiftFence(ctx context.Context, actor string, id FenceID) error {
	return b.lift(ctx, actor, "lift fence", string(id), func(tx Tx) error { return tx.DeleteFence(id) })
}

// CoolOffs lists what cools off now, the first to end first.
func (b *Barriers) CoolOffs(ctx context.Context) (list []recovery.CoolOff, err error) {
	err = b.store.View(ctx, func(tx ReadTx) error {
		list, err = cooling(tx, time.Now())
		return err
	})
	return list, err
}

// LiftCoolOff lets a key, a model, or a key at one model be asked again before its time, as a
// person calls it in the list; ErrNotFound where it does not cool off.
func (b *Barriers) LiftCoolOff(ctx context.Context, actor string, c recovery.Candidate) error {
	return b.lift(ctx, actor, "lift cool-off", c.String(), func(tx Tx) error { return tx.DeleteCoolOff(c) })
}

func (b *Barriers) lift(ctx context.Context, actor, act, what string, f func(tx Tx) error) error {
	err := b.store.Update(ctx, Full, func(tx Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return audit(tx, actor, act, "", "", what)
	})
	switch {
	case errors.Is(err, ErrLost):
		return fmt.Errorf("%s %s: %w", act, what, ErrNotFound)
	case err == nil:
		b.opened.give()
		b.changed()
	}
	return err
}
