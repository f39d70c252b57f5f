// Package recovery joins the two questions about a failed model call: package failure says
// whether trying again could help, llm/replay whether it is safe. Decide answers both and is
// pure; Do is the one loop that opens a second attempt; Arm says what may happen by itself
// after a run has failed.
//
// It promises: every attempt after the first passed both checks; no automatic attempt is
// earlier than the provider asked; a step sends no more requests than its plan allows; a
// cancel ends every wait at once and wins every race. It refuses to publish anything itself
// and to know who watches.
package recovery

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// Policy is what the operator allows. The zero value allows no automatic attempt.
type Policy struct {
	Tier1 Tier1
	// HandOver: a failed run may be repeated later by the second tier.
	HandOver bool
	Tier2    Tier2
	// AutoWithin bounds how far away a stated wait may be for the second tier to arm by
	// itself; 0: no bound.
	AutoWithin time.Duration
	// Unknown lets tier 1 retry failures of class unknown.
	Unknown bool
	// MaxRequests bounds a step's requests over every layer.
	MaxRequests int
}

// Tier1 is the fast retry inside a run.
type Tier1 struct {
	Attempts int           // in all, the first included
	Base     time.Duration // window of the first wait; doubles each time
	Cap      time.Duration // largest window, and the longest stated wait that is slept on
}

// Tier2 is the slow retry after a failed run.
type Tier2 struct {
	Base, Cap   time.Duration // the first wait, which doubles each time, and the longest
	MaxAttempts int           // failed runs in a row after which it gives up; 0: none
	MaxElapsed  time.Duration // since the first of them failed; 0: no limit
	MaxSpend    llm.Money     // on what followed it; 0: no limit
}

// Backoff is the wait after so many failed runs in a row, from 1.
func (t Tier2) Backoff(failed int) time.Duration {
	return Tier1{Base: t.Base, Cap: t.Cap}.window(failed)
}

// DefaultPolicy is the configuration's default.
func DefaultPolicy() Policy {
	return Policy{
		Tier1:       Tier1{Attempts: 3, Base: time.Second, Cap: 30 * time.Second},
		HandOver:    true,
		Tier2:       Tier2{Base: 2 * time.Second, Cap: 300 * time.Second},
		AutoWithin:  time.Hour,
		MaxRequests: 8,
	}
}

// Budget is what a step has used and has left. Decide reads it; Do keeps it.
type Budget struct {
	Requests   int     // sent for this step, over every layer and claim
	Attempts   int     // of tier 1, for this model
	MoreKeys   bool    // another key of this provider can be tried now
	MoreModels bool    // the chain has a next model that can take the request
	CanCompact bool    // the conversation can be made shorter, and was not yet for this step
	Jitter     float64 // in [0,1): where in the window the next wait ends
	Cancelled  bool
	// Ready is when the first of the entry's keys may be asked again; zero: at the failure's
	// own time. Probe: the attempt tried a model that had cooled off. Later: somebody else
	// may pass later: who failed before in this step, or cools off.
	Ready time.Time
	Probe bool
	Later bool
	// Ceiling: the entry's provider was asked as often as it may be for a request of this size.
	Ceiling bool
}

// Bound counts what one step sends, over every layer: other keys, fast retries, other models,
// what a compaction asks, and earlier claims of the run. All calls of a step share one.
type Bound struct{ Sent int }

// Trace learns what was decided. It is called in order by the goroutine of Do; an error ends
// the step, because a decision that is not stored must not be acted on.
type Trace interface {
	// Chosen: this candidate is asked next. The attempt is opened right after it.
	Chosen(c Choice)
	// Decided: the attempt failed, and this is what follows.
	Decided(ctx context.Context, attempt string, f *failure.Failure, d Decision) error
}

// Plan is one step's model call: who is asked, and what is allowed when that fails.
type Plan struct {
	Route  *Route
	Policy Policy
	Terms  replay.Terms
	Bound  *Bound // nil: nothing was sent yet
	Trace  Trace
	// Compact makes a request shorter that was too long for a model; nil: that ends the step.
	// It is called once a step, after the attempt was discarded. What it asks a model counts on
	// the bound. Its error is a *Stopped, or ends the step as our own failure.
	Compact func(ctx context.Context, c Compaction) (*llm.Request, error)
	// Translate returns the request in the words of an entry's dialect. Its error says what would be
	// lost: then the entry is not asked. It is called once for each entry whose turn may have come;
	// nil: all take the request as it is.
	Translate func(e *Entry, req *llm.Request) (*llm.Request, error)
	// Jitter draws from [0,1); nil: a random source.
	Jitter func() float64
}

// Compaction is what was too long, for whom.
type Compaction struct {
	Request *llm.Request // of the step, as Do was given it
	Entry   Entry
	Failure *failure.Failure
	Bound   *Bound
}

func (p *Plan) jitter() float64 {
	if p.Jitter != nil {
		return p.Jitter()
	}
	return rand.Float64()
}
