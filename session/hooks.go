package session

import (
	"sync"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// HookEvent names what the operator's hooks may be told of.
type HookEvent string

const (
	HookRunStarted       HookEvent = "run.started"
	HookRunSucceeded     HookEvent = "run.succeeded"
	HookRunFailed        HookEvent = "run.failed"
	HookRunCancelled     HookEvent = "run.cancelled"
	HookAttemptOpened    HookEvent = "attempt.opened"
	HookAttemptFailed    HookEvent = "attempt.failed"
	HookRetryWaiting     HookEvent = "retry.waiting"
	HookRetryStarted     HookEvent = "retry.started"
	HookScheduleArmed    HookEvent = "schedule.armed"
	HookScheduleHeld     HookEvent = "schedule.held"
	HookToolAsked        HookEvent = "tool.asked"
	HookToolStarted      HookEvent = "tool.started"
	HookToolEnded        HookEvent = "tool.ended"
	HookMessageCommitted HookEvent = "message.committed"
)

// HookMeaning says when an event is told, and what an effect of a hook does then.
type HookMeaning struct {
	Event HookEvent
	When  string
	// Vetoes: a hook with an effect that is told of it keeps what fails from being repeated by
	// itself. Foretells: it tells of a repetition that is still to come, which such a hook would
	// forbid, so that only those that observe may be told.
	Vetoes, Foretells bool
}

// HookEvents is every event there is.
var HookEvents = []HookMeaning{
	{HookRunStarted, "A run was claimed for the first time; nothing was sent yet.", true, false},
	{HookRunSucceeded, "A run has ended, and its reply is stored.", false, false},
	{HookRunFailed, "A run has ended with a failure. Its recovery says whether it is repeated by itself.", true, false},
	{HookRunCancelled, "A run was cancelled.", false, false},
	{HookAttemptOpened, "An attempt was recorded, and its request is about to be sent.", true, false},
	{HookAttemptFailed, "An attempt has ended without its terminal event, and the gate has decided what follows.", true, false},
	{HookRetryWaiting, "The gate lets another attempt follow, at the time of the decision.", false, true},
	{HookRetryStarted, "An attempt that repeats another was recorded, and its request is about to be sent.", true, false},
	{HookScheduleArmed, "A failed run will be repeated by itself: its time was set, or has changed.", false, true},
	{HookScheduleHeld, "A repetition is due and waits: for somebody who watches, a click, or the network.", false, true},
	{HookToolAsked, "A tool call waits for the operator, who is asked whether it may run.", false, false},
	{HookToolStarted, "A tool call was recorded, and the tool is about to run.", false, false},
	{HookToolEnded, "A tool call has ended, and its result is stored.", false, false},
	{HookMessageCommitted, "A row of a reply, or of its tools' results, was stored.", false, false},
}

// Notice is one event, told to hooks. Its scope says to what an effect of theirs belongs.
type Notice struct {
	ID      string    `json:"id"`
	Event   HookEvent `json:"event"`
	At      Time      `json:"at"`
	Scope   llm.Scope `json:"scope"`
	Attempt AttemptID `json:"attempt_id,omitempty"`

	Run      *Run      `json:"run,omitempty"`
	Tried    *Attempt  `json:"attempt,omitempty"`
	ToolCall *ToolCall `json:"tool_call,omitempty"`
	Message  *Message  `json:"message,omitempty"`
	Schedule *Schedule `json:"schedule,omitempty"`
}

// Hooks tells the operator's commands and webhooks. It is safe for concurrent use, and neither
// method waits for anything.
type Hooks interface {
	// Asks reports whether any hook is to be told of the event, and names those that are not
	// declared to observe.
	Asks(e HookEvent) (any bool, effects []string)
	// Tell is called after the event, and the marks of those that it names, were stored, in the
	// order in which they were. It keeps nothing that pointers lead to.
	Tell(n Notice)
}

// HookMark is the record of a hook that is not declared to observe: stored before it is called,
// and never taken back, however the call ends.
type HookMark struct {
	Notice     string    `json:"notice"`
	Hook       string    `json:"hook"`
	Event      HookEvent `json:"event"`
	RunID      RunID     `json:"run_id"`
	Step       int       `json:"step"`
	Generation int64     `json:"generation"`
	AttemptID  AttemptID `json:"attempt_id,omitempty"` // whose evidence has it, too; empty: the step's alone
	At         Time      `json:"at"`
}

// noHooks are nobody.
type noHooks struct{}

func (noHooks) Asks(HookEvent) (bool, []string) { return false, nil }
func (noHooks) Tell(Notice)                     {}

// asked reports whether any hook is to be told of one of the events, and how durable what marks
// those with an effect has to be.
func (m *Manager) asked(d Durability, events ...HookEvent) (bool, Durability) {
	told := false
	for _, e := range events {
		any, effects := m.cfg.Hooks.Asks(e)
		told = told || any
		if len(effects) > 0 {
			d = Full
		}
	}
	return told, d
}

// newNotice makes what is told of an event.
func newNotice(e HookEvent, s llm.Scope, attempt AttemptID) *Notice {
	now := time.Now()
	return &Notice{ID: NewID[string]("ntc_", now), Event: e, At: At(now), Scope: s, Attempt: attempt}
}

// mark stores that the hooks which are not declared to observe are about to be told: with the
// attempt, where the notice names one, and with its step. A scope that is stale is refused, with
// ErrLost; then nobody is told.
func (n *Notice) mark(tx Tx, h Hooks) error {
	_, effects := h.Asks(n.Event)
	if len(effects) > 0 && n.Attempt != "" {
		if err := tx.MarkAttempt(n.Attempt, n.Scope, replay.HookRan, n.At); err != nil {
			return err
		}
	}
	for _, hook := range effects {
		err := tx.InsertHookMark(HookMark{Notice: n.ID, Hook: hook, Event: n.Event, RunID: RunID(n.Scope.Run),
			Step: n.Scope.Step, Generation: n.Scope.Generation, AttemptID: n.Attempt, At: n.At})
		if err != nil {
			return err
		}
	}
	return nil
}

// note marks the hooks that are asked for the event, and lets all of them be told as soon as the
// transaction is stored, of what the notice then says. It is for transactions of Manager.update.
func note(tx Tx, e HookEvent, s llm.Scope, attempt AttemptID) (*Notice, error) {
	n := newNotice(e, s, attempt)
	t := tx.(*telling)
	if err := n.mark(tx, t.hooks); err != nil {
		return nil, err
	}
	t.note(n)
	return n, nil
}

// scopeOf is the scope of what happens to a run beside its attempts.
func scopeOf(r Run, step int) llm.Scope {
	return llm.Scope{Session: string(r.SessionID), Run: string(r.ID), Step: step, Lineage: llm.LineageMain, Generation: r.Generation}
}

// noteRun notes what has become of a run, at a step.
func noteRun(tx Tx, e HookEvent, r *Run, step int) error {
	n, err := note(tx, e, scopeOf(*r, step), "")
	if err == nil {
		n.Run = r
	}
	return err
}

// noteOf notes what a lifecycle event says to hooks. What becomes of runs and attempts is noted
// by those who decide it, as the marks go into their evidence.
func (t *telling) noteOf(e *Event) error {
	var event HookEvent
	var run RunID
	step := 0
	switch c, s, m := e.ToolCall, e.Schedule, e.Message; {
	case e.Type == EventToolCall && c.State == CallAsked:
		event, run, step = HookToolAsked, c.RunID, c.Step
	case e.Type == EventToolCall && c.State == CallStarted:
		event, run, step = HookToolStarted, c.RunID, c.Step
	case e.Type == EventToolCall && c.State == CallEnded:
		event, run, step = HookToolEnded, c.RunID, c.Step
	case e.Type == EventMessage && (m.Role == RoleReply || m.Role == RoleTool) && len(m.Parts) > 0:
		event, run, step = HookMessageCommitted, m.RunID, m.Step
	case e.Type == EventSchedule && s != nil && (s.State == ScheduleArmed || s.State == ScheduleScheduled):
		event, run = HookScheduleArmed, s.RunID
	case e.Type == EventSchedule && s != nil && s.State == ScheduleHeld:
		event, run = HookScheduleHeld, s.RunID
	default:
		return nil
	}
	if any, _ := t.hooks.Asks(event); !any {
		return nil
	}
	r, err := t.Run(run)
	if err != nil {
		return err
	}
	n, err := note(t, event, scopeOf(r, step), "")
	if err == nil {
		n.ToolCall, n.Message, n.Schedule = e.ToolCall, e.Message, e.Schedule
	}
	return err
}

// noticeLine tells hooks of what transactions have noted, in the order of the transactions, and
// only of what was stored.
type noticeLine struct {
	mu   sync.Mutex
	line []*turn
}

// turn is the place of one transaction in the line.
type turn struct {
	over    bool // it was stored, or undone: then there is nothing to tell
	notices []*Notice
}

// join takes a place at the end. Transactions that write run one after the other.
func (l *noticeLine) join() *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &turn{}
	l.line = append(l.line, t)
	return t
}

// leave gives a place up, and tells of everything that waits for nobody any more.
func (l *noticeLine) leave(t *turn, stored bool, h Hooks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.over = true
	if !stored {
		t.notices = nil
	}
	for len(l.line) > 0 && l.line[0].over {
		for _, n := range l.line[0].notices {
			h.Tell(*n)
		}
		l.line = l.line[1:]
	}
}
