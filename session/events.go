package session

import (
	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
)

// EventType names what an Event tells.
type EventType string

const (
	// EventSession: the session was created or changed. Session is set.
	EventSession EventType = "session"
	// EventMessage: a message was committed. It replaces what was streamed of its run and step.
	EventMessage EventType = "message"
	// EventRun: a run was queued, claimed or ended, or was asked to cancel. Run is set; a
	// run that ended has its Failure and Recovery.
	EventRun EventType = "run"
	// EventAttempt: an attempt failed and the gate has decided. Attempt is set; its
	// decision's next_at says when the next one starts.
	EventAttempt EventType = "attempt"
	// EventSwitch: another model or key is asked than before. Switch is set.
	EventSwitch EventType = "switch"
	// EventToolCall: a tool call has got another state. ToolCall is set.
	EventToolCall EventType = "tool_call"
	// EventToolProgress: a tool that runs says how far it is. Never in the log, never replayed.
	EventToolProgress EventType = "tool_progress"
	// EventPending: the queue has changed. Pending is all of it.
	EventPending EventType = "pending"
	// EventSuperseded: the messages after Anchor that are listed were superseded by the run.
	EventSuperseded EventType = "superseded"
	// EventSchedule: the session's schedule was set or changed, or is gone: then Schedule is
	// absent.
	EventSchedule EventType = "schedule"
	// EventOutput: a run's output goes on. It has no revision; Seq counts within the run.
	EventOutput EventType = "output"
	// EventProgress: something is held back. Never in the log, never replayed.
	EventProgress EventType = "progress"
	// EventSnapshot: everything an observer needs to start from here. Never in the log.
	EventSnapshot EventType = "snapshot"
	// EventSystem: the counts of the whole server have changed. Never in the log.
	EventSystem EventType = "system"
)

// Event is what observers are sent, and what the log holds. Fields that do not belong to the
// type are absent.
type Event struct {
	Type      EventType `json:"type"`
	SessionID ID        `json:"session_id,omitempty"`
	// Revision is the session's after the change. An observer ignores a lifecycle event whose
	// revision is not newer than what it has.
	Revision int64 `json:"revision,omitempty"`
	At       Time  `json:"at,omitempty"`

	Session    *Session      `json:"session,omitempty"`
	Message    *Message      `json:"message,omitempty"`
	Run        *Run          `json:"run,omitempty"`
	Attempt    *Attempt      `json:"attempt,omitempty"`
	Switch     *Switch       `json:"switch,omitempty"`
	ToolCall   *ToolCall     `json:"tool_call,omitempty"`
	Pending    *[]Pending    `json:"pending,omitempty"`
	Superseded *Superseded   `json:"superseded,omitempty"`
	Schedule   *Schedule     `json:"schedule,omitempty"`
	Output     *Output       `json:"output,omitempty"`
	Progress   *Progress     `json:"progress,omitempty"`
	Tool       *ToolProgress `json:"tool_progress,omitempty"`
	Snapshot   *Snapshot     `json:"snapshot,omitempty"`
	System     *System       `json:"system,omitempty"`
}

// Output is one batch of a run's published events.
type Output struct {
	RunID      RunID       `json:"run_id"`
	Step       int         `json:"step"`
	AttemptID  AttemptID   `json:"attempt_id"`
	Generation int64       `json:"generation"`
	Seq        int64       `json:"seq"` // counts within the run and generation, from 1
	Events     []llm.Event `json:"events"`
}

// Switch tells that an attempt asks somebody else than the one before it, and why.
type Switch struct {
	RunID     RunID              `json:"run_id"`
	AttemptID AttemptID          `json:"attempt_id"`
	From      recovery.Former    `json:"from"`
	To        recovery.Candidate `json:"to"`
}

// Progress counts what is held back: characters, and whether a tool call is among it.
type Progress struct {
	RunID      RunID `json:"run_id"`
	Characters int   `json:"characters"`
	Call       bool  `json:"call"`
}

// ToolProgress is how far a tool call is, in the tool's own words and measure.
type ToolProgress struct {
	RunID  RunID  `json:"run_id"`
	Step   int    `json:"step"`
	CallID string `json:"call_id"`
	agent.Progress
}

// Superseded lists messages that left the model's context.
type Superseded struct {
	Anchor   MessageID   `json:"anchor"`
	By       RunID       `json:"by"`
	Messages []MessageID `json:"messages"`
}

// Snapshot is where an observer starts: the sessions, and one of them in full.
type Snapshot struct {
	Sessions []Session `json:"sessions"`
	System   System    `json:"system"`
	// Session and what follows belong to the session that was asked for.
	Session  *Session  `json:"session,omitempty"`
	Messages []Message `json:"messages,omitempty"` // those in the model's context
	Pending  []Pending `json:"pending,omitempty"`
	// Children are the sessions of its subagents, oldest first.
	Children []Session `json:"children,omitempty"`
	// Attempts are those of the last run, ToolCalls its calls.
	Attempts  []Attempt  `json:"attempts,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Output is what the active run has published of its uncommitted step, merged.
	Output *Output `json:"output,omitempty"`
	// Progress is what that run holds back, ToolProgress how far its tools are.
	Progress     *Progress      `json:"progress,omitempty"`
	ToolProgress []ToolProgress `json:"tool_progress,omitempty"`
}

// System counts what the server does.
type System struct {
	Version        string `json:"version"`
	Running        int    `json:"running"`
	Queued         int    `json:"queued"`
	ConcurrentRuns int    `json:"concurrent_runs"` // the cap
	Now            Time   `json:"now"`             // the server's clock
	// CoolOffs are the keys and models that are left alone at present.
	CoolOffs []recovery.CoolOff `json:"cool_offs,omitempty"`
	// Rehearsal: no provider key is configured, replies are rehearsed.
	Rehearsal bool      `json:"rehearsal"`
	Spend     SpendInfo `json:"spend"`
}
