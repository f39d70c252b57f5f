// Package httpapi serves the HTTP API, its event stream and the page.
//
// It promises: every route is in one table, from which the OpenAPI document is made; every
// error has one form, and each code one status; what is internal stays in the log. No
// request passes without a known Host, and none below /api/ or /auth/ that another site made
// a browser send, or that nobody answers for; each act carries its actor. Bodies, headers,
// streams and the time that a client takes are bounded. An event goes out as the bytes it came in,
// in order; while a client is slow its watch is held, and nothing else.
//
// It refuses to keep sessions' state, to decide what a request does to it (package session
// does both), and to compress.
package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// Options are what the API serves and its bounds. Sessions, Models, Tools, Settings, Barriers, Accounts and
// Auth are required; the rest works as it is.
type Options struct {
	Sessions Sessions
	Models   Models
	Tools    Tools
	Settings Settings
	Barriers Barriers
	Accounts Accounts
	Auth     *Auth
	// Page serves the page's files, its index at "/"; nil: there is no page.
	Page http.Handler
	// Metrics answers a scrape at /metrics; nil: there are none.
	Metrics http.Handler
	// Ready says why the server cannot serve now; nil: it always can.
	Ready func(context.Context) error
	// Hosts are the names, besides those of loopback, by which clients reach the server.
	Hosts []string
	// MaxBody bounds a request's body in bytes; 0: 8 MiB.
	MaxBody int64
	// MaxStreams and MaxStreamsPerActor bound the open event streams; 0: 4096 and 1024.
	MaxStreams, MaxStreamsPerActor int
	// Log gets what clients must not see; nil: slog.Default.
	Log *slog.Logger
}

// Handler is the whole of the server's HTTP. It is safe for concurrent use.
type Handler struct {
	o        Options
	mux      *http.ServeMux
	hosts    Hosts
	cross    *http.CrossOriginProtection
	streams  streams
	document []byte

	stopping context.Context
	stop     context.CancelFunc
}

// New makes the handler. It panics where a route of the table is not valid.
func New(o Options) *Handler {
	if o.MaxBody == 0 {
		o.MaxBody = 8 << 20
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	h := &Handler{
		o:       o,
		mux:     http.NewServeMux(),
		hosts:   NewHosts(o.Hosts),
		cross:   http.NewCrossOriginProtection(),
		streams: streams{all: o.MaxStreams, each: o.MaxStreamsPerActor, by: make(map[string]int)},
	}
	h.stopping, h.stop = context.WithCancel(context.Background())
	if h.streams.all == 0 {
		h.streams.all = 4096
	}
	if h.streams.each == 0 {
		h.streams.each = 1024
	}
	h.register()
	return h
}

// Stop ends the event streams and makes /readyz fail; other requests go on. Stopping twice
// is fine.
func (h *Handler) Stop() { h.stop() }

// Server returns a server for the handler with bounds on headers and idle time. Its Shutdown
// stops the handler, so that it does not wait for streams.
func (h *Handler) Server() *http.Server {
	s := Bounded(h, h.o.Log)
	s.RegisterOnShutdown(h.Stop)
	return s
}

// Bounded returns a server with bounds on headers and idle time.
func Bounded(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// ServeHTTP checks a request and passes it to its route, or to the page.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &answer{ResponseWriter: rw, rc: http.NewResponseController(rw)}
	guard(w.Header())
	if h.o.Auth.mode == ModeNone {
		w.Header().Set("X-Reprise-Auth", string(ModeNone))
	}
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, &caller{r: r}))
	defer h.survive(w, r)
	if isAPI(r.URL.Path) {
		w.Header().Set("Cache-Control", "no-store")
	}
	if err := h.admit(r); err != nil {
		reply(w, err)
		return
	}
	if err := h.body(w, r); err != nil {
		reply(w, err)
		return
	}
	next, pattern := h.mux.Handler(r)
	switch {
	case pattern != "":
		h.mux.ServeHTTP(w, r)
	case isAPI(r.URL.Path):
		reply(w, unrouted(next, r))
	default:
		h.page(w, r)
	}
}

// survive answers for a handler that panicked. Where the answer had begun it cannot be
// repaired: the connection ends, as net/http does it.
func (h *Handler) survive(w *answer, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	e := h.incident(r.Context(), "handler panicked", "error", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	reply(w, e)
}

// answerTime is how long a client may take to read an answer, from its first byte on.
const answerTime = 2 * time.Minute

// answer knows whether a response has begun, and bounds the time of writing it.
type answer struct {
	http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begin()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

// begin starts the time, which ends with the request. Its error means that there is no
// connection any more, or none at all: the next write says so.
func (a *answer) begin() {
	if !a.begun {
		a.begun = true
		_ = a.rc.SetWriteDeadline(time.Now().Add(answerTime))
	}
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// caller is a request and who sent it; empty: nobody that we know of.
type caller struct {
	actor string
	r     *http.Request
}

type callerKey struct{}

// callerOf returns the caller that ServeHTTP put into every request's context.
func callerOf(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

// route is the request's method and path.
func (c *caller) route() string { return c.r.Method + " " + c.r.URL.Path }
