package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-run/reprise/store"
)

// writer implements store.Server. Each transaction leaves its number in a row of the writer's own,
// by which its outcome can be told. The transaction's id at the server would not do: after a crash
// the server gives those that it has lost to others.
type writer struct {
	key  string // of the row
	last int64  // the last transaction's number
}

var _ store.Server = (*writer)(nil)

// forgotten is how long a row that nobody writes stays.
const forgotten = 24 * time.Hour

func newWriter() *writer { return &writer{key: store.WriterKey + rand.Text()} }

// value begins with the time, by which forget goes.
func (w *writer) value() string { return fmt.Sprintf("%013d %d", time.Now().UnixMilli(), w.last) }

// Begin implements store.Server, in one round trip.
func (w *writer) Begin(c *sql.Conn) error {
	w.last++
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(theLock)
	b.Queue(`INSERT INTO meta (key, value) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value`, w.key, w.value())
	return c.Raw(func(c any) error {
		return c.(connection).Conn.Conn().SendBatch(context.Background(), b).Close()
	})
}

// Committed implements store.Server. Who has the lock knows that the transaction is over.
func (w *writer) Committed(c *sql.Conn) (stored bool, err error) {
	ctx := context.Background()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	if _, err := tx.ExecContext(ctx, theLock); err != nil {
		return false, err
	}
	var value string
	err = tx.QueryRowContext(ctx, `SELECT value FROM meta WHERE key = $1`, w.key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var at, last int64
	if _, err := fmt.Sscan(value, &at, &last); err != nil {
		return false, fmt.Errorf("the writer's row holds %q: %w", value, err)
	}
	return last == w.last, nil
}

// forget deletes the rows of writers that are gone.
func forget(ctx context.Context, db *sql.DB) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if _, err := tx.ExecContext(ctx, theLock); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM meta WHERE key LIKE $1 AND value < $2`,
		store.WriterKey+"%", fmt.Sprintf("%013d", time.Now().Add(-forgotten).UnixMilli())); err != nil {
		return err
	}
	return tx.Commit()
}
