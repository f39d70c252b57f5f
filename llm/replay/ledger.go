package replay

import (
	"context"
	"errors"

	"github.com/reprise-run/reprise/llm"
)

// ErrStale is returned by a ledger for a scope whose generation is not the current one, and
// for one whose run was cancelled. It is wrapped with the reason.
var ErrStale = errors.New("generation is not current")

// Opening is what a ledger stores about an attempt before it is sent.
type Opening struct {
	Scope     llm.Scope
	After     string // the attempt that this one repeats; empty for a step's first
	Automatic bool   // no person asked for exactly this request
	Provider  string
	Key       string // the key's label, never the key
	Model     string
	Remote    bool // Request.MayActRemotely
	Needs     llm.Needs
}

// Seal is what a ledger stores when an attempt has ended.
type Seal struct {
	OK        bool    // the terminal event came, and everything was published
	Marks     Reasons // every effect that the transaction knows of; united with the marks
	Published Counts
	Delivery  llm.Delivery
	Usage     *llm.Usage
	Received  int64  // bytes of output that came, published or not
	Model     string // who answered, in the provider's words
	ID        string // the provider's id of the response
}

// Ledger keeps evidence. A session's is durable, the gateway's lives in memory. Every method
// but Evidence fails with ErrStale when the scope's generation is not current, and then
// changes nothing; none of them may lose a mark.
type Ledger interface {
	// Open stores the attempt and returns its id. It fails where the run was cancelled.
	Open(ctx context.Context, o Opening) (attempt string, err error)
	// Mark adds effects to an attempt, sealed or not. When it returns, the mark survives a
	// power loss (where the ledger is durable at all). Marks are never taken back.
	Mark(ctx context.Context, scope llm.Scope, attempt string, effects Reasons) error
	// Seal ends an attempt. A second seal replaces the counts of the first.
	Seal(ctx context.Context, scope llm.Scope, attempt string, s Seal) error
	// Check reports whether the scope is current and its run not cancelled. It is asked as
	// the last act before a request is written.
	Check(ctx context.Context, scope llm.Scope) error
	// Evidence returns what is known about an attempt. What it does not know has
	// StateMissing; what a newer generation left behind has StateStale.
	Evidence(ctx context.Context, scope llm.Scope, attempt string) (Evidence, error)
}

// Sink is where an attempt's events become observable: the event log of a session, the
// response body of a gateway's client. Append is called by one goroutine at a time, in order,
// and blocks until the events are out. It must not keep the slice or the events' Raw. Once it
// fails it is not called again.
type Sink interface {
	Append(ctx context.Context, events []llm.Event) error
}
