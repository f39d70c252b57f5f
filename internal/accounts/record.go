package accounts

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/transport"
)

var _ gateway.Journal = (*Accounts)(nil)

// record is a call that goes on: the ledger of its attempts, in memory, and what is told of them.
// But for marks, which its ledger takes from anywhere, it is written by one goroutine; others see it.
type record struct {
	*replay.Memory
	a          *Accounts
	key        session.ClientKey
	mu         sync.Mutex // held to change call, and to read it from beside
	call       session.GatewayCall
	generation int64
	choice     recovery.Choice
	facts      llm.ModelFacts // of the attempt that was opened last, at that time
	needs      llm.Needs
	reserved   llm.Money // for the whole call
}

// Open implements gateway.Journal.
func (a *Accounts) Open(_ context.Context, c *gateway.Call) gateway.Record {
	r := &record{Memory: replay.NewMemory(), a: a, key: c.Key, call: callOf(c)}
	r.generation = r.Claim(c.ID)
	a.going.add(r)
	return r
}

// Refused implements gateway.Journal.
func (a *Accounts) Refused(_ context.Context, c *gateway.Call, status int, code, message string) {
	call := callOf(c)
	call.EndedAt, call.Outcome, call.Status = session.At(time.Now()), session.GatewayRefused, status
	call.Code, call.Message, call.Cost.Kind = code, clip(message), llm.CostKnown
	a.put(entry{call, useOf(&call, 0)})
}

// callOf is what is known of a call when it begins.
func callOf(c *gateway.Call) session.GatewayCall {
	call := session.GatewayCall{ID: c.ID, KeyID: c.Key.ID, Client: c.Client, Dialect: c.Target.Dialect.Dialect(), Model: clip(c.Model),
		Stream: c.Stream, Count: c.Target.Count, BeganAt: session.At(c.Began), Outcome: session.GatewayOpen}
	if c.Asked != c.Model {
		call.Asked = clip(c.Asked)
	}
	return call
}

// clip bounds what a client has a say in, so that no request makes a large record.
func clip(s string) string {
	const longest = 1000
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// useOf is what a call that has ended adds to its key's sums.
func useOf(c *session.GatewayCall, reserved llm.Money) session.ClientUse {
	u := session.ClientUse{Key: c.KeyID, Hour: session.HourOf(c.BeganAt), ClientUsage: session.ClientUsage{
		Calls: 1, Requests: int64(c.Requests), Lost: c.Lost, Spend: session.Spend{Amount: c.Cost.Amount, Reserved: -reserved}}}
	if c.Outcome == session.GatewayRefused {
		u.Refused = 1
	}
	if c.Usage != nil {
		u.Input, u.Output, u.CacheRead, u.CacheWrite = c.Usage.Input, c.Usage.Output, c.Usage.CacheRead, c.Usage.CacheWrite
	}
	for i := range c.Attempts {
		switch cost := c.Attempts[i].Cost; {
		case cost == nil || cost.Kind == llm.CostKnown:
		case cost.Kind == llm.CostUnknown:
			u.Unpriced++
			fallthrough
		default:
			u.Inexact++
		}
	}
	return u
}

// Generation implements gateway.Record.
func (r *record) Generation() int64 { return r.generation }

// Chosen implements recovery.Trace: the attempt that is opened next says who is asked.
func (r *record) Chosen(c recovery.Choice) { r.choice = c }

// Decided implements recovery.Trace.
func (r *record) Decided(_ context.Context, _ string, f *failure.Failure, d recovery.Decision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last()
	last.Failure, last.Decision = brief(f), &d
	return nil
}

// brief is a failure without the answer that it came in.
func brief(f *failure.Failure) *failure.Failure {
	c := *f
	c.Body = ""
	return &c
}

func (r *record) last() *session.Attempt { return &r.call.Attempts[len(r.call.Attempts)-1] }

// Open implements replay.Ledger. Where a cap on cost applies, what the attempt may cost at most is
// set aside first.
func (r *record) Open(ctx context.Context, o replay.Opening) (string, error) {
	r.facts, r.needs = r.a.o.About(o.Provider, o.Model), o.Needs
	if r.call.Count {
		r.facts.Price = new(llm.Price) // counting is free
	}
	a := session.Attempt{RunID: session.RunID(r.call.ID), Number: len(r.call.Attempts) + 1, After: session.AttemptID(o.After), Automatic: o.Automatic,
		Provider: o.Provider, Key: o.Key, Model: o.Model, OpenedAt: session.At(time.Now()), Price: r.facts.Price,
		SwitchedFrom: r.choice.Switched, InsteadOf: r.choice.Instead, Skipped: r.choice.Skipped}
	if err := r.reserve(ctx, a); err != nil {
		return "", err
	}
	id, err := r.Memory.Open(ctx, o)
	if err != nil {
		return "", err
	}
	a.ID = session.AttemptID(id)
	a.Evidence = replay.Evidence{Scope: o.Scope, Attempt: id, State: replay.StateOpen, Remote: o.Remote}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call.Attempts = append(r.call.Attempts, a)
	return id, nil
}

// reserve sets aside what an attempt may cost beyond what is set aside for the call. With it the
// call is stored, so that it can be told of should this process not see its end.
func (r *record) reserve(ctx context.Context, a session.Attempt) error {
	day := r.a.directory(ctx).live.Spend.Day
	if r.key.SpendDay == 0 && r.key.SpendTotal == 0 && day == 0 {
		return nil
	}
	most, bounded := r.facts.Most(r.needs)
	more := most - r.reserved
	for i := range r.call.Attempts {
		if cost := r.call.Attempts[i].Cost; cost != nil {
			more += cost.Amount
		}
	}
	if bounded && more <= 0 {
		return nil
	}
	use := session.ClientUse{Key: r.key.ID, Hour: session.HourOf(r.call.BeganAt)}
	use.Spend.Reserved = more
	open := r.call
	open.Reserved, open.Requests = r.reserved+more, len(r.call.Attempts)+1
	open.Cost.Kind = llm.CostEstimated
	err := r.a.store.Update(ctx, session.Soft, func(tx session.Tx) error {
		if err := session.ReserveClient(tx, r.key, day, use, a, r.facts, r.needs); err != nil {
			return err
		}
		return tx.PutGatewayCall(open)
	})
	if errors.Is(err, session.ErrUnavailable) {
		r.a.log.ErrorContext(ctx, "set aside what a call may cost", "call", r.call.ID, "error", err)
		return failure.NewLocal(transport.RuleUnavailable, "The gateway's database does not answer, so that nothing can be set aside for what this may cost. Nothing was sent: try again in a moment.")
	}
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reserved += more
	}
	return err
}

// Seal implements replay.Ledger.
func (r *record) Seal(ctx context.Context, scope llm.Scope, attempt string, s replay.Seal) error {
	if err := r.Memory.Seal(ctx, scope, attempt, s); err != nil {
		return err
	}
	e, err := r.Memory.Evidence(ctx, scope, attempt)
	if err != nil {
		return err
	}
	cost := session.CostOf(r.facts, r.needs, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.last()
	a.Evidence, a.EndedAt, a.OK, a.Answered, a.Cost = e, session.At(time.Now()), s.OK, s.Model, &cost
	if s.Usage != nil {
		a.Usage = s.Usage
	}
	return nil
}

// Close implements gateway.Record.
func (r *record) Close(_ context.Context, res transport.Result) {
	r.close(res)
	r.a.put(entry{r.call, useOf(&r.call, r.reserved)})
	r.a.going.remove(r) // behind put: there is no time at which it is nowhere
}

func (r *record) close(res transport.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.call
	c.EndedAt, c.Status, c.Requests = session.At(time.Now()), res.Status, len(c.Attempts)
	c.Outcome = outcome(&res, c.Requests)
	if res.Asked.Model != "" && c.Requests > 0 {
		c.Answered = &res.Asked
	}
	if s := res.Stopped; s != nil {
		c.Failure, c.Decision, c.Tried = brief(s.Failure), &s.Decision, s.Tried
	}
	c.Usage, c.Cost.Kind = res.Output.Usage, llm.CostKnown
	for i := range c.Attempts {
		a := &c.Attempts[i]
		if i > 0 {
			c.WaitedMS += int64(a.OpenedAt - c.Attempts[i-1].EndedAt)
		}
		if a.Cost == nil { // it was not sealed, for want of a ledger
			continue
		}
		c.Cost.Amount += a.Cost.Amount
		if i < len(c.Attempts)-1 || !res.Shown {
			c.Lost += a.Cost.Amount
		}
		if worse(a.Cost.Kind, c.Cost.Kind) {
			c.Cost.Kind = a.Cost.Kind
		}
	}
}

// worse reports whether a cost is known less well than another.
func worse(a, b llm.CostKind) bool {
	return a == llm.CostUnknown || a == llm.CostEstimated && b == llm.CostKnown
}

// outcome is how an exchange ended for its client.
func outcome(r *transport.Result, requests int) session.GatewayOutcome {
	switch {
	case r.Stopped == nil:
		return session.GatewayWhole
	case r.Stopped.Failure.Class == failure.Cancelled && !errors.Is(r.Stopped, transport.ErrStopping):
		return session.GatewayCancelled
	case requests == 0:
		return session.GatewayRefused
	case r.Shown:
		return session.GatewayInterrupted
	}
	return session.GatewayFailed
}
