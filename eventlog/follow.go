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
	// patience is how long a tail may bring nothing. Then the log is asked for what never was
	// acknowledged, or for what a record waits for whose acknowledgement was faster.
	patience = 250 * time.Millisecond
)

// errLost: a consumer or tail is gone or left something out; a new consumer goes on.
var errLost = errors.New("records lost on the way")

// Follow implements session.Log. Where all that is appended comes from this journal the log
// is read up to its end, and from there on a tail brings what follows, until it misses something.
func (j *journal) Follow(ctx context.Context, f func(session.Record) error, caughtUp func()) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.calls.Done()
	fo := &follower{journal: j, f: f, caughtUp: caughtUp}
	if j.alone {
		fo.tail = newTail()
		j.attach(fo.tail)
		defer j.detach(fo.tail)
	}
	for wait := shortPause; ; {
		before := fo.last
		err := fo.consume(ctx)
		if err == nil {
			err = fo.local(ctx)
		}
		switch {
		case fo.failed != nil:
			return fo.failed
		case errors.Is(err, errLost):
		case j.alone || ctx.Err() != nil || !away(err):
			return err
		}
		if j.alone {
			continue
		}
		if wait = min(2*wait, longPause); fo.last > before {
			wait = shortPause
		}
		if err := j.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// follower delivers the stream to f, through one consumer after another, and through the tail.
type follower struct {
	journal  *journal
	f        func(session.Record) error
	caughtUp func() // nil once called
	tail     *tail  // nil: everything comes through a consumer

	failed error  // what f returned
	doubts int    // how often in a row the stream's end was before what was followed
	target uint64 // the stream's last sequence when the consumer was started
	last   uint64 // up to here everything is handled, or gone from the stream
}

// local lets the tail deliver, until it may have missed something: errLost.
func (fo *follower) local(ctx context.Context) error {
	at := fo.last + 1
	fo.tail.follow(at, fo.deliver)
	defer fo.tail.stop()
	silence := time.NewTicker(patience)
	defer silence.Stop()
	for {
		select {
		case err := <-fo.tail.failed:
			return err
		case <-silence.C:
			now := fo.tail.at()
			if now == at {
				return errLost
			}
			at = now
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-fo.journal.stopping:
			return session.ErrClosed
		}
	}
}

// deliver hands the next record on; a marker has no session, and is for nobody.
func (fo *follower) deliver(r session.Record) error {
	if r.Session != "" {
		if err := fo.f(r); err != nil {
			fo.failed = err
			return err
		}
	}
	fo.last = r.Seq
	return nil
}

// consume runs one consumer until it is lost (errLost), ctx is done, the journal closes or f fails.
// With a tail it ends, without an error, at what is the stream's end as it begins.
func (fo *follower) consume(ctx context.Context) error {
	j := fo.journal
	if fo.tail != nil {
		fo.tail.open() // before the end is read: what is behind it comes this way
	}
	st, err := j.standing(ctx)
	if j.renew != nil && fo.replaced(st, err) {
		if err := j.renew(ctx, fo.last); err != nil {
			return fmt.Errorf("follow a log that was replaced: %w", err)
		}
		return session.ErrReplaced
	}
	if fo.doubts > 0 {
		return errLost
	}
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	fo.target = st.State.LastSeq
	if fo.tail != nil && fo.last >= fo.target {
		fo.reached()
		return nil
	}
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
	consumer, err := j.stream.CreatePushConsumer(ctx, cfg)
	if err != nil {
		return fmt.Errorf("follow: %w", cause(ctx, err))
	}
	// One server knows at once that nothing is left; the replica that serves this consumer may be behind.
	if info := consumer.CachedInfo(); fo.last >= fo.target || j.alone && info.NumPending == 0 && info.Delivered.Consumer == 0 {
		fo.reached()
	}

	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	silent := 0
	delivered := uint64(0) // messages of this consumer
	for fo.tail == nil || fo.last < fo.target {
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
	return nil
}

// replaced reports whether the stream is gone, or another one, or does not have what was followed. What a server that is
// behind, or starts, might say too is believed when it is said again and again.
func (fo *follower) replaced(st standing, err error) bool {
	gone := isCode(err, codeNoStream)
	switch {
	case err != nil && !gone:
		return false
	case gone, st.State.LastSeq < fo.last:
		fo.doubts++
		return fo.doubts > 3
	}
	fo.doubts = 0
	return incarnationOf(st.Created, st.Config.Metadata) != fo.journal.Incarnation()
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
	if meta.Sequence.Stream <= fo.last {
		return nil // from a replica that was behind, so that the consumer began earlier
	}
	r, err := fo.journal.whole(ctx, fo.journal.names.record(meta.Sequence.Stream, m), m)
	if err != nil {
		return err
	}
	if err := fo.deliver(r); err != nil {
		return err
	}
	if fo.last >= fo.target || fo.journal.alone && meta.NumPending == 0 {
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
			// Idle and not held up: nothing is left of what the replica has. Without this, a purge of the
			// last records while they were awaited would leave us waiting.
			if at, err := strconv.ParseUint(m.Header.Get("Nats-Last-Stream"), 10, 64); err == nil && at >= fo.target {
				fo.reached()
			}
			return nil
		}
	}
	if err := fo.journal.nc.Publish(answer, nil); err != nil {
		return fmt.Errorf("follow: %w", cause(ctx, err))
	}
	return nil
}

// reached notes that up to the target nothing is left.
func (fo *follower) reached() {
	fo.last = max(fo.last, fo.target)
	if fo.caughtUp != nil {
		fo.caughtUp()
		fo.caughtUp = nil
	}
}
