package explore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store"
)

// lab is the real store on a SQLite database in memory, which is emptied after each schedule.
type lab struct {
	t        *testing.T
	database *database
	store    session.Store
	admin    *sql.DB
	clear    []*sql.Stmt // make the tables as they were at first
}

// inMemory is how a database in memory differs: nothing is synced, and nobody else writes.
var inMemory = store.Dialect{
	Durable:   [...]string{session.Soft: "PRAGMA synchronous = OFF", session.Full: "PRAGMA synchronous = OFF"},
	Begin:     "BEGIN IMMEDIATE",
	Exclusive: []string{"BEGIN IMMEDIATE"},
	Snapshot:  "BEGIN",
	Conflict:  func(error) bool { return false },
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t}
	var err error
	if l.database, err = openDatabase(); err != nil {
		t.Fatal(err)
	}
	l.admin = sql.OpenDB(l.database)
	l.admin.SetMaxOpenConns(1)
	// Small pages: a transaction keeps a copy of each that it changes.
	for _, setting := range []string{"foreign_keys = 1", "page_size = 1024", "temp_store = MEMORY"} {
		if _, err := l.admin.Exec("PRAGMA " + setting); err != nil {
			t.Fatal(err)
		}
	}
	if l.store, err = store.Open(context.Background(), sql.OpenDB(l.database), sql.OpenDB(l.database), inMemory); err != nil {
		t.Fatal(err)
	}
	// What refers to a table is made after it.
	rows, err := l.admin.Query(`SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'schema_versions' ORDER BY rowid DESC`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range tables {
		l.prepare("DELETE FROM " + name)
	}
	for _, name := range tables {
		for _, row := range l.rows(name) {
			l.prepare(row)
		}
	}
	return l
}

func (l *lab) prepare(query string) {
	st, err := l.admin.Prepare(query)
	if err != nil {
		l.t.Fatal(err)
	}
	l.clear = append(l.clear, st)
}

// rows makes the statements that put a table's rows back as they are now.
func (l *lab) rows(table string) (statements []string) {
	rows, err := l.admin.Query("SELECT * FROM " + table)
	if err != nil {
		l.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		l.t.Fatal(err)
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			l.t.Fatal(err)
		}
		var literals []string
		for _, v := range values {
			literals = append(literals, "'"+strings.ReplaceAll(fmt.Sprint(v), "'", "''")+"'")
		}
		statements = append(statements, "INSERT INTO "+table+" VALUES ("+strings.Join(literals, ", ")+")")
	}
	if err := rows.Err(); err != nil {
		l.t.Fatal(err)
	}
	return statements
}

func (l *lab) close() {
	if err := errors.Join(l.store.Close(), l.admin.Close(), l.database.close()); err != nil {
		l.t.Error(err)
	}
}

// result is what one schedule came to.
type result struct {
	open      []point // the choices after its last deviation
	steps     int
	invariant Invariant // that was broken; empty: none
	detail    string
}

// once plays one schedule, and is of no use afterwards.
func (l *lab) once(sc *scenario, s schedule, out io.Writer) result {
	defer l.close()
	return l.play(sc, s, out)
}

// play plays one schedule of a scenario.
func (l *lab) play(sc *scenario, s schedule, out io.Writer) result {
	w := &world{sc: sc, store: l.store, log: logtest.NewMemory(), out: out, used: map[string]bool{}, offered: -1, waited: -1}
	w.parked.arrived = make(chan struct{}, 1)
	w.facts = newFacts(w)
	open := w.play(s)
	for _, st := range l.clear {
		if _, err := st.Exec(); err != nil {
			l.t.Fatal(err)
		}
	}
	return result{open, w.step, w.facts.invariant, w.facts.detail}
}
