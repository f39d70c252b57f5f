package session

import (
	"context"
	"sync"
)

// overview is what every snapshot begins with, whatever session it is of.
type overview struct {
	system   System
	sessions []Session
}

// overview reads it, for this observer and for those that ask until the reading begins.
func (m *Manager) overview(ctx context.Context) (overview, error) {
	return m.overviews.share(ctx, func() (o overview, err error) {
		err = m.store.View(context.WithoutCancel(ctx), func(tx ReadTx) (err error) {
			if o.system, err = m.system(tx); err != nil {
				return err
			}
			o.sessions, err = tx.Sessions(false, 0, listed)
			return err
		})
		return o, err
	})
}

// readings lets those who want the same read share it: after a restart all observers come at once.
// There is one reading at a time. Who asks while it is under way gets the next one, so that nobody
// gets what was read before they had asked.
type readings struct {
	turn chan struct{} // holds a token while nothing is read

	mu   sync.Mutex
	next *reading // that has not begun; nil: nobody waits for it
}

type reading struct {
	done chan struct{} // closed after the following are set
	got  overview
	err  error
}

func newReadings() *readings {
	r := &readings{turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// share calls f, or waits for a call of it that begins after share was called. Whoever calls it
// does so for others too, whatever becomes of its own ctx. What it returns is shared: it must not
// be changed.
func (r *readings) share(ctx context.Context, f func() (overview, error)) (overview, error) {
	r.mu.Lock()
	mine := r.next
	first := mine == nil
	if first {
		mine = &reading{done: make(chan struct{})}
		r.next = mine
	}
	r.mu.Unlock()
	if !first {
		select {
		case <-mine.done:
			return mine.got, mine.err
		case <-ctx.Done():
			return overview{}, context.Cause(ctx)
		}
	}
	<-r.turn
	defer func() { r.turn <- struct{}{} }()
	r.mu.Lock()
	r.next = nil
	r.mu.Unlock()
	defer close(mine.done)
	mine.got, mine.err = f()
	return mine.got, mine.err
}
