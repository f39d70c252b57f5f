// Package sse frames server-sent events.
package sse

import "io"

// Frame is one event of a stream. Its slices are valid until the reader's next call.
type Frame struct {
	// Event is the frame's event field, empty where it has none.
	Event []byte
	// Data is the frame's data lines, joined by newlines; nil where it has none.
	Data []byte
	// Raw is the frame as it came, without the blank line that ends it.
	Raw []byte
}

// Reader reads frames.
type Reader struct{ r io.Reader }

// NewReader returns a reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r} }

// Next returns the next frame.
func (r *Reader) Next() (Frame, error) { return Frame{}, io.EOF }
