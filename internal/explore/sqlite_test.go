package explore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unsafe"

	"modernc.org/libc"
	sqlite "modernc.org/sqlite/lib"
)

// database is SQLite in memory, of one connection that all of database/sql's share: nothing locks,
// and what one reads the next one finds in the cache. One of them at a time may be used. A
// statement is prepared once, whoever prepares it.
type database struct {
	tls        *libc.TLS
	handle     uintptr
	statements map[string]*statement
}

func openDatabase() (*database, error) {
	d := &database{tls: libc.NewTLS(), statements: map[string]*statement{}}
	const flags = sqlite.SQLITE_OPEN_READWRITE | sqlite.SQLITE_OPEN_CREATE | sqlite.SQLITE_OPEN_NOMUTEX
	rc, err := d.make(&d.handle, ":memory:", func(name, to uintptr) int32 { return sqlite.Xsqlite3_open_v2(d.tls, name, to, flags, 0) })
	if err == nil && rc != sqlite.SQLITE_OK {
		err = d.err(rc)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// make calls what makes a handle from a text. SQLite knows memory of its own alone.
func (d *database) make(handle *uintptr, text string, f func(text, to uintptr) int32) (int32, error) {
	from, err := libc.CString(text)
	if err != nil {
		return 0, err
	}
	defer libc.Xfree(d.tls, from)
	to := libc.Xcalloc(d.tls, 1, 8)
	defer libc.Xfree(d.tls, to)
	rc := f(from, to)
	*handle = **at[*uintptr](&to)
	return rc, nil
}

// at is a pointer to what an address in SQLite's memory is of.
func at[P any](address *uintptr) *P { return (*P)(unsafe.Pointer(address)) }

// view is a part of SQLite's memory.
func view(address uintptr, n int) []byte { return unsafe.Slice(*at[*byte](&address), n) }

func (d *database) close() error {
	for _, s := range d.statements {
		sqlite.Xsqlite3_finalize(d.tls, s.handle)
		libc.Xfree(d.tls, s.room)
	}
	rc := sqlite.Xsqlite3_close_v2(d.tls, d.handle)
	defer d.tls.Close()
	if rc != sqlite.SQLITE_OK {
		return d.err(rc)
	}
	return nil
}

func (d *database) err(rc int32) error {
	return fmt.Errorf("sqlite: %s (%d)", libc.GoString(sqlite.Xsqlite3_errmsg(d.tls, d.handle)), rc)
}

// Connect implements driver.Connector.
func (d *database) Connect(context.Context) (driver.Conn, error) { return connection{d}, nil }

// Driver implements driver.Connector.
func (d *database) Driver() driver.Driver { return nil }

// connection is one of database/sql's. To close it changes nothing.
type connection struct{ d *database }

func (c connection) Close() error { return nil }
func (c connection) Begin() (driver.Tx, error) {
	return nil, errors.New("the store begins by a statement")
}

// Prepare implements driver.Conn.
func (c connection) Prepare(query string) (driver.Stmt, error) {
	d := c.d
	if s := d.statements[query]; s != nil {
		return s, nil
	}
	s := &statement{d: d}
	rc, err := d.make(&s.handle, query, func(text, to uintptr) int32 {
		return sqlite.Xsqlite3_prepare_v3(d.tls, d.handle, text, -1, sqlite.SQLITE_PREPARE_PERSISTENT, to, 0)
	})
	if err == nil && rc != sqlite.SQLITE_OK {
		err = d.err(rc)
	}
	if err != nil {
		return nil, err
	}
	s.columns = make([]string, sqlite.Xsqlite3_column_count(d.tls, s.handle))
	// A parameter $n is one by name: SQLite counts by where each is first.
	for i := range sqlite.Xsqlite3_bind_parameter_count(d.tls, s.handle) {
		n, err := strconv.Atoi(libc.GoString(sqlite.Xsqlite3_bind_parameter_name(d.tls, s.handle, i+1))[1:])
		if err != nil {
			return nil, err
		}
		s.inputs = append(s.inputs, n-1)
	}
	d.statements[query] = s
	return s, nil
}

// statement implements driver.Stmt, and driver.Rows of its only run at a time.
type statement struct {
	d       *database
	handle  uintptr
	columns []string // nobody asks for their names
	inputs  []int    // which argument each parameter is
	room    uintptr  // for the arguments' bytes
	size    int
	first   bool // its first row is there already
}

func (s *statement) NumInput() int     { return len(s.inputs) }
func (s *statement) Columns() []string { return s.columns }

// Close implements driver.Stmt and driver.Rows: the run ends, the statement stays.
func (s *statement) Close() error {
	sqlite.Xsqlite3_reset(s.d.tls, s.handle) // its error is that of the last step, which was told
	return nil
}

// Exec implements driver.Stmt.
func (s *statement) Exec(args []driver.Value) (driver.Result, error) {
	defer s.Close()
	if err := s.bind(args); err != nil {
		return nil, err
	}
	for {
		if more, err := s.step(); err != nil || !more {
			return driver.RowsAffected(sqlite.Xsqlite3_changes(s.d.tls, s.d.handle)), err
		}
	}
}

// Query implements driver.Stmt. Its first step is taken at once: with RETURNING it is the one that
// writes.
func (s *statement) Query(args []driver.Value) (driver.Rows, error) {
	err := s.bind(args)
	if err == nil {
		s.first, err = s.step()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *statement) step() (more bool, err error) {
	switch rc := sqlite.Xsqlite3_step(s.d.tls, s.handle); rc {
	case sqlite.SQLITE_ROW:
		return true, nil
	case sqlite.SQLITE_DONE:
		return false, nil
	default:
		return false, s.d.err(rc)
	}
}

// bind sets the arguments; their bytes stay where they are until the next run.
func (s *statement) bind(args []driver.Value) error {
	need := 0
	for _, a := range args {
		switch a := a.(type) {
		case string:
			need += len(a) + 1
		case []byte:
			need += len(a) + 1
		}
	}
	d, rc := s.d, int32(sqlite.SQLITE_OK)
	if need > s.size {
		libc.Xfree(d.tls, s.room)
		s.size = 2 * need
		s.room = libc.Xmalloc(d.tls, libc.Tsize_t(s.size))
	}
	room := s.room
	for i, input := range s.inputs {
		n := int32(i + 1)
		switch a := args[input].(type) {
		case nil:
			rc = sqlite.Xsqlite3_bind_null(d.tls, s.handle, n)
		case int64:
			rc = sqlite.Xsqlite3_bind_int64(d.tls, s.handle, n, a)
		case bool:
			v := int64(0)
			if a {
				v = 1
			}
			rc = sqlite.Xsqlite3_bind_int64(d.tls, s.handle, n, v)
		case string:
			copy(view(room, len(a)), a)
			rc = sqlite.Xsqlite3_bind_text(d.tls, s.handle, n, room, int32(len(a)), sqlite.SQLITE_STATIC)
			room += uintptr(len(a)) + 1
		case []byte:
			copy(view(room, len(a)), a)
			rc = sqlite.Xsqlite3_bind_blob(d.tls, s.handle, n, room, int32(len(a)), sqlite.SQLITE_STATIC)
			room += uintptr(len(a)) + 1
		default:
			return fmt.Errorf("sqlite: an argument is a %T", a)
		}
		if rc != sqlite.SQLITE_OK {
			return d.err(rc)
		}
	}
	return nil
}

// Next implements driver.Rows.
func (s *statement) Next(row []driver.Value) error {
	if !s.first {
		more, err := s.step()
		if err != nil {
			return err
		}
		s.first = more
	}
	if !s.first {
		return io.EOF
	}
	s.first = false
	for i := range row {
		n := int32(i)
		switch kind := sqlite.Xsqlite3_column_type(s.d.tls, s.handle, n); kind {
		case sqlite.SQLITE_NULL:
			row[i] = nil
		case sqlite.SQLITE_INTEGER:
			row[i] = sqlite.Xsqlite3_column_int64(s.d.tls, s.handle, n)
		case sqlite.SQLITE_TEXT:
			row[i] = string(s.bytes(n))
		case sqlite.SQLITE_BLOB:
			row[i] = slices.Clone(s.bytes(n))
		default:
			return fmt.Errorf("sqlite: a column is of type %d", kind)
		}
	}
	return nil
}

// bytes are a column's, until the next step.
func (s *statement) bytes(column int32) []byte {
	from := sqlite.Xsqlite3_column_blob(s.d.tls, s.handle, column)
	return view(from, int(sqlite.Xsqlite3_column_bytes(s.d.tls, s.handle, column)))
}
