package rehearsal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// dialect says the steps of a take in the words of one API. Implementations hold no state.
type dialect interface {
	name() string
	// read understands a request's body.
	read(c *call, body []byte) error
	// refusal returns the status and body of an error, header its headers.
	refusal(f *Fault, requestID string, now time.Time) (int, json.RawMessage)
	header(f *Fault, now time.Time) http.Header

	// The frames of a stream. done completes the answer; broken says that it failed, as a
	// whole response or as a bare error.
	start(s *stage)
	open(s *stage, b *block)
	delta(s *stage, b *block, text string)
	shut(s *stage, b *block)
	ping(s *stage)
	broken(s *stage, f *Fault, whole bool)
	done(s *stage)
	// whole is the unstreamed answer.
	whole(s *stage) json.RawMessage
}

type blockKind uint8

const (
	textBlock blockKind = iota
	thinkingBlock
	redactedBlock
	callBlock
	remoteBlock // a tool of the provider's own
)

// block is one part of the answer.
type block struct {
	kind  blockKind
	index int    // among the blocks
	nth   int    // among those of its kind
	id    string // of a call, or of an item
	name  string // of a tool
	text  strings.Builder
}

// stage is the answer to one request while it is being given.
type stage struct {
	w      http.ResponseWriter
	flush  func() error
	call   *call
	d      dialect
	id     string // without the dialect's prefix
	at     time.Time
	blocks []*block
	stop   string
	seq    int
	err    error // of the first write that failed
}

// send writes one frame of a stream and nothing of an unstreamed answer. Each $ of the
// template is filled with one value.
func (s *stage) send(event, template string, values ...any) {
	if event != "" {
		event = "event: " + event + "\n"
	}
	s.write(append(append([]byte(event+"data: "), fill(template, values...)...), "\n\n"...))
}

// comment writes a line that every reader of event streams skips.
func (s *stage) comment(text string) { s.write([]byte(": " + text + "\n\n")) }

func (s *stage) write(b []byte) {
	if !s.call.stream || s.err != nil {
		return
	}
	if _, s.err = s.w.Write(b); s.err == nil {
		s.err = s.flush()
	}
}

// next counts the events of a response.
func (s *stage) next() int {
	s.seq++
	return s.seq - 1
}

// reason is why the answer stops.
func (s *stage) reason() string {
	if s.stop != "" {
		return s.stop
	}
	for _, b := range s.blocks {
		if b.kind == callBlock {
			return "tool_calls"
		}
	}
	return "end"
}

// tokens estimates the output, and how much of it was thought.
func (s *stage) tokens() (all, thought int) {
	for _, b := range s.blocks {
		n := (b.text.Len() + 3) / 4
		all += n
		if b.kind == thinkingBlock || b.kind == redactedBlock {
			thought += n
		}
	}
	return all, thought
}

// joined returns the text of all blocks of a kind.
func (s *stage) joined(kind blockKind) string {
	var b strings.Builder
	for _, p := range s.blocks {
		if p.kind == kind {
			b.WriteString(p.text.String())
		}
	}
	return b.String()
}

// fill writes each value as JSON in the place of one $ of the template. Bytes are JSON
// already.
func fill(template string, values ...any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, v := range values {
		before, rest, _ := strings.Cut(template, "$")
		out.WriteString(before)
		if b, ok := v.([]byte); ok {
			v = json.RawMessage(b)
		}
		if err := enc.Encode(v); err != nil {
			panic(fmt.Sprintf("encode %T: %v", v, err)) // strings, numbers and JSON made here
		}
		out.Truncate(out.Len() - 1)
		template = rest
	}
	out.WriteString(template)
	return out.Bytes()
}

// list joins JSON values to one array.
func list(items [][]byte) json.RawMessage {
	return append(append([]byte("["), bytes.Join(items, []byte(","))...), ']')
}
