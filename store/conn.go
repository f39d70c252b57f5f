package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/reprise-run/reprise/session"
)

// conn is a connection with its prepared statements. It is used by one goroutine at a time.
type conn struct {
	sql        *sql.Conn
	statements map[string]*sql.Stmt // by their text, of which there are as many as in this package
	durable    string               // what gave its commits their durability; empty: not known
}

func connect(ctx context.Context, db *sql.DB) (*conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return &conn{sql: c, statements: map[string]*sql.Stmt{}}, nil
}

func (c *conn) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := c.statements[query]; st != nil {
		return st, nil
	}
	st, err := c.sql.PrepareContext(ctx, query)
	if err == nil {
		c.statements[query] = st
	}
	return st, err
}

// control executes a statement that controls the transaction, whatever becomes of the caller.
func (c *conn) control(query string) error {
	st, err := c.prepare(context.Background(), query)
	if err == nil {
		_, err = st.ExecContext(context.Background())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// run executes statements that are rare, or settings, whatever becomes of the caller. They are
// not prepared: SQLite carries out some settings when it reads them, not when it runs them.
func (c *conn) run(queries ...string) error {
	for _, q := range queries {
		if _, err := c.sql.ExecContext(context.Background(), q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// close gives the connection back to the database.
func (c *conn) close() error {
	var errs []error
	for _, st := range c.statements {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, c.sql.Close())...)
}

// discard ends the connection: its state is unknown, or nobody needs it.
func (c *conn) discard() {
	// Raw gives up a connection whose function says that it is bad; that is all we ask.
	_ = c.sql.Raw(func(any) error { return driver.ErrBadConn })
}

// reader implements session.ReadTx within a transaction on conn. conn is nil once that has
// ended.
type reader struct {
	ctx       context.Context
	conn      *conn
	conflicts func(error) bool
	conflict  error // the first: the transaction is lost, whatever its function makes of it
	failure   error // the first of a statement: the update has failed, likewise
}

// tx implements session.Tx.
type tx struct{ reader }

var errOver = errors.New("the transaction is over")

// statement returns a statement, to be run without the reader's context: with one that may
// end, database/sql and the driver start a goroutine each, which costs more than most
// statements take. So the context is asked here, and between rows.
func (r *reader) statement(query string) (*sql.Stmt, error) {
	if r.conn == nil {
		return nil, errOver
	}
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	return r.conn.prepare(context.Background(), query)
}

// failed names the statement of an error by its beginning.
func (r *reader) failed(query string, err error) error {
	if r.conflict == nil && r.conflicts(err) {
		r.conflict = err
	}
	err = fmt.Errorf("%.40s…: %w", query, err)
	if r.failure == nil {
		r.failure = err
	}
	return err
}

// list reads rows into values; fields lists where a value's columns go.
func list[T any](r *reader, fields func(*T) []any, query string, args ...any) ([]T, error) {
	st, err := r.statement(query)
	if err != nil {
		return nil, r.failed(query, err)
	}
	rows, err := st.QueryContext(context.Background(), args...)
	if err != nil {
		return nil, r.failed(query, err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		if err := r.ctx.Err(); err != nil {
			return nil, r.failed(query, err)
		}
		var v T
		if err := rows.Scan(fields(&v)...); err != nil {
			return nil, r.failed(query, err)
		}
		all = append(all, v)
	}
	if err := rows.Err(); err != nil {
		return nil, r.failed(query, err)
	}
	return all, nil
}

// one reads a single row; none is session.ErrNotFound.
func one[T any](r *reader, fields func(*T) []any, query string, args ...any) (T, error) {
	all, err := list(r, fields, query, args...)
	if err == nil && len(all) == 0 {
		err = session.ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return all[0], nil
}

// itself are the fields of a value that is one column.
func itself[T any](v *T) []any { return []any{v} }

// exec runs a statement and returns the number of rows that it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	st, err := t.statement(query)
	if err != nil {
		return 0, t.failed(query, err)
	}
	res, err := st.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, t.failed(query, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, t.failed(query, err)
	}
	return n, nil
}

// change runs a statement that changes a row; none is session.ErrLost.
func (t *tx) change(query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n == 0 {
		err = session.ErrLost
	}
	return err
}

// returning runs a statement that changes a row and returns a number; no row is
// session.ErrLost.
func (t *tx) returning(query string, args ...any) (int64, error) {
	n, err := one(&t.reader, itself[int64], query, args...)
	if errors.Is(err, session.ErrNotFound) {
		err = session.ErrLost
	}
	return n, err
}
