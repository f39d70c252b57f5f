package explore

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// sent judges a request that leaves.
func (w *world) sent(permit llm.Permit, _ *llm.Request) *answer {
	f := &w.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed()
	scope := permit.Scope()
	r := f.runs[session.RunID(scope.Run)]
	a := &answer{number: len(f.answers), attempt: session.AttemptID(permit.Attempt()), run: r, step: scope.Step, owner: scope.Generation}
	f.w.say("      request %d, for step %d of run %d, generation %d", a.number+1, a.step, f.number(r), scope.Generation)
	switch {
	case r.run.CancelRequested || r.run.State == session.Cancelled:
		f.violate(CancelWins, "request %d was sent after run %d was cancelled", a.number+1, f.number(r))
	case r.run.State != session.Running || r.run.Generation != scope.Generation:
		f.violate(Fence, "request %d was sent by generation %d, and run %d is %s in generation %d",
			a.number+1, scope.Generation, f.number(r), r.run.State, r.run.Generation)
	}
	f.mayRepeat(a)
	sent, first := 0, true
	var before, same *answer // the request before this one, and the one to the same provider
	for _, b := range f.answers {
		if b.run == r && b.step == a.step {
			sent++
		}
		first = first && b.run != r
		if b.run.run.MessageID == r.run.MessageID {
			before = b
			if f.attempts[b.attempt].attempt.Provider == f.attempts[a.attempt].attempt.Provider {
				same = b
			}
		}
	}
	if limit := w.sc.requests(); sent >= limit {
		f.violate(Bound, "request %d is the %dth of its step, of which %d may be sent", a.number+1, sent+1, limit)
	}
	if !r.asked || !first {
		f.afterFailure(a, before, same)
	}
	r.acting = max(r.acting, scope.Generation)
	f.answers = append(f.answers, a)
	return a
}

// afterFailure judges a request that nobody asked for, by the one before it and by the one that
// the same provider got. What the owner of those did not live to store, nobody else can know.
func (f *facts) afterFailure(a, before, same *answer) {
	if f.known(a, same) && time.Now().Before(same.notBefore) {
		f.violate(Hint, "request %d was sent %v before the time that the provider asked for", a.number+1, time.Until(same.notBefore))
	}
	if !f.known(a, before) {
		return
	}
	switch d := f.attempts[before.attempt].decision; {
	case d == nil:
		f.violate(Decided, "request %d follows a failure about which nothing was decided", a.number+1)
	case d.Rule == recovery.RuleCancelled:
	case before.run == a.run && (d.Verdict == recovery.Stop || d.Verdict == recovery.HandOver), d.Rule == recovery.RuleNotEligible:
		f.violate(Decided, "request %d follows a failure about which was decided: %s", a.number+1, d.Rule)
	}
}

// known reports whether whoever sends a request can know that an earlier one failed.
func (f *facts) known(a, earlier *answer) bool {
	return earlier != nil && earlier.failed &&
		(f.attempts[earlier.attempt].decision != nil || earlier.run == a.run && earlier.owner == a.owner)
}

// mayRepeat judges whether a request repeats something that was observable.
func (f *facts) mayRepeat(a *answer) {
	r := a.run
	if r.shown[a.step] != "" {
		f.violate(NoRepeat, "request %d repeats step %d of run %d, of which something was published", a.number+1, a.step, f.number(r))
	}
	for id, c := range f.calls {
		switch {
		case c.starts == 0:
		case c.answer.run == r && c.answer.step == a.step:
			f.violate(NoRepeat, "request %d repeats step %d of run %d, whose tool call %s has started", a.number+1, a.step, f.number(r), id)
		case f.continues(r, c.answer.run) && c.state != session.CallEnded:
			f.violate(NoRepeat, "request %d goes on although nobody knows how tool call %s ended", a.number+1, id)
		}
	}
	if r.asked || r.before == nil {
		return
	}
	// Nobody asked for this run: it repeats the one before it, or goes on after it.
	for of := r.before; of != nil; of = f.runs[of.run.Continues] {
		for step := range of.shown {
			if r.run.Continues == "" || !f.whole(of, step) {
				f.violate(NoRepeat, "request %d repeats run %d by itself, of which something was published", a.number+1, f.number(of))
			}
		}
		for id, c := range f.calls {
			if r.run.Continues == "" && c.answer.run == of && c.starts > 0 {
				f.violate(NoRepeat, "request %d repeats run %d by itself, whose tool call %s has started", a.number+1, f.number(of), id)
			}
		}
	}
}

// continues reports whether r goes on after other, or is it.
func (f *facts) continues(r, other *run) bool {
	for ; r != nil; r = f.runs[r.run.Continues] {
		if r == other {
			return true
		}
	}
	return false
}

// whole reports whether the output of a step is stored as it was sent.
func (f *facts) whole(r *run, step int) bool {
	return slices.ContainsFunc(f.rows, func(m session.Message) bool {
		return m.RunID == r.run.ID && m.Step == step && m.Role == session.RoleReply && m.Interrupted == "" && len(m.Parts) > 0
	})
}

// judged notes that a run's owner has read what the log has of it, to decide on that.
func (w *world) judged(id session.RunID) {
	f := &w.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	r.acting = max(r.acting, r.run.Generation)
}

// appended judges a record of a run's output.
func (w *world) appended(id session.RunID, data []byte) {
	f := &w.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed()
	var e session.Event
	if err := json.Unmarshal(data, &e); err != nil {
		f.violate(Once, "a record cannot be read: %v", err)
		return
	}
	r, out := f.runs[id], e.Output
	f.w.say("      published of run %d, generation %d: %s", f.number(r), out.Generation, spellEvents(out.Events))
	if r.run.State == session.Cancelled {
		f.violate(CancelWins, "run %d was cancelled, and then published", f.number(r))
	} else if r.run.State.Terminal() {
		f.violate(Once, "run %d is %s, and then published", f.number(r), r.run.State)
	}
	if out.Generation < r.acting {
		f.violate(Fence, "generation %d of run %d published after generation %d had begun to act", out.Generation, f.number(r), r.acting)
	}
	for i := range out.Events {
		f.published(r, out, &out.Events[i])
	}
}

func (f *facts) published(r *run, out *session.Output, e *llm.Event) {
	i := slices.IndexFunc(f.answers, func(a *answer) bool { return a.attempt == out.AttemptID })
	if i < 0 {
		if e.Kind != llm.EventInterrupted {
			f.violate(Once, "%v of an attempt that nobody opened", e.Kind)
		}
		return
	}
	a := f.answers[i]
	switch e.Observability() {
	case llm.Content, llm.ToolCall:
	case llm.Terminal:
		if !a.done {
			f.violate(Once, "an end that the provider did not send")
		}
		return
	default:
		return
	}
	if !f.attempts[out.AttemptID].marked {
		f.violate(MarkFirst, "%v of request %d was published with no mark", e.Kind, a.number+1)
	}
	if by := r.shown[out.Step]; by != "" && by != out.AttemptID {
		f.violate(Once, "two attempts of step %d of run %d were published", out.Step, f.number(r))
	}
	r.shown[out.Step] = out.AttemptID
	if e.Kind == llm.EventCallStart && !a.done {
		f.violate(Held, "a tool call of request %d was published before its end", a.number+1)
	}
	if f.w.sc.hold.Mode == replay.HoldWhole && !a.done && (!a.failed || r.run.CancelRequested) {
		f.violate(Held, "%v of request %d was held until its end, and published without one", e.Kind, a.number+1)
	}
	if e.Kind != llm.EventText && e.Kind != llm.EventThinking {
		return
	}
	for token := range strings.FieldsSeq(e.Text) {
		if a.published >= len(a.emitted) || a.emitted[a.published] != token {
			f.violate(Once, "request %d brought %q; %q was published after %d of them", a.number+1, a.emitted, token, a.published)
			return
		}
		a.published++
		r.tokens[out.Step] = append(r.tokens[out.Step], token)
	}
}

func (w *world) toolStarted(arguments string) {
	f := &w.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed()
	id := strings.Trim(arguments, `"`)
	c := f.calls[id]
	f.w.say("      tool call %s starts", id)
	if c.starts++; c.starts > 1 {
		f.violate(ToolOnce, "tool call %s has started %d times", id, c.starts)
	}
	if c.state != session.CallStarted {
		f.violate(ToolOnce, "tool call %s has started with no record of it", id)
	}
	r := c.answer.run
	if f.continues(f.last, r) {
		r = f.last // resumed
	}
	if r.run.CancelRequested {
		f.violate(CancelWins, "tool call %s has started after run %d was cancelled", id, f.number(r))
	}
	if !f.whole(c.answer.run, c.answer.step) {
		f.violate(Kept, "tool call %s has started before its output was stored", id)
	}
}
