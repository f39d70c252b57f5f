// Package accounts keeps the books of the gateway: which client keys there are, what may be asked
// with each, and the record of every call.
//
// It promises: a key is shown once and kept as a hash; one that was revoked counts no more at once
// in this process, and within a second in others; a request that a cap on cost applies to leaves
// after what it may cost at most was set aside, in the transaction that looks at what is left, so
// that a cap holds for any number of calls at a time on any number of nodes; a call that ends is on
// disk within a tenth of a second, off the path of its answer, and a read through this package sees
// it at once; records are bounded in age and number, and sums outlive them. A call is one write, or
// two where something was set aside; one that goes on is listed from memory, by its process alone.
//
// What was set aside for a call whose process has died stays set aside. A power loss may cost the
// records of the last tenth of a second.
//
// It refuses to keep prompts, answers and keys of providers, and to decide what may be repeated.
package accounts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// Options are what the books are kept with. Store is required; with it alone keys can be managed.
type Options struct {
	Store session.Store
	// About says what a provider's model costs.
	About func(provider, model string) llm.ModelFacts
	// Live is how calls are repeated and what a day may cost, by the settings that were changed while
	// a server worked; nil: nothing is.
	Live func(set map[string]string) session.Live
	// Chains says whether there is a chain of a name; nil: any may be.
	Chains func(name string) bool
	// Keep and KeepCalls bound the age and the number of the calls that are kept; 0: no bound.
	Keep      time.Duration
	KeepCalls int
	// Sole: no other process uses the store, so that calls that are open when it is opened are lost.
	Sole bool
	Log  *slog.Logger // nil: slog.Default
}

// Accounts are the books. They are safe for concurrent use.
type Accounts struct {
	o       Options
	store   session.Store
	log     *slog.Logger
	known   atomic.Pointer[directory]
	reading sync.Mutex
	going   going

	queue   chan entry
	flush   chan chan struct{}
	closing chan struct{}
	stopped chan struct{}
	once    sync.Once
}

// Open reads the keys, and begins to write.
func Open(ctx context.Context, o Options) (*Accounts, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	a := &Accounts{o: o, store: o.Store, log: o.Log, queue: make(chan entry, queued), flush: make(chan chan struct{}),
		closing: make(chan struct{}), stopped: make(chan struct{})}
	if err := a.read(ctx); err != nil {
		return nil, fmt.Errorf("read the client keys: %w", err)
	}
	if o.Sole {
		if err := a.store.Update(ctx, session.Soft, session.Tx.LoseGatewayCalls); err != nil {
			return nil, fmt.Errorf("close the gateway's calls: %w", err)
		}
	}
	go a.write()
	return a, nil
}

// Close stores what is still to be stored. Closing twice is fine.
func (a *Accounts) Close() error {
	a.once.Do(func() { close(a.closing) })
	<-a.stopped
	return nil
}
