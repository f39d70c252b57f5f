package explore

import (
	"context"
	"io"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
)

// provider answers each request of a schedule by the next script of its scenario; after the last
// by the last again. A letter is what comes next:
//
//	p  an event that shows nothing        t  a text delta, another one each time
//	h  a thinking delta                   c  a tool call, whole        k  the start of one
//	d  the end, well                      x  a failure that may pass   r  one that asks for a wait
//	z  nothing, until the context ends    n  a failure that does not pass
type provider struct {
	n    *node
	name string
}

// hint is the wait that "r" asks for.
const hint = 3 * time.Second

func (p provider) Name() string { return p.name }

func (p provider) Stream(ctx context.Context, permit llm.Permit, req *llm.Request) (llm.Stream, error) {
	if err := permit.Spend(context.WithValue(ctx, spending{}, true)); err != nil {
		return nil, err
	}
	if err := permit.Check(ctx); err != nil {
		return nil, err
	}
	s := &stream{n: p.n, name: p.name, ctx: ctx, answer: p.n.w.sent(permit, req)} // the request is written
	s.script = p.n.w.sc.script(s.answer.number)
	switch first := s.script[0]; first {
	case 'x', 'r', 'n':
		_, err := s.Next()
		return nil, err
	}
	return s, nil
}

type stream struct {
	n      *node
	name   string
	ctx    context.Context
	answer *answer
	script string
	rest   []llm.Event // of the letter that came last
	part   int
	called bool
}

func (s *stream) Ready() bool  { return len(s.rest) > 0 }
func (s *stream) Close() error { return nil }

func (s *stream) Next() (llm.Event, error) {
	if len(s.rest) > 0 {
		e := s.rest[0]
		s.rest = s.rest[1:]
		return e, nil
	}
	if s.script == "" {
		return llm.Event{}, io.ErrUnexpectedEOF
	}
	k, letter := kindAnswer, s.script[0]
	if letter == 'z' {
		k = kindStall
	}
	o, err := s.n.enter(s.ctx, k, "answer "+string(letter))
	if err != nil {
		return llm.Event{}, err
	}
	if o == broken && letter != 'r' {
		letter = 'x'
	}
	s.script = s.script[1:]
	switch letter {
	case 'x':
		return llm.Event{}, s.fail(failure.Overloaded, time.Time{})
	case 'r':
		return llm.Event{}, s.fail(failure.RateLimited, time.Now().Add(hint))
	case 'n':
		return llm.Event{}, s.fail(failure.InvalidRequest, time.Time{})
	case 'p':
		return llm.Event{Kind: llm.EventStart, ID: "answer", Name: "model"}, nil
	case 't', 'h':
		kind := llm.EventText
		if letter == 'h' {
			kind = llm.EventThinking
		}
		return llm.Event{Kind: kind, Part: s.part, Text: s.n.w.facts.emit(s.answer)}, nil
	case 'c', 'k':
		if s.called {
			s.part++
		}
		s.called = true
		s.part++
		id := s.n.w.facts.call(s.answer)
		events := []llm.Event{
			{Kind: llm.EventCallStart, Part: s.part, ID: id, Name: "write"},
			{Kind: llm.EventCallDelta, Part: s.part, Text: `"` + id + `"`},
			{Kind: llm.EventCallEnd, Part: s.part},
		}
		if letter == 'k' {
			events = events[:2]
		}
		s.rest = events[1:]
		return events[0], nil
	default:
		stop := llm.StopEnd
		if s.called {
			stop = llm.StopToolCalls
		}
		s.n.w.facts.finish(s.answer)
		return llm.Event{Kind: llm.EventDone, Stop: stop}, nil
	}
}

func (s *stream) fail(c failure.Class, notBefore time.Time) error {
	s.n.w.facts.failed(s.answer, notBefore)
	return &failure.Failure{Class: c, Retryable: c.Retryable(), NotBefore: notBefore, Provider: s.name, Status: 503,
		Message: "the provider's words", Delivered: llm.Refused}
}
