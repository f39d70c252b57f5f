package recovery

import (
	"slices"
	"strings"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
)

// stopped is the end of a step of which no attempt is left to tell.
func (w *way) stopped(f *failure.Failure, rule Rule) *Stopped {
	switch f.Class {
	case failure.Cancelled:
		rule = RuleCancelled
	case failure.SpendLimitExceeded:
		rule = RuleNotEligible
	}
	return w.end(f, Decision{Class: f.Class, Rule: rule}, "", llm.Output{})
}

// end tells how the step ended, and what became of everybody who might have answered. The
// first error is not hidden by a later one, and the time is that at which the first of them
// may be asked again.
func (w *way) end(f *failure.Failure, d Decision, attempt string, out llm.Output) *Stopped {
	s := &Stopped{Failure: f, Decision: d, Attempt: attempt, Output: out, Attempts: len(w.outcomes), Waited: w.waited}
	if len(w.entries) == 1 && len(w.entries[0].Keys) == 1 {
		if w.route.Repeats {
			w.stateTime(s)
		}
		return s
	}
	soonest := w.pick(time.Now()) // it notes who else is not asked, and why
	for i := range w.entries {
		if w.said[i].loss != nil {
			w.skip(i, -1, SkipLoss, time.Time{})
		}
		w.skipKeys(i)
	}
	if d.Rule == RuleBound {
		w.unreached()
	}
	for _, o := range slices.Concat(w.outcomes, w.skipped) {
		if o.Skipped != "" && slices.ContainsFunc(w.outcomes, func(a Outcome) bool { return a.Candidate == o.Candidate }) {
			continue
		}
		if n := len(s.Tried); n == 0 || s.Tried[n-1].Candidate != o.Candidate || s.Tried[n-1].Failed != o.Failed {
			s.Tried = append(s.Tried, o)
		}
	}
	switch passing := w.passing(); {
	case len(w.failures) == 0:
	case passing != nil && (d.Verdict == HandOver || d.Rule == RuleCooling):
		s.Failure = passing
	case d.Verdict == HandOver: // who has not failed in this step may pass
		s.Failure = w.cooling(soonest)
		s.Failure.Message = w.failures[0].Error() + " Everything else cools off after earlier failures."
	case d.Safe && (d.Eligible || rotates(f) || advances(f)):
		s.Failure = w.failures[0]
	case d.Safe && w.route.Repeats && ofRequest(f):
		if before := w.elsewhere(); before != nil {
			s.Failure = before
		} else if p, ok := w.resting(time.Now()); ok && p.entry != w.cur.entry {
			s.Failure = w.cooling(p)
			s.Failure.Message = "It was not asked: it cools off after earlier failures."
		}
	}
	w.stateTime(s)
	return s
}

// ofRequest reports whether the failure is what its model says of the request. Another may take it:
// of a larger context, or of an answer's beginning as the last message.
func ofRequest(f *failure.Failure) bool {
	switch f.Class {
	case failure.InvalidRequest, failure.ContextOverflow, failure.RequestTooLarge:
		return true
	}
	return false
}

// elsewhere is the first failure of another entry that may pass; nil: there is none.
func (w *way) elsewhere() *failure.Failure {
	here := w.name(w.cur.entry, -1)
	for i, f := range w.failures { // outcomes are of the same attempts
		o := w.outcomes[i]
		if (o.Provider != here.Provider || o.Model != here.Model) && f.Retryable && f.Class.Retryable() {
			return f
		}
	}
	return nil
}

// stateTime makes the failure's time the one at which somebody may be asked again. The state's
// times are rounded up to whole milliseconds.
func (w *way) stateTime(s *Stopped) {
	if at := w.earliest(time.Now()); w.route.State != nil && s.Failure.Retryable && at.Sub(s.Failure.NotBefore).Abs() >= time.Millisecond {
		c := *s.Failure
		c.NotBefore, c.Hint = at, "cool_off"
		s.Failure = &c
	}
}

// unreached lists whom the step's bound left no request for.
func (w *way) unreached() {
	for _, i := range w.order {
		for k := range w.entries[i].Keys {
			c := w.name(i, k)
			told := func(o Outcome) bool { return o.Candidate == c }
			if !slices.ContainsFunc(w.outcomes, told) && !slices.ContainsFunc(w.skipped, told) {
				w.skip(i, k, SkipNotReached, time.Time{})
			}
		}
	}
}

// earliest is when the first of all candidates may be asked; zero: now.
func (w *way) earliest(now time.Time) (at time.Time) {
	for i := range w.entries {
		if w.cannot(i) != "" {
			continue
		}
		for _, k := range w.candidates(i, -1) {
			until, _, _ := w.ready(i, k, now)
			if !until.After(now) {
				return time.Time{}
			}
			if at.IsZero() || until.Before(at) {
				at = until
			}
		}
	}
	return at
}

// unaskable is the failure of a step that nobody can take.
func (w *way) unaskable() *failure.Failure {
	var said []string
	for i := range w.entries {
		for k := range w.entries[i].Keys {
			if err := w.entries[i].Keys[k].Err; err != nil {
				return err
			}
		}
	}
	for _, o := range w.skipped {
		said = append(said, o.String())
	}
	rule := "no_candidate"
	if !slices.ContainsFunc(w.skipped, func(o Outcome) bool { return o.Skipped != SkipLoss }) {
		rule = SkipLoss
	}
	return failure.NewLocal(rule, "Nobody can take this request: "+strings.Join(said, "; ")+".")
}

// cooling is the failure of a step in which everybody cools off: nothing was sent.
func (w *way) cooling(p pick) *failure.Failure {
	e := &w.entries[p.entry]
	f := &failure.Failure{Class: failure.RateLimited, Provider: e.Provider, Model: e.Model, Phase: failure.PhaseOpen,
		Delivered: llm.NeverSent, NotBefore: p.at, Hint: "cool_off", Rule: "cooling_off", Source: "our own record of earlier failures",
		Message: "Nothing was sent: everything that could answer cools off after earlier failures."}
	for _, c := range p.lanes {
		if c.Until.Equal(p.at) {
			f.Class = c.Reason
		}
	}
	f.Retryable = f.Class.Retryable()
	return f
}
