package transport

import (
	"errors"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/wire"
)

// translation tells an exchange's request to models of other dialects. The request is read at most
// once, and not before such a model's turn may have come.
type translation struct {
	x       *Exchange
	b       *body
	neutral *llm.Request
	err     error
}

// theirs is the maker of what the client's own conversation holds for its own dialect alone. It is
// the name of no provider.
const theirs = "\x00"

// request implements recovery.Plan.Translate.
func (t *translation) request(e *recovery.Entry, req *llm.Request) (*llm.Request, error) {
	if e.Dialect == "" || e.Dialect == t.x.Dialect.Dialect() {
		return req, t.refuses(e, req)
	}
	if t.neutral == nil && t.err == nil {
		t.read(req)
	}
	if t.err != nil {
		return nil, t.err
	}
	other, ok := Servers[e.Dialect]
	if !ok {
		return nil, errors.New("nobody speaks " + e.Dialect)
	}
	told := t.neutral.For(e.Provider, e.Model)
	if _, err := other.Encode(told); err != nil {
		return nil, err
	}
	return told, nil
}

// refuses reports that a model is known not to go on from an answer's beginning, where the request ends
// with one and there is another model.
func (t *translation) refuses(e *recovery.Entry, req *llm.Request) error {
	p, ok := t.x.Dialect.(wire.Prefiller)
	if can := e.Facts.Prefill; !ok || can == nil || *can || req.Count || t.x.Route.NoFallback || len(t.x.Route.Entries()) == 1 || !p.Prefilled(req.Raw) {
		return nil
	}
	return wire.Loss{"the last message is the answer's own beginning, from which this model does not go on"}
}

// read makes the neutral request. What only the provider of the client's dialect can read goes to
// no other.
func (t *translation) read(req *llm.Request) {
	if req.Count {
		t.err = wire.Loss{"the number of tokens is counted by models of the request's own dialect alone"}
		return
	}
	n, err := t.x.Dialect.ReadRequest(req.Raw)
	if err != nil {
		t.err = err
		return
	}
	for i := range n.Messages {
		n.Messages[i].Parts = llm.Own(n.Messages[i].Parts, theirs)
	}
	n.Relay, n.Answered = true, t.b.foreign
	t.neutral = n
}
