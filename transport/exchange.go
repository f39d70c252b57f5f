package transport

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/wire"
)

// The header fields by which an answer says what became of its request. Of one that had to be begun
// before it was known who answers, as its client waited for long, the second to the fourth are in
// the trailer.
const (
	HeaderID       = "X-Reprise-Id"       // Exchange.ID
	HeaderAttempts = "X-Reprise-Attempts" // how many there were when the status was sent
	HeaderModel    = "X-Reprise-Model"    // provider/model that answers, or was asked last
	HeaderKey      = "X-Reprise-Key"      // the label of its key
	HeaderRetryAt  = "X-Reprise-Retry-At" // when the request may pass, where that is known
)

// ErrStopping is the cause of a context that ends an exchange whose client is still there.
var ErrStopping = errors.New("the gateway is stopping")

// Exchange is one client's request and its answer. Dialect, Request, Route and Policy are
// required. It is served once.
type Exchange struct {
	// ID names the exchange to client, ledger and log.
	ID string
	// Actor is who asks: a client key's label; empty: "client".
	Actor   string
	Dialect wire.Server
	// Request has Raw and what wire.Head says of it; Model is as Route wants it, since each entry
	// puts its own in its place.
	Request *llm.Request
	Route   *recovery.Route
	Policy  recovery.Policy
	Hold    replay.Hold
	// KeepAlive is how long a streaming client may wait without a byte; 0: for ever.
	KeepAlive time.Duration
	// Final tells clients not to repeat what may pass: everything that helps was done.
	Final bool
	// Ledger keeps the attempts; nil: in memory, for this exchange alone. The exchange's run is
	// its ID; whoever gives a ledger has claimed it as Generation.
	Ledger     replay.Ledger
	Generation int64
	// Trace learns of each choice and decision; nil: nobody does.
	Trace recovery.Trace
	// Interrupted is told of an answer that broke after something of it was shown, or may have
	// had an effect at the provider, before the client is; nil: nobody is. Nobody is told where
	// the client itself has left.
	Interrupted func(context.Context, *recovery.Stopped) error
}

// Result is how an exchange ended.
type Result struct {
	// Stopped is nil where the client was sent the whole answer.
	Stopped  *recovery.Stopped
	Attempts int
	Asked    recovery.Candidate // last
	Output   llm.Output         // ids and usage of the answer that was shown; it has no parts
	Status   int                // that was sent; 0: none
	Shown    bool               // something of an answer was sent
	// Cut: the client must see the connection break, since the answer must not seem to be whole.
	Cut bool
	// Err is Interrupted's.
	Err error
}

// Serve answers the request. It returns when the answer has ended, one way or the other; it
// ends as soon as ctx is done. Whoever calls it breaks the connection where the result says so.
func (x *Exchange) Serve(ctx context.Context, w http.ResponseWriter) Result {
	t := &trace{next: x.Trace}
	b := newBody(x, w, t)
	req := *x.Request
	req.Answered = b.answered
	ledger, generation := x.Ledger, x.Generation
	if ledger == nil {
		m := replay.NewMemory()
		ledger, generation = m, m.Claim(x.ID)
	}
	actor := x.Actor
	if actor == "" {
		actor = "client"
	}
	scope := llm.Scope{Session: actor, Run: x.ID, Lineage: llm.LineageMain, Generation: generation}
	gate := replay.New(scope, ledger, replay.Operator{Actor: actor, Message: x.ID})
	terms := replay.Terms{Raw: true, Hold: x.Hold}
	if req.Whole { // also where it is told piece by piece
		terms.Hold = replay.Hold{Mode: replay.HoldWhole}
	}
	plan := recovery.Plan{Route: x.Route, Policy: x.Policy, Trace: t, Terms: terms, Translate: (&translation{x: x, b: b}).request}
	b.wait()
	reply, err := recovery.Do(ctx, plan, gate, b, &req)
	b.rest()
	r := Result{Output: reply.Output}
	r.Asked, r.Attempts = t.state()
	if errors.As(err, &r.Stopped) {
		r.Output, r.Attempts = r.Stopped.Output, r.Stopped.Attempts
		t.sent(r.Attempts)
		x.stop(ctx, b, &r)
	}
	b.say()
	r.Status, r.Shown = b.status, b.shown
	return r
}

// stop tells the client what it has to be told.
func (x *Exchange) stop(ctx context.Context, b *body, r *Result) {
	s := r.Stopped
	left := ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrStopping)
	if x.Interrupted != nil && !left && (b.shown || unsafe(s)) {
		r.Err = x.Interrupted(context.WithoutCancel(ctx), s)
	}
	if b.status == 0 {
		b.refuse(x.refusal(s, time.Now()))
		return
	}
	r.Cut = !b.end(x.broken(s, b.shown))
}

// unsafe reports whether an attempt was stopped for what it may have done.
func unsafe(s *recovery.Stopped) bool { return s.Attempt != "" && !s.Decision.Safe }

// trace counts what is tried, and hands it on. The keep-alive may ask it from beside.
type trace struct {
	next recovery.Trace

	mu       sync.Mutex
	asked    recovery.Candidate
	attempts int
}

// state says who was asked last, and how many were.
func (t *trace) state() (asked recovery.Candidate, attempts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked, t.attempts
}

// sent sets how many requests there were: who was chosen last may not have been asked.
func (t *trace) sent(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts = n
}

// Chosen implements recovery.Trace.
func (t *trace) Chosen(c recovery.Choice) {
	t.mu.Lock()
	t.asked = c.Candidate
	t.attempts++
	t.mu.Unlock()
	if t.next != nil {
		t.next.Chosen(c)
	}
}

// Decided implements recovery.Trace.
func (t *trace) Decided(ctx context.Context, attempt string, f *failure.Failure, d recovery.Decision) error {
	if t.next == nil {
		return nil
	}
	return t.next.Decided(ctx, attempt, f, d)
}

// announce says which fields come in the trailer.
func (x *Exchange) announce(h http.Header) {
	h.Set(HeaderID, x.ID)
	h.Set("Trailer", HeaderAttempts+", "+HeaderModel+", "+HeaderKey)
}

// tell says in the header what is known of the exchange so far.
func (x *Exchange) tell(h http.Header, t *trace) {
	asked, attempts := t.state()
	h.Set(HeaderID, x.ID)
	h.Set(HeaderAttempts, strconv.Itoa(attempts))
	if attempts == 0 {
		return
	}
	h.Set(HeaderModel, asked.Provider+"/"+asked.Model)
	if asked.Key != "" {
		h.Set(HeaderKey, asked.Key)
	}
}
