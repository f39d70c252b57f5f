// Package gateway serves the four dialects to clients that bring their own requests: agents,
// SDKs, scripts. It is HTTP over transport.Exchange.
//
// It promises: a request goes to whom Models names and to nobody else, with the operator's keys,
// never the client's; no request passes that Admit has not let in; every answer, refusals
// included, is in the dialect of its path; an answer that broke is never seen to be whole, so
// where its dialect has no words for that the connection is cut. When it stops, answers go on
// for a while and then end as broken ones do.
//
// It refuses to know sessions, to keep prompts or answers, and to decide what may be repeated:
// that is recovery's and llm/replay's.
//
// A client may say in header fields how one request is to be treated: HeaderHold, HeaderAttempts,
// HeaderFallback, HeaderChain and HeaderInsist. What the operator allows its key goes over that.
package gateway

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/transport"
)

// Defaults of Options.
const (
	DefaultKeepAlive = 15 * time.Second
	DefaultGrace     = 4 * time.Second
)

// Models says who may answer.
type Models interface {
	// Resolve returns the models that a client's name for one stands for, in order, with the dialects
	// that they speak, which may be others than the client's. They are read anew at each call. The
	// error is for the client.
	Resolve(dialect, name string) ([]recovery.Entry, error)
	// Names lists the names that a client can use.
	Names() []string
}

// Options are what the gateway works with. Models, Admit and Policy are required.
type Options struct {
	Models Models
	// Admit says who a request is from, and what they may ask for; its error is for the client. A
	// key without an id is a token.
	Admit func(*http.Request) (session.ClientKey, error)
	// Policy and Hold are read for each request; Hold for the name that the client used.
	Policy func() recovery.Policy
	Hold   func(model string) replay.Hold
	// CoolOffs is what cools off; nil: nothing does.
	CoolOffs recovery.CredentialState
	// Fences keep clients from repeating what broke after it was shown; nil: there are none.
	Fences Fences
	// Journal learns of every exchange; nil: nobody does.
	Journal Journal
	// KeepAlive and Grace are DefaultKeepAlive and DefaultGrace where they are 0.
	KeepAlive, Grace time.Duration
	Log              *slog.Logger // nil: slog.Default
}

// Call is one request of a client.
type Call struct {
	ID     string // "gw_…", which the answer's header names
	Client string // the label of its key
	Key    session.ClientKey
	Model  string // as the client named it
	Asked  string // what answers in its place; where nothing does, the same
	Stream bool
	Target transport.Target
	Body   []byte // raw; not to be changed
	Header http.Header
	Began  time.Time
}

// Fences remember for a while what broke after something of it was shown. They are safe for
// concurrent use.
type Fences interface {
	// Stands returns the fence in the call's way; nil: there is none, or the client insists.
	Stands(ctx context.Context, c *Call) (*Fence, error)
	// Raise puts one up. It is stored when Raise returns, which is before the client knows.
	Raise(ctx context.Context, c *Call, s *recovery.Stopped) error
}

// Fence is what stands in the way of a repetition.
type Fence struct {
	ID        string
	Call      string // the call that broke
	At, Until time.Time
}

// Journal is told of every call of a client that is known, for accounts and explanations. It is
// safe for concurrent use and does not fail: what it cannot write down it logs.
type Journal interface {
	// Open begins the record of a call that goes out.
	Open(ctx context.Context, c *Call) Record
	// Refused records one that does not.
	Refused(ctx context.Context, c *Call, status int, code, message string)
}

// Record is the ledger of one call, learns its decisions, and ends with it. It may let no request
// out: its Open then fails with a *failure.Failure.
type Record interface {
	replay.Ledger
	recovery.Trace
	// Generation is the one that is claimed in the ledger.
	Generation() int64
	// Close is told how the call ended.
	Close(ctx context.Context, r transport.Result)
}

// Handler serves the gateway's routes. It is safe for concurrent use.
type Handler struct {
	o        Options
	mux      *http.ServeMux
	stopping context.Context
	stop     context.CancelCauseFunc
	once     sync.Once
	timer    *time.Timer
	rates    rates
}

// New makes the handler.
func New(o Options) *Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	h := &Handler{o: o, mux: http.NewServeMux()}
	h.stopping, h.stop = context.WithCancelCause(context.Background())
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/models/{call...}", "/v1beta/{call...}"} {
		h.mux.HandleFunc("POST "+path, h.call)
	}
	h.mux.HandleFunc("GET /v1/models", h.list)
	h.mux.HandleFunc("GET /v1/models/{name...}", h.one)
	h.mux.HandleFunc("GET /v1beta/models", h.listGemini)
	h.mux.HandleFunc("/", h.unrouted)
	return h
}

// Paths are the roots of the gateway's routes.
var Paths = []string{"/v1/", "/v1beta/"}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Stop lets answers go on for the grace, and then ends them. It returns at once; stopping twice
// is fine.
func (h *Handler) Stop() {
	h.once.Do(func() { h.timer = time.AfterFunc(h.o.Grace, func() { h.stop(transport.ErrStopping) }) })
}

func newID() string { return "gw_" + rand.Text() }
