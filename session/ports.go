package session

import (
	"context"
	"errors"
	"iter"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// What a store and a log answer where a caller branches.
var (
	ErrNotFound = errors.New("not found")
	// ErrLost: the row is not in the state that the write expected. Somebody else was first.
	ErrLost = errors.New("lost to another writer")
	// ErrActive: the session has a queued or running run already.
	ErrActive = errors.New("the session has an active run")
	// ErrFenced: a newer generation of the run writes now.
	ErrFenced = errors.New("fenced by a newer generation")
	// ErrClosed: the store or log is closed.
	ErrClosed = errors.New("closed")
	// ErrUnavailable: what an act needs is out of reach. Nothing of it was done, unless the error is
	// ErrUncertain as well: the database went away in the middle of a commit.
	ErrUnavailable = errors.New("unavailable")
	ErrUncertain   = errors.New("whether it was stored is not known")
	// ErrReplaced: the log is another one than before, with another incarnation.
	ErrReplaced = errors.New("the log was replaced")
)

// Durability says what a committed transaction survives.
type Durability uint8

const (
	// Soft survives the end of our process, not a power loss.
	Soft Durability = iota
	// Full survives a power loss: it returns after the disk has it.
	Full
)

// Store keeps everything but output that is still streaming. It is safe for concurrent use.
// Every implementation passes storetest.Run.
type Store interface {
	// Update runs f in one read-write transaction: all of it is stored or nothing. f may be
	// run again from its start, so it touches nothing but tx and its own variables. Several
	// updates may share one commit; each still fails alone. An error of f is returned as it
	// is. After Update returns nil the change has the given durability.
	Update(ctx context.Context, d Durability, f func(tx Tx) error) error
	// View runs f on one consistent state. f may be run again from its start, as in Update.
	View(ctx context.Context, f func(tx ReadTx) error) error
	// Close ends the store after the running transactions. Closing twice is fine.
	Close() error
}

// ReadTx reads. A single row that is not there is ErrNotFound.
type ReadTx interface {
	// Session reads a session with its derived State, LastRun and Schedule.
	Session(id ID) (Session, error)
	// Settings reads a session's settings and its parent alone.
	Settings(id ID) (Settings, *Parent, error)
	// Children lists the sessions that the calls of a session have begun, oldest first.
	Children(id ID) ([]Session, error)
	// Sessions lists the sessions that nobody's call has begun and that have changed after a time (0: all) by last change, newest
	// first.
	Sessions(archived bool, after Time, limit int) ([]Session, error)

	// Message reads one message with its derived fields.
	Message(id MessageID) (Message, error)
	// Messages reads a session's messages with their derived fields, by position. Without
	// superseded only those in the model's context. after and limit page; limit 0 is all.
	Messages(id ID, superseded bool, after int64, limit int) ([]Message, error)
	// LastMessages reads the newest of those in the model's context, n at most, by position.
	LastMessages(id ID, n int) ([]Message, error)
	Pending(id ID) ([]Pending, error)

	Run(id RunID) (Run, error)
	// Claimed reads of a run what its owner must ask again and again.
	Claimed(id RunID) (Claimed, error)
	// LastRun is the session's newest run.
	LastRun(id ID) (Run, error)
	// Runs lists a session's runs, oldest first.
	Runs(id ID) ([]Run, error)
	// ChildRuns lists the runs that the calls of a run have begun, oldest first.
	ChildRuns(id RunID) ([]Run, error)
	// QueuedRuns lists queued runs that are not parked: first those that were asked to cancel,
	// then oldest first. Of those that a call has begun, only the former.
	QueuedRuns(limit int) ([]Run, error)
	// RunningRuns lists the running runs.
	RunningRuns() ([]Run, error)
	// CountRuns counts the running runs, those of an owner, and the queued runs, but those that a call
	// has begun.
	CountRuns(owner string) (Counts, error)
	// OwnedRuns lists the running runs of an owner.
	OwnedRuns(owner string) ([]Owned, error)
	// Nodes lists the nodes that have given a sign of life, and who else owns a running run.
	Nodes() ([]Node, error)
	// Watched lists who watches a session at a time.
	Watched(now Time) ([]Viewer, error)

	// Schedules lists the schedules in any of the states, by the time of their next start.
	Schedules(states ...ScheduleState) ([]Schedule, error)

	// CoolOffs lists what cools off, and what was not tried since it did.
	CoolOffs() ([]recovery.CoolOff, error)
	// Fences lists the fences that stand at a time, the newest first. FenceOf reads the one with the
	// client, session, dialect and hash of f. FencedUntil is when the last of a client's ends; 0: it
	// has none.
	Fences(now Time) ([]Fence, error)
	FenceOf(f Fence, now Time) (Fence, error)
	FencedUntil(client string) (Time, error)

	// ClientKeys lists the gateway's client keys, the newest first; ClientUsage adds up what was asked with each since a
	// time, by the full hour, under "" what was asked with tokens.
	ClientKeys() ([]ClientKey, error)
	ClientKey(id ClientKeyID) (ClientKey, error)
	ClientUsage(since Time) (map[ClientKeyID]ClientUsage, error)
	// GatewayCalls lists calls without their attempts; GatewayCall reads one with them.
	GatewayCalls(q GatewayQuery) ([]GatewayCall, error)
	GatewayCall(id string) (GatewayCall, error)

	Attempts(run RunID) ([]Attempt, error)
	Attempt(id AttemptID) (Attempt, error)
	// Spent adds up what attempts cost, those of a session with those of the tree below it; SpentBySteps does for each step of a session's runs.
	Spent(q Spending) (Spend, error)
	SpentBySteps(id ID) (map[StepOf]Spend, error)
	// ToolCalls lists a run's calls by step, in the order in which they were stored.
	ToolCalls(run RunID) ([]ToolCall, error)
	// HookMarks lists which hooks with an effect were told of something in a run, in order.
	HookMarks(run RunID) ([]HookMark, error)
	// Asked lists the calls of all sessions about which the operator is asked, the oldest first.
	Asked() ([]ToolCall, error)

	// Outbox reads the lifecycle events after one, oldest first; limit 0 is all.
	Outbox(after int64, limit int) ([]Outboxed, error)
	// Idempotent reads the answer that is stored for a key.
	Idempotent(scope, key string) (Idempotent, error)
	Audit(session ID, limit int) ([]Audit, error)
	// Meta reads a value of the store itself (its id, the log's incarnation).
	Meta(key string) (string, error)
}

// Tx reads and writes. A write that finds its row in another state than it expects is ErrLost
// and changes nothing.
type Tx interface {
	ReadTx

	InsertSession(s Session) error
	// PutSession writes title, model, settings, archived, paused and updated_at. It leaves
	// the revision alone.
	PutSession(s Session) error
	// Touch raises a session's revision by n, and updated_at, and returns the new revision.
	Touch(id ID, n int, now Time) (int64, error)

	// InsertMessage stores a message and returns the position that it got: one after the
	// session's last.
	InsertMessage(m Message) (int64, error)
	// Supersede takes the messages of a session with a position above after (and, where only
	// is not empty, of that run alone) that are not superseded yet out of the model's
	// context, but a compaction of what is not above after. It returns how many there were.
	Supersede(id ID, anchor MessageID, after int64, only, by RunID, now Time) (int, error)

	// InsertPending stores a pending message; its rank must be free.
	InsertPending(p Pending) error
	PutPending(p Pending) error // parts and rank
	DeletePending(id ID, m MessageID) error

	// InsertRun stores a queued run; ErrActive where the session has an active one.
	InsertRun(r Run) error
	// PutRun writes every column of a run that may change, where the stored run has the
	// expected state and generation; else ErrLost.
	PutRun(r Run, expect RunState, generation int64) error

	// Beat gives a node's sign of life: it counts, from 1, and begins anew after Bury, which forgets
	// the node and its viewers.
	Beat(node string) (int64, error)
	Bury(node string) error
	// PutViewer stores that somebody watches a session; DeleteViewer that they do not, if they did.
	PutViewer(v Viewer) error
	DeleteViewer(id ID, viewer string) error

	// NextToken raises the session's counter of schedule tokens and returns it.
	NextToken(id ID) (int64, error)
	// PutSchedule stores the session's schedule, in place of one that has the expected token
	// and state; expect 0: in place of any. ErrLost where it has another.
	PutSchedule(s Schedule, expect int64, in ScheduleState) error
	// DeleteSchedule reports whether there was one.
	DeleteSchedule(id ID) (bool, error)

	// OpenAttempt stores an attempt, numbered within its run, and counts the request on the
	// run, where the run is running in the attempt's generation and not asked to cancel; else
	// ErrLost.
	OpenAttempt(a Attempt) (number int, err error)
	// MarkAttempt and SealAttempt write evidence, where the run still has the generation of
	// the attempt's scope; else ErrLost. Marks are united, never taken back. A second seal
	// replaces counts.
	MarkAttempt(id AttemptID, scope llm.Scope, marks replay.Reasons, now Time) error
	SealAttempt(id AttemptID, scope llm.Scope, s replay.Seal, now Time) error
	// SealOpen seals every open attempt of a run as it stands, with delivery maybe_accepted:
	// whoever claims, aborts or takes over a run does this in the same transaction.
	SealOpen(run RunID, now Time) error
	// AmendAttempt gives a sealed attempt of an older generation what the log has of it: OK,
	// counts and usage. Its marks are united.
	AmendAttempt(id AttemptID, s replay.Seal) error
	// Reserve stores what an attempt costs so far (its Cost, at its Price), and how much more
	// it may cost. Settle replaces both by what it did cost. What SealOpen seals stays as it is
	// reserved, because nobody saw its end.
	Reserve(a Attempt, more llm.Money) error
	Settle(id AttemptID, c llm.Cost) error
	PutDecision(id AttemptID, f *failure.Failure, d recovery.Decision) error

	// PutCoolOff lets a lane cool off under a new generation, with no probe under way; of two
	// times the later one stands.
	PutCoolOff(c recovery.CoolOff) error
	// ProbeCoolOff notes until when one request tries the lane, and returns its new generation;
	// SettleCoolOff notes that it has ended: where the provider has answered, the lane is
	// forgotten. ErrLost where the lane has another generation than c. No generation comes twice.
	ProbeCoolOff(c recovery.CoolOff, until Time) (generation int64, err error)
	SettleCoolOff(c recovery.CoolOff, answered bool) error

	// DeleteCoolOff forgets the lanes that a person calls so; ErrLost where there is none.
	DeleteCoolOff(c recovery.Candidate) error

	// PutFence stores a fence, in place of one of the same request, and deletes those that have
	// ended when it begins, and of its client's all but the newest.
	PutFence(f Fence, keep int) error
	// HitFence counts a repetition that a fence has refused; DeleteFence takes one down. ErrLost
	// where it is not there.
	HitFence(id FenceID) error
	DeleteFence(id FenceID) error

	// InsertClientKey stores a key; ErrLost where one that holds has its label. PutClientKey writes
	// terms and revocation of one that holds; else ErrLost.
	InsertClientKey(k ClientKey) error
	PutClientKey(k ClientKey) error
	// AddClientUse adds to what was asked in an hour.
	AddClientUse(u ClientUse) error
	// PutGatewayCall stores a call, in place of what is stored of it. LoseGatewayCalls ends those
	// that are open.
	PutGatewayCall(c GatewayCall) error
	LoseGatewayCalls() error
	// PruneGateway deletes the oldest calls, those that began before a time and those beyond a number, a thousand at
	// most, and reports whether there may be more. It adds up the hours before the time as one.
	PruneGateway(before Time, keep int) (more bool, err error)

	// InsertHookMark stores that a hook is about to be told of something; ErrLost where it was
	// stored already.
	InsertHookMark(h HookMark) error

	// InsertToolCall stores a call before it starts, or before the operator is asked; ErrLost
	// where (run, step, call) exists.
	InsertToolCall(c ToolCall) error
	// PutToolCall writes state, result, times, approval and resolved where the stored call has
	// the expected state; else ErrLost.
	PutToolCall(c ToolCall, expect CallState) error

	// AppendOutbox adds a session's lifecycle events, to be published after the commit.
	AppendOutbox(session ID, data ...[]byte) error
	DeleteOutbox(upTo int64) error

	// PutIdempotent stores an answer for 24 hours; ErrLost where the key is taken.
	PutIdempotent(i Idempotent) error
	InsertAudit(a Audit) error
	PutMeta(key, value string) error
	// Prune deletes what has expired: idempotency answers older than before, and cool-offs,
	// fences and viewers that ended before it.
	Prune(before Time) error
}

// Outboxed is a lifecycle event that waits for the log.
type Outboxed struct {
	Seq       int64
	SessionID ID
	Data      []byte
}

// Idempotent is the stored answer to a request that carried an Idempotency-Key.
type Idempotent struct {
	Scope  string // actor and route
	Key    string
	Hash   string // of the request's body
	Status int
	Answer []byte
	At     Time
}

// Log is the ordered record of all that observers see: lifecycle events and run output. It
// keeps what it acknowledged through the end of our process; a power loss may cost the last
// second.
type Log interface {
	// Claim appends the marker of a new generation to a run's output, which fences every
	// older writer, and returns the writer of that generation. ErrFenced where the output
	// has a newer marker already.
	Claim(ctx context.Context, session ID, run RunID, generation int64) (Writer, error)
	// Publish appends a lifecycle event. The same id is appended once, however often it is
	// published (within two minutes).
	Publish(ctx context.Context, session ID, id string, data []byte) error
	// Output reads what a run has in the log so far, in order, markers left out.
	Output(ctx context.Context, session ID, run RunID) iter.Seq2[Record, error]
	// Follow calls f for every record from the log's oldest on, in order and one at a time, until
	// ctx is done or f fails. An append may wait for f, so f waits for nothing. caughtUp is called once, when everything that
	// was in the log at the call has been delivered. ErrReplaced where the log has become another one, which the next
	// call follows.
	Follow(ctx context.Context, f func(Record) error, caughtUp func()) error
	// Incarnation changes with every unclean start and every new log.
	Incarnation() string
	// Ready reports whether an append would be accepted now: ErrUnavailable where it would have to wait. What it says may
	// be a second old.
	Ready(ctx context.Context) error
	// Purge deletes the output of a run.
	Purge(ctx context.Context, session ID, run RunID) error
	Close() error
}

// Writer appends one run's output, as the only one. It is used by one goroutine.
type Writer interface {
	// Append returns when the log has the record. A lost acknowledgement is repeated without
	// making a second record. ErrFenced where a newer generation has claimed the run.
	Append(ctx context.Context, data []byte) error
}

// Record is one entry of the log.
type Record struct {
	Seq     uint64 // orders all records of an incarnation
	Session ID
	Run     RunID // empty for lifecycle events
	Data    []byte
}

// Queue tells the nodes of runs that wait to be claimed. What it says is a wake-up only: the claim in
// the store decides, and a sweep repairs what was not heard. It is safe for concurrent use.
type Queue interface {
	// Announce tells that a run waits.
	Announce(ctx context.Context, run RunID) error
	// Serve hands announced runs to f until ctx ends, each to one node at a time, at most room of them
	// here at once, each in a goroutine of its own. While f runs the announcement counts as in
	// progress; when f has returned it is done. That of a node that dies or is paused is handed to
	// another one within about three seconds.
	Serve(ctx context.Context, room int, f func(ctx context.Context, run RunID)) error
}
