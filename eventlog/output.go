package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
		subject, err := outSubject(s, run)
		if err != nil {
			yield(session.Record{}, err)
			return
		}
		next := uint64(1)
		for more := true; more; {
			var batch []session.Record
			batch, next, more, err = j.batch(ctx, subject, next)
			if err != nil {
				yield(session.Record{}, fmt.Errorf("read a run's output: %w", err))
				return
			}
			for _, r := range batch {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
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
	if err := j.nc.PublishRequest("$JS.API.DIRECT.GET."+streamName, sub.Subject, req); err != nil {
		return nil, 0, false, cause(ctx, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, errors.New("the log does not answer"))
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
				if r := record(seq, m); r.Session != "" {
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
