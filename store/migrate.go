package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// migrations are numbered by their order, from 1, and never changed once released. In a
// file, a semicolon at the end of a line ends a statement.
//
//go:embed migrations/*.sql
var migrations embed.FS

// ErrNewer: the database was written by a newer version of this program.
var ErrNewer = errors.New("the database has a newer schema than this program knows")

// Migrate brings the schema up to date, in one transaction; Open does it as well. Of several
// processes that start together one does it and the others find it done.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	for try := 1; ; try++ {
		err := migrate(ctx, db, d)
		if err == nil {
			return nil
		}
		if try == maxTries || !d.Conflict(err) {
			return fmt.Errorf("migrate: %w", err)
		}
	}
}

func migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	c, err := connect(ctx, db)
	if err != nil {
		return err
	}
	defer c.discard() // nothing of it is used again
	return upgrade(ctx, c, d)
}

func upgrade(ctx context.Context, c *conn, d Dialect) (err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	if err := c.run(d.Exclusive...); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.run("ROLLBACK"))
		}
	}()
	t := &tx{reader{ctx: ctx, conn: c, conflicts: d.Conflict}}
	if _, err := t.exec(`CREATE TABLE IF NOT EXISTS schema_versions (
  version    BIGINT PRIMARY KEY,
  name       TEXT NOT NULL,
  applied_at BIGINT NOT NULL
)`); err != nil {
		return err
	}
	version, err := one(&t.reader, itself[int], `SELECT COALESCE(MAX(version), 0) FROM schema_versions`)
	if err != nil {
		return err
	}
	if version > len(names) {
		return fmt.Errorf("%w: version %d, known are %d; start the version that wrote it, or restore a backup",
			ErrNewer, version, len(names))
	}
	for i, name := range names[version:] {
		list, err := statements(name)
		if err != nil {
			return err
		}
		for _, statement := range list {
			if _, err := t.exec(statement); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if _, err := t.exec(`INSERT INTO schema_versions (version, name, applied_at) VALUES ($1, $2, $3)`,
			version+i+1, strings.TrimPrefix(name, "migrations/"), time.Now().UnixMilli()); err != nil {
			return err
		}
	}
	return c.run("COMMIT")
}
