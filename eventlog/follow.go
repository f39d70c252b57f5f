package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-run/reprise/session"
)

const (
	// heartbeat is how often an idle consumer says that it is there. One that is silent for two
	// in a row is lost.
	heartbeat = 500 * time.Millisecond
	// followBuffer is the number of messages between connection and follower. The server stops
	// at 32 MiB that are not processed, so that hardly any are small enough to exceed it. Those that do
	// are dropped, noticed as a gap, and read again.
	followBuffer = 128 << 10
)

// errLost: the consumer is gone or left something out; a new one goes on.
var errLost = errors.New("consumer lost")

// Follow implements session.Log.
func (j *journal) Follow(ctx context.Context, f func(session.Record) error, caughtUp func()) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.calls.Done()
	fo := &follower{journal: j, f: f, caughtUp: caughtUp}
	for {
		err := fo.consume(ctx)
		if !errors.Is(err, errLost) {
			return err
		}
	}
}

// follower delivers the stream to f, through one consumer after another.
type follower struct {
	journal  *journal
	f        func(session.Record) error
	caughtUp func() // nil once called

	started bool
	target  uint64 // the stream's last sequence when Follow was called
	last    uint64 // stream sequence of the last message handled
}

// consume runs one consumer until it is lost (errLost), ctx is done, the journal closes or f fails.
func (fo *follower) consume(ctx context.Context) error {
	j := fo.journal
	messages := make(chan *nats.Msg, followBuffer)
	sub, err := j.nc.ChanSubscribe(j.nc.NewInbox(), messages)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails only on a closed connection

	// A push consumer without acknowledgements: the server sends at once, without being asked,
	// and the numbers it puts on its messages show any gap.
	cfg := jetstream.ConsumerConfig{
		DeliverSubject: sub.Subject,
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckNonePolicy,
		MaxDeliver:     1,
		MemoryStorage:  true,
		Replicas:       1,
		FlowControl:    true,
		IdleHeartbeat:  heartbeat,
	}
	if fo.last > 0 {
		cfg.DeliverPolicy = jetstream.DeliverByStartSequencePolicy
		cfg.OptStartSeq = fo.last + 1
	}
	if !fo.started {
		info, err := j.stream.Info(ctx)
		if err != nil {
			return fmt.Errorf("follow: %w", cause(ctx, err))
		}
		fo.started, fo.target = true, info.State.LastSeq
	}
	consumer, err := j.stream.CreatePushConsumer(ctx, cfg)
	if err != nil {
		return fmt.Errorf("follow: %w", cause(ctx, err))
	}
	if consumer.CachedInfo().NumPending == 0 {
		fo.reached()
	}

	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	silent := 0
	delivered := uint64(0) // messages of this consumer
	for {
		select {
		case m := <-messages:
			silent = 0
			if err := fo.handle(ctx, m, &delivered); err != nil {
				return err
			}
		case <-ticker.C:
			if silent++; silent > 2 {
				return errLost
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-j.stopping:
			return session.ErrClosed
		}
	}
}

// handle takes one message of the consumer: a record, a marker or a control message.
func (fo *follower) handle(ctx context.Context, m *nats.Msg, delivered *uint64) error {
	if m.Header.Get("Status") == "100" {
		return fo.control(ctx, m, *delivered)
	}
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if meta.Sequence.Consumer != *delivered+1 {
		return errLost
	}
	*delivered++
	if !marks(m.Header) {
		if err := fo.f(record(meta.Sequence.Stream, m.Subject, m.Data)); err != nil {
			return err
		}
	}
	fo.last = meta.Sequence.Stream
	if fo.last >= fo.target || meta.NumPending == 0 {
		fo.reached()
	}
	return nil
}

// control answers flow control and compares what a heartbeat says was sent with what came.
func (fo *follower) control(ctx context.Context, m *nats.Msg, delivered uint64) error {
	answer := m.Reply // set: a flow control request
	if answer == "" {
		if m.Header.Get("Nats-Last-Consumer") != strconv.FormatUint(delivered, 10) {
			return errLost
		}
		if answer = m.Header.Get("Nats-Consumer-Stalled"); answer == "" {
			// Idle and not held up: nothing is left. Without this, a purge of the last records
			// while they were awaited would leave us waiting.
			fo.reached()
			return nil
		}
	}
	if err := fo.journal.nc.Publish(answer, nil); err != nil {
		return fmt.Errorf("follow: %w", cause(ctx, err))
	}
	return nil
}

func (fo *follower) reached() {
	if fo.caughtUp != nil {
		fo.caughtUp()
		fo.caughtUp = nil
	}
}

// marks reports whether a message with these headers is a claim's marker.
func marks(h nats.Header) bool {
	id := h[idHeader]
	return len(id) == 1 && isMarker(id[0])
}
