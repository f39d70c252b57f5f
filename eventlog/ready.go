package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/reprise-run/reprise/session"
)

const (
	// freshFor is how long an answer about the log's health counts.
	freshFor = time.Second
	// probeTimeout is how long the log has to say how it stands.
	probeTimeout = 2 * time.Second
	// heardWithin is how long ago a replica was heard of at most that counts as there. JetStream's leaders tell each second that they are.
	heardWithin = 5 * time.Second
)

// health is what was last found out about a shared log.
type health struct {
	mu  sync.Mutex // held while somebody finds out: the others wait for the answer
	at  time.Time
	err error
}

// Ready implements session.Log. A server within this process is there while the log is open.
func (j *journal) Ready(ctx context.Context) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.calls.Done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !j.nc.IsConnected() {
		return fmt.Errorf("%w: the event log has no connection", session.ErrUnavailable)
	}
	return nil
}

// Ready implements session.Log. It asks the stream's leader whether most of its replicas are there.
func (s *Shared) Ready(ctx context.Context) error {
	if err := s.journal.Ready(ctx); err != nil {
		return err
	}
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < freshFor {
		return h.err
	}
	ask, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), probeTimeout, errSilent)
	defer cancel()
	st, err := s.standing(ask)
	if err == nil {
		err = st.quorum()
	}
	if err != nil && !errors.Is(err, session.ErrClosed) {
		err = fmt.Errorf("%w: the event log: %w", session.ErrUnavailable, err)
	}
	h.at, h.err = time.Now(), err
	return err
}

// quorum is an error where fewer than half of the stream's servers are there.
func (st standing) quorum() error {
	if st.Cluster == nil {
		return nil
	}
	there := 1 // who answers
	for _, r := range st.Cluster.Replicas {
		if !r.Offline && r.Active < heardWithin {
			there++
		}
	}
	if of := 1 + len(st.Cluster.Replicas); 2*there <= of {
		return fmt.Errorf("%d of its %d servers are there", there, of)
	}
	return nil
}
