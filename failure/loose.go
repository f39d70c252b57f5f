package failure

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNodes bounds one body's tree, its depth included: a larger body is read up to there.
const maxNodes = 4096

type kind uint8

const (
	kindNone kind = iota
	kindNull
	kindBool
	kindNumber
	kindText
	kindArray
	kindObject
)

// node is one value of a body. Text holds decoded strings and the literals of numbers and
// booleans. An object's keys and kids run in parallel, in the order in which they came.
type node struct {
	kind kind
	text string
	keys []string
	kids []node
}

// get returns the object's value under a key, letter case ignored; nil where there is none.
// A nil node has no members.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for i, k := range n.keys {
		if strings.EqualFold(k, key) {
			return &n.kids[i]
		}
	}
	return nil
}

// str returns the text, number or boolean under a key, else "".
func (n *node) str(key string) string {
	if v := n.get(key); v != nil && v.kind != kindNull {
		return v.text
	}
	return ""
}

// list returns the elements of an array; nil where it is none.
func (n *node) list() []node {
	if n == nil || n.kind != kindArray {
		return nil
	}
	return n.kids
}

// loose reads JSON as it comes out of logs and cut connections: truncated, with quotes,
// words and bare keys of Python and JavaScript. It never fails: it returns what it could read.
type loose struct {
	s     string
	i     int
	nodes int
}

// parse reads the value at the start of s and returns it with the length that it took. The
// value's kind is kindNone where s does not begin with one.
func parse(s string) (node, int) {
	p := loose{s: s}
	n := p.value()
	return n, p.i
}

func (p *loose) space() {
	for p.i < len(p.s) && (p.s[p.i] == ' ' || p.s[p.i] == '\n' || p.s[p.i] == '\t' || p.s[p.i] == '\r') {
		p.i++
	}
}

func (p *loose) value() node {
	p.space()
	p.nodes++
	if p.i >= len(p.s) || p.nodes > maxNodes {
		return node{}
	}
	switch c := p.s[p.i]; c {
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '"', '\'':
		return node{kind: kindText, text: p.quoted(c)}
	}
	word := p.word()
	switch word {
	case "":
		return node{}
	case "null", "None", "undefined":
		return node{kind: kindNull}
	case "true", "True", "false", "False":
		return node{kind: kindBool, text: strings.ToLower(word)}
	}
	if _, err := strconv.ParseFloat(word, 64); err == nil || isDigits(word) {
		return node{kind: kindNumber, text: word}
	}
	return node{kind: kindText, text: word}
}

func (p *loose) object() node {
	n := node{kind: kindObject}
	p.i++
	for {
		p.space()
		if p.i >= len(p.s) || p.nodes > maxNodes {
			return n
		}
		var key string
		switch c := p.s[p.i]; c {
		case '}':
			p.i++
			return n
		case ',':
			p.i++
			continue
		case '"', '\'':
			key = p.quoted(c)
		default:
			if key = p.word(); key == "" {
				return n
			}
		}
		p.space()
		if p.i >= len(p.s) || p.s[p.i] != ':' {
			return n
		}
		p.i++
		v := p.value()
		if v.kind == kindNone {
			return n
		}
		n.keys, n.kids = append(n.keys, key), append(n.kids, v)
	}
}

func (p *loose) array() node {
	n := node{kind: kindArray}
	p.i++
	for {
		p.space()
		if p.i >= len(p.s) || p.nodes > maxNodes {
			return n
		}
		switch p.s[p.i] {
		case ']':
			p.i++
			return n
		case ',':
			p.i++
			continue
		}
		v := p.value()
		if v.kind == kindNone {
			return n
		}
		n.kids = append(n.kids, v)
	}
}

func (p *loose) word() string {
	start := p.i
	for p.i < len(p.s) && (isAlnum(p.s[p.i]) || strings.IndexByte("_-+.$@", p.s[p.i]) >= 0) {
		p.i++
	}
	return p.s[start:p.i]
}

func (p *loose) quoted(quote byte) string {
	p.i++
	start := p.i
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case quote:
			p.i++
			return p.s[start : p.i-1]
		case '\\':
			return p.escaped(start, quote)
		}
		p.i++
	}
	return p.s[start:]
}

func (p *loose) escaped(start int, quote byte) string {
	var b strings.Builder
	b.WriteString(p.s[start:p.i])
	for p.i < len(p.s) {
		c := p.s[p.i]
		p.i++
		switch {
		case c == quote:
			return b.String()
		case c != '\\':
			b.WriteByte(c)
		case p.i == len(p.s):
			return b.String()
		default:
			e := p.s[p.i]
			p.i++
			switch e {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case 'b', 'f':
				b.WriteByte(' ')
			case 'u':
				b.WriteRune(p.unicode())
			default:
				b.WriteByte(e)
			}
		}
	}
	return b.String()
}

// unicode reads the four digits after \u, and the second half of a surrogate pair.
func (p *loose) unicode() rune {
	r, ok := hex4(p.s[p.i:])
	if !ok {
		return utf8.RuneError
	}
	p.i += 4
	if utf16.IsSurrogate(r) && strings.HasPrefix(p.s[p.i:], `\u`) {
		if low, ok := hex4(p.s[p.i+2:]); ok {
			p.i += 6
			return utf16.DecodeRune(r, low)
		}
	}
	return r
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(s[:4], 16, 16)
	return rune(v), err == nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isAlnum(c byte) bool { return isDigit(c) || isAlpha(c) }

func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}
