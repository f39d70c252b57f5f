package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-run/reprise/session"
)

// idHeader carries a record's id: <generation>.<journal>.<claim>.<n>. A claim's marker has n = 0,
// its records count from 1. So any record of a run tells the newest generation up to it.
//
// It is not JetStream's own Nats-Msg-Id: the expected sequence alone refuses a second copy (the
// embedded server checks it before it looks at ids), and the server keeps every Nats-Msg-Id in
// memory for the whole window.
const idHeader = "Reprise-Id"

// errGone: the records that the writer has seen are not in the log any more.
var errGone = errors.New("the run's output was dropped from the log")

// Claim implements session.Log. A marker of the same generation is claimed again only by the
// journal that wrote it and only while nothing follows it: then the earlier Claim did not hear
// of its success. Whoever got a Writer from it is fenced like any other.
func (j *journal) Claim(ctx context.Context, s session.ID, run session.RunID, generation int64) (session.Writer, error) {
	subject, err := j.names.ofRun(s, run)
	if err != nil {
		return nil, err
	}
	if err := j.enter(); err != nil {
		return nil, err
	}
	defer j.calls.Done()
	owner := strconv.FormatInt(generation, 10) + "." + j.name + "."
	w := &writer{
		journal: j,
		prefix:  owner + strconv.FormatUint(j.claims.Add(1), 10) + ".",
		id:      []string{""},
		expect:  []string{""},
	}
	w.msg = nats.Msg{Subject: subject, Header: nats.Header{
		idHeader:                            w.id,
		jetstream.ExpectedLastSubjSeqHeader: w.expect,
	}}
	// A run's first claim finds nothing before it, so it is tried without a look.
	for look := generation > 1; ; look = true {
		if look {
			if err := w.behind(ctx, generation, owner); err != nil {
				return nil, err
			}
		}
		_, err := w.put(ctx, nil)
		switch {
		case err == nil:
			if !j.alone {
				j.mu.Lock()
				j.markers[subject] = w.last
				j.mu.Unlock()
			}
			return w, nil
		case errors.Is(err, session.ErrFenced), errors.Is(err, errGone):
			// Another record came between the reading and the marker.
		default:
			return nil, fmt.Errorf("claim a run's output: %w", err)
		}
	}
}

// behind puts the writer behind the run's last record, where its generation may go there.
func (w *writer) behind(ctx context.Context, generation int64, owner string) error {
	last, found, err := w.journal.get(ctx, msgQuery{Last: w.msg.Subject})
	if err != nil {
		return fmt.Errorf("claim a run's output: %w", err)
	}
	w.last = last.Seq
	if !found {
		return nil
	}
	id := headerID(last.Header)
	newest, err := generationOf(id)
	if err != nil {
		return fmt.Errorf("claim a run's output: %w", err)
	}
	repeated := newest == generation && strings.HasPrefix(id, owner) && isMarker(id)
	if newest >= generation && !repeated {
		return session.ErrFenced
	}
	return nil
}

// writer is the one writer of a run's output in its generation.
type writer struct {
	journal *journal
	prefix  string // of its ids
	n       uint64 // the next record's
	last    uint64 // sequence of the run's last record
	// msg is used for every append; id and expect are the values of its headers.
	msg        nats.Msg
	id, expect []string

	begun   bool     // a part of a record, or all of it, was sent and perhaps stored
	pending []byte   // the record's data
	pieces  []uint64 // the sequences of its pieces that are stored
	done    int      // the bytes that they hold
}

// Append implements session.Writer. Where an earlier append ended with an unknown outcome, that
// record is completed first; the log has it before this one.
func (w *writer) Append(ctx context.Context, data []byte) error {
	if err := w.journal.enter(); err != nil {
		return err
	}
	defer w.journal.calls.Done()
	if w.begun {
		if err := w.store(ctx, w.pending); err != nil {
			return fmt.Errorf("complete the append before this one: %w", err)
		}
	}
	if err := w.store(ctx, data); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// plainHeaders is how many headers a message has that is a record.
const plainHeaders = 2

// store appends a record, in pieces where it is too large for one message, from where an earlier try
// has left off.
func (w *writer) store(ctx context.Context, data []byte) error {
	for {
		piece, _, more := w.journal.cut(data[w.done:])
		if more || len(w.pieces) > 0 || len(w.msg.Header) > plainHeaders {
			mark(&w.msg, w.pieces, more)
		}
		unknown, err := w.put(ctx, piece)
		if err != nil {
			if (unknown || w.done > 0) && !w.begun {
				w.begun, w.pending = true, bytes.Clone(data)
			}
			return err
		}
		if !more {
			break
		}
		w.pieces = append(w.pieces, w.last)
		w.done += len(piece)
	}
	w.pieces, w.done = w.pieces[:0], 0
	w.begun, w.pending = false, nil
	return nil
}

// put stores message n after message last, if it is not there yet. unknown: after an error it may be there all the same.
func (w *writer) put(ctx context.Context, data []byte) (unknown bool, err error) {
	w.id[0] = w.prefix + strconv.FormatUint(w.n, 10)
	w.expect[0] = strconv.FormatUint(w.last, 10)
	w.msg.Data = data
	defer func() { w.msg.Data = nil }()
	var began time.Time // of the doubt
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		seq, sent, refused := w.journal.publish(ctx, &w.msg)
		unknown, err = unknown || sent, refused
		if isCode(refused, codeWrongLast, codeWrongLastNow) {
			// Either an earlier copy of this message is there, or on its way, or somebody else's is.
			seq, err = w.lookUp(ctx)
			unknown = unknown || err != nil && !errors.Is(err, session.ErrFenced) && !errors.Is(err, errGone)
		}
		switch {
		case err == nil:
			w.n++
			w.last = seq
			return false, nil
		case w.journal.alone || !errors.Is(err, errGone):
			return unknown, err
		}
		// A copy may be on its way for as long as most replicas are missing, and who answers may be behind. That nothing is
		// left of the run is believed, if it is said for a while.
		if began.IsZero() {
			began = time.Now()
		}
		switch took := time.Since(began); {
		case isCode(refused, codeWrongLast) && strings.HasSuffix(refused.Error(), ": 0") && took > longestDoubt:
			return unknown, err
		case w.journal.patience > 0 && took > w.journal.patience:
			return unknown, fmt.Errorf("%w: the event log: %w", session.ErrUnavailable, refused)
		}
		if err := w.journal.pause(ctx, pause); err != nil {
			return unknown, err
		}
	}
}

// longestDoubt is how long a shared log has to say that a run's output is gone.
const longestDoubt = time.Second

// lookUp reads what follows the writer's last record, which is the outcome of an append that the
// stream did not expect.
func (w *writer) lookUp(ctx context.Context) (seq uint64, err error) {
	next, found, err := w.journal.get(ctx, msgQuery{Next: w.msg.Subject, Seq: w.last + 1})
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, errGone
	case headerID(next.Header) != w.id[0]:
		return 0, session.ErrFenced
	}
	return next.Seq, nil
}

// headerID finds our id in a message's encoded header.
func headerID(header []byte) string {
	for line := range bytes.SplitSeq(header, []byte("\r\n")) {
		if v, ok := bytes.CutPrefix(line, []byte(idHeader+": ")); ok {
			return string(v)
		}
	}
	return ""
}

func generationOf(id string) (int64, error) {
	s, _, _ := strings.Cut(id, ".")
	g, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a record with a foreign id %q", id)
	}
	return g, nil
}

func isMarker(id string) bool { return strings.HasSuffix(id, ".0") }
