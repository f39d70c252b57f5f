package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/reprise-run/reprise/store"
	"github.com/reprise-run/reprise/store/postgres"
	"github.com/reprise-run/reprise/store/sqlite"
)

// Moved is a table that is the same on both sides of a move.
type Moved = store.Moved

// Move copies what is in a SQLite file, as sqlite:PATH, into an empty Postgres database, as the
// setting names it. What was interrupted goes on where it was. While a process has the folder of the file
// it is refused, with a *Held. cleaned counts the texts that Postgres could not hold as they were; told
// hears of each table's rows.
func Move(ctx context.Context, env Env, from, to string, told func(table string, rows, of int64)) (all []Moved, cleaned int64, err error) {
	path, ok := strings.CutPrefix(from, "sqlite:")
	if !ok || path == "" || to == "" || checkDatabase(to) != nil {
		return nil, 0, errors.New("a move goes from sqlite:PATH to postgres://user@host/name (or env:NAME or file:PATH where that is a secret), and no other way")
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, 0, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, 0, err
	}
	address, err := env.database(to)
	if err != nil {
		return nil, 0, err
	}
	l, err := acquireAt(filepath.Dir(path))
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	source, err := sqlite.Base(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, source.DB.Close()) }()
	target, err := postgres.Base(ctx, address)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, target.DB.Close()) }()
	if all, cleaned, err = store.Move(ctx, source, target, path, told); err != nil {
		err = fmt.Errorf("move %s: %w", path, err)
	}
	return all, cleaned, err
}
