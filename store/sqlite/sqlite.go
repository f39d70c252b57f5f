// Package sqlite opens the store in a SQLite file. It promises that a committed Full update
// has reached the disk, everything committed before it included (write-ahead log, synced at
// the commit), and that the file, and those beside it, are readable by their owner alone. An
// update that leaves every byte as it was syncs nothing. It does not keep a second process
// away: who opens the file locks its folder.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store"
)

// In WAL mode a commit under FULL syncs the log, everything earlier in it included, and one
// under NORMAL does not (https://www.sqlite.org/pragma.html#pragma_synchronous). The setting
// is the connection's and cannot change within a transaction.
var dialect = store.Dialect{
	Durable: [...]string{
		session.Soft: "PRAGMA synchronous = NORMAL",
		session.Full: "PRAGMA synchronous = FULL",
	},
	Begin:     "BEGIN IMMEDIATE",
	Exclusive: []string{"PRAGMA synchronous = FULL", "BEGIN IMMEDIATE"},
	Snapshot:  "BEGIN",
	Conflict: func(err error) bool {
		var e *sqlite.Error
		if !errors.As(err, &e) {
			return false
		}
		switch e.Code() & 0xff { // the rest tells kinds of the same
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return true
		}
		return false
	},
}

// Open opens the store in the file at path and makes it where there is none. It waits up to
// 5 seconds at a time for another process that writes.
func Open(path string) (session.Store, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	// The files of the log take the mode of this one.
	if err := errors.Join(file.Chmod(0o600), file.Close()); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	// Commits wait for the data and the size alone, not for the file's times.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	write, err := open(path, "journal_mode(WAL)", "foreign_keys(1)")
	if err != nil {
		return nil, err
	}
	read, err := open(path, "query_only(1)")
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	s, err := store.Open(context.Background(), write, read, dialect)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	return s, nil
}

// Base opens the file at path, which must be there, for a move.
func Base(path string) (store.Base, error) {
	if _, err := os.Stat(path); err != nil {
		return store.Base{}, fmt.Errorf("open the database: %w", err)
	}
	db, err := open(path, "journal_mode(WAL)", "foreign_keys(1)")
	return store.Base{DB: db, Dialect: dialect}, err
}

// open prepares a database whose connections have the given settings.
func open(path string, pragmas ...string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	u := url.URL{Scheme: "file", Path: path,
		RawQuery: url.Values{"_pragma": append([]string{"busy_timeout(5000)"}, pragmas...)}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return db, nil
}
