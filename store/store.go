// Package store keeps sessions in a SQL database: all SQL is here, once, in one text for
// every engine. The engines' own packages (store/sqlite, …) only open a database and say how
// it differs in a Dialect.
//
// It promises what session.Store says, and: every change is a compare-and-set, so that of
// several writers one wins and the others get session.ErrLost; updates that wait for each
// other share one commit, and each fails alone; an update that has met an error of the database
// fails with it, whatever its function makes of that; a value that it does not know (a state, a
// role, a reason) is an error when it is read or written, never a default.
//
// Where the database is another process, updates and views wait for it while it is away, 10
// seconds at most, then fail with session.ErrUnavailable. What was cut off is run again where it is
// certain that nothing of it was stored, and the outcome of a commit that was cut off is looked up.
//
// It refuses to be used from inside itself: an Update, View or Close within the function of
// an Update may wait forever. It uses no row locks and no function of one engine. It never
// updates or deletes a message.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-run/reprise/session"
)

// readers is how many views run at the same time; others wait.
const readers = 8

// Dialect is how one engine differs from another.
type Dialect struct {
	// Durable makes the next commits of a connection have the durability that it is indexed
	// by. It is run outside transactions, when that changes.
	Durable [session.Full + 1]string
	// Begin begins a transaction that may write, in which no other writer's changes appear.
	Begin string
	// Exclusive begins a durable transaction that no other process migrates beside.
	Exclusive []string
	// Snapshot begins a transaction that only reads, on one state.
	Snapshot string
	// Conflict recognises the error of a transaction that lost to another one and may pass
	// when it is run again.
	Conflict func(error) bool
	// Server is set where the database is another process.
	Server Server
}

// Server is how an engine differs that may go away and come back. One goroutine at a time uses it.
type Server interface {
	// Begin begins a transaction as Dialect.Begin does, in place of that.
	Begin(c *sql.Conn) error
	// Committed says, on another connection, whether the last transaction that Begin began was
	// stored. It returns when that is final.
	Committed(c *sql.Conn) (bool, error)
}

// Store implements session.Store on a SQL database.
type Store struct {
	dialect     Dialect
	write, read *sql.DB

	updates chan *update
	views   chan *conn // idle readers; nil: not connected
	closing chan struct{}
	away    atomic.Int64  // since when the database does not answer, in nanoseconds; 0: it does
	stopped chan struct{} // the writer has ended
	close   func() error
}

var _ session.Store = (*Store)(nil)

// Open brings the schema up to date and starts the store. It owns both databases from the
// call on; they may be the same one. A schema that is newer than this program is refused.
func Open(ctx context.Context, write, read *sql.DB, d Dialect) (*Store, error) {
	s := &Store{
		dialect: d, write: write, read: read,
		updates: make(chan *update),
		views:   make(chan *conn, readers),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	s.close = sync.OnceValue(s.shut)
	err := Migrate(ctx, write, d)
	if err == nil {
		err = complete(ctx, write)
	}
	if err != nil {
		return nil, errors.Join(err, closeBoth(write, read))
	}
	for range readers {
		s.views <- nil
	}
	go s.writer()
	return s, nil
}

// View implements session.Store. At most 8 views run at the same time.
func (s *Store) View(ctx context.Context, f func(tx session.ReadTx) error) (err error) {
	// Of several cases that are ready, a select takes any.
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closing:
		return session.ErrClosed
	default:
	}
	var c *conn
	select {
	case <-s.closing:
		return session.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case c = <-s.views:
	}
	defer func() { s.views <- c }()
	began := time.Now()
	for try := 1; ; try++ {
		old := c != nil // it may have ended long ago
		lost, err := s.view(ctx, &c, f)
		if !lost {
			return err
		}
		if old {
			continue
		}
		if err := s.wait(ctx, began, try, err); err != nil {
			return err
		}
	}
}

// view runs a view once, on a connection that it makes where there is none, and gives up where
// that breaks. It reports whether the view was lost with it.
func (s *Store) view(ctx context.Context, on **conn, f func(tx session.ReadTx) error) (lost bool, err error) {
	c := *on
	if c == nil {
		if c, err = connect(ctx, s.read); err != nil {
			return s.dialect.Server != nil, err
		}
		*on = c
	}
	r := &reader{ctx: ctx, conn: c, conflicts: s.dialect.Conflict}
	defer func() {
		r.conn = nil
		if c.control("ROLLBACK") != nil {
			c.discard()
			*on = nil
			lost = r.failure != nil && s.dialect.Server != nil
		}
		if !lost {
			s.away.Store(0)
		}
	}()
	if err := c.control(s.dialect.Snapshot); err != nil {
		r.failure = err
		return false, fmt.Errorf("begin a view: %w", err)
	}
	return false, f(r)
}

// Close implements session.Store. It waits for running updates and views; updates that still
// wait for their turn may fail with session.ErrClosed.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	close(s.closing)
	<-s.stopped
	var errs []error
	for range readers {
		if c := <-s.views; c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(append(errs, closeBoth(s.write, s.read))...)
}

func closeBoth(a, b *sql.DB) error {
	err := a.Close()
	if b != a {
		err = errors.Join(err, b.Close())
	}
	return err
}
