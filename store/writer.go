package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/session"
)

const (
	// maxGroup is how many updates share a commit at most, and maxTries how often a group
	// that lost to another process is run.
	maxGroup = 128
	maxTries = 5
	// patience is how long updates and views wait for a database that is away, which is tried
	// after minPause, doubled each time up to maxPause.
	patience = 10 * time.Second
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// update is a call of Update that waits for the writer. Its function runs on the caller's
// goroutine, when the writer gives it the turn.
type update struct {
	ctx  context.Context
	full session.Durability
	turn chan *tx   // unbuffered: a caller that has left never takes it
	ran  chan error // what the function returned, or errAbandoned
	done chan error // the outcome; buffered, for a caller that has left
	won  bool       // took a turn: from then on it is not skipped
	gone bool       // the caller has left
	err  error      // of the function
}

// errAbandoned: the function ended its goroutine instead of returning.
var errAbandoned = errors.New("the update's function did not return")

// Update implements session.Store. f runs on the calling goroutine. A context that ends
// before f's turn ends the call; afterwards it has no effect: what was stored is reported as
// stored.
func (s *Store) Update(ctx context.Context, d session.Durability, f func(tx session.Tx) error) error {
	if d > session.Full {
		return fmt.Errorf("unknown durability %d", d)
	}
	u := &update{ctx: ctx, full: d,
		turn: make(chan *tx), ran: make(chan error, 1), done: make(chan error, 1)}
	select {
	case <-s.closing:
		return session.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case s.updates <- u:
	}
	leave := ctx.Done()
	for {
		select {
		case t := <-u.turn:
			leave = nil
			u.run(t, f)
		case err := <-u.done:
			return err
		case <-leave:
			return ctx.Err()
		}
	}
}

func (u *update) run(t *tx, f func(session.Tx) error) {
	err := errAbandoned
	defer func() { u.ran <- err }()
	err = f(t)
}

// writer runs updates until the store closes. There is one.
func (s *Store) writer() {
	defer close(s.stopped)
	var c *conn
	for {
		select {
		case <-s.closing:
			if c != nil {
				c.discard()
			}
			return
		case u := <-s.updates:
			c = s.commit(c, s.gather(u))
		}
	}
}

// gather takes the updates that wait beside the first.
func (s *Store) gather(first *update) []*update {
	group := []*update{first}
	for len(group) < maxGroup {
		select {
		case u := <-s.updates:
			group = append(group, u)
		default:
			return group
		}
	}
	return group
}

// commit runs a group and answers it. An update's own error counts only once the group is
// committed: until then it may rest on a change of the group that does not last. It returns
// the connection for the next group, nil where it broke.
func (s *Store) commit(c *conn, group []*update) *conn {
	c, err := s.insist(c, group)
	for _, u := range group {
		if err != nil {
			u.done <- err
		} else {
			u.done <- u.err
		}
	}
	return c
}

// insist runs a group until it is stored, or has failed, or there is no point in trying longer.
func (s *Store) insist(c *conn, group []*update) (_ *conn, err error) {
	began := time.Now()
	for try := 1; ; try++ {
		var sent bool
		if c == nil {
			c, err = connect(context.Background(), s.write)
		}
		if c != nil {
			if sent, err = s.try(c, group); err == nil {
				s.away.Store(0)
				return c, nil
			}
			if c.control("ROLLBACK") != nil {
				c.discard()
				c = nil
			}
		}
		if c != nil || s.dialect.Server == nil {
			if !s.dialect.Conflict(err) {
				return c, err
			}
			if try >= maxTries {
				return c, s.busy(err)
			}
			continue
		}
		cause := err
		if sent {
			var stored bool
			if c, stored, err = s.outcome(began, cause); stored || err != nil {
				return c, err
			}
		}
		if err := s.wait(context.Background(), began, try, cause); err != nil {
			return c, err
		}
	}
}

// outcome finds out what became of a transaction whose COMMIT was cut off. It returns the
// connection on which it was told.
func (s *Store) outcome(began time.Time, cause error) (*conn, bool, error) {
	for try := 1; ; try++ {
		c, err := connect(context.Background(), s.write)
		if err == nil {
			var stored bool
			if stored, err = s.dialect.Server.Committed(c.sql); err == nil {
				return c, stored, nil
			}
			c.discard()
		}
		if err := s.wait(context.Background(), began, try, err); err != nil {
			return nil, false, fmt.Errorf("%w: %w (%w)", session.ErrUncertain, cause, err)
		}
	}
}

// wait lets a moment pass before a database that is away is tried again. It fails where that
// has taken too long.
func (s *Store) wait(ctx context.Context, began time.Time, try int, cause error) error {
	since := time.Now().UnixNano()
	if !s.away.CompareAndSwap(0, since) {
		if earlier := s.away.Load(); earlier != 0 {
			since = earlier
		}
	}
	if time.Since(time.Unix(0, since)) >= patience || time.Since(began) >= patience {
		return fmt.Errorf("%w: the database does not answer: %w", session.ErrUnavailable, cause)
	}
	pause := time.NewTimer(min(minPause<<min(try-1, 10), maxPause))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return session.ErrClosed
	}
}

// busy is the error of a group that has lost to others every time.
func (s *Store) busy(err error) error {
	if s.dialect.Server != nil {
		err = fmt.Errorf("%w: the database is in use: %w", session.ErrUnavailable, err)
	}
	return err
}

// try runs a group in one transaction. Where it is one update, its error undoes that. sent: the
// error is one of the COMMIT.
func (s *Store) try(c *conn, group []*update) (sent bool, err error) {
	d := session.Soft
	for _, u := range group {
		d = max(d, u.full)
	}
	if durable := s.dialect.Durable[d]; c.durable != durable {
		c.durable = ""
		if err := c.run(durable); err != nil {
			return false, fmt.Errorf("begin: %w", err)
		}
		c.durable = durable
	}
	if err := s.begin(c); err != nil {
		return false, fmt.Errorf("begin: %w", err)
	}
	if alone := group[0]; len(group) == 1 {
		if err := s.turn(c, alone); err != nil {
			return false, err
		}
		if alone.err != nil {
			if err := c.control("ROLLBACK"); err != nil {
				return false, fmt.Errorf("%w (and undoing it: %w)", alone.err, err)
			}
			return false, nil
		}
	} else if err := s.turns(c, group); err != nil {
		return false, err
	}
	if err := c.control("COMMIT"); err != nil {
		return true, fmt.Errorf("commit: %w", err)
	}
	return false, nil
}

func (s *Store) begin(c *conn) error {
	if s.dialect.Server != nil {
		return s.dialect.Server.Begin(c.sql)
	}
	return c.control(s.dialect.Begin)
}

// turns runs the updates of a group, each in its own savepoint. An error of them is the
// group's end.
func (s *Store) turns(c *conn, group []*update) error {
	for i, u := range group {
		if err := s.savepoint(c, i == 0); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		if err := s.turn(c, u); err != nil {
			return err
		}
		if u.err != nil {
			if err := c.control("ROLLBACK TO SAVEPOINT one"); err != nil {
				return fmt.Errorf("%w (and undoing it: %w)", u.err, err)
			}
		}
	}
	return nil
}

// savepoint ends the one before, which the last leaves to the COMMIT, and sets the next: over a network in
// one round trip.
func (s *Store) savepoint(c *conn, first bool) error {
	switch {
	case first:
	case s.dialect.Server != nil:
		return c.run("RELEASE SAVEPOINT one; SAVEPOINT one")
	default:
		if err := c.control("RELEASE SAVEPOINT one"); err != nil {
			return err
		}
	}
	return c.control("SAVEPOINT one")
}

// turn lets the caller of an update run it. Its error ends the whole group.
func (s *Store) turn(c *conn, u *update) error {
	if u.gone {
		return nil
	}
	if err := u.ctx.Err(); err != nil && !u.won {
		u.err, u.gone = err, true
		return nil
	}
	t := &tx{reader{ctx: context.Background(), conn: c, conflicts: s.dialect.Conflict}}
	leave := u.ctx.Done()
	if u.won {
		leave = nil
	}
	select {
	case u.turn <- t:
		u.won = true
		u.err = <-u.ran
		u.gone = u.err == errAbandoned
	case <-leave:
		u.err, u.gone = u.ctx.Err(), true
	}
	t.conn = nil
	if u.err == nil {
		u.err = t.failure
	}
	return t.conflict
}
