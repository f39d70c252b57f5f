package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// Reply is a model call that went through.
type Reply struct {
	Attempt  string
	Output   llm.Output
	Provider string // who answered, by its name in the configuration
}

// Parts returns the output's parts, each with the provider that can read it again.
func (r *Reply) Parts() []llm.Part { return llm.Own(r.Output.Parts(), r.Provider) }

// Stopped is a model call that did not: the failure, both verdicts, and what was published.
type Stopped struct {
	Failure  *failure.Failure
	Decision Decision
	// Attempt is empty where the gate let none begin. Output is what observers have seen of
	// it; Output.Interrupted is set where that is not nothing.
	Attempt string
	Output  llm.Output
	// Tried lists, where there is more than one candidate, who was asked and who was not.
	Tried []Outcome
	// Attempts counts those of the step, under this claim, and Waited is the time between them.
	Attempts int
	Waited   time.Duration
}

// Exhausted says how much was tried, for a person; empty where nothing was repeated.
func (s *Stopped) Exhausted() string {
	if s.Attempts < 2 {
		return ""
	}
	return fmt.Sprintf("It was tried %d times, with %s of waiting in between.", s.Attempts, s.Waited.Round(100*time.Millisecond))
}

func (s *Stopped) Error() string { return s.Failure.Error() }

// Unwrap returns the failure.
func (s *Stopped) Unwrap() error { return s.Failure }

// Do carries out one step's model call behind the gate. It is the one loop that opens a
// second attempt. Its error is a *Stopped, also for a cancelled context, whose failure then
// has the class cancelled and the context's cause. It returns at once when ctx is done.
func Do(ctx context.Context, p Plan, g *replay.Gate, sink replay.Sink, req *llm.Request) (Reply, error) {
	w := p.walk(req)
	var last *replay.Attempt
	for {
		provider, asked, none := w.next(ctx)
		if none != nil {
			return Reply{}, none
		}
		a, err := g.Open(ctx, last, provider, asked)
		if err != nil {
			err = errors.Join(err, w.settle(context.WithoutCancel(ctx), false))
			return Reply{}, w.stopped(p.failure(ctx, err, llm.NeverSent), RuleNotSafe)
		}
		w.sent()
		last = a
		out, broken := a.Run(sink, w.terms(ctx))
		if broken == nil {
			return w.reply(a.ID(), out), nil
		}
		f := p.failure(ctx, broken.Err, broken.Evidence.Delivery)
		d, err := w.decide(ctx, f, broken.Evidence)
		again := d.Verdict != Stop // eligible, and safe by the ledger
		held := broken.Held        // nil: something was shown
		err = errors.Join(err, p.Trace.Decided(context.WithoutCancel(ctx), a.ID(), f, d))
		if again && held != nil && err == nil {
			held.Discard()
			if d.Verdict == HandOver {
				return Reply{}, w.end(f, d, a.ID(), llm.Output{})
			}
			if none = w.follow(ctx, d); none != nil {
				return Reply{}, none
			}
			continue
		}
		end := broken.Keep
		if ctx.Err() != nil || p.Terms.Raw { // bytes that were held cannot say that they are cut
			end = broken.Cut
		}
		out, kerr := end(f.Class.String())
		if err = errors.Join(err, kerr); err != nil && ctx.Err() == nil {
			f, d = p.failure(ctx, err, 0), Decision{}
		}
		return Reply{}, w.end(f, d, a.ID(), out)
	}
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
	return failure.FromError(failure.Facts{Phase: failure.PhaseStream, Delivered: d, Now: time.Now()}, err)
}
