package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// grace is what the last candidate of a chain gets on top of each of its watchdogs.
const grace = 60 * time.Second

// way is one step's walk over the route: who was asked, who is left, and what it has cost.
type way struct {
	*Plan
	route   *Route
	req     *llm.Request // as the caller made it, or as it was made shorter
	input   int64        // tokens of req, estimated
	entries []Entry
	said    []said // req in the words of each entry
	order   []int  // the entries that are left, the next one first
	loose   bool   // an estimate of a request's size keeps nobody away any more

	cur     candidate
	verdict Verdict         // that led to cur
	asked   map[Lane]bool   // keys that cur's verdict Rotate has left behind, by model
	refused map[string]bool // keys that are out for this step, by hash
	offs    []CoolOff       // as last read

	budget   Budget
	failures []*failure.Failure
	outcomes []Outcome // of those who were asked
	skipped  []Outcome // of those who were not
	told     int       // how many of skipped were told of
	waited   time.Duration
}

// walk begins a step.
func (p *Plan) walk(req *llm.Request) *way {
	w := &way{Plan: p, route: p.Route, asked: map[Lane]bool{}, refused: map[string]bool{}}
	if w.Bound == nil {
		w.Bound = new(Bound)
	}
	w.budget.CanCompact = p.Compact != nil
	w.renew()
	w.take(req)
	for i := range w.entries {
		if w.entries[i].Name() == w.route.stay {
			w.order = slices.Insert(w.order, 0, i)
		} else {
			w.order = append(w.order, i)
		}
	}
	return w
}

// take makes req the request of the step.
func (w *way) take(req *llm.Request) {
	if w.req = req; len(w.entries) > 1 {
		w.input = req.Text()
	}
	w.said = make([]said, len(w.entries))
}

// said is a request in the words of an entry, or why it cannot be said so; zero: nobody has tried.
type said struct {
	req  *llm.Request
	loss error
}

// translate finds out how the entry is told the request.
func (w *way) translate(entry int) {
	if s := &w.said[entry]; w.Translate != nil && *s == (said{}) {
		s.req, s.loss = w.Translate(&w.entries[entry], w.req)
	}
}

// words are the request as the entry is told it, as far as that is known.
func (w *way) words(entry int) *llm.Request {
	if r := w.said[entry].req; r != nil {
		return r
	}
	return w.req
}

// renew reads the entries and their keys.
func (w *way) renew() {
	w.entries = w.route.Entries()
	if w.route.NoFallback {
		w.entries = w.entries[:1]
	}
}

// next says who is asked now, with the request as they may be told it. It waits as long as
// tier 1 may where everybody cools off for that long; else it says until when.
func (w *way) next(ctx context.Context) (llm.Provider, *llm.Request, *Stopped) {
	for left := w.Policy.Tier1.Cap; ; {
		if w.Bound.Sent >= w.Policy.MaxRequests {
			return nil, nil, w.stopped(failure.NewLocal("request_bound", Rules[RuleBound]), RuleBound)
		}
		opened := w.opened() // before the reading, so that nothing opens unheard
		now := time.Now()
		err := w.read(ctx)
		p := w.pick(now)
		took := false
		if err == nil && (p.ok || p.forced(w)) {
			took, err = w.probe(ctx, &p.candidate, now)
		}
		switch wait := p.at.Sub(now); {
		case err != nil:
			return nil, nil, w.stopped(w.failure(ctx, fmt.Errorf("%w: read what cools off: %w", replay.ErrOurs, err), llm.NeverSent), RuleNoWay)
		case took || p.forced(w):
			provider, req := w.choose(p.candidate, now, w.Policy.Tier1.Cap-left)
			return provider, req, nil
		case p.ok: // somebody else was first
			continue
		case p.at.IsZero() && !w.loose:
			w.loose = true
			continue
		case p.at.IsZero():
			return nil, nil, w.stopped(w.unaskable(), RuleNoWay)
		case !w.route.begun && !w.route.Going && !p.probed, wait > left:
			return nil, nil, w.stopped(w.cooling(p), RuleCooling)
		default:
			late := w.late(left)
			if !w.wait(ctx, opened, now.Add(wait+late), late) {
				return nil, nil, w.stopped(w.failure(ctx, nil, 0), RuleCancelled)
			}
			left -= time.Since(now)
		}
	}
}

// choose makes the candidate the one that is asked, and tells of it.
func (w *way) choose(c candidate, now time.Time, waited time.Duration) (llm.Provider, *llm.Request) {
	r, e := w.route, &w.entries[c.entry]
	w.cur = c
	w.drop(c.entry)
	w.order = slices.Insert(w.order, 0, c.entry)
	choice := Choice{Candidate: w.name(c.entry, c.key), Skipped: slices.Clone(w.skipped[w.told:]), Waited: waited}
	w.told = len(w.skipped)
	if from := w.before(); from != (Candidate{}) && from != choice.Candidate {
		choice.Switched = &Former{from, w.reason(from)}
	}
	if c.entry != 0 {
		choice.Instead = w.instead()
	}
	r.begun, r.chosen = true, choice.Candidate
	w.Trace.Chosen(choice)
	provider := e.Keys[c.key].Provider
	if len(w.entries) > 1 && !w.another(now, Lane{}) {
		if p, ok := provider.(llm.Patient); ok {
			provider = p.WithGrace(grace)
		}
	}
	return provider, w.words(c.entry).For(e.Provider, e.Model)
}

// before is who was asked before, in this run or for the session's last reply; zero: nobody
// that a switch could be told from.
func (w *way) before() Candidate {
	if w.route.begun {
		return w.route.chosen
	}
	for i := range w.entries {
		if e := &w.entries[i]; e.Name() == w.route.Last && i != w.cur.entry {
			return w.name(i, -1)
		}
	}
	if w.route.Last == "" && w.cur.entry != 0 {
		return w.name(0, -1)
	}
	return Candidate{}
}

// reason says why the candidate is not asked any more.
func (w *way) reason(from Candidate) string {
	if n := len(w.failures); n > 0 {
		return w.failures[n-1].Class.String()
	}
	for _, o := range w.skipped {
		if o.Provider == from.Provider && o.Model == from.Model && (from.Key == "" || o.Key == from.Key) {
			return o.Skipped
		}
	}
	return Recovered
}

// instead says why the first entry is not asked; what an earlier step has found out stands.
func (w *way) instead() *Former {
	head := w.name(0, -1)
	for _, o := range slices.Concat(w.skipped, w.outcomes) {
		if o.Provider == head.Provider && o.Model == head.Model {
			w.route.why = o.Failed + o.Skipped // one of them
		}
	}
	return &Former{head, w.route.why}
}

// sent counts a request that has left.
func (w *way) sent() {
	w.Bound.Sent++
	if w.verdict != Rotate && w.verdict != Compact {
		w.budget.Attempts++
	}
}

// terms are the plan's; where a probe is under way, the first event ends it.
func (w *way) terms(ctx context.Context) replay.Terms {
	t := w.Terms
	if len(w.cur.lanes) > 0 {
		t.Begun = func() error { return w.settle(ctx, true) }
	}
	return t
}

// reply ends the step well.
func (w *way) reply(attempt string, out llm.Output) Reply {
	e := &w.entries[w.cur.entry]
	w.route.stay = e.Name()
	return Reply{Attempt: attempt, Output: out, Provider: e.Provider}
}

// decide asks for both verdicts about the attempt that has just failed, and lets rest what the
// failure speaks against.
func (w *way) decide(ctx context.Context, f *failure.Failure, e replay.Evidence) (Decision, error) {
	now, c := time.Now(), w.name(w.cur.entry, w.cur.key)
	w.failures = append(w.failures, f)
	w.outcomes = append(w.outcomes, Outcome{Candidate: c, Failed: f.Class.String(), Until: f.NotBefore, Message: f.Message})
	lane, ok := w.lane(f)
	entry := &w.entries[w.cur.entry]
	hash := entry.Keys[w.cur.key].Hash
	if rotates(f) {
		w.asked[Lane{hash, entry.Name()}] = true
		w.refused[hash] = w.refused[hash] || f.Class != failure.RateLimited && hash != ""
		w.renew() // the key may have been replaced
	}
	after := context.WithoutCancel(ctx)
	err := w.read(after)
	for _, i := range w.order {
		w.translate(i)
	}
	b := &w.budget
	b.Requests, b.Jitter, b.Cancelled = w.Bound.Sent, w.jitter(), ctx.Err() != nil
	b.MoreKeys = w.rotation(now) >= 0
	b.MoreModels = w.another(now, lane)
	b.Probe = w.cur.probing
	b.Ceiling = w.ceiling(w.cur.entry)
	b.Ready = w.soonest(f, now)
	_, resting := w.resting(now)
	b.Later = w.passing() != nil || resting
	d := Decide(f, e, w.Policy, *b, now)
	return d, errors.Join(err, w.cool(after, f, d, lane, ok, now))
}

// ceiling reports whether the entry's provider was asked as often as it may be for a request as
// large as this one.
func (w *way) ceiling(entry int) bool {
	e := &w.entries[entry]
	if e.Large.Bytes == 0 || w.req.Size() < e.Large.Bytes {
		return false
	}
	asked := 0
	for _, o := range w.outcomes {
		if o.Failed != "" && o.Provider == e.Provider {
			asked++
		}
	}
	return asked >= e.Large.Requests
}

// late is how much later than others a request goes that waits with them: a reset is no stampede, and who has
// waited longest comes first.
func (w *way) late(left time.Duration) time.Duration {
	return time.Duration(w.jitter() * float64(spread) * float64(left) / float64(w.Policy.Tier1.Cap))
}

// opened is closed when a lane opens.
func (w *way) opened() <-chan struct{} {
	if w.route.State == nil {
		return nil
	}
	return w.route.State.Opened()
}

// wait is sleep that ends early, but for the delay, where a lane opens.
func (w *way) wait(ctx context.Context, opened <-chan struct{}, until time.Time, delay time.Duration) bool {
	began := time.Now()
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-opened:
		w.waited += time.Since(began)
		return w.sleep(ctx, time.Now().Add(delay))
	}
	w.waited += time.Since(began)
	return ctx.Err() == nil
}

// sleep returns true at the time, or false as soon as ctx is done.
func (w *way) sleep(ctx context.Context, until time.Time) bool {
	began := time.Now()
	defer func() { w.waited += time.Since(began) }()
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// rotation returns another key of the entry that may be asked now, or -1.
func (w *way) rotation(now time.Time) int {
	e := &w.entries[w.cur.entry]
	for _, k := range w.candidates(w.cur.entry, -1) {
		until, busy, _ := w.ready(w.cur.entry, k, now)
		if !w.asked[Lane{e.Keys[k].Hash, e.Name()}] && !busy && !until.After(now) {
			return k
		}
	}
	return -1
}

// another reports whether another entry may be asked now, without the lane that is about to
// cool off.
func (w *way) another(now time.Time, without Lane) bool {
	for _, i := range w.order {
		if i == w.cur.entry || w.cannot(i) != "" {
			continue
		}
		for _, k := range w.candidates(i, -1) {
			until, busy, _ := w.ready(i, k, now)
			out := without.Key != "" && without.Model == "" && without.Key == w.entries[i].Keys[k].Hash
			if !out && !busy && !until.After(now) {
				return true
			}
		}
	}
	return false
}

// passing is the first failure of the step that may pass; nil: there is none.
func (w *way) passing() *failure.Failure {
	for _, f := range w.failures {
		if f.Retryable && f.Class.Retryable() {
			return f
		}
	}
	return nil
}

// resting is who else cools off from what may pass, and is ready first; ok: there is somebody.
func (w *way) resting(now time.Time) (p pick, ok bool) {
	for _, i := range w.order {
		for _, k := range w.candidates(i, -1) {
			until, busy, over := w.ready(i, k, now)
			passes := func(c CoolOff) bool { return c.Until.Equal(until) && c.Reason.Retryable() }
			rests := busy || until.After(now) && slices.ContainsFunc(over, passes)
			if rests && (i != w.cur.entry || k != w.cur.key) && (!ok || until.Before(p.at)) {
				p, ok = pick{candidate: candidate{entry: i, key: k, lanes: over}, at: until}, true
			}
		}
	}
	return p, ok
}

// soonest is when the first of the entry's keys may be asked again; zero: when the failure's
// own time has come.
func (w *way) soonest(f *failure.Failure, now time.Time) (at time.Time) {
	for _, k := range w.candidates(w.cur.entry, -1) {
		until, _, _ := w.ready(w.cur.entry, k, now)
		// What speaks against the key alone lets another one go first.
		if other := k != w.cur.key && rotates(f) && w.route.State != nil; !other && f.NotBefore.After(until) {
			until = f.NotBefore
		}
		if until.Before(now) {
			until = now
		}
		if at.IsZero() || until.Before(at) {
			at = until
		}
	}
	return at
}

// follow carries out the verdict of a discarded attempt, and waits for the next one's time.
func (w *way) follow(ctx context.Context, d Decision) *Stopped {
	w.verdict = d.Verdict
	switch d.Verdict {
	case Advance:
		w.drop(w.cur.entry)
		w.budget.Attempts = 0
	case Compact:
		w.budget.CanCompact = false
		short, err := w.Compact(ctx, Compaction{Request: w.req, Entry: w.entries[w.cur.entry],
			Failure: w.failures[len(w.failures)-1], Bound: w.Bound})
		if err != nil {
			var s *Stopped
			if errors.As(err, &s) {
				return s
			}
			return w.stopped(w.failure(ctx, fmt.Errorf("%w: compact: %w", replay.ErrOurs, err), llm.NeverSent), RuleCompactOnce)
		}
		w.take(short)
	}
	if !w.sleep(ctx, d.NextAt) {
		return w.stopped(w.failure(ctx, nil, 0), RuleCancelled)
	}
	return nil
}
