// Package rawjson changes top-level fields of a JSON object without parsing the rest, so that
// a request passes through byte for byte and a long prompt costs one scan.
//
// It promises that every byte outside the values it sets stays as it came, and that a field
// written twice or with escapes in its name is found. It checks the object's structure as far
// as the scan needs, and refuses what is no object; it does not validate nested values.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Field is a top-level field and the JSON text it is to hold.
type Field struct {
	Name  string
	Value string
}

// ErrSyntax is returned, wrapped, for a text that is not one JSON object.
var ErrSyntax = errors.New("not a JSON object")

// Set returns the object with each field's value replaced wherever the field occurs, and the
// fields that it lacks added at its beginning. The result is body itself where nothing
// changes; body is never written to.
func Set(body []byte, fields ...Field) ([]byte, error) {
	var edits []edit
	found := make([]bool, len(fields))
	open, members, err := scan(body, func(name, value span) {
		for i, f := range fields {
			if !named(body[name.from:name.to], f.Name) {
				continue
			}
			found[i] = true
			if string(body[value.from:value.to]) != f.Value {
				edits = append(edits, edit{value, f.Value})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var added []byte
	for i, f := range fields {
		if found[i] {
			continue
		}
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, fmt.Errorf("name field %q: %w", f.Name, err)
		}
		added = append(append(append(append(added, name...), ':'), f.Value...), ',')
	}
	if len(added) > 0 && members == 0 {
		added = added[:len(added)-1]
	}
	if len(edits) == 0 && len(added) == 0 {
		return body, nil
	}
	out := append(make([]byte, 0, len(body)+len(added)+64), body[:open]...)
	out = append(out, added...)
	at := open
	for _, e := range edits {
		out = append(append(out, body[at:e.from]...), e.with...)
		at = e.to
	}
	return append(out, body[at:]...), nil
}

type span struct{ from, to int }

type edit struct {
	span
	with string
}

// named reports whether a quoted JSON string says name.
func named(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	var s string
	return json.Unmarshal(quoted, &s) == nil && s == name
}

// scan calls each with every top-level field's quoted name and value. It returns the offset
// after the opening brace and the number of fields.
func scan(b []byte, each func(name, value span)) (open, members int, err error) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return 0, 0, syntax(i)
	}
	open = i + 1
	if i = space(b, open); i < len(b) && b[i] == '}' {
		return open, 0, end(b, i+1)
	}
	for {
		name := span{i, str(b, i)}
		if name.to < 0 {
			return 0, 0, syntax(i)
		}
		if i = space(b, name.to); i >= len(b) || b[i] != ':' {
			return 0, 0, syntax(i)
		}
		i = space(b, i+1)
		value := span{i, skip(b, i)}
		if value.to < 0 {
			return 0, 0, syntax(i)
		}
		each(name, value)
		members++
		switch i = space(b, value.to); {
		case i < len(b) && b[i] == ',':
			i = space(b, i+1)
		case i < len(b) && b[i] == '}':
			return open, members, end(b, i+1)
		default:
			return 0, 0, syntax(i)
		}
	}
}

func end(b []byte, i int) error {
	if i = space(b, i); i < len(b) {
		return syntax(i)
	}
	return nil
}

func syntax(i int) error { return fmt.Errorf("byte %d: %w", i, ErrSyntax) }

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// str returns the offset after the string that begins at i, or -1.
func str(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for from := i + 1; ; {
		j := bytes.IndexByte(b[from:], '"')
		if j < 0 {
			return -1
		}
		quote := from + j
		slashes := 0
		for b[quote-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return quote + 1
		}
		from = quote + 1
	}
}

// skip returns the offset after the value that begins at i, or -1.
func skip(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return str(b, i)
	case '{', '[':
		return nested(b, i)
	}
	from := i
	for i < len(b) && strings.IndexByte(",}] \n\r\t\"{[:", b[i]) < 0 {
		i++
	}
	if i == from || !json.Valid(b[from:i]) {
		return -1
	}
	return i
}

// nested returns the offset after the object or array that begins at i, or -1.
func nested(b []byte, i int) int {
	var closers []byte
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			if i = str(b, i); i < 0 {
				return -1
			}
			continue
		case '{':
			closers = append(closers, '}')
		case '[':
			closers = append(closers, ']')
		case '}', ']':
			if closers[len(closers)-1] != c {
				return -1
			}
			if closers = closers[:len(closers)-1]; len(closers) == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}
