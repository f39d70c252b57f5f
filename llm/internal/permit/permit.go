// Package permit makes the single-use right to open one attempt. It is internal to llm, so
// that the compiler keeps every package outside llm from minting one: they can hold a
// permit, spend it and check it, and the zero value refuses.
package permit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Scope says whose attempt a permit is for. Generation counts the claims, aborts and
// hand-overs of the run: whatever carries an older one is stale.
type Scope struct {
	Session    string `json:"session"`
	Run        string `json:"run"`
	Step       int    `json:"step"`
	Lineage    string `json:"lineage"` // "main", or the id of a side call
	Generation int64  `json:"generation"`
}

var (
	// ErrInvalid is returned for a zero permit: nobody allowed this attempt.
	ErrInvalid = errors.New("permit is not valid: only the replay gate can mint one")
	// ErrSpent is returned when a permit is spent a second time.
	ErrSpent = errors.New("permit is spent: every attempt needs its own")
)

// Permit is the right to open one attempt. Copies share one state, so a copy of a spent
// permit is spent. Safe for concurrent use.
type Permit struct{ s *state }

type state struct {
	spent   atomic.Bool
	scope   Scope
	attempt string
	check   func(context.Context) error
}

// Mint makes the permit of one attempt. check reports whether the scope is still current;
// it is asked when the permit is spent and again just before the request is written.
func Mint(scope Scope, attempt string, check func(context.Context) error) Permit {
	return Permit{&state{scope: scope, attempt: attempt, check: check}}
}

// Spend uses the permit up. A provider calls it before its backend is reached; of several
// concurrent calls exactly one succeeds.
func (p Permit) Spend(ctx context.Context) error {
	if p.s == nil {
		return ErrInvalid
	}
	if p.s.spent.Swap(true) {
		return ErrSpent
	}
	return p.Check(ctx)
}

// Check reports whether the attempt may still be sent: not cancelled, and its generation is
// still the current one. A provider calls it as the last act before the request is written.
func (p Permit) Check(ctx context.Context) error {
	if p.s == nil {
		return ErrInvalid
	}
	if ctx.Err() != nil {
		return fmt.Errorf("permit refused: %w", context.Cause(ctx))
	}
	return p.s.check(ctx)
}

// Scope returns what the permit is bound to; the zero Scope for a zero permit.
func (p Permit) Scope() Scope {
	if p.s == nil {
		return Scope{}
	}
	return p.s.scope
}

// Attempt returns the id of the attempt that the permit opens.
func (p Permit) Attempt() string {
	if p.s == nil {
		return ""
	}
	return p.s.attempt
}
