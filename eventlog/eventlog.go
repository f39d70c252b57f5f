// Package eventlog is the ordered record of all that observers see: the output of runs and
// lifecycle events, kept in one NATS JetStream stream. [Open] runs the server inside this process,
// without a port; [Connect] joins a cluster, whose stream several processes share. Everything but these two speaks
// JetStream over a connection only.
//
// Order: one stream holds one total order with one sequence. A run's output has one writer at
// a time: each append names the sequence of the run's record before it, so that a writer whose
// run was claimed by a newer generation, here or elsewhere, finds another record there and is fenced. So is a copy of an
// append that arrives when nobody waits for it any more.
//
// Loss: an acknowledged record has been handed to the operating system of the server, or of most of the stream's
// replicas, so it outlives the process, however that ends. The embedded server syncs the disk every second, so a power loss may
// cost the last second. Records older than the age limit, or the oldest above the size limit, are dropped; and
// of lifecycle events all but the newest, so that a follower that begins reads no more of them than it can have
// a use for.
//
// Incarnation: with a new stream the incarnation is another one, and so it is after a stop of the embedded server that was not clean:
// sequence numbers of the old one mean nothing any more. The stream of a cluster keeps its own whatever happens to the processes
// that use it. Where it was deleted, or has lost what a follower had seen, it is made anew, and Follow says so.
//
// Repetition: an append or claim whose acknowledgement is lost is repeated, under the same id,
// until the outcome is known; no record is made twice. An append that its context cuts off may
// or may not be there; the writer's next append completes it first. A follower sees every record once.
//
// Size: a record that a cluster lets through in pieces only is there, for readers, when its last piece is.
//
// Following: a consumer reads the log for a follower; when it, or its server, is lost, another one goes on behind the last record.
// Where this process alone appends, it reads up to
// the log's end only; from there on each acknowledged record goes to the follower directly, in the
// order of the sequences that the acknowledgements tell. That way may miss records (an acknowledgement
// was lost, its append was cut off, too much was waiting): then nothing more comes by it, and after a
// quarter of a second the log is read up to its end again.
//
// Blocking: Append, Claim and Publish wait for the log as long as their context allows, for a cluster that is away two
// minutes at most ([session.ErrUnavailable]), and never
// for a follower. A slow follower delays itself alone, and loses nothing but what the limits drop.
//
// Shutdown: Close lets calls under way finish (an append that is not acknowledged is not repeated
// any more), ends followers and refuses everything later with [session.ErrClosed]. It must not be
// called from a follower's function.
package eventlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-run/reprise/session"
)

// Options configure a log.
type Options struct {
	// Dir is the folder of the embedded server, which needs one. Nobody else may use it meanwhile.
	Dir string
	// MaxBytes bounds the log on disk; the oldest records go first. Default 1 GiB.
	MaxBytes int64
	// MaxAge bounds a record's age. It must exceed the longest pause within a run, since a
	// writer whose last record is gone cannot go on. Default 7 days.
	MaxAge time.Duration
	// Lifecycle is how many lifecycle events are kept; as many more as there are processes are there
	// at times. Default 16384.
	Lifecycle int
	// AckTimeout is how long an append waits before it is repeated; it doubles each time, up to
	// 30 s, or 4 s on a cluster. Default 2 s.
	AckTimeout time.Duration
	// Logger gets the warnings and errors of server and client. Default slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MaxAge <= 0 {
		o.MaxAge = 7 * 24 * time.Hour
	}
	if o.Lifecycle <= 0 {
		o.Lifecycle = 16 << 10
	}
	if o.AckTimeout <= 0 {
		o.AckTimeout = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// dedupWindow is how long Publish recognises an id.
const dedupWindow = 2 * time.Minute

// names are those of a stream and of its subjects.
type names struct {
	stream string
	out    string // out + <session>.<run>
	life   string // life + <session>
	ack    []byte // how a plain acknowledgement begins
}

func namesOf(stream, prefix string) names {
	return names{stream, prefix + "out.", prefix + "life.", fmt.Appendf(nil, `{"stream":%q,"seq":`, stream)}
}

func (n names) subjects() []string { return []string{n.out + "*.*", n.life + "*"} }

// journal is a session.Log over a connection to JetStream.
type journal struct {
	nc         *nats.Conn
	names      names
	stream     jetstream.Stream
	ackTimeout time.Duration
	patience   time.Duration // how long a request is repeated; 0: as long as its context allows
	piece      int           // how many bytes of a record go into one message; 0: all
	name       string        // tells this journal's claims from those of others
	claims     atomic.Uint64 // tells its claims apart
	alone      bool          // nobody else appends to the stream, and one server has it
	// renew opens the stream that has taken the place of a shared one, or has lost what a follower had seen.
	renew     func(ctx context.Context, seen uint64) error
	lifecycle int          // how many of these events are kept; 0: all
	published atomic.Int64 // of them, by this journal

	mu          sync.Mutex // guards the following
	incarnation string
	closed      bool
	idle        []*line
	markers     map[string]uint64 // of a shared log: where this journal has claimed, by subject, until its output is purged
	link        chan struct{}     // closed when a lost connection is back; then another one
	tails       []*tail           // replaced, never changed
	calls       sync.WaitGroup    // calls under way; Add only while mu is held and closed is false
	stopping    chan struct{}     // closed with closed
}

// newJournal is a journal without a stream, over a connection that it owns.
func newJournal(nc *nats.Conn, n names, o Options) *journal {
	return &journal{
		nc:         nc,
		names:      n,
		ackTimeout: o.AckTimeout,
		name:       strings.ToLower(rand.Text()[:10]),
		markers:    map[string]uint64{},
		link:       make(chan struct{}),
		stopping:   make(chan struct{}),
	}
}

// config is how the stream is made.
func (o Options) config(n names) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:     n.stream,
		Subjects: n.subjects(),
		MaxBytes: o.MaxBytes,
		MaxAge:   o.MaxAge,
		// A reader of direct gets need not queue behind the JetStream API.
		AllowDirect: true,
		// Only Publish relies on the server's table of ids, which costs memory for each. An
		// append is exactly-once by the sequence that it expects.
		Duplicates: min(dedupWindow, o.MaxAge), // the server wants no more
	}
}

// Incarnation implements session.Log.
func (j *journal) Incarnation() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.incarnation
}

// Publish implements session.Log.
func (j *journal) Publish(ctx context.Context, s session.ID, id string, data []byte) error {
	subject, err := j.names.ofSession(s)
	if err != nil {
		return err
	}
	if err := j.enter(); err != nil {
		return err
	}
	defer j.calls.Done()
	ids := []string{""}
	msg := &nats.Msg{Subject: subject, Header: nats.Header{nats.MsgIdHdr: ids}}
	var parts []uint64
	for rest := data; ; {
		var more bool
		msg.Data, rest, more = j.cut(rest)
		ids[0] = id
		if more { // of the pieces each has an id of its own; that of the last is the event's
			ids[0] += "." + strconv.Itoa(len(parts)+1)
		}
		mark(msg, parts, more)
		seq, _, err := j.publish(ctx, msg)
		if err != nil {
			return fmt.Errorf("publish a lifecycle event: %w", err)
		}
		if !more {
			break
		}
		parts = append(parts, seq)
	}
	if j.lifecycle > 0 && j.published.Add(1)%int64(j.lifecycle) == 0 {
		return j.trim(ctx)
	}
	return nil
}

// trim drops all but the newest lifecycle events.
func (j *journal) trim(ctx context.Context) error {
	if err := j.stream.Purge(ctx, jetstream.WithPurgeSubject(j.names.life+"*"), jetstream.WithPurgeKeep(uint64(j.lifecycle))); err != nil {
		return fmt.Errorf("drop old lifecycle events: %w", cause(ctx, err))
	}
	return nil
}

// Purge implements session.Log.
func (j *journal) Purge(ctx context.Context, s session.ID, run session.RunID) error {
	subject, err := j.names.ofRun(s, run)
	if err != nil {
		return err
	}
	if err := j.enter(); err != nil {
		return err
	}
	defer j.calls.Done()
	if err := j.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
		return fmt.Errorf("purge a run's output: %w", cause(ctx, err))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.markers, subject)
	return nil
}

// Close implements session.Log.
func (j *journal) Close() error {
	j.drain()
	j.nc.Close()
	return nil
}

// drain refuses new calls and waits for those under way.
func (j *journal) drain() {
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.stopping)
	}
	j.mu.Unlock()
	j.calls.Wait()
}

// enter admits a call; who enters calls j.calls.Done at its end.
func (j *journal) enter() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return session.ErrClosed
	}
	j.calls.Add(1)
	return nil
}

func (j *journal) attach(t *tail) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tails = append(slices.Clip(j.tails), t)
}

func (j *journal) detach(t *tail) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tails = slices.DeleteFunc(slices.Clone(j.tails), func(other *tail) bool { return other == t })
}

// share tells the tails of what was appended.
func (j *journal) share(seq uint64, msg *nats.Msg) {
	j.mu.Lock()
	tails := j.tails
	j.mu.Unlock()
	if len(tails) == 0 {
		return
	}
	r := j.names.record(seq, msg)
	r.Data = bytes.Clone(r.Data) // the caller may use its buffer again
	for _, t := range tails {
		t.add(r)
	}
}

func (n names) ofRun(s session.ID, run session.RunID) (string, error) {
	if !token(string(s)) || !token(string(run)) {
		return "", fmt.Errorf("not a subject's token: session %q, run %q", s, run)
	}
	return n.out + string(s) + "." + string(run), nil
}

func (n names) ofSession(s session.ID) (string, error) {
	if !token(string(s)) {
		return "", fmt.Errorf("not a subject's token: session %q", s)
	}
	return n.life + string(s), nil
}

// token reports whether s stands for itself alone in a subject.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != ""
}

// record makes a Record of a message of the stream. That of a claim's marker, or of a piece that is
// not the last of its record, has only a sequence.
func (n names) record(seq uint64, m *nats.Msg) session.Record {
	if id := m.Header[idHeader]; len(id) == 1 && isMarker(id[0]) || m.Header[pieceHeader] != nil {
		return session.Record{Seq: seq}
	}
	if s, ok := strings.CutPrefix(m.Subject, n.life); ok {
		return session.Record{Seq: seq, Session: session.ID(s), Data: m.Data}
	}
	s, run, _ := strings.Cut(strings.TrimPrefix(m.Subject, n.out), ".")
	return session.Record{Seq: seq, Session: session.ID(s), Run: session.RunID(run), Data: m.Data}
}
