// Package session holds the conversations: their state, who runs what, what is stored in
// which transaction, and what an observer sees.
//
// It promises: at most one queued or running run a session; a run ends in exactly one
// terminal state; message rows are never changed or deleted; every lifecycle event carries
// the session's revision and is published in order, at least once, from the same
// transaction as the change; output is published once and in order, fenced by the run's
// generation; after a cancel is acknowledged nothing of that run is sent or published.
//
// The types of this file are the JSON of the API, the events and the store: there is one
// encoding of each.
package session

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// Ids are prefixed and sort by the time they were made.
type (
	ID        string // ses_…
	MessageID string // msg_…
	RunID     string // run_…
	AttemptID string // att_…
)

// Time is a moment in milliseconds since 1970, UTC; 0 is none.
type Time int64

// At converts a time; the zero time is none.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMilli())
}

// NotBefore converts a time before which nothing may happen: a part of a millisecond is waited
// for, too.
func NotBefore(t time.Time) Time {
	if n := At(t); n != 0 && n.Std().Before(t) {
		return n + 1
	}
	return At(t)
}

// Std returns the time, zero for none.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// State is what a session is doing. It is derived from its active run.
type State string

const (
	Idle         State = "idle"
	StateQueued  State = "queued"
	StateRunning State = "running"
)

// Session is one conversation with its model and settings.
type Session struct {
	ID       ID       `json:"id"`
	Title    string   `json:"title"`
	Model    string   `json:"model"` // "provider/model", or the name of a chain
	Settings Settings `json:"settings"`
	Archived bool     `json:"archived"`
	// Paused: the queue of pending messages waits for the operator, because a run did not
	// succeed.
	Paused bool   `json:"paused"`
	Actor  string `json:"actor"` // who created it
	// Parent is set on the session of a subagent.
	Parent    *Parent `json:"parent,omitempty"`
	CreatedAt Time    `json:"created_at"`
	UpdatedAt Time    `json:"updated_at"`
	// Revision grows with every change that an observer can see. Of two events of one
	// session the one with the greater revision is newer.
	Revision int64 `json:"revision"`

	// State, LastRun and Schedule are derived when the session is read.
	State    State     `json:"state"`
	LastRun  *Run      `json:"last_run,omitempty"`
	Schedule *Schedule `json:"schedule,omitempty"`
	// Asks counts the tool calls about which the operator is asked, those of the subagents below a
	// tree's first session too. Derived like the others.
	Asks int `json:"asks,omitempty"`
	// Spend is what its attempts cost, superseded ones too, and those of the subagents below a
	// tree's first session. Derived like the others.
	Spend Spend `json:"spend"`
}

// Parent is the tool call that has begun a session: that of a subagent.
type Parent struct {
	SessionID ID     `json:"session_id"`
	RunID     RunID  `json:"run_id"`
	Step      int    `json:"step"`
	CallID    string `json:"call_id"`
	// Root is the first session of the tree, whose limit on cost holds for all of it; Depth is how
	// far below it this one is.
	Root  ID  `json:"root"`
	Depth int `json:"depth"`
}

// Settings are a session's own; a zero leaves it to the server's configuration.
type Settings struct {
	System          string      `json:"system,omitempty"`
	MaxSteps        int         `json:"max_steps,omitempty"`
	MaxOutputTokens int         `json:"max_output_tokens,omitempty"` // each reply
	Hold            replay.Hold `json:"hold,omitzero"`
	// SpendLimit replaces the configuration's limit, in billionths of a US dollar; 0: none. It
	// holds from the next run on.
	SpendLimit *llm.Money `json:"spend_limit,omitempty"`
	// Tools are the tools that the model is offered, by name or pattern (edit_file, read_*); empty: all
	// that there are. "none" is the name of no tool.
	Tools []string `json:"tools,omitempty"`
	Routing
}

// Routing forbids what else would be done by itself. What a session forbids, a message cannot
// allow.
type Routing struct {
	// NoFallback: only the first model of a chain is asked.
	NoFallback bool `json:"no_fallback,omitempty"`
	// OneAttempt: one request for each step of a run. Nothing is repeated, neither with another
	// key or model nor after the run has failed.
	OneAttempt bool `json:"one_attempt,omitempty"`
	// Key is the label of the only key that may be used.
	Key string `json:"key,omitempty"`
}

// and unites what both forbid; the key of the narrower one stands.
func (r Routing) and(narrower Routing) Routing {
	return Routing{NoFallback: r.NoFallback || narrower.NoFallback, OneAttempt: r.OneAttempt || narrower.OneAttempt,
		Key: cmp.Or(narrower.Key, r.Key)}
}

// within is the policy without what is forbidden.
func (r Routing) within(p recovery.Policy) recovery.Policy {
	if r.OneAttempt {
		p.Tier1.Attempts, p.MaxRequests, p.HandOver = 1, 1, false
	}
	return p
}

// Role says whose message it is.
type Role string

const (
	RoleOperator Role = "operator"
	RoleReply    Role = "reply" // the output of one model call, or its interrupted tail
	RoleTool     Role = "tool"  // the results of one step's tools
	// RoleNotice is said by Reprise, and to no model. It belongs to no step: its Step is -1.
	RoleNotice Role = "notice"
)

// Message is one immutable row of a conversation.
type Message struct {
	ID        MessageID  `json:"id"`
	SessionID ID         `json:"session_id"`
	Position  int64      `json:"position"` // orders the session's messages
	Role      Role       `json:"role"`
	Parts     []llm.Part `json:"parts"`
	Actor     string     `json:"actor,omitempty"` // who wrote an operator message
	CreatedAt Time       `json:"created_at"`

	// RunID and Step say which run wrote it; for an operator message RunID is the run that
	// it was posted for.
	RunID     RunID     `json:"run_id"`
	Step      int       `json:"step"`
	AttemptID AttemptID `json:"attempt_id,omitempty"`
	Provider  string    `json:"provider,omitempty"`
	Model     string    `json:"model,omitempty"` // who answered
	// SwitchedFrom is set where the chain's first model did not answer: which that is, and why.
	SwitchedFrom *recovery.Former `json:"switched_from,omitempty"`
	Usage        *llm.Usage       `json:"usage,omitempty"`
	// Interrupted says why the output was cut off; empty: it is whole.
	Interrupted string `json:"interrupted,omitempty"`

	// Compaction is set on the notice of one.
	Compaction *Compaction `json:"compaction,omitempty"`

	// Spend is what the attempts of a reply's step cost, failed ones too. Derived.
	Spend *Spend `json:"spend,omitempty"`

	// SupersededBy is the run that superseded the message, at SupersededAt; empty: it is in
	// the model's context. Failure and Recovery are its run's, on the run's last row. All four
	// are derived when the message is read.
	SupersededBy RunID     `json:"superseded_by,omitempty"`
	SupersededAt Time      `json:"superseded_at,omitempty"`
	Failure      *Failure  `json:"failure,omitempty"`
	Recovery     *Recovery `json:"recovery,omitempty"`
}

// Compaction says what a model is told of a conversation from there on. The rows themselves stay
// as they are.
type Compaction struct {
	Cause    string         `json:"cause"` // overflow, threshold
	Strategy agent.Strategy `json:"strategy"`
	// UpTo is the position of the last message that is left out; all before it are, but Kept, the
	// operator's message that was being answered.
	UpTo    int64     `json:"up_to"`
	Kept    MessageID `json:"kept,omitempty"`
	Summary string    `json:"summary,omitempty"` // what the model is told instead
	// Before and After estimate the tokens of the conversation.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// RunState is the state of a run. The last three are terminal and set once.
type RunState string

const (
	Queued    RunState = "queued"
	Running   RunState = "running"
	Succeeded RunState = "succeeded"
	Failed    RunState = "failed"
	Cancelled RunState = "cancelled"
)

// Terminal reports whether a run in this state has ended.
func (s RunState) Terminal() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Trigger says what started a run.
type Trigger string

const (
	TriggerMessage    Trigger = "message"
	TriggerRegenerate Trigger = "regenerate"
	TriggerResume     Trigger = "resume"
	TriggerRetry      Trigger = "retry" // the second tier, or the operator's Try now
)

// Run is one execution of the agent that answers one operator message.
type Run struct {
	ID        RunID     `json:"id"`
	SessionID ID        `json:"session_id"`
	MessageID MessageID `json:"message_id"` // the operator message that it answers
	State     RunState  `json:"state"`
	Trigger   Trigger   `json:"trigger"`
	Continues RunID     `json:"continues,omitempty"` // the run that this one resumes
	// Parent is the run whose tool call has begun this one: it takes no slot but that one's, ends
	// with it, and leaves to it what becomes of a failure.
	Parent  RunID   `json:"parent,omitempty"`
	Actor   string  `json:"actor"`
	Model   string  `json:"model"`            // the session's model when it was queued
	Routing Routing `json:"routing,omitzero"` // that of the message that it answers
	// Origin is who wants its requests; it stays fixed for all steps.
	Origin Origin `json:"origin"`

	// Attempt counts the runs of one series of the second tier, from 1. Since is when the first
	// of them failed, Token that of the schedule that started this one.
	Attempt int   `json:"attempt"`
	Since   Time  `json:"since,omitempty"`
	Token   int64 `json:"token,omitempty"`

	// Generation grows each time the run is claimed, aborted or handed over. Claims counts the
	// claims, and begins anew with each step that comes to its end and is not the last.
	Generation int64  `json:"generation"`
	Claims     int    `json:"claims"`
	Owner      string `json:"owner,omitempty"` // the node that runs it
	// Steps counts the committed steps, and Requests those of the step that is not.
	Steps    int `json:"steps"`
	Requests int `json:"requests"`
	// Parked: the run waits for the operator to start it, because the cap was reached.
	Parked bool `json:"parked,omitempty"`
	// CancelRequested is set before a cancel is acknowledged; CancelledBy names who asked.
	CancelRequested bool   `json:"cancel_requested,omitempty"`
	CancelledBy     string `json:"cancelled_by,omitempty"`

	QueuedAt  Time `json:"queued_at"`
	StartedAt Time `json:"started_at,omitempty"`
	EndedAt   Time `json:"ended_at,omitempty"`

	// Reason says, in words, why the run ended as it did, where that is not plain.
	Reason   string    `json:"reason,omitempty"`
	Failure  *Failure  `json:"failure,omitempty"`  // of a failed run
	Recovery *Recovery `json:"recovery,omitempty"` // of a failed run
	// Spend is what its attempts cost. It is derived when a run that has ended is told of, when
	// a run is read by its id, and in the list of a session's runs.
	Spend *Spend `json:"spend,omitempty"`
}

// Origin is replay.Origin as it is stored. The zero value lets no request out.
type Origin struct {
	// Operator: a person, or a program that acts for one, asked for this run.
	Operator bool `json:"operator,omitempty"`
	// Verb and Run are those of replay.Automatic, where nobody did.
	Verb replay.Verb        `json:"verb,omitempty"`
	Run  replay.RunEvidence `json:"run,omitzero"`
}

// byOperator is the origin of what a person has asked for.
var byOperator = Origin{Operator: true}

// Failure is what a failed run stores and the message wire shows.
type Failure struct {
	Retryable       bool          `json:"retryable"`
	RetryClass      failure.Class `json:"retry_class"`
	RetryAfterUntil Time          `json:"retry_after_until,omitempty"`
	Message         string        `json:"message"`
	Provider        string        `json:"provider,omitempty"`
	Model           string        `json:"model,omitempty"`
	Status          int           `json:"status,omitempty"`
	Code            string        `json:"code,omitempty"`
	RequestID       string        `json:"request_id,omitempty"`
	// Tried lists, where more than one model or key could have answered, who was asked and how
	// that failed, and who was not and why. The failure itself is that of the first who may
	// pass, and RetryAfterUntil the first time at which any of them may be asked.
	Tried []recovery.Outcome `json:"tried,omitempty"`
}

// Recovery is the gate's answer about a failed run.
type Recovery struct {
	Auto       bool           `json:"auto"`
	Verb       replay.Verb    `json:"verb"` // what the automatic path, or the first choice, would do
	NotBefore  Time           `json:"not_before,omitempty"`
	ReplaySafe bool           `json:"replay_safe"`
	Evidence   replay.Reasons `json:"evidence"` // why it is not safe
	Reason     string         `json:"reason"`   // why auto is what it is
	Choices    []string       `json:"choices"`  // regenerate, resume, keep
	// Hooks names those not declared to observe that were told of something in the run, or in one
	// that it continues.
	Hooks []string `json:"hooks,omitempty"`
	// Cancelled says what ended the wait for what it would have done by itself: operator,
	// message, model or archived. Empty: nothing has.
	Cancelled string `json:"cancelled,omitempty"`
}

// Attempt is the record of one attempt: evidence, failure and decision.
type Attempt struct {
	ID        AttemptID `json:"id"`
	RunID     RunID     `json:"run_id"`
	SessionID ID        `json:"session_id"`
	Number    int       `json:"number"` // within the run, from 1
	After     AttemptID `json:"after,omitempty"`
	Automatic bool      `json:"automatic"`
	Provider  string    `json:"provider"`
	Key       string    `json:"key,omitempty"` // its label
	Model     string    `json:"model"`
	Answered  string    `json:"answered,omitempty"` // the model, in the provider's words
	// SwitchedFrom is who was asked before, where that was somebody else, and why not again;
	// InsteadOf is the chain's first model, where this is another. Skipped lists who was passed
	// over since the attempt before.
	SwitchedFrom *recovery.Former   `json:"switched_from,omitempty"`
	InsteadOf    *recovery.Former   `json:"instead_of,omitempty"`
	Skipped      []recovery.Outcome `json:"skipped,omitempty"`

	OpenedAt Time `json:"opened_at"`
	MarkedAt Time `json:"marked_at,omitempty"` // first effect
	EndedAt  Time `json:"ended_at,omitempty"`
	OK       bool `json:"ok"`

	Evidence replay.Evidence    `json:"evidence"`
	Hooks    []HookMark         `json:"hooks,omitempty"` // those with an effect that were told of it
	Failure  *failure.Failure   `json:"failure,omitempty"`
	Decision *recovery.Decision `json:"decision,omitempty"`
	Usage    *llm.Usage         `json:"usage,omitempty"`
	// Cost is absent until the attempt has ended, and stays as it is when prices change: Price
	// is the one that it was opened at, absent where none was known.
	Cost  *llm.Cost  `json:"cost,omitempty"`
	Price *llm.Price `json:"price,omitempty"`
}

// CallState is the state of one tool call.
type CallState string

const (
	CallAsked     CallState = "asked"    // it has not started: the operator is asked whether it may
	CallApproved  CallState = "approved" // it has not started, and may
	CallDenied    CallState = "denied"   // it never starts: the operator has denied it, or nobody has answered in time
	CallRefused   CallState = "refused"  // it never starts: there is no such tool, or the arguments do not fit it
	CallStarted   CallState = "started"
	CallEnded     CallState = "ended"
	CallCancelled CallState = "cancelled" // the run was stopped before it started, or, where it has no effect, before it ended
	CallUnknown   CallState = "unknown"   // it was started, and nobody saw its end: the operator decides
	CallAgain     CallState = "again"     // the operator has decided that it may be run again
)

// ToolCall is the durable record of one tool call: stored before the operator is asked about it,
// and before the tool starts.
type ToolCall struct {
	SessionID ID        `json:"session_id"`
	RunID     RunID     `json:"run_id"`
	Step      int       `json:"step"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments string    `json:"arguments"`
	State     CallState `json:"state"`
	Effect    bool      `json:"effect"` // it may change something
	Result    *llm.Part `json:"result,omitempty"`
	StartedAt Time      `json:"started_at"` // 0: it never was
	EndedAt   Time      `json:"ended_at,omitempty"`

	// Child is the session of the subagent that the call begins. Such a call is gone on with after a
	// crash, by what is stored of that session.
	Child ID `json:"child,omitempty"`

	// Approval is set where the operator was asked, Resolved where they have settled a call whose
	// outcome nobody knew.
	Approval *Approval `json:"approval,omitempty"`
	Resolved *Resolved `json:"resolved,omitempty"`
}

// Approval is what the operator was asked about a call, and what they have answered; the call's
// state says whether it may start.
type Approval struct {
	AskedAt Time `json:"asked_at"`
	// ExpiresAt is when the call is denied because nobody has answered.
	ExpiresAt  Time   `json:"expires_at"`
	AnsweredAt Time   `json:"answered_at,omitempty"`
	AnsweredBy string `json:"answered_by,omitempty"` // an actor; "timer": nobody
	Reason     string `json:"reason,omitempty"`      // of a denial, in the operator's words
}

// Resolved is how the operator has settled a call whose outcome nobody knew.
type Resolved struct {
	How Resolution `json:"how"`
	By  string     `json:"by"`
	At  Time       `json:"at"`
}

// Pending is a message that waits for the run before it. It becomes a Message when its own
// run is claimed, with the ids that were reserved for it.
type Pending struct {
	MessageID MessageID  `json:"message_id"`
	RunID     RunID      `json:"run_id"`
	SessionID ID         `json:"session_id"`
	Rank      int64      `json:"rank"` // orders the queue
	Parts     []llm.Part `json:"parts"`
	Actor     string     `json:"actor"`
	CreatedAt Time       `json:"created_at"`
	Routing   Routing    `json:"routing,omitzero"`
}

// Receipt answers a post, a regenerate and a resume.
type Receipt struct {
	MessageID  MessageID `json:"message_id"`
	RunID      RunID     `json:"run_id"`
	State      string    `json:"state"` // queued, running, or pending
	Superseded int       `json:"superseded,omitempty"`
}

// Audit is one act and who did it.
type Audit struct {
	At        Time   `json:"at"`
	Actor     string `json:"actor"`
	Act       string `json:"act"`
	SessionID ID     `json:"session_id,omitempty"`
	RunID     RunID  `json:"run_id,omitempty"`
	Detail    string `json:"detail,omitempty"`
}

var encoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID makes an id with the given prefix ("ses_"): 48 bits of the time in milliseconds and
// 80 random bits.
func NewID[T ~string](prefix string, now time.Time) T {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:])
	return T(prefix + encoding.EncodeToString(b[:]))
}

// Claimed is what decides whether a run's owner may go on.
type Claimed struct {
	State           RunState
	Generation      int64
	CancelRequested bool
}
