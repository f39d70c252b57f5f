package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// Bounds of what one attempt may hold back.
const (
	MaxStagedBytes  = 16 << 20
	MaxStagedEvents = 10_000 // after merging deltas
)

// ErrOverflow is the end of an attempt that would hold back more than the bounds allow: our
// own limit, not the provider's failure.
var ErrOverflow = errors.New("more output than may be held back")

// ErrOurs wraps what our own side could not do: the sink's and the ledger's errors.
var ErrOurs = errors.New("our own side failed")

// HoldMode says until when a transaction keeps content provisional.
type HoldMode uint8

const (
	HoldFirstContent HoldMode = iota // until there is content: preamble is held, text flows
	HoldFor                          // for a time after the first content
	HoldBytes                        // until so many bytes of content are there
	HoldFirstBlock                   // until the first part of text or thinking has ended
	HoldWhole                        // until the attempt has succeeded
)

// Hold is a hold policy. The zero value is first_content. Tool calls are held until the
// attempt's terminal event under every policy.
type Hold struct {
	Mode  HoldMode
	For   time.Duration // with HoldFor
	Bytes int           // with HoldBytes
}

// ParseHold reads "first_content", "first_block", "whole", "for: 250ms" or "bytes: 4096".
func ParseHold(s string) (Hold, error) {
	mode, arg, _ := strings.Cut(s, ":")
	arg = strings.TrimSpace(arg)
	switch mode {
	case "", "first_content":
		return Hold{}, nil
	case "first_block":
		return Hold{Mode: HoldFirstBlock}, nil
	case "whole":
		return Hold{Mode: HoldWhole}, nil
	case "for":
		if d, err := time.ParseDuration(arg); err == nil && d > 0 {
			return Hold{Mode: HoldFor, For: d}, nil
		}
	case "bytes":
		if n, err := strconv.Atoi(arg); err == nil && n > 0 && n <= MaxStagedBytes {
			return Hold{Mode: HoldBytes, Bytes: n}, nil
		}
	}
	return Hold{}, fmt.Errorf("hold policy %q: want first_content, first_block, whole, for: 250ms or bytes: 4096", s)
}

func (h Hold) String() string {
	switch h.Mode {
	case HoldFor:
		return "for: " + h.For.String()
	case HoldBytes:
		return "bytes: " + strconv.Itoa(h.Bytes)
	case HoldFirstBlock:
		return "first_block"
	case HoldWhole:
		return "whole"
	}
	return "first_content"
}

// MarshalText writes the policy as ParseHold reads it.
func (h Hold) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the policy as ParseHold does.
func (h *Hold) UnmarshalText(b []byte) (err error) {
	*h, err = ParseHold(string(b))
	return err
}

// stage is the ordered list of events that are not published yet. Deltas of one part that
// follow each other are one event; their text grows in tail until something else follows.
type stage struct {
	events []llm.Event
	tail   []byte // text of the last event, where merging has begun
	raw    bool   // keep the wire bytes
	bytes  int
}

// merges reports whether e continues the last staged event.
func (s *stage) merges(e *llm.Event) bool {
	if len(s.events) == 0 {
		return false
	}
	last := &s.events[len(s.events)-1]
	if last.Kind != e.Kind || last.Part != e.Part {
		return false
	}
	switch e.Kind {
	case llm.EventText, llm.EventThinking, llm.EventCallDelta, llm.EventPing:
		return true
	}
	return false
}

// add stages one event, with a copy of its wire bytes where they are kept. Its size is checked
// before anything is copied.
func (s *stage) add(e *llm.Event) error {
	size := len(e.Text) + len(e.ID) + len(e.Name)
	if s.raw {
		size = len(e.Raw) // what the frame's events say is in it
	}
	merge := s.merges(e)
	if s.bytes+size > MaxStagedBytes || !merge && len(s.events) >= MaxStagedEvents {
		return ErrOverflow
	}
	s.bytes += size
	if merge {
		last := &s.events[len(s.events)-1]
		if len(s.tail) == 0 {
			s.tail = append(s.tail, last.Text...)
		}
		s.tail = append(s.tail, e.Text...)
		if s.raw && len(e.Raw) > 0 {
			if len(last.Raw) > 0 {
				last.Raw = append(last.Raw, "\n\n"...)
			}
			last.Raw = append(last.Raw, e.Raw...)
		}
		return nil
	}
	s.settle()
	s.events = append(s.events, *e)
	last := &s.events[len(s.events)-1]
	if last.Raw = nil; s.raw {
		last.Raw = bytes.Clone(e.Raw)
	}
	return nil
}

// settle gives the last event the text that has grown for it.
func (s *stage) settle() {
	if len(s.tail) > 0 {
		s.events[len(s.events)-1].Text = string(s.tail)
		s.tail = s.tail[:0]
	}
}

// drop forgets everything, and keeps the memory for what follows.
func (s *stage) drop() {
	clear(s.events)
	s.events, s.tail, s.bytes = s.events[:0], s.tail[:0], 0
}
