package store

import (
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// row makes room for a row's values.
func (t *table) row() []any {
	values := make([]any, len(t.columns))
	for i, c := range t.columns {
		switch c.kind {
		case "BIGINT":
			values[i] = new(sql.NullInt64)
		case "BOOLEAN":
			values[i] = new(sql.NullBool)
		case "BYTEA":
			values[i] = new([]byte)
		default:
			values[i] = new(sql.NullString)
		}
	}
	return values
}

// keyOf is the primary key of a row, as JSON can hold it.
func (t *table) keyOf(row []any) []any {
	key := make([]any, len(t.key))
	for i, name := range t.key {
		for j, c := range t.columns {
			if c.name != name {
				continue
			}
			switch v := row[j].(type) {
			case *sql.NullInt64:
				key[i] = v.Int64
			case *sql.NullString:
				key[i] = v.String
			}
		}
	}
	return key
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case *sql.NullString:
		return len(v.String)
	case *[]byte:
		return len(*v)
	}
	return 8
}

// clean makes a text one that every engine can hold, and reports whether that changed it.
func clean(s *sql.NullString) bool {
	was := s.String
	s.String = strings.ReplaceAll(strings.ToValidUTF8(was, "\uFFFD"), "\x00", "\uFFFD")
	return s.String != was
}

// sum adds up hashes of rows.
type sum struct {
	rows   int64
	hi, lo uint64
}

// add adds a row: each of its values with its length before it, so that no two rows read alike.
func (s *sum) add(row []any) {
	h := sha256.New()
	value := func(there bool, b []byte) {
		length := uint64(0)
		if there {
			length = uint64(len(b)) + 1
		}
		h.Write(binary.BigEndian.AppendUint64(nil, length))
		h.Write(b)
	}
	for _, v := range row {
		switch v := v.(type) {
		case *sql.NullString:
			value(v.Valid, []byte(v.String))
		case *[]byte:
			value(*v != nil, *v)
		case *sql.NullInt64:
			value(v.Valid, binary.BigEndian.AppendUint64(nil, uint64(v.Int64)))
		case *sql.NullBool:
			b := byte(0)
			if v.Bool {
				b = 1
			}
			value(v.Valid, []byte{b})
		}
	}
	d := h.Sum(nil)
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, binary.BigEndian.Uint64(d[8:]), 0)
	s.hi, _ = bits.Add64(s.hi, binary.BigEndian.Uint64(d), carry)
	s.rows++
}

func (s *sum) String() string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.hi), s.lo))
}

// compare reads both sides and finds every table the same, or fails with those that are not.
func (m *move) compare(told func(string, int64, int64)) (all []Moved, cleaned int64, err error) {
	var differ []error
	for _, t := range m.tables {
		var sums [2]sum
		for i, b := range []Base{m.from, m.to} {
			n, err := m.read(b, t, `SELECT `+t.names()+` FROM `+t.name+t.own(), nil, func(row []any) bool {
				sums[i].add(row)
				return true
			})
			if err != nil {
				return nil, 0, fmt.Errorf("compare %s: %w", t.name, err)
			}
			cleaned += n // the target has none
		}
		told("comparing "+t.name, sums[1].rows, sums[0].rows)
		if sums[0] != sums[1] {
			differ = append(differ, fmt.Errorf("table %s differs: %d rows and %d, sums %s and %s", t.name, sums[0].rows, sums[1].rows, &sums[0], &sums[1]))
		}
		all = append(all, Moved{t.name, sums[0].rows, sums[0].String()})
	}
	if len(differ) > 0 {
		return nil, 0, errors.Join(append(differ, errors.New("the source has changed since the move began: begin again with an empty database"))...)
	}
	return all, cleaned, nil
}
