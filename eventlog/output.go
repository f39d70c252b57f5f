package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/reprise-run/reprise/session"
)

// readTimeout bounds the reading of a batch.
const readTimeout = 10 * time.Second

// One request reads at most this many messages, and ends with the one that exceeds the bytes.
const (
	batchMessages = 256
	batchBytes    = 4 << 20
)

// Output implements session.Log.
func (j *journal) Output(ctx context.Context, s session.ID, run session.RunID) iter.Seq2[session.Record, error] {
	return func(yield func(session.Record, error) bool) {
		subject, err := j.names.ofRun(s, run)
		if err != nil {
			yield(session.Record{}, err)
			return
		}
		next := uint64(1)
		for pause := shortPause; ; pause = min(2*pause, longPause) {
			last, err := j.lastOf(ctx, subject)
			if pause < longPause {
				last = max(last, j.marker(subject)) // who answered may have been the leader when it was paused
			}
			for more := err == nil && next <= last; more && err == nil; {
				var batch []session.Record
				if batch, next, more, err = j.batch(ctx, subject, next); err != nil {
					break
				}
				for _, r := range batch {
					if !yield(r, nil) {
						return
					}
				}
			}
			if err == nil && (j.alone || next > last) {
				return
			}
			if err == nil || !j.alone && away(err) && !errors.Is(err, session.ErrUnavailable) { // the replica is behind, or gone
				err = j.pause(ctx, pause)
			}
			if err != nil {
				yield(session.Record{}, fmt.Errorf("read a run's output: %w", err))
				return
			}
		}
	}
}

// lastOf is the sequence of a subject's last message, as its leader has it: a replica, which answers direct gets, may be
// behind. One server is not, and is not asked.
func (j *journal) lastOf(ctx context.Context, subject string) (uint64, error) {
	if j.alone {
		return math.MaxUint64, nil
	}
	if err := j.enter(); err != nil {
		return 0, err
	}
	defer j.calls.Done()
	last, _, err := j.get(ctx, msgQuery{Last: subject})
	return last.Seq, err
}

// marker is where this journal has claimed a shared subject; 0: nowhere.
func (j *journal) marker(subject string) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.markers[subject]
}

// batch reads some of a subject's records from a sequence on, and where to go on.
func (j *journal) batch(ctx context.Context, subject string, from uint64) (_ []session.Record, next uint64, more bool, err error) {
	if err := j.enter(); err != nil {
		return nil, 0, false, err
	}
	defer j.calls.Done()
	req, err := json.Marshal(msgQuery{Next: subject, Seq: from, Batch: batchMessages, MaxBytes: batchBytes})
	if err != nil {
		return nil, 0, false, err
	}
	// One more than the messages, for the end mark.
	replies := make(chan *nats.Msg, batchMessages+1)
	sub, err := j.nc.ChanSubscribe(j.nc.NewInbox(), replies)
	if err != nil {
		return nil, 0, false, cause(ctx, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails only on a closed connection
	if err := j.nc.PublishRequest("$JS.API.DIRECT.GET."+j.names.stream, sub.Subject, req); err != nil {
		return nil, 0, false, cause(ctx, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, errSilent)
	defer cancel()
	var records []session.Record
	for {
		select {
		case <-ctx.Done():
			return nil, 0, false, context.Cause(ctx)
		case m := <-replies:
			switch status := m.Header.Get("Status"); status {
			case "":
				seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
				if err != nil {
					return nil, 0, false, err
				}
				from = seq + 1
				m.Subject = subject
				r, err := j.whole(ctx, j.names.record(seq, m), m)
				if err != nil {
					return nil, 0, false, err
				}
				if r.Session != "" {
					records = append(records, r)
				}
			case "204": // the end of the batch
				return records, from, m.Header.Get("Nats-Num-Pending") != "0", nil
			case "404": // no message from there on
				return records, from, false, nil
			case noResponders:
				return nil, 0, false, nats.ErrNoResponders
			default:
				return nil, 0, false, fmt.Errorf("JetStream answers %s %s", status, m.Header.Get("Description"))
			}
		}
	}
}
