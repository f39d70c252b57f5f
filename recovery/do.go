package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// Reply is a model call that went through.
type Reply struct {
	Attempt string
	Output  llm.Output
}

// Stopped is a model call that did not: the failure, both verdicts, and what was published.
type Stopped struct {
	Failure  *failure.Failure
	Decision Decision
	// Attempt is empty where the gate let none begin. Output is what observers have seen of
	// it; Output.Interrupted is set where that is not nothing.
	Attempt string
	Output  llm.Output
}

func (s *Stopped) Error() string { return s.Failure.Error() }

// Unwrap returns the failure.
func (s *Stopped) Unwrap() error { return s.Failure }

// Do carries out one step's model call behind the gate. It is the one loop that opens a
// second attempt. Its error is a *Stopped, also for a cancelled context, whose failure then
// has the class cancelled and the context's cause. It returns at once when ctx is done.
func Do(ctx context.Context, p Plan, g *replay.Gate, sink replay.Sink, req *llm.Request) (Reply, error) {
	b := Budget{Requests: p.Requests}
	var last *replay.Attempt
	for {
		if b.Requests >= p.Policy.MaxRequests {
			return Reply{}, stopped(failure.NewLocal("request_bound", Rules[RuleBound]), RuleBound)
		}
		a, err := g.Open(ctx, last, p.Provider, req)
		if err != nil {
			return Reply{}, stopped(p.failure(ctx, err, llm.NeverSent), RuleNotSafe)
		}
		b.Requests, b.Attempts, last = b.Requests+1, b.Attempts+1, a
		out, broken := a.Run(sink, p.Terms)
		if broken == nil {
			return Reply{a.ID(), out}, nil
		}
		f := p.failure(ctx, broken.Err, broken.Evidence.Delivery)
		b.Jitter, b.Cancelled = p.jitter(), ctx.Err() != nil
		d := Decide(f, broken.Evidence, p.Policy, b, time.Now())
		again := d.Verdict == Retry || d.Verdict == HandOver // eligible, and safe by the ledger
		held := broken.Held                                  // nil: something was shown
		err = p.Trace.Decided(context.WithoutCancel(ctx), a.ID(), f, d)
		if again && held != nil && err == nil {
			held.Discard()
			if d.Verdict == HandOver {
				return Reply{}, &Stopped{Failure: f, Decision: d, Attempt: a.ID()}
			}
			if wait(ctx, d.NextAt) {
				continue
			}
			return Reply{}, stopped(p.failure(ctx, nil, 0), RuleCancelled)
		}
		end := broken.Keep
		if b.Cancelled {
			end = broken.Cut
		}
		out, kerr := end(f.Class.String())
		if err = errors.Join(err, kerr); err != nil && !b.Cancelled {
			f = p.failure(ctx, err, 0)
		}
		return Reply{}, &Stopped{Failure: f, Decision: d, Attempt: a.ID(), Output: out}
	}
}

// wait returns true at the time, or false as soon as ctx is done.
func wait(ctx context.Context, until time.Time) bool {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// stopped is the end of a call of which no attempt is left to tell.
func stopped(f *failure.Failure, rule Rule) *Stopped {
	if f.Class == failure.Cancelled {
		rule = RuleCancelled
	}
	return &Stopped{Failure: f, Decision: Decision{Class: f.Class, Rule: rule}}
}

// failure makes a failure of whatever ended an attempt. A done context wins.
func (p *Plan) failure(ctx context.Context, err error, d llm.Delivery) *failure.Failure {
	if ctx.Err() != nil {
		return failure.NewCancelled(context.Cause(ctx))
	}
	var f *failure.Failure
	var no *replay.Refused
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, replay.ErrOverflow):
		return failure.NewLocal("staging_overflow", "The reply is larger than may be held back at once.")
	case errors.As(err, &no):
		return failure.NewLocal("gate_refused", no.Error())
	case errors.Is(err, replay.ErrStale):
		return failure.NewCancelled(err)
	case errors.Is(err, replay.ErrOurs):
		return failure.NewLocal("publish", err.Error())
	}
	return failure.FromError(failure.Facts{Provider: p.Provider.Name(), Phase: failure.PhaseStream, Delivered: d, Now: time.Now()}, err)
}
