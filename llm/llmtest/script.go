package llmtest

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// Step is one thing that a scripted stream does: wait, then give an event or an error.
type Step struct {
	Wait  time.Duration
	Event llm.Event
	Err   error
	Stall bool // give nothing until the context is done
}

// Text is the step of a text delta.
func Text(s string) Step { return Step{Event: llm.Event{Kind: llm.EventText, Text: s}} }

// Done is the step of the terminal event.
func Done(stop llm.StopReason) Step { return Step{Event: llm.Event{Kind: llm.EventDone, Stop: stop}} }

// Fail is the step of a failure.
func Fail(err error) Step { return Step{Err: err} }

// Provider plays one script an attempt, in order; after the last it plays the last again. A
// script whose first step is an error fails at once, in Stream. Safe for concurrent use.
type Provider struct {
	mu       sync.Mutex
	scripts  [][]Step
	requests []*llm.Request
	times    []time.Time
}

// Script returns a provider that plays the scripts.
func Script(scripts ...[]Step) *Provider { return &Provider{scripts: scripts} }

// Name implements llm.Provider.
func (p *Provider) Name() string { return "script" }

// Requests returns the requests so far, as they were when they came.
func (p *Provider) Requests() []*llm.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*llm.Request(nil), p.requests...)
}

// Times returns when each request came.
func (p *Provider) Times() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Time(nil), p.times...)
}

// Stream implements llm.Provider.
func (p *Provider) Stream(ctx context.Context, permit llm.Permit, req *llm.Request) (llm.Stream, error) {
	if err := permit.Spend(ctx); err != nil {
		return nil, err
	}
	if err := permit.Check(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	script := p.scripts[min(len(p.requests), len(p.scripts)-1)]
	seen := *req
	seen.Messages = slices.Clone(req.Messages)
	p.requests = append(p.requests, &seen)
	p.times = append(p.times, time.Now())
	p.mu.Unlock()
	s := &scripted{ctx: ctx, steps: script, closed: make(chan struct{})}
	if len(script) > 0 && script[0].Err != nil {
		_, err := s.Next()
		return nil, err
	}
	return s, nil
}

type scripted struct {
	ctx    context.Context
	steps  []Step
	once   sync.Once
	closed chan struct{}
}

func (s *scripted) Next() (llm.Event, error) {
	if len(s.steps) == 0 {
		return llm.Event{}, io.EOF
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	var elapsed <-chan time.Time
	if step.Wait > 0 {
		elapsed = time.After(step.Wait)
	} else if !step.Stall {
		if s.ctx.Err() != nil {
			return llm.Event{}, context.Cause(s.ctx)
		}
		return step.Event, step.Err
	}
	select {
	case <-elapsed:
		return step.Event, step.Err
	case <-s.ctx.Done():
		return llm.Event{}, context.Cause(s.ctx)
	case <-s.closed:
		return llm.Event{}, io.ErrClosedPipe
	}
}

func (s *scripted) Ready() bool {
	return len(s.steps) == 0 || s.steps[0].Wait <= 0 && !s.steps[0].Stall
}

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
