package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-run/reprise/session"
)

// The queue of runs that wait is a stream of its own, from which a message goes when it is done. A run has one message there at
// most, so whoever announces it again adds nothing while it waits or is in progress.
const (
	workers = "nodes" // the consumer that all nodes have in common

	// handOver is how long nothing is heard of a node that has an announcement; then another one gets it.
	handOver = 3 * time.Second
	// keepWork bounds an announcement's age. What waits longer is found by the sweep.
	keepWork = time.Hour
	// maxWork bounds all of them, in bytes.
	maxWork = 16 << 20
	// askEvery is how long a node waits for an announcement before it asks again.
	askEvery = 5 * time.Second
	// maxAsking is how many nodes may wait at once.
	maxAsking = 1024
)

func (n names) workStream() string { return n.stream + "-work" }
func (n names) work() string       { return n.stream + ".work." } // + <run>

// openWork makes the queue's stream, or takes the one that is there.
func (s *Shared) openWork(ctx context.Context, replicas int) error {
	_, err := s.ensure(ctx, jetstream.StreamConfig{
		Name:      s.names.workStream(),
		Subjects:  []string{s.names.work() + "*"},
		Retention: jetstream.WorkQueuePolicy,
		Replicas:  replicas,
		MaxAge:    keepWork, MaxBytes: maxWork,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		Duplicates: dedupWindow,
	})
	return err
}

// Announce implements session.Queue.
func (s *Shared) Announce(ctx context.Context, run session.RunID) error {
	if !token(string(run)) {
		return fmt.Errorf("not a subject's token: run %q", run)
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.Done()
	m, _, err := s.request(ctx, &nats.Msg{Subject: s.names.work() + string(run)})
	if err == nil {
		err = refusal(m)
	}
	if err != nil && !isThere(err) {
		return fmt.Errorf("announce a run: %w", err)
	}
	return nil
}

// isThere reports whether a message was refused because its subject has one.
func isThere(err error) bool {
	return isCode(err, codeStoreFailed) && strings.Contains(err.Error(), "per subject")
}

// Serve implements session.Queue. It returns when every f has; what f was handed when ctx ended is handed to another node.
func (s *Shared) Serve(ctx context.Context, room int, f func(context.Context, session.RunID)) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.Done()
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, room)
	var consumer jetstream.Consumer
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.stopping:
			return session.ErrClosed
		}
		m, err := s.next(ctx, &consumer)
		if m == nil {
			<-slots
			if err != nil {
				return fmt.Errorf("serve the queue of runs: %w", err)
			}
			continue
		}
		working.Go(func() {
			defer func() { <-slots }()
			s.work(ctx, m, f)
		})
	}
}

// next waits a while for an announcement. It returns none where there was none, or the log is away.
func (s *Shared) next(ctx context.Context, consumer *jetstream.Consumer) (jetstream.Msg, error) {
	var err error
	if *consumer == nil {
		*consumer, err = s.join(ctx)
	}
	if err == nil {
		wait, cancel := context.WithTimeout(ctx, askEvery)
		defer cancel()
		var m jetstream.Msg
		m, err = (*consumer).Next(jetstream.FetchContext(wait), jetstream.FetchHeartbeat(heartbeat))
		if err == nil {
			return m, nil
		}
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoMessages):
		return nil, nil
	case errors.Is(err, nats.ErrConnectionClosed):
		return nil, session.ErrClosed
	}
	known := away(err) || errors.Is(err, jetstream.ErrNoHeartbeat) || errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerLeadershipChanged) ||
		errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrServerShutdown)
	if !known {
		return nil, err
	}
	*consumer = nil
	if s.pause(ctx, longPause) != nil {
		return nil, nil // Serve sees why
	}
	return nil, nil
}

// join opens the consumer that all nodes have in common, and makes what is not there.
func (s *Shared) join(ctx context.Context) (jetstream.Consumer, error) {
	s.mu.Lock()
	replicas := s.replicas
	s.mu.Unlock()
	if err := s.openWork(ctx, replicas); err != nil {
		return nil, err
	}
	return s.js.CreateOrUpdateConsumer(ctx, s.names.workStream(), jetstream.ConsumerConfig{
		Durable:       workers,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       handOver,
		MaxAckPending: -1,
		MaxWaiting:    maxAsking,
	})
}

// work has f do what was announced, and says so all the while.
func (s *Shared) work(ctx context.Context, m jetstream.Msg, f func(context.Context, session.RunID)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx, session.RunID(strings.TrimPrefix(m.Subject(), s.names.work())))
	}()
	mark := time.NewTicker(handOver / 3)
	defer mark.Stop()
	for {
		var err error
		select {
		case <-mark.C:
			err = m.InProgress()
		case <-done:
			if ctx.Err() != nil {
				err = m.Nak()
			} else {
				err = m.Ack()
			}
			if err != nil { // then another node looks, and finds nothing to do
				s.o.Logger.Debug("event log: end an announcement", "error", err)
			}
			return
		}
		if err != nil {
			s.o.Logger.Debug("event log: an announcement in progress", "error", err)
		}
	}
}
