// Package scan walks JSON text without building values, for decoders that look at a few
// fields of each of a million small documents.
//
// It promises that Fields and Elements accept every text that encoding/json accepts and
// refuse every text whose structure is broken or incomplete; the spans they hand out are
// parts of the input, without white space around them. It does not check the inside of
// strings and numbers that nobody asks for, and keeps duplicate names as they come.
package scan

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrSyntax is returned for text that is not the JSON it should be.
var ErrSyntax = errors.New("malformed JSON")

// depth is encoding/json's own bound.
const depth = 10_000

// Fields calls f with every field of the object b, in order, and stops at f's first error.
func Fields(b []byte, f func(name, value []byte) error) error {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return ErrSyntax
	}
	i, err := fields(b, i, 0, f)
	if err == nil && space(b, i) != len(b) {
		return ErrSyntax
	}
	return err
}

// Elements calls f with every element of the array b, in order, and stops at f's first error.
func Elements(b []byte, f func(value []byte) error) error {
	i := space(b, 0)
	if i >= len(b) || b[i] != '[' {
		return ErrSyntax
	}
	i, err := elements(b, i, 0, f)
	if err == nil && space(b, i) != len(b) {
		return ErrSyntax
	}
	return err
}

// fields walks the object that begins at i and returns the offset after it.
func fields(b []byte, i, level int, f func(name, value []byte) error) (int, error) {
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		from := i
		if i = quoted(b, i); i < 0 {
			return 0, ErrSyntax
		}
		name := b[from+1 : i-1]
		if i = space(b, i); i >= len(b) || b[i] != ':' {
			return 0, ErrSyntax
		}
		from = space(b, i+1)
		if i = value(b, from, level); i < 0 {
			return 0, ErrSyntax
		}
		if f != nil {
			if bytes.IndexByte(name, '\\') >= 0 {
				s, err := unescape(name)
				if err != nil {
					return 0, err
				}
				name = []byte(s)
			}
			if err := f(name, b[from:i:i]); err != nil {
				return 0, err
			}
		}
		i = space(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i = space(b, i+1)
		case i < len(b) && b[i] == '}':
			return i + 1, nil
		default:
			return 0, ErrSyntax
		}
	}
}

// elements walks the array that begins at i and returns the offset after it.
func elements(b []byte, i, level int, f func(value []byte) error) (int, error) {
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		from := i
		if i = value(b, i, level); i < 0 {
			return 0, ErrSyntax
		}
		if f != nil {
			if err := f(b[from:i:i]); err != nil {
				return 0, err
			}
		}
		i = space(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i = space(b, i+1)
		case i < len(b) && b[i] == ']':
			return i + 1, nil
		default:
			return 0, ErrSyntax
		}
	}
}

// value returns the offset after the value that begins at i, or -1.
func value(b []byte, i, level int) int {
	if i >= len(b) || level >= depth {
		return -1
	}
	var end int
	var err error
	switch c := b[i]; {
	case c == '"':
		return quoted(b, i)
	case c == '{':
		end, err = fields(b, i, level+1, nil)
	case c == '[':
		end, err = elements(b, i, level+1, nil)
	case c == '-' || '0' <= c && c <= '9':
		end = i + 1
		for end < len(b) && number[b[end]] {
			end++
		}
	default:
		for _, word := range [...]string{"null", "true", "false"} {
			if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
				return i + len(word)
			}
		}
		return -1
	}
	if err != nil {
		return -1
	}
	return end
}

var number = func() (t [256]bool) {
	for _, c := range "0123456789+-.eE" {
		t[c] = true
	}
	return t
}()

// quoted returns the offset after the string that begins at i, or -1.
func quoted(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for from := i + 1; ; {
		j := bytes.IndexByte(b[from:], '"')
		if j < 0 {
			return -1
		}
		from += j + 1
		slashes := from - 2
		for b[slashes] == '\\' {
			slashes--
		}
		if (from-2-slashes)%2 == 0 {
			return from
		}
	}
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// IsString reports whether the value is a string.
func IsString(v []byte) bool { return len(v) >= 2 && v[0] == '"' }

// Empty reports whether the value says nothing: null, "", [], {}.
func Empty(v []byte) bool {
	switch string(v) {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}

// String returns a string value as a new string. Bytes that are no UTF-8 become U+FFFD. A
// value of another kind, null too, is the empty string.
func String(v []byte) (string, error) {
	if !IsString(v) {
		return "", nil
	}
	return unescape(v[1 : len(v)-1])
}

// Text returns a string value's text and any other value's JSON; null is empty.
func Text(v []byte) (string, error) {
	switch {
	case IsString(v):
		return String(v)
	case string(v) == "null":
		return "", nil
	}
	return string(v), nil
}

// Int returns a number, cut to an integer; any other value is 0.
func Int(v []byte) int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || f != f || f >= 1<<63 || f < -1<<63 {
			return 0
		}
		return int64(f)
	}
	return n
}

func unescape(in []byte) (string, error) {
	i := bytes.IndexByte(in, '\\')
	if i < 0 {
		return strings.ToValidUTF8(string(in), "\uFFFD"), nil
	}
	out := make([]byte, 0, len(in))
	for ; i >= 0; i = bytes.IndexByte(in, '\\') {
		out = append(out, in[:i]...)
		if i+1 >= len(in) {
			return "", ErrSyntax
		}
		c := in[i+1]
		in = in[i+2:]
		if c == 'u' {
			r, ok := hex(in)
			if !ok {
				return "", ErrSyntax
			}
			in = in[4:]
			if utf16.IsSurrogate(r) {
				low, ok := rune(0), false
				if len(in) >= 2 && in[0] == '\\' && in[1] == 'u' {
					low, ok = hex(in[2:])
				}
				if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
					in = in[6:]
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		e := strings.IndexByte(`"\/bfnrt`, c)
		if e < 0 {
			return "", ErrSyntax
		}
		out = append(out, "\"\\/\b\f\n\r\t"[e])
	}
	return strings.ToValidUTF8(string(append(out, in...)), "\uFFFD"), nil
}

func hex(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}
