package explore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store"
)

// lab is the real store on a SQLite database in memory, which is emptied after each schedule. The
// database lives as long as one of its connections.
type lab struct {
	t     *testing.T
	store session.Store
	admin *sql.DB
	clear string // statements that make the tables as they were at first
}

// inMemory is how a database in memory differs: nothing is synced, and nobody else writes.
var inMemory = store.Dialect{
	Durable:   [...]string{session.Soft: "PRAGMA synchronous = OFF", session.Full: "PRAGMA synchronous = OFF"},
	Begin:     "BEGIN IMMEDIATE",
	Exclusive: []string{"BEGIN IMMEDIATE"},
	Snapshot:  "BEGIN",
	Conflict:  func(error) bool { return false },
}

var labs atomic.Int64 // so far

func newLab(t *testing.T) *lab {
	t.Helper()
	name := fmt.Sprint("file:/lab", labs.Add(1))
	open := func(pragma string) *sql.DB {
		db, err := sql.Open("sqlite", name+"?vfs=memdb&_pragma=journal_mode(MEMORY)&_pragma="+pragma)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	l := &lab{t: t, admin: open("foreign_keys(0)")}
	l.admin.SetMaxOpenConns(1)
	var err error
	if l.store, err = store.Open(context.Background(), open("foreign_keys(1)"), open("query_only(1)"), inMemory); err != nil {
		t.Fatal(err)
	}
	rows, err := l.admin.Query(`SELECT name FROM sqlite_master WHERE type = 'table'`)
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
	l.clear = "BEGIN;"
	for _, name := range tables {
		l.clear += "DELETE FROM " + name + ";" + l.seed(name)
	}
	l.clear += "COMMIT"
	return l
}

// seed makes the statements that put a table's rows back as they are now.
func (l *lab) seed(table string) (statements string) {
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
		statements += "INSERT INTO " + table + " VALUES (" + strings.Join(literals, ", ") + ");"
	}
	if err := rows.Err(); err != nil {
		l.t.Fatal(err)
	}
	return statements
}

func (l *lab) close() {
	if err := errors.Join(l.store.Close(), l.admin.Close()); err != nil {
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
	w := &world{sc: sc, store: l.store, log: newMemory(), out: out, used: map[string]bool{}, offered: -1, waited: -1}
	w.parked.arrived = make(chan struct{}, 1)
	w.facts = newFacts(w)
	open := w.play(s)
	if _, err := l.admin.Exec(l.clear); err != nil {
		l.t.Fatal(err)
	}
	return result{open, w.step, w.facts.invariant, w.facts.detail}
}
