package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
	subject, err := outSubject(s, run)
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
		err := w.put(ctx, nil)
		switch {
		case err == nil:
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

	unknown bool   // record n was sent, and perhaps stored
	pending []byte // its data
}

// Append implements session.Writer. Where an earlier append ended with an unknown outcome, that
// record is completed first; the log has it before this one.
func (w *writer) Append(ctx context.Context, data []byte) error {
	if err := w.journal.enter(); err != nil {
		return err
	}
	defer w.journal.calls.Done()
	if w.unknown {
		if err := w.put(ctx, w.pending); err != nil {
			return fmt.Errorf("complete the append before this one: %w", err)
		}
	}
	if err := w.put(ctx, data); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// put stores record n after record last, if it is not there yet.
func (w *writer) put(ctx context.Context, data []byte) error {
	w.id[0] = w.prefix + strconv.FormatUint(w.n, 10)
	w.expect[0] = strconv.FormatUint(w.last, 10)
	w.msg.Data = data
	seq, unknown, err := w.journal.publish(ctx, &w.msg)
	if isCode(err, codeWrongLastSequence) {
		// Either an earlier copy of this record is there, or somebody else's is.
		seq, err = w.lookUp(ctx)
		unknown = unknown || err != nil && !errors.Is(err, session.ErrFenced) && !errors.Is(err, errGone)
	}
	w.msg.Data = nil
	if err != nil {
		if unknown && !w.unknown {
			w.unknown, w.pending = true, bytes.Clone(data)
		}
		return err
	}
	w.n++
	w.last = seq
	w.unknown, w.pending = false, nil
	return nil
}

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
