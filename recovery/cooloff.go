package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/reprise-run/reprise/failure"
)

// CredentialState is what cools off, shared by every run of every node and kept through a
// restart. It is safe for concurrent use. Each change raises a lane's generation; whoever
// names an older one is late and changes nothing.
type CredentialState interface {
	// CoolOffs returns every lane that cools off, or was not tried since it did.
	CoolOffs(ctx context.Context) ([]CoolOff, error)
	// CoolOff lets a lane rest. Of two times the later one stands. Generation does not count.
	CoolOff(ctx context.Context, c CoolOff) error
	// Probe takes the one probe of each of the lanes, until a time after which another may
	// try, and returns the lanes as they are then. It is all or nothing: none of them where
	// somebody else was first.
	Probe(ctx context.Context, lanes []CoolOff, until time.Time) ([]CoolOff, error)
	// Settle gives back what Probe returned. Where the provider has answered, the lanes are
	// open again.
	Settle(ctx context.Context, lanes []CoolOff, answered bool) error
	// Opened is closed when the next lane is opened in this process, by an answer or by a person.
	Opened() <-chan struct{}
}

// Lane is what cools off together: a key at every model (Model empty), a key at one model, or
// a model with every key (Key empty).
type Lane struct {
	Key   string // Key.Hash
	Model string // Entry.Name
}

// CoolOff says that a lane is not asked before a time, and by one request first.
type CoolOff struct {
	Lane Lane `json:"-"`
	// Candidate is how a person calls the lane; Model and Key are empty where any is meant.
	Candidate
	Reason   failure.Class `json:"reason"`
	Until    time.Time     `json:"until"`
	Stated   bool          `json:"stated,omitempty"` // the provider has named the time
	Failures int           `json:"failures"`         // cool-offs in a row
	// Probed: one request tries the lane; nobody else does before this time.
	Probed     time.Time `json:"probed,omitzero"`
	Generation int64     `json:"-"`
}

const (
	// retired is how long a key that was refused, or has no money left, stays out for others:
	// then one request tries it. A key that was replaced is another key.
	retired = 10 * time.Minute
	// circuit is the longest cool-off that no provider has asked for.
	circuit = 30 * time.Second
	// probeFor bounds how long one probe keeps others away: longer than any first event takes.
	probeFor = 150 * time.Second
	// probePoll is how often those who wait for a probe of another process look for its outcome.
	probePoll = time.Second
	// moment is the longest stated wait that may say no more than that a request came too early
	// by less: limiters count in whole seconds. The first of them speaks for its request alone.
	moment = 2 * time.Second
	// spread is the time over which those who have waited for the same lane go: all at once would
	// close it again.
	spread = 100 * time.Millisecond
)

// lane is what a failure of the candidate speaks against. ok is false where it speaks against
// neither key nor model: our own defects, the request's own faults.
func (w *way) lane(f *failure.Failure) (l Lane, ok bool) {
	e := &w.entries[w.cur.entry]
	key, model := e.Keys[w.cur.key].Hash, e.Name()
	switch {
	case key != "" && (rotates(f) || f.Class == failure.SpendLimitExceeded && f.Provider != ""):
		if f.Class == failure.RateLimited && !f.PerKey || f.Class == failure.QuotaExhausted && f.Status == 429 {
			return Lane{key, model}, true // limits are a model's, unless they say otherwise
		}
		return Lane{Key: key}, true
	case f.Retryable && f.Class.Retryable(), rotates(f), advances(f):
		busy := f.Class == failure.Overloaded || f.Class == failure.RateLimited
		return Lane{Model: model}, len(w.entries) > 1 || !f.NotBefore.IsZero() || busy && !w.paced()
	}
	return Lane{}, false
}

// paced reports whether the tiers alone set the pace at which a model is asked, where it names no
// time itself.
func (w *way) paced() bool { return len(w.entries) == 1 && !w.route.Repeats }

// rest is until when a lane cools off after the decision, and whether the provider has named
// that time; zero: it does not.
func (w *way) rest(f *failure.Failure, d Decision, l Lane, now time.Time) (until time.Time, stated bool) {
	again := w.off(l).Failures
	if d.Verdict != Retry {
		again++
	}
	var own time.Duration
	switch {
	case d.Verdict == Retry && l.Key == "", l.Key == "" && w.paced():
	case d.Verdict == Retry:
		own = d.NextAt.Sub(now)
	case !f.Class.Retryable():
		own = retired
	case d.Verdict == Advance:
		own = circuit - time.Duration(w.jitter()*float64(circuit/5)) // no stampede
	case d.Safe || l.Key != "":
		if own = min(w.Policy.Tier2.Backoff(again), circuit); w.route.Repeats {
			own = min(own, w.Policy.Tier1.Cap/2) // it is waited for, and not taken for the last word
		}
	}
	if f.NotBefore.IsZero() || d.Verdict != Retry && now.Add(own).After(f.NotBefore) {
		return now.Add(own), false
	}
	return f.NotBefore, true
}

// cool stores what the failure means for others, and gives back the probes that it leaves open,
// in this order: nobody tries in between.
func (w *way) cool(ctx context.Context, f *failure.Failure, d Decision, l Lane, ok bool, now time.Time) error {
	if w.route.State == nil {
		return nil
	}
	var err error
	if ok {
		err = w.close(ctx, f, d, l, now)
	}
	return errors.Join(err, w.settle(ctx, false), w.read(ctx))
}

// close lets the lane rest for as long as the failure says.
func (w *way) close(ctx context.Context, f *failure.Failure, d Decision, l Lane, now time.Time) error {
	until, stated := w.rest(f, d, l, now)
	switch {
	case d.Verdict == Retry && stated && until.Sub(now) <= moment && w.off(l).Generation == 0:
		until = now // it is in doubt: somebody else's request tries it, and this one waits
	case !until.After(now):
		return nil
	}
	c := CoolOff{Lane: l, Candidate: Candidate{Provider: w.entries[w.cur.entry].Provider}, Reason: f.Class,
		Until: until, Stated: stated, Failures: w.off(l).Failures}
	if d.Verdict != Retry {
		c.Failures++
	}
	if l.Model != "" {
		c.Model = w.entries[w.cur.entry].Model
	}
	if l.Key != "" {
		c.Key = w.entries[w.cur.entry].Keys[w.cur.key].Label
	}
	return w.route.State.CoolOff(ctx, c)
}

// read asks what cools off.
func (w *way) read(ctx context.Context) (err error) {
	if w.route.State != nil {
		w.offs, err = w.route.State.CoolOffs(ctx)
	}
	return err
}

// off returns what is known of a lane.
func (w *way) off(l Lane) CoolOff {
	for _, c := range w.offs {
		if c.Lane == l {
			return c
		}
	}
	return CoolOff{Lane: l}
}

// ready says when the candidate may be asked, whether somebody tries it just now, and which
// of its lanes have cooled off and wait for a first request.
func (w *way) ready(entry, key int, now time.Time) (until time.Time, busy bool, over []CoolOff) {
	e := &w.entries[entry]
	hash, model := e.Keys[key].Hash, e.Name()
	for _, c := range w.offs {
		switch {
		case c.Lane.Key == "" && (c.Lane.Model != model || w.paced() && !c.Stated),
			c.Lane.Key != "" && c.Lane.Key != hash,
			c.Lane.Model != "" && c.Lane.Model != model:
			continue
		}
		over = append(over, c)
		busy = busy || c.Probed.After(now)
		if c.Until.After(until) {
			until = c.Until
		}
	}
	return until, busy, over
}

// probe takes the probes that the candidate needs.
func (w *way) probe(ctx context.Context, c *candidate, now time.Time) (bool, error) {
	if len(c.lanes) == 0 {
		return true, nil
	}
	for _, l := range c.lanes {
		tried := len(w.entries) > 1 || l.Failures > 0 // else it was in doubt alone
		c.probing = c.probing || l.Lane.Key == "" && w.verdict != Retry && tried
	}
	taken, err := w.route.State.Probe(ctx, c.lanes, now.Add(probeFor))
	c.lanes = taken
	return taken != nil, err
}

// settle gives back the probes, once.
func (w *way) settle(ctx context.Context, answered bool) error {
	lanes := w.cur.lanes
	if w.cur.lanes = nil; len(lanes) == 0 {
		return nil
	}
	return w.route.State.Settle(ctx, lanes, answered)
}
