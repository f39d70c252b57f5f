package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/session"
)

// Base is an opened database without a store on it.
type Base struct {
	DB      *sql.DB
	Dialect Dialect
}

// Moved is what a move has found the same on both sides: a table's rows, and a sum of them that depends
// neither on their order nor on the engine.
type Moved struct {
	Table string
	Rows  int64
	Sum   string
}

// WriterKey begins the keys of meta that are a database's own, and not of what is kept in it.
const WriterKey = "writer "

const (
	movingKey  = "moving"
	pageRows   = 500
	pageBytes  = 4 << 20
	insertRows = 50 // with one statement
)

// ErrMoving: a move into the database has begun and is not complete.
var ErrMoving = errors.New("a move into this database is not complete: go on with the same reprise migrate")

// movement is where a move is, as meta keeps it: what is before it is in the database.
type movement struct {
	Source string `json:"source"`
	Table  string `json:"table"`           // that is being copied; empty: none yet
	After  []any  `json:"after,omitempty"` // the key of its last row that is there; none: nothing is
}

// move is one that is under way.
type move struct {
	ctx      context.Context
	from, to Base
	conn     *conn // to
	tables   []*table
	at       movement
	stored   string // at, as meta has it
}

// Move copies everything from one database into another, which is empty, or holds what an earlier
// move of the same source has left off at. It goes table by table in pages of at most 500 rows, each
// with the note of how far it is in one transaction, so that it may be broken off at any moment.
// Nobody else may write to either. At the end both sides are read and compared; only then can the
// database be opened. told hears of progress: the rows of a table that are there, of all that it has.
//
// A text that is not UTF-8, or holds a zero byte, gets U+FFFD in its place; cleaned counts them.
func Move(ctx context.Context, from, to Base, source string, told func(table string, rows, of int64)) (all []Moved, cleaned int64, err error) {
	m := &move{ctx: ctx, from: from, to: to}
	if m.tables, err = schema(); err != nil {
		return nil, 0, err
	}
	if err := errors.Join(Migrate(ctx, from.DB, from.Dialect), Migrate(ctx, to.DB, to.Dialect)); err != nil {
		return nil, 0, err
	}
	for _, t := range m.tables {
		if err := errors.Join(m.knows(from, t), m.knows(to, t)); err != nil {
			return nil, 0, err
		}
	}
	if m.conn, err = connect(ctx, to.DB); err != nil {
		return nil, 0, err
	}
	defer m.conn.discard()
	if err := m.transaction(func(t *tx) error { return m.begin(t, source) }); err != nil {
		return nil, 0, err
	}
	first := max(0, slices.IndexFunc(m.tables, func(t *table) bool { return t.name == m.at.Table }))
	for _, t := range m.tables[first:] {
		if err := m.copy(t, told); err != nil {
			return nil, 0, fmt.Errorf("move %s: %w", t.name, err)
		}
	}
	if all, cleaned, err = m.compare(told); err != nil {
		return nil, 0, err
	}
	return all, cleaned, m.transaction(func(t *tx) error {
		return m.mine(t.change(`DELETE FROM meta WHERE key = $1 AND value = $2`, movingKey, m.stored))
	})
}

// transaction runs f alone on the target.
func (m *move) transaction(f func(t *tx) error) (err error) {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.conn.run("ROLLBACK"))
		}
	}()
	if err := m.conn.run(m.to.Dialect.Exclusive...); err != nil {
		return err
	}
	if err := f(&tx{reader{ctx: context.Background(), conn: m.conn, conflicts: m.to.Dialect.Conflict}}); err != nil {
		return err
	}
	return m.conn.run("COMMIT")
}

// moving reads where a move into a database is; empty: there is none.
func moving(r *reader) (string, error) {
	stored, err := one(r, itself[string], `SELECT value FROM meta WHERE key = $1`, movingKey)
	if errors.Is(err, session.ErrNotFound) {
		return "", nil
	}
	return stored, err
}

// complete refuses a database into which a move is not complete.
func complete(ctx context.Context, db *sql.DB) error {
	c, err := connect(ctx, db)
	if err != nil {
		return err
	}
	defer c.discard()
	at, err := moving(&reader{ctx: ctx, conn: c, conflicts: func(error) bool { return false }})
	if err == nil && at != "" {
		err = ErrMoving
	}
	return err
}

// begin finds where an earlier move has stopped, or takes possession of an empty database.
func (m *move) begin(t *tx, source string) (err error) {
	if m.stored, err = moving(&t.reader); err != nil {
		return err
	}
	if m.stored != "" {
		if m.at, err = movementOf(m.stored); err != nil {
			return err
		}
		if m.at.Source != source {
			return fmt.Errorf("the database holds a part of what is in %s: go on with that, or use an empty one", m.at.Source)
		}
		return nil
	}
	for _, table := range m.tables {
		where := table.own()
		if table.name == "counters" {
			where = ` WHERE value <> 0`
		}
		n, err := one(&t.reader, itself[int64], `SELECT COUNT(*) FROM `+table.name+where)
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("the database is in use: its table %s has %d rows; what is moved needs an empty one", table.name, n)
		}
	}
	if _, err := t.exec(`DELETE FROM counters`); err != nil { // which the source has as well
		return err
	}
	m.at = movement{Source: source}
	if m.stored, err = m.at.text(); err != nil {
		return err
	}
	return t.change(`INSERT INTO meta (key, value) VALUES ($1, $2)`, movingKey, m.stored)
}

func movementOf(text string) (a movement, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // a float holds fewer
	if err := d.Decode(&a); err != nil {
		return a, fmt.Errorf("where the move is: %w", err)
	}
	for i := range a.After {
		if n, ok := a.After[i].(json.Number); ok {
			if a.After[i], err = n.Int64(); err != nil {
				return a, fmt.Errorf("where the move is: %w", err)
			}
		}
	}
	return a, nil
}

func (a *movement) text() (string, error) {
	b, err := json.Marshal(a)
	return string(b), err
}

// own is the condition of the rows that are kept in a database, and not about it.
func (t *table) own() string {
	if t.name != "meta" {
		return ""
	}
	return ` WHERE key <> '` + movingKey + `' AND key NOT LIKE '` + WriterKey + `%'`
}

// copy copies what is missing of a table.
func (m *move) copy(t *table, told func(string, int64, int64)) error {
	of, err := m.count(m.from, t, t.own())
	if err != nil {
		return err
	}
	var after []any
	rows := int64(0)
	if m.at.Table == t.name && len(m.at.After) > 0 {
		after = m.at.After
		if rows, err = m.count(m.to, t, t.own()); err != nil {
			return err
		}
	}
	for {
		page, err := m.page(t, after)
		if err != nil || len(page) == 0 {
			return err
		}
		next := movement{m.at.Source, t.name, t.keyOf(page[len(page)-1])}
		stored, err := next.text()
		if err != nil {
			return err
		}
		if err := m.transaction(func(tx *tx) error {
			if err := insert(tx, t, page); err != nil {
				return err
			}
			return m.mine(tx.change(`UPDATE meta SET value = $2 WHERE key = $3 AND value = $1`, m.stored, stored, movingKey))
		}); err != nil {
			return err
		}
		m.at, m.stored, after = next, stored, next.After
		rows += int64(len(page))
		told(t.name, rows, of)
	}
}

// mine explains that the note of how far we are is not as we left it.
func (m *move) mine(err error) error {
	if errors.Is(err, session.ErrLost) {
		err = errors.New("another move into the same database is under way")
	}
	return err
}

// knows makes sure that no column of a table is forgotten.
func (m *move) knows(b Base, t *table) error {
	rows, err := b.DB.QueryContext(m.ctx, `SELECT * FROM `+t.name+` LIMIT 0`)
	if err != nil {
		return err
	}
	names, err := rows.Columns()
	if err := errors.Join(err, rows.Close()); err != nil {
		return err
	}
	if got := strings.Join(names, ", "); got != t.names() {
		return fmt.Errorf("table %s has the columns %s; the migrations say %s", t.name, got, t.names())
	}
	return nil
}

func (m *move) count(b Base, t *table, where string) (n int64, err error) {
	err = b.DB.QueryRowContext(m.ctx, `SELECT COUNT(*) FROM `+t.name+where).Scan(&n)
	return n, err
}

// page reads the rows of the source after a key, as many as are copied at once.
func (m *move) page(t *table, after []any) ([][]any, error) {
	keys := strings.Join(t.key, ", ")
	where := t.own()
	if len(after) > 0 {
		where = cmp.Or(where, ` WHERE TRUE`) + ` AND (` + keys + `) > (` + holders(0, len(t.key)) + `)`
	}
	query := `SELECT ` + t.names() + ` FROM ` + t.name + where + ` ORDER BY ` + keys + fmt.Sprintf(` LIMIT %d`, pageRows)
	var page [][]any
	size := 0
	_, err := m.read(m.from, t, query, after, func(row []any) bool {
		page = append(page, row)
		for _, v := range row {
			size += sizeOf(v)
		}
		return size < pageBytes
	})
	return page, err
}

// read calls f for the rows of a query until it has enough, and counts the texts that it cleaned.
func (m *move) read(b Base, t *table, query string, args []any, f func(row []any) (more bool)) (cleaned int64, err error) {
	rows, err := b.DB.QueryContext(m.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		row := t.row()
		if err := rows.Scan(row...); err != nil {
			return 0, err
		}
		for _, v := range row {
			if text, ok := v.(*sql.NullString); ok && clean(text) {
				cleaned++
			}
		}
		if !f(row) {
			break
		}
	}
	return cleaned, rows.Err()
}

// insert stores rows in as few statements as may be.
func insert(t *tx, table *table, rows [][]any) error {
	for chunk := range slices.Chunk(rows, insertRows) {
		if len(chunk) < insertRows {
			for _, row := range chunk {
				if _, err := t.exec(table.insertion(1), row...); err != nil {
					return err
				}
			}
			continue
		}
		if _, err := t.exec(table.insertion(insertRows), slices.Concat(chunk...)...); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) insertion(rows int) string {
	values := make([]string, rows)
	for i := range values {
		values[i] = `(` + holders(i*len(t.columns), len(t.columns)) + `)`
	}
	return `INSERT INTO ` + t.name + ` (` + t.names() + `) VALUES ` + strings.Join(values, ", ")
}

// holders are n parameters after the first so many.
func holders(after, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("$%d", after+i+1)
	}
	return strings.Join(list, ", ")
}
