// Package postgres opens the store in a Postgres database, which several processes may use at once.
//
// It promises that a committed update has reached the server's disk, everything committed before it
// included: Soft and Full alike. On SQLite what loses a Soft commit ends our process as well. A
// server's crash does not, so a process would go on from what is lost: it would hold a claim
// that nobody knows of, and give numbers a second time that observers have seen. What
// a disk is, is the server's to say: one without fsync, or a standby that takes over without
// having all of it, loses commits.
//
// Updates of all processes are serial: each begins by taking one lock of the database, waits 2
// seconds at a time for it, and holds it to its end. The server takes the lock from a process that
// has stopped, or was cut off, within a second (five in the middle of an answer), and undoes its update. A view is one snapshot and waits for
// nobody.
//
// A text that is not UTF-8, or holds a zero byte, is no text here: U+FFFD takes the place of what is wrong.
//
// It needs connections of its own: a pooler that hands them to others between transactions breaks
// prepared statements and the settings of a connection. It takes nine at most.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store"
)

const (
	// theLock is the advisory lock that every writer takes: "reprise" in ASCII.
	theLock = `SELECT pg_advisory_xact_lock(32199680975270757)`
	// patience is how long Open waits for a server that is not there yet.
	patience = 10 * time.Second
	// silence is how long a connection waits for an answer: longer than the server may take.
	silence = 12 * time.Second
)

// Settings of connections; times are milliseconds. The second time of those that write is for a process that
// has stopped while the server sends to it: then the transaction is not idle.
var (
	both = map[string]string{
		"synchronous_commit":            "on",
		"default_transaction_isolation": "read committed",
		"statement_timeout":             "10000",
	}
	writing = map[string]string{
		"lock_timeout":                        "2000",
		"idle_in_transaction_session_timeout": "1000",
		"tcp_user_timeout":                    "5000",
	}
	reading = map[string]string{
		"idle_in_transaction_session_timeout": "60000",
	}
	migrating = map[string]string{
		"statement_timeout":                   "0",
		"idle_in_transaction_session_timeout": "60000",
	}
)

// dialect begins with the server that a store has of its own.
func dialect(s store.Server) store.Dialect {
	return store.Dialect{
		Exclusive: []string{"BEGIN", theLock},
		Snapshot:  "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
		Conflict:  conflict,
		Server:    s,
	}
}

// conflict recognises serialization_failure, deadlock_detected and lock_not_available
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func conflict(err error) bool {
	switch code(err) {
	case "40001", "40P01", "55P03":
		return true
	}
	return false
}

// code is the SQLSTATE that the server has given, empty where it has not.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Open opens the store in the database of a URL, whose missing parts come from the PG* variables and
// files of libpq. It waits up to 10 seconds for a server that does not answer.
func Open(ctx context.Context, url string) (session.Store, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err) // it shows no password
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database %s on %s: %w", cfg.Database, net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)), err)
	}
	return s, nil
}

// Base opens the database of a URL for a move.
func Base(ctx context.Context, url string) (store.Base, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return store.Base{}, fmt.Errorf("database: %w", err)
	}
	b := store.Base{DB: connections(cfg, 0, migrating), Dialect: dialect(newWriter())}
	if err := reach(ctx, b.DB); err != nil {
		return store.Base{}, errors.Join(err, b.DB.Close())
	}
	return b, nil
}

func open(ctx context.Context, cfg *pgx.ConnConfig) (session.Store, error) {
	w := newWriter()
	d := dialect(w)
	if err := prepare(ctx, connections(cfg, 0, migrating), d); err != nil {
		return nil, err
	}
	return store.Open(ctx, connections(cfg, silence, writing), connections(cfg, silence, reading), d)
}

// prepare brings the schema up to date, for which it has all the time that it takes.
func prepare(ctx context.Context, db *sql.DB, d store.Dialect) (err error) {
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := reach(ctx, db); err != nil {
		return err
	}
	if err := store.Migrate(ctx, db, d); err != nil {
		return err
	}
	return forget(ctx, db)
}

// reach waits for the server, and refuses a database that cannot hold every text.
func reach(ctx context.Context, db *sql.DB) error {
	for began := time.Now(); ; {
		var encoding string
		err := db.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding)
		switch {
		case err == nil && encoding != "UTF8":
			return fmt.Errorf("its encoding is %s: create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
		case err == nil:
			return nil
		case !away(err) || time.Since(began) > patience:
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// away recognises a server that may come back: it did not answer, or has said that it starts, stops
// or has no connection left (57P03, 57P01, 53300).
func away(err error) bool {
	switch code(err) {
	case "57P03", "57P01", "53300":
		return true
	case "":
		return errors.As(err, new(*pgconn.ConnectError))
	}
	return false
}

// connections are those to a database with some settings. Where the server is silent for longer than
// limit, if that is not 0, a connection is given up.
func connections(cfg *pgx.ConnConfig, limit time.Duration, settings map[string]string) *sql.DB {
	cfg = cfg.Copy()
	maps.Copy(cfg.RuntimeParams, both)
	maps.Copy(cfg.RuntimeParams, settings)
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "reprise"
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = patience / 2
	}
	if dial := cfg.DialFunc; limit > 0 {
		cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &impatient{c, limit}, nil
		}
	}
	return sql.OpenDB(connector{stdlib.GetConnector(*cfg)})
}

// impatient is a connection on which nothing waits for longer than a limit.
type impatient struct {
	net.Conn
	limit time.Duration
}

func (c *impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *impatient) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
