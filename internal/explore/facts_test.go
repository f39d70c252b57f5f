package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// Invariant names what must hold in every schedule.
type Invariant string

const (
	NoRepeat     Invariant = "no automatic attempt after publish"
	Once         Invariant = "each delta is published once and in order"
	OneEnd       Invariant = "one terminal state a run"
	ToolOnce     Invariant = "a tool call starts at most once"
	CancelWins   Invariant = "nothing is sent or published after a cancel"
	Bound        Invariant = "requests within the bound"
	Hint         Invariant = "no automatic attempt before the hint"
	DispatchOnce Invariant = "no schedule is dispatched twice"
	Progress     Invariant = "no run is stuck"
	Fence        Invariant = "nothing is sent or published by a fenced generation"
	MarkFirst    Invariant = "a mark precedes its publish"
	Rows         Invariant = "message rows never change"
	Kept         Invariant = "what was shown is what is kept"
	Held         Invariant = "what is held back is not shown before its time"
	GoesOn       Invariant = "what is clean goes on by itself"
	Sealed       Invariant = "an ended run has no open attempt"
	Ordered      Invariant = "lifecycle events are published once and in order"
	Token        Invariant = "an act is on what its actor saw"
	Decided      Invariant = "what was decided is what is done"
	Watched      Invariant = "a page shows each delta once, and in the end what is stored"
	Answered     Invariant = "an operator gets an answer"
	Replay       Invariant = "a schedule can be replayed"
)

// facts is what has happened in a schedule, as seen from outside of the engine: what the store
// was told and committed, what the log has, what reached the provider and the tools. It judges
// by that alone, not by what the engine's ledger says.
type facts struct {
	w  *world
	mu sync.Mutex

	invariant Invariant // the first that was broken
	detail    string

	effects   int // commits, appends, requests, tool starts
	changedAt time.Time

	runs     map[session.RunID]*run
	order    []*run
	last     *run
	attempts map[session.AttemptID]*attempt
	answers  []*answer
	rows     []session.Message
	calls    map[string]*toolCall
	tokens   map[int64]session.RunID
	schedule *session.Schedule // the session's
	shown    session.Schedule  // the last that waited
	first    session.Schedule  // the first that did
}

// run is a run, what was published of it by step, and who asked for it.
type run struct {
	run    session.Run
	asked  bool // by a person
	before *run // the session's newest when it was queued
	shown  map[int]session.AttemptID
	tokens map[int][]string // published
	acting int64            // the newest generation that has judged the output, or sent a request
}

type attempt struct {
	attempt  session.Attempt
	marked   bool
	decision *recovery.Decision // as it is stored
}

// answer is what one request brought.
type answer struct {
	number    int
	attempt   session.AttemptID
	run       *run
	step      int
	owner     int64 // the generation that sent it
	emitted   []string
	published int // of those
	done      bool
	failed    bool
	notBefore time.Time
}

type toolCall struct {
	answer *answer
	starts int
	state  session.CallState // as it was stored last
}

// seen is what an operator has on the page.
type seen struct {
	run             session.Run
	schedule, first session.Schedule
}

func newFacts(w *world) facts {
	return facts{w: w, changedAt: time.Now(), runs: map[session.RunID]*run{}, attempts: map[session.AttemptID]*attempt{},
		calls: map[string]*toolCall{}, tokens: map[int64]session.RunID{}}
}

// violate notes that an invariant is broken. The first counts.
func (f *facts) violate(i Invariant, format string, a ...any) {
	if f.invariant == "" {
		f.invariant, f.detail = i, fmt.Sprintf(format, a...)
		f.w.say("violated: %s: %s", i, f.detail)
	}
}

// report is violate for who does not hold the lock.
func (f *facts) report(i Invariant, format string, a ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.violate(i, format, a...)
}

func (f *facts) violated() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.invariant != ""
}

func (f *facts) changed() {
	f.effects++
	f.changedAt = time.Now()
}

// since returns how many effects there were, and when the last.
func (f *facts) since() (int, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.effects, f.changedAt
}

// allow reports whether an act makes sense now.
func (f *facts) allow(a act) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return a.possible(f)
}

func (f *facts) touch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changedAt = time.Now()
}

func (f *facts) seen() (s seen) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil {
		s.run = f.last.run
	}
	s.schedule, s.first = f.shown, f.first
	return s
}

// answered judges what an act of the operator came to.
func (f *facts) answered(act string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var no *session.Refusal
	if err == nil || errors.As(err, &no) || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrClosed) || errors.Is(err, errDead) {
		f.w.say("      %s: %v", act, err)
		return
	}
	f.violate(Answered, "%s: %v", act, err)
}

// committed judges a transaction.
func (w *world) committed(n *node, ctx context.Context, notes []note) {
	f := &w.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(notes) > 0 {
		f.changed()
	}
	for _, note := range notes {
		switch v := note.(type) {
		case runQueued:
			f.queued(ctx, v.run)
		case runPut:
			f.put(v.run)
		case attemptOpened:
			f.attempts[v.attempt.ID] = &attempt{attempt: v.attempt}
		case attemptMarked:
			f.attempts[v.id].marked = true
		case decided:
			a := f.attempts[v.id]
			a.decision = &v.d
			if by, r := a.attempt.Evidence.Scope.Generation, f.runs[a.attempt.RunID]; by != r.run.Generation {
				f.violate(Fence, "generation %d decided about its attempt, and run %d is in generation %d", by, f.number(r), r.run.Generation)
			}
			f.w.say("      %s: %s", v.d.Rule, v.d.Verdict)
		case messageStored:
			f.rows = append(f.rows, v.message)
			f.w.say("      row %d: %s", v.message.Position, spell(v.message))
		case callStored:
			if c := f.calls[v.call.CallID]; c != nil {
				c.state = v.call.State
			}
		case scheduleStored:
			f.schedule = &v.schedule
			if v.schedule.State.Waiting() {
				f.shown = v.schedule
			}
			if f.first.Token == 0 {
				f.first = f.shown
			}
			f.w.say("      schedule %d is %s", v.schedule.Token, v.schedule.State)
		case scheduleGone:
			f.schedule = nil
		}
	}
}

func (f *facts) queued(ctx context.Context, r session.Run) {
	act, byAct := ctx.Value(actor{}).(acting)
	q := &run{run: r, asked: byAct || r.Trigger == session.TriggerMessage, before: f.last,
		shown: map[int]session.AttemptID{}, tokens: map[int][]string{}}
	f.runs[r.ID] = q
	f.order = append(f.order, q)
	f.last = q
	f.w.say("      run %d is queued by %s", len(f.order), r.Trigger)
	if r.Token != 0 {
		if other := f.tokens[r.Token]; other != "" {
			f.violate(DispatchOnce, "the schedule with token %d has started two runs", r.Token)
		}
		f.tokens[r.Token] = r.ID
		if byAct && act.token != r.Token {
			f.violate(Token, "%s was about the schedule with token %d, and started the one with %d", act.name, act.token, r.Token)
		}
	}
}

func (f *facts) put(r session.Run) {
	q := f.runs[r.ID]
	old := q.run
	if old.State.Terminal() && r.State != old.State {
		f.violate(OneEnd, "run %d was %s and is written as %s", f.number(q), old.State, r.State)
	}
	if r.Generation < old.Generation {
		f.violate(Fence, "the generation of run %d fell from %d to %d", f.number(q), old.Generation, r.Generation)
	}
	q.run = r
	if r.State != old.State {
		f.w.say("      run %d is %s, generation %d", f.number(q), r.State, r.Generation)
	}
	if r.Failure != nil {
		f.w.say("      it failed: %s: %s", r.Failure.RetryClass, r.Failure.Message)
	}
}

func (f *facts) number(r *run) int { return slices.Index(f.order, r) + 1 }

// emit makes the next delta of an answer: a word that no other has.
func (f *facts) emit(a *answer) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	token := fmt.Sprintf("%d.%d", a.number+1, len(a.emitted)+1)
	a.emitted = append(a.emitted, token)
	return token + " "
}

// call makes the id of an answer's next tool call.
func (f *facts) call(a *answer) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprintf("call_%d_%d", a.number+1, len(f.calls)+1)
	f.calls[id] = &toolCall{answer: a}
	return id
}

func (f *facts) finish(a *answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.done = true
}

func (f *facts) failed(a *answer, notBefore time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.failed, a.notBefore = true, notBefore
}

// settled reports whether nothing is left to happen by itself.
func (f *facts) settled() bool { return f.unsettled() == "" }

// active reports whether the session has a run that goes on until somebody stops it.
func (f *facts) active() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last != nil && !f.last.run.State.Terminal() && !f.last.run.CancelRequested
}

func (f *facts) unsettled() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.order {
		if !r.run.State.Terminal() {
			return fmt.Sprintf("run %d is %s", i+1, r.run.State)
		}
	}
	if f.schedule != nil && f.schedule.State.Waiting() {
		return "a schedule is " + string(f.schedule.State)
	}
	return ""
}

// current reports whether a row is of the newest run, and so has not been superseded.
func (f *facts) current(m session.Message) bool { return f.last != nil && m.RunID == f.last.run.ID }

func spell(m session.Message) string {
	s := string(m.Role)
	for _, p := range m.Parts {
		s += fmt.Sprintf(" %s %q", p.Kind, p.Text+p.CallID)
	}
	if m.Interrupted != "" {
		s += " (" + m.Interrupted + ")"
	}
	return s
}

func spellEvents(events []llm.Event) string {
	var list []string
	for _, e := range events {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%v %s%s", e.Kind, e.Text, e.ID)))
	}
	return strings.Join(list, ", ")
}
