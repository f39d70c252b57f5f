package workspace

import (
	"bytes"
	"strings"
	"sync"

	"github.com/reprise-run/reprise/llm"
)

const (
	headBytes = 8 << 10 // of output that is kept from its beginning
	tailBytes = 24 << 10
	lineBytes = 200 // of a line that is reported
)

// output keeps the beginning and the end of what a command writes, and its last line. It is safe
// for concurrent use.
type output struct {
	mu      sync.Mutex
	head    []byte
	tail    []byte // up to twice tailBytes
	dropped int
	line    []byte // that is being written
	said    string // the last line with something in it
	lines   int
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(b)
	o.follow(b)
	room := min(headBytes-len(o.head), len(b))
	o.head = append(o.head, b[:room]...)
	b = b[room:]
	o.tail = append(o.tail, b...)
	if len(o.tail) > 2*tailBytes {
		over := len(o.tail) - tailBytes
		o.dropped += over
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	return n, nil
}

// follow keeps the last line. What a carriage return ends is a line, as in a progress bar.
func (o *output) follow(b []byte) {
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		part := b
		if i >= 0 {
			part = b[:i]
		}
		o.line = append(o.line, part[:min(len(part), lineBytes-len(o.line))]...)
		if i < 0 {
			return
		}
		if b[i] == '\n' {
			o.lines++
		}
		if text := strings.TrimSpace(valid(o.line)); text != "" {
			o.said = text
		}
		o.line, b = o.line[:0], b[i+1:]
	}
}

// last is the last line with something in it, and how many lines there were.
func (o *output) last() (string, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if text := strings.TrimSpace(valid(o.line)); text != "" {
		return text, o.lines
	}
	return o.said, o.lines
}

// parts is the output, with a note in the place of what was cut out of it.
func (o *output) parts() []llm.Part {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	tail, dropped := o.tail, o.dropped
	if over := len(tail) - tailBytes; over > 0 {
		tail, dropped = tail[over:], dropped+over
	}
	switch {
	case len(o.head) == 0:
		return nil
	case dropped == 0:
		return []llm.Part{llm.Text(valid(append(o.head, tail...)))}
	}
	return []llm.Part{llm.Text(valid(o.head)), note("%d bytes are left out here", dropped), llm.Text(valid(tail))}
}
