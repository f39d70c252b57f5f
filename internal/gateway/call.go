package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/transport"
	"github.com/reprise-run/reprise/wire"
)

// The header fields by which a client says how its request is to be treated.
const (
	HeaderHold     = "X-Reprise-Hold"         // a hold policy, as in the configuration
	HeaderAttempts = "X-Reprise-Max-Attempts" // at most so many requests, from 1
	HeaderFallback = "X-Reprise-Fallback"     // "none": only the first model is asked
	HeaderChain    = "X-Reprise-Chain"        // the name of a chain or a model, in place of the body's
)

// bodyTime is how long a client may take to send its request.
const bodyTime = time.Minute

// call serves a model call.
func (h *Handler) call(w http.ResponseWriter, r *http.Request) {
	address := *r.URL
	if call, ok := strings.CutPrefix(address.Path, "/v1/models/"); ok { // the dialect's other version
		address.Path = "/v1beta/models/" + call
	}
	target, ok := transport.Find(r.Method, &address)
	if !ok {
		h.unrouted(w, r)
		return
	}
	c := &Call{ID: newID(), Target: target, Header: r.Header, Began: time.Now()}
	x, err := h.open(w, r, c)
	if err != nil {
		h.refuse(w, c, err)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(h.stopping, func() { cancel(context.Cause(h.stopping)) })()
	var record Record
	if h.o.Journal != nil {
		record = h.o.Journal.Open(ctx, c)
		x.Ledger, x.Generation, x.Trace = record, record.Generation(), record
	}
	result := x.Serve(ctx, &patience{ResponseWriter: w})
	h.note(ctx, c, &result)
	if record != nil {
		record.Close(context.WithoutCancel(ctx), result)
	}
	if result.Cut {
		panic(http.ErrAbortHandler)
	}
}

// open makes the exchange that answers the request.
func (h *Handler) open(w http.ResponseWriter, r *http.Request, c *Call) (*transport.Exchange, error) {
	var err error
	if c.Key, err = h.o.Admit(r); err != nil {
		return nil, &refusal{status: http.StatusUnauthorized, code: "invalid_api_key", message: err.Error()}
	}
	c.Client = c.Key.Label
	if c.Body, err = body(w, r); err != nil {
		return nil, err
	}
	req, err := c.Target.Request(c.Body)
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "invalid_request", message: "The body is not a JSON object: " + err.Error() + "."}
	}
	c.Model, c.Stream = req.Model, !req.Whole
	c.Asked = cmp.Or(r.Header.Get(HeaderChain), c.Key.Chain, c.Model)
	if err := h.paced(&c.Key); err != nil {
		return nil, err
	}
	entries, err := h.resolve(c)
	if err != nil {
		return nil, err
	}
	fenced := h.o.Fences != nil && !c.Key.NoFences
	if fenced {
		if err := h.fenced(r.Context(), c); err != nil {
			return nil, err
		}
	}
	req.Header, req.Query = transport.Forward(r.Header), query(c.Target.Query)
	route := &recovery.Route{State: h.o.CoolOffs, Going: true, Repeats: true, Entries: func() []recovery.Entry {
		now := entries
		// A step's entries stay the same ones; their keys may change.
		same := func(a, b recovery.Entry) bool { return a.Name() == b.Name() }
		if fresh, err := h.resolve(c); err == nil && slices.EqualFunc(fresh, entries, same) {
			now = fresh
		}
		return now
	}}
	x := &transport.Exchange{ID: c.ID, Actor: c.Client, Dialect: c.Target.Dialect, Request: req, Route: route,
		Policy: h.o.Policy(), KeepAlive: h.o.KeepAlive}
	x.Policy.HandOver = false // there is no second tier behind a client's request
	if h.o.Hold != nil {
		x.Hold = h.o.Hold(c.Asked)
	}
	if fenced {
		x.Interrupted = func(ctx context.Context, s *recovery.Stopped) error { return h.o.Fences.Raise(ctx, c, s) }
	}
	if err := allow(x, &c.Key); err != nil {
		return nil, err
	}
	return x, ask(x, r.Header)
}

// ask does what the client asks for by header.
func ask(x *transport.Exchange, h http.Header) error {
	bad := func(name string, want string) error {
		return &refusal{status: http.StatusBadRequest, code: "invalid_request", message: fmt.Sprintf("%s is %q: want %s.", name, h.Get(name), want)}
	}
	if v := h.Get(HeaderHold); v != "" {
		hold, err := replay.ParseHold(v)
		if err != nil {
			return bad(HeaderHold, "first_content, first_block, whole, for: 250ms or bytes: 4096")
		}
		x.Hold = hold
	}
	if v := h.Get(HeaderAttempts); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return bad(HeaderAttempts, "a number from 1")
		}
		atMost(&x.Policy, n)
	}
	switch h.Get(HeaderFallback) {
	case "":
	case "none":
		x.Route.NoFallback = true
	default:
		return bad(HeaderFallback, "none")
	}
	return nil
}

// query takes Google's form of a client's key out.
func query(raw string) string {
	if !strings.Contains(raw, "key=") {
		return raw
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return ""
	}
	q.Del("key")
	return q.Encode()
}

// body reads the request whole, before anything is sent, within bounds of size and time.
func body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	// net/http takes the deadline back once the body is read.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	in := http.MaxBytesReader(w, r.Body, transport.MaxBody)
	var b []byte
	var err error
	if n := r.ContentLength; n > 0 && n <= transport.MaxBody {
		b = make([]byte, n)
		_, err = io.ReadFull(in, b)
	} else {
		b, err = io.ReadAll(in)
	}
	if err == nil {
		return b, nil
	}
	w.Header().Set("Connection", "close") // what is left of the body is not read
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, code: "request_too_large", message: fmt.Sprintf("The body is larger than %d bytes.", large.Limit)}
	}
	return nil, &refusal{status: http.StatusBadRequest, code: "invalid_request", message: "The body cannot be read."}
}

// fenced refuses a call that a fence stands in the way of.
func (h *Handler) fenced(ctx context.Context, c *Call) error {
	f, err := h.o.Fences.Stands(ctx, c)
	if err != nil || f == nil {
		return err
	}
	until := f.Until.UTC().Format(time.RFC3339)
	return &refusal{status: http.StatusBadRequest, code: "replay_refused", header: http.Header{transport.HeaderRetryAt: {until}},
		// It does not say why the answer broke: to words such as server_error clients come again.
		message: fmt.Sprintf("This request was sent before, and its answer broke (call %s, at %s) after a part of it had come, or may have had an effect. "+
			"It is not repeated by itself, because that would say or do it twice. A request that carries the part on is another one, and passes. "+
			"To ask for the same again, send the header %s: %s, lift the fence (reprise fences --lift %s), or wait until %s.",
			f.Call, f.At.UTC().Format(time.RFC3339), HeaderInsist, f.Call, f.ID, until)}
}

// refusal is a no of the gateway's own.
type refusal struct {
	status  int
	code    string
	message string
	header  http.Header // in canonical form; may be nil
}

func (r *refusal) Error() string { return r.message }

// refuse answers a request that goes nowhere.
func (h *Handler) refuse(w http.ResponseWriter, c *Call, err error) {
	var no *refusal
	var f *failure.Failure
	switch {
	case errors.As(err, &no):
	case errors.As(err, &f) && f.Class == failure.ModelNotFound:
		no = &refusal{status: http.StatusNotFound, code: "model_not_found", message: f.Message}
	case errors.As(err, &f):
		no = &refusal{status: http.StatusBadRequest, code: f.Class.String(), message: f.Message}
	case errors.Is(err, session.ErrUnavailable):
		h.o.Log.Error("gateway", "call", c.ID, "error", err)
		no = &refusal{status: http.StatusServiceUnavailable, code: session.CodeUnavailable,
			message: "The gateway's database does not answer. Nothing was sent: try again in a moment."}
	default:
		h.o.Log.Error("gateway", "call", c.ID, "error", err)
		no = &refusal{status: http.StatusInternalServerError, code: "internal", message: "The gateway has failed; its log says why."}
	}
	if h.o.Journal != nil && c.Client != "" { // else nobody knows whose it is
		h.o.Journal.Refused(context.Background(), c, no.status, no.code, no.message)
	}
	h.o.Log.Info("gateway refused", "call", c.ID, "client", c.Client, "model", c.Model, "status", no.status, "code", no.code)
	if no.status != http.StatusTooManyRequests && no.status != http.StatusServiceUnavailable {
		w.Header().Set("X-Should-Retry", "false")
	}
	w.Header().Set(transport.HeaderID, c.ID)
	maps.Copy(w.Header(), no.header)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(no.status)
	// The client may be gone; there is nobody else to tell.
	_, _ = w.Write(c.Target.Dialect.Refusal(wire.Refusal{Status: no.status, Code: no.code, Message: no.message,
		Metadata: map[string]string{"reprise_id": c.ID}}))
}

// note logs how a call ended.
func (h *Handler) note(ctx context.Context, c *Call, r *transport.Result) {
	if r.Err != nil {
		h.o.Log.ErrorContext(ctx, "gateway fence", "call", c.ID, "error", r.Err)
	}
	if r.Stopped == nil {
		h.o.Log.DebugContext(ctx, "gateway answered", "call", c.ID, "client", c.Client, "asked", r.Asked.String(), "attempts", r.Attempts)
		return
	}
	h.o.Log.InfoContext(ctx, "gateway stopped", "call", c.ID, "client", c.Client, "asked", r.Asked.String(), "attempts", r.Attempts,
		"status", r.Status, "shown", r.Shown, "class", r.Stopped.Failure.Class.String(), "rule", string(r.Stopped.Decision.Rule),
		"error", r.Stopped.Failure.Error())
}
