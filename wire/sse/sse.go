// Package sse frames server-sent events, for reading and for writing.
//
// It promises that the same bytes give the same frames however they are cut into reads, that
// every block that holds a line is a frame (a keep-alive comment proves life), that io.EOF
// means a clean end and nothing else, and that reading allocates nothing once the buffer
// fits. It follows the parsing rules of https://html.spec.whatwg.org/multipage/server-sent-events.html
// but for the end of the stream (see Reader.Next), and refuses frames over MaxFrame. It
// interprets no data and never reconnects.
package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
)

// MaxFrame is the largest frame that a Reader accepts, in bytes of Frame.Raw.
const MaxFrame = 16 << 20

// ErrTooLarge is what a Reader returns for a frame over MaxFrame, from then on.
var ErrTooLarge = errors.New("server-sent event over 16 MiB")

// Frame is one block of a stream. Its slices are valid until the reader's next call.
type Frame struct {
	// Event is the frame's event field, empty where it has none.
	Event []byte
	// ID is the frame's own id field; nil where it has none.
	ID []byte
	// Data is the frame's data lines, joined by newlines; nil where it has none (comments,
	// retry and unknown fields are in Raw alone).
	Data []byte
	// Raw is the frame as it came, without the line ending and the blank line that end it.
	Raw []byte
}

// Reader reads frames. It is used by one goroutine at a time.
type Reader struct {
	r   io.Reader
	err error // of r; sticky

	// buf[start:w] is unread. Lines before line are complete, and end is where the text of
	// the last that is not blank ends. buf[line:scan] holds no line ending, buf[scan:lf] no
	// line feed.
	buf                           []byte
	start, line, scan, lf, end, w int
	afterCR                       bool   // the text before line ended in a carriage return
	found                         []byte // the block that Ready has found; nil: none
	begun                         bool   // a byte order mark can no longer come

	data []byte // joins data lines
}

// NewReader returns a reader of r. It reads no further than the frame that it returns needs,
// but for what r gives along with it.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Next returns the next frame, at the latest when the line ending of its blank line is there.
//
// The end of the stream after a blank line, or between comments, is io.EOF. In the middle of
// a frame it is io.ErrUnexpectedEOF, so that a cut stream never looks whole. There is one
// exception, for servers that forget the last blank line: a frame whose data is one complete
// JSON object or "[DONE]" cannot have been cut inside its data, and is delivered before
// io.EOF. So is a body that is one JSON object and no event stream, with nil Data. Other
// errors of the underlying reader are returned as they are, and drop an unfinished frame.
func (r *Reader) Next() (Frame, error) {
	for {
		if r.Ready() {
			raw := r.found
			r.found = nil
			if len(raw) <= MaxFrame {
				return r.parse(raw), nil
			}
			r.fail(ErrTooLarge)
		}
		switch {
		case r.err == io.EOF:
			return r.tail()
		case r.err != nil:
			return Frame{}, r.err
		case r.w-r.start > MaxFrame+len("\r\n"):
			r.fail(ErrTooLarge)
		default:
			r.fill()
		}
	}
}

// Ready reports whether the next frame is here as a whole, so that Next reads nothing for it.
func (r *Reader) Ready() bool {
	if r.found == nil {
		r.found, _ = r.block()
	}
	return r.found != nil
}

// fail ends the reader with err and forgets what is unread.
func (r *Reader) fail(err error) {
	*r = Reader{r: r.r, err: err}
}

// block finds the next block in the buffer.
func (r *Reader) block() ([]byte, bool) {
	if !r.begun && !r.skipBOM() {
		return nil, false
	}
	for {
		i := r.eol()
		if i < 0 {
			return nil, false
		}
		cr, blank := r.buf[i] == '\r', i == r.line
		r.line, r.scan = i+1, i+1
		switch {
		case !blank:
			r.end, r.afterCR = i, cr
		case r.afterCR && !cr: // the rest of that line's ending
			r.afterCR = false
		case r.start == i: // a blank line before the block, or the rest of one
			r.start = i + 1
		default:
			raw := r.buf[r.start:r.end:r.end]
			r.start, r.afterCR = i+1, false
			return raw, true
		}
	}
}

// eol returns the index of the next line ending, or -1. Each byte is searched once for each
// kind, however small the reads and whichever kind the stream uses.
func (r *Reader) eol() int {
	r.lf = max(r.lf, r.scan)
	if r.lf < r.w && r.buf[r.lf] != '\n' {
		if j := bytes.IndexByte(r.buf[r.lf:r.w], '\n'); j >= 0 {
			r.lf += j
		} else {
			r.lf = r.w
		}
	}
	if j := bytes.IndexByte(r.buf[r.scan:r.lf], '\r'); j >= 0 {
		return r.scan + j
	}
	if r.lf < r.w {
		return r.lf
	}
	r.scan = r.w
	return -1
}

// skipBOM reports whether the stream's first bytes are decided.
func (r *Reader) skipBOM() bool {
	const bom = "\xef\xbb\xbf"
	head := r.buf[:min(r.w, len(bom))]
	if len(head) < len(bom) && bom[:len(head)] == string(head) && r.err == nil {
		return false
	}
	if string(head) == bom {
		r.start, r.line, r.scan = len(bom), len(bom), len(bom)
	}
	r.begun = true
	return true
}

// fill reads once, making room first.
func (r *Reader) fill() {
	const initial, least = 4 << 10, 512
	if r.start == r.w {
		r.shift()
	}
	if len(r.buf)-r.w < least {
		if r.start > len(r.buf)/2 {
			r.shift()
		} else {
			grown := make([]byte, max(initial, 2*len(r.buf)))
			copy(grown, r.buf[:r.w])
			r.buf = grown
		}
	}
	for range 100 {
		var n int
		n, r.err = r.r.Read(r.buf[r.w:])
		r.w += n
		if n > 0 || r.err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// shift moves what is unread to the front of the buffer.
func (r *Reader) shift() {
	d := r.start
	copy(r.buf, r.buf[d:r.w])
	r.start, r.line, r.scan, r.w = 0, r.line-d, r.scan-d, r.w-d
	r.lf, r.end = max(r.lf-d, 0), max(r.end-d, 0)
}

// tail decides what an end without a blank line means.
func (r *Reader) tail() (Frame, error) {
	raw := r.buf[r.start:r.w]
	lines := r.start < r.w && r.line == r.w // the last line is complete
	if lines {
		raw = r.buf[r.start:r.end]
	}
	r.start, r.line, r.scan = r.w, r.w, r.w
	if len(raw) == 0 {
		return Frame{}, io.EOF
	}
	if len(raw) > MaxFrame {
		r.fail(ErrTooLarge)
		return Frame{}, r.err
	}
	f := r.parse(raw)
	if whole(f.Data) || f.Data == nil && (whole(f.Raw) || lines && comments(f.Raw)) {
		return f, nil
	}
	r.err = io.ErrUnexpectedEOF
	return Frame{}, r.err
}

// whole reports whether nothing can be missing from the data.
func whole(data []byte) bool {
	data = bytes.TrimSpace(data)
	return string(data) == "[DONE]" || len(data) > 0 && data[0] == '{' && json.Valid(data)
}

// comments reports whether every line is a comment.
func comments(raw []byte) bool {
	for line := range bytes.FieldsFuncSeq(raw, func(c rune) bool { return c == '\r' || c == '\n' }) {
		if line[0] != ':' {
			return false
		}
	}
	return true
}

// parse reads the fields of a block.
func (r *Reader) parse(raw []byte) Frame {
	f := Frame{Raw: raw}
	plain := bytes.IndexByte(raw, '\r') < 0
	data := 0
	for rest, more := raw, true; more; {
		var line []byte
		if plain {
			line, rest, more = bytes.Cut(rest, []byte{'\n'})
		} else if i := bytes.IndexAny(rest, "\r\n"); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			line, more = rest, false
		}
		i := bytes.IndexByte(line, ':')
		value := line[len(line):]
		if i < 0 {
			i = len(line)
		} else if value = line[i+1:]; len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		switch string(line[:i]) {
		case "event":
			f.Event = value
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				f.ID = value
			}
		case "data":
			switch data++; data {
			case 1:
				f.Data = value
			case 2:
				r.data = append(r.data[:0], f.Data...)
				fallthrough
			default:
				r.data = append(append(r.data, '\n'), value...)
				f.Data = r.data
			}
		}
	}
	return f
}

// Append adds one frame to dst: the event field where event is not empty, and each line of
// data. A reader gets back data with its line endings as newlines. The event's name holds no
// line ending. An id line may be written before it.
func Append(dst []byte, event string, data []byte) []byte {
	if event != "" {
		dst = append(append(append(dst, "event: "...), event...), '\n')
	}
	for {
		i := bytes.IndexAny(data, "\r\n")
		if i < 0 {
			break
		}
		dst = append(append(append(dst, "data: "...), data[:i]...), '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
	return append(append(append(dst, "data: "...), data...), "\n\n"...)
}

// Data returns the data of each frame in raw, which is Frame.Raw of one frame, or of several
// joined by "\n\n".
func Data(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var r Reader
		for more := len(raw) > 0; more; {
			var block []byte
			if block, raw, more = bytes.Cut(raw, []byte("\n\n")); len(block) == 0 {
				continue
			}
			if f := r.parse(block); len(f.Data) > 0 && !yield(f.Data) {
				return
			}
		}
	}
}
