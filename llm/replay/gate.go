// Package replay is the gate that every model request passes, and the transaction that
// publishes what comes back.
//
// It promises: no request leaves without a permit that Gate.Open minted for exactly this
// attempt; an attempt is repeated only where the ledger says that nothing of it has become
// observable; effects are marked in the ledger before they become observable, and a mark is
// never taken back; each event is published once and in order; tool calls are published at
// the attempt's terminal event or never; what was published cannot be discarded. Missing,
// open, stale and evicted evidence all mean no.
//
// It refuses to know why an attempt failed and whether trying again would help: that is
// package failure's question. Package recovery joins the two.
package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/internal/permit"
)

// Origin says who wants a run's requests: Operator or Automatic. A nil Origin and the zero
// values refuse.
type Origin interface{ allows() error }

// Operator is a person, or a program that acts for one, who asked for this run by a message,
// regenerate, resume or retry now. It waives the safety check for the first attempt of each
// of the run's steps, and for nothing else.
type Operator struct {
	Actor   string // who asked
	Message string // the operator's message that the run answers
}

func (o Operator) allows() error {
	if o.Actor == "" || o.Message == "" {
		return &Refused{Why: Missing}
	}
	return nil
}

// Automatic is everything that starts a run with no person asking now: a timer, a restart.
// Run is read from the ledger in the transaction that dispatches or claims.
type Automatic struct {
	Verb Verb
	Run  RunEvidence
}

func (a Automatic) allows() error {
	if ok, why := a.Run.Allows(a.Verb); !ok {
		return &Refused{Why: why}
	}
	return nil
}

// Refused is the gate's no. It is not a failure of a provider and nothing was sent.
type Refused struct{ Why Reasons }

func (r *Refused) Error() string {
	return "the replay gate refused the request: " + r.Why.String()
}

var errOrder = errors.New("an attempt follows the one before it, after that was discarded")

// Gate guards the attempts of one step's model call. Of several concurrent calls of Open one
// opens an attempt and the others are refused; none of them waits.
type Gate struct {
	scope  llm.Scope
	ledger Ledger
	origin Origin

	mu   sync.Mutex
	last *Attempt
}

// New makes the gate of one step's model call.
func New(scope llm.Scope, ledger Ledger, origin Origin) *Gate {
	return &Gate{scope: scope, ledger: ledger, origin: origin}
}

// Open checks, mints a permit and opens an attempt in one call. after is the attempt that
// this one repeats, nil for the step's first. It must be the one that this gate opened last,
// it must have been discarded, and the ledger must call it safe, whatever the origin.
//
// A refusal is a *Refused; a stale generation or a cancelled run is ErrStale; then nothing
// was sent. A provider that could not be reached is no error of Open: the attempt exists, and
// its Run reports the failure.
func (g *Gate) Open(ctx context.Context, after *Attempt, p llm.Provider, req *llm.Request) (*Attempt, error) {
	if !g.mu.TryLock() {
		return nil, errOrder
	}
	defer g.mu.Unlock()
	if g.origin == nil {
		return nil, &Refused{Why: Missing}
	}
	if err := g.origin.allows(); err != nil {
		return nil, err
	}
	if after != g.last {
		return nil, errOrder
	}
	o := Opening{Scope: g.scope, Provider: p.Name(), Model: req.Model, Remote: req.MayActRemotely(), Needs: req.Needs()}
	_, byOperator := g.origin.(Operator)
	o.Automatic = !byOperator || after != nil
	if k, ok := p.(llm.Keyed); ok {
		o.Key = k.KeyLabel()
	}
	if after != nil {
		if !after.discarded {
			return nil, errOrder
		}
		ev, err := g.ledger.Evidence(ctx, g.scope, after.id)
		if err != nil {
			return nil, fmt.Errorf("read evidence: %w", err)
		}
		if ev.Scope != g.scope {
			return nil, &Refused{Why: Stale}
		}
		if ok, why := ev.Safe(); !ok {
			return nil, &Refused{Why: why}
		}
		o.After = after.id
	}
	id, err := g.ledger.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("record the attempt: %w", err)
	}
	a := newAttempt(ctx, g, id, o.Remote)
	a.stream, a.openErr = p.Stream(a.ctx, permit.Mint(g.scope, id, func(ctx context.Context) error {
		return g.ledger.Check(ctx, g.scope)
	}), req)
	g.last = a
	return a, nil
}
