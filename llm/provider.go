// Package llm is the vocabulary that every other package shares: what is asked of a model
// (Request, Message, Part), what comes back (Event, Output), and who answers (Provider).
//
// It promises that a Provider is reached only with a Permit, which only code below llm/ can
// mint (see llm/replay), and that every event says by itself whether an observer would count
// it as output (Event.Observability). It knows neither failures nor policy nor the network,
// and imports the standard library alone.
package llm

import (
	"context"
	"time"

	"github.com/reprise-run/reprise/llm/internal/permit"
)

// Permit is the single-use right to open one attempt. The zero value refuses.
type Permit = permit.Permit

// Scope says whose attempt it is: session, run, step, lineage and generation.
type Scope = permit.Scope

// LineageMain is the lineage of the conversation itself; side calls use an id of their own.
const LineageMain = "main"

var (
	// ErrPermitInvalid and ErrPermitSpent are what a provider returns for a permit that
	// nobody minted, and for one that was used before.
	ErrPermitInvalid = permit.ErrInvalid
	ErrPermitSpent   = permit.ErrSpent
)

// Provider answers model calls over one endpoint. Implementations are safe for concurrent
// use and pass llmtest.Run.
type Provider interface {
	// Name is the provider's name in the configuration, without secrets.
	Name() string
	// Stream spends the permit, sends the request exactly once, and returns the answer's
	// events. It never sends a request twice, whatever happens. Its error implements
	// Delivered where the provider knows how far the request came.
	Stream(ctx context.Context, p Permit, req *Request) (Stream, error)
}

// Keyed is implemented by providers that hold a key: its label in the configuration, never
// the key itself.
type Keyed interface{ KeyLabel() string }

// Patient is implemented by providers that bound their own waiting: the same provider, with
// each of its limits longer by d.
type Patient interface {
	WithGrace(d time.Duration) Provider
}

// Stream is the answer to one request. It is used by one goroutine at a time.
type Stream interface {
	// Next blocks for the next event. After the event with Kind Done it returns io.EOF. Any
	// other end is an error: a stream that stops without its dialect's terminal event never
	// ends in io.EOF. Event.Raw is valid until the next call behind its frame's last event. The
	// stream ends, with the context's cause, as soon as the context given to Provider.Stream is
	// done.
	Next() (Event, error)
	// Ready reports whether Next would return without waiting for the provider. It may be wrong
	// in saying that it would not.
	Ready() bool
	// Close releases the connection. Closing twice is fine.
	Close() error
}

// Delivery says how far a failed request came. The zero value is the cautious one.
type Delivery uint8

const (
	// MaybeAccepted: the provider may have seen and begun to process the request.
	MaybeAccepted Delivery = iota
	// NeverSent: no complete request left this machine.
	NeverSent
	// Refused: the provider answered that it did not process the request.
	Refused
)

func (d Delivery) String() string {
	switch d {
	case NeverSent:
		return "never_sent"
	case Refused:
		return "refused"
	}
	return "maybe_accepted"
}

// MarshalText writes the delivery's name.
func (d Delivery) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a delivery's name; an unknown one is MaybeAccepted.
func (d *Delivery) UnmarshalText(b []byte) error {
	switch string(b) {
	case "never_sent":
		*d = NeverSent
	case "refused":
		*d = Refused
	default:
		*d = MaybeAccepted
	}
	return nil
}

// Delivered is implemented by a provider's errors that know how far the request came. An
// error without it counts as MaybeAccepted.
type Delivered interface{ Delivery() Delivery }
