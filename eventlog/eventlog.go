// Package eventlog is the ordered record of all that observers see: the output of runs and
// lifecycle events, kept in one NATS JetStream stream. By default the server runs inside this
// process, without a port; everything but [Open] speaks JetStream over a connection only, so a
// cluster can stand in its place.
//
// Order: one stream holds one total order with one sequence. A run's output has one writer at
// a time: each append names the sequence of the run's record before it, so that a writer whose
// run was claimed by a newer generation finds another record there and is fenced.
//
// Loss: an acknowledged record has been handed to the operating system, so it outlives the
// process, however that ends; the disk is synced every second, so a power loss may cost the
// last second. Records older than the age limit, or the oldest above the size limit, are dropped.
// After a stop that was not clean, or with a new stream, the incarnation is another one: sequence
// numbers of the old one mean nothing any more.
//
// Repetition: an append or claim whose acknowledgement is lost is repeated, under the same id,
// until the outcome is known; no record is made twice. An append that its context cuts off may
// or may not be there; the writer's next append completes it first. A follower sees every record once.
//
// Following: a consumer reads the log for a follower. Where this process alone appends, it reads up to
// the log's end only; from there on each acknowledged record goes to the follower directly, in the
// order of the sequences that the acknowledgements tell. That way may miss records (an acknowledgement
// was lost, its append was cut off, too much was waiting): then nothing more comes by it, and after a
// quarter of a second the log is read up to its end again.
//
// Blocking: Append, Claim and Publish wait for the log as long as their context allows, and never
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
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-run/reprise/session"
)

// Options configure a log. Only Dir is required.
type Options struct {
	// Dir is the folder of the embedded server. Nobody else may use it meanwhile.
	Dir string
	// MaxBytes bounds the log on disk; the oldest records go first. Default 1 GiB.
	MaxBytes int64
	// MaxAge bounds a record's age. It must exceed the longest pause within a run, since a
	// writer whose last record is gone cannot go on. Default 7 days.
	MaxAge time.Duration
	// AckTimeout is how long an append waits before it is repeated; it doubles each time, up to
	// 30 s. Default 2 s.
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
	if o.AckTimeout <= 0 {
		o.AckTimeout = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

const (
	streamName = "reprise"
	outPrefix  = "out."  // out.<session>.<run>
	lifePrefix = "life." // life.<session>

	// The incarnation is kept in the stream's own metadata: it cannot be parted from the
	// sequence numbers that it qualifies.
	incarnationKey = "reprise-incarnation"

	// dedupWindow is how long Publish recognises an id.
	dedupWindow = 2 * time.Minute
)

// journal is a session.Log over a connection to JetStream.
type journal struct {
	nc          *nats.Conn
	stream      jetstream.Stream
	incarnation string
	ackTimeout  time.Duration
	name        string        // tells this journal's claims from those of others
	claims      atomic.Uint64 // tells its claims apart
	alone       bool          // nobody else appends to the stream

	mu       sync.Mutex // guards the following
	closed   bool
	idle     []*line
	tails    []*tail        // replaced, never changed
	calls    sync.WaitGroup // calls under way; Add only while mu is held and closed is false
	stopping chan struct{}  // closed with closed
}

// join opens the stream behind a connection, which the journal owns from then on, also where join
// fails. Where renew is true the stream gets a new incarnation.
func join(ctx context.Context, nc *nats.Conn, o Options, renew func(lastSeq uint64) bool) (*journal, error) {
	j := &journal{
		nc:         nc,
		ackTimeout: o.AckTimeout,
		name:       strings.ToLower(rand.Text()[:10]),
		stopping:   make(chan struct{}),
	}
	if err := j.openStream(ctx, o, renew); err != nil {
		nc.Close()
		return nil, fmt.Errorf("open the event stream: %w", err)
	}
	return j, nil
}

func (j *journal) openStream(ctx context.Context, o Options, renew func(uint64) bool) error {
	js, err := jetstream.New(j.nc)
	if err != nil {
		return err
	}
	j.incarnation = strings.ToLower(rand.Text()[:12])
	cfg := jetstream.StreamConfig{
		Name:     streamName,
		Subjects: []string{outPrefix + "*.*", lifePrefix + "*"},
		MaxBytes: o.MaxBytes,
		MaxAge:   o.MaxAge,
		// A reader of direct gets need not queue behind the JetStream API.
		AllowDirect: true,
		// Only Publish relies on the server's table of ids, which costs memory for each. An
		// append is exactly-once by the sequence that it expects.
		Duplicates: min(dedupWindow, o.MaxAge), // the server wants no more
		Metadata:   map[string]string{incarnationKey: j.incarnation},
	}
	old, err := js.Stream(ctx, streamName)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		j.stream, err = js.CreateStream(ctx, cfg)
		return err
	case err != nil:
		return err
	}
	info := old.CachedInfo()
	if id := info.Config.Metadata[incarnationKey]; id != "" && !renew(info.State.LastSeq) {
		j.incarnation = id
	}
	cfg.Metadata = maps.Clone(info.Config.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[incarnationKey] = j.incarnation
	j.stream, err = js.UpdateStream(ctx, cfg)
	return err
}

// Incarnation implements session.Log.
func (j *journal) Incarnation() string { return j.incarnation }

// Publish implements session.Log.
func (j *journal) Publish(ctx context.Context, s session.ID, id string, data []byte) error {
	subject, err := lifeSubject(s)
	if err != nil {
		return err
	}
	if err := j.enter(); err != nil {
		return err
	}
	defer j.calls.Done()
	msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{nats.MsgIdHdr: {id}}}
	if _, _, err := j.publish(ctx, msg); err != nil {
		return fmt.Errorf("publish a lifecycle event: %w", err)
	}
	return nil
}

// Purge implements session.Log.
func (j *journal) Purge(ctx context.Context, s session.ID, run session.RunID) error {
	subject, err := outSubject(s, run)
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
	r := record(seq, msg)
	r.Data = bytes.Clone(r.Data) // the caller may use its buffer again
	for _, t := range tails {
		t.add(r)
	}
}

func outSubject(s session.ID, run session.RunID) (string, error) {
	if !token(string(s)) || !token(string(run)) {
		return "", fmt.Errorf("not a subject's token: session %q, run %q", s, run)
	}
	return outPrefix + string(s) + "." + string(run), nil
}

func lifeSubject(s session.ID) (string, error) {
	if !token(string(s)) {
		return "", fmt.Errorf("not a subject's token: session %q", s)
	}
	return lifePrefix + string(s), nil
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

// record makes a Record of a message of the stream. That of a claim's marker has only a sequence.
func record(seq uint64, m *nats.Msg) session.Record {
	if id := m.Header[idHeader]; len(id) == 1 && isMarker(id[0]) {
		return session.Record{Seq: seq}
	}
	if s, ok := strings.CutPrefix(m.Subject, lifePrefix); ok {
		return session.Record{Seq: seq, Session: session.ID(s), Data: m.Data}
	}
	s, run, _ := strings.Cut(strings.TrimPrefix(m.Subject, outPrefix), ".")
	return session.Record{Seq: seq, Session: session.ID(s), Run: session.RunID(run), Data: m.Data}
}
