// Package retell brings the events of an answer, of whichever dialect they are, into the order
// that every dialect can say: blocks of text and thinking that follow each other, calls that come
// whole, and one end.
//
// It promises that a call which never ended is not said, and that an answer which holds what has
// no word in other dialects, or ends for a reason that has none, is an error and no answer. Proofs
// of thoughts, thoughts that only their maker can read and news of what ran at the provider are
// left out.
package retell

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
)

// Block is one piece of an answer.
type Block struct {
	Kind llm.PartKind // text, thinking or tool_call
	// Text is what it says so far; of a call the arguments, which are not empty.
	Text     string
	ID, Name string // of a call
}

// Answer is what was said so far.
type Answer struct {
	ID, Model string
	Created   int64 // in seconds
	Blocks    []Block
	Stop      llm.StopReason
	Usage     *llm.Usage // nil: not known
}

// Calls counts the calls among the blocks before the ith.
func (a *Answer) Calls(i int) (n int) {
	for _, b := range a.Blocks[:i] {
		if b.Kind == llm.PartToolCall {
			n++
		}
	}
	return n
}

// Teller has a dialect's words. Each method returns frames, or none; i is the block's index.
type Teller interface {
	Begin(a *Answer) []byte
	Open(a *Answer, i int) []byte
	Delta(a *Answer, i int, text string) []byte
	Close(a *Answer, i int) []byte
	// End ends the answer, and Whole is all of it in one piece.
	End(a *Answer) []byte
	Whole(a *Answer) []byte
	// Stop is the word for a reason; empty: there is none.
	Stop(s llm.StopReason) string
}

// New returns a writer that says an answer in the teller's words.
func New(t Teller, whole bool) wire.Writer {
	return &writer{t: t, whole: whole, calls: map[int]*call{}, Answer: Answer{Created: time.Now().Unix()}}
}

type call struct {
	id, name string
	args     strings.Builder
}

type writer struct {
	Answer
	t     Teller
	whole bool
	dst   []llm.Event
	begun bool
	open  bool // the last block is
	part  int  // that it is, in the events' own counting
	text  strings.Builder
	calls map[int]*call
}

// Write implements wire.Writer.
func (w *writer) Write(dst []llm.Event, e *llm.Event) ([]llm.Event, error) {
	w.dst = dst
	err := w.write(e)
	dst, w.dst = w.dst, nil
	return dst, err
}

func (w *writer) write(e *llm.Event) error {
	switch e.Kind {
	case llm.EventStart:
		w.ID, w.Model = e.ID, e.Name
	case llm.EventText:
		w.delta(e, llm.PartText)
	case llm.EventThinking:
		w.delta(e, llm.PartThinking)
	case llm.EventPartEnd:
		if w.open && w.part == e.Part {
			w.close()
		}
	case llm.EventCallStart:
		w.calls[e.Part] = &call{id: e.ID, name: e.Name}
	case llm.EventCallDelta:
		if c := w.calls[e.Part]; c != nil {
			c.args.WriteString(e.Text)
		}
	case llm.EventCallEnd:
		if c := w.calls[e.Part]; c != nil {
			delete(w.calls, e.Part)
			w.call(c)
		}
	case llm.EventUsage:
		w.count(e.Usage)
	case llm.EventDone:
		w.count(e.Usage)
		return w.end(e.Stop)
	case llm.EventOpaque:
		return fmt.Errorf("the answer holds %s, which the client's dialect has no word for", e.Name)
	}
	return nil
}

func (w *writer) count(u *llm.Usage) {
	if u == nil {
		return
	}
	if w.Usage == nil {
		w.Usage = new(llm.Usage)
	}
	w.Usage.Merge(u)
}

// say appends an event of ours with its frames.
func (w *writer) say(kind llm.EventKind, text string, frames []byte) {
	e := llm.Event{Kind: kind, Text: text, Part: max(0, len(w.Blocks)-1), Raw: bytes.TrimSuffix(frames, []byte("\n\n"))}
	w.dst = append(w.dst, e)
}

func (w *writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.ID == "" {
		w.ID = "gen_" + rand.Text()
	}
	if !w.whole {
		w.say(llm.EventStart, "", w.t.Begin(&w.Answer))
	}
}

func (w *writer) block(b Block, kind llm.EventKind) {
	w.begin()
	w.close()
	w.Blocks = append(w.Blocks, b)
	w.open = true
	if !w.whole {
		w.say(kind, "", w.t.Open(&w.Answer, len(w.Blocks)-1))
	}
}

func (w *writer) delta(e *llm.Event, kind llm.PartKind) {
	if e.Text == "" {
		return
	}
	if !w.open || w.part != e.Part || w.Blocks[len(w.Blocks)-1].Kind != kind {
		w.block(Block{Kind: kind}, llm.EventPartStart)
		w.part = e.Part
	}
	w.text.WriteString(e.Text)
	if !w.whole {
		w.say(e.Kind, e.Text, w.t.Delta(&w.Answer, len(w.Blocks)-1, e.Text))
	}
}

// call says a call that is whole.
func (w *writer) call(c *call) {
	args := c.args.String()
	if args == "" {
		args = "{}"
	}
	w.block(Block{Kind: llm.PartToolCall, ID: c.id, Name: c.name, Text: args}, llm.EventCallStart)
	if !w.whole {
		i := len(w.Blocks) - 1
		w.say(llm.EventCallDelta, args, w.t.Delta(&w.Answer, i, args))
		w.say(llm.EventCallEnd, "", w.t.Close(&w.Answer, i))
	}
	w.open = false
}

func (w *writer) close() {
	if !w.open {
		return
	}
	i := len(w.Blocks) - 1
	w.open = false
	w.Blocks[i].Text = w.text.String()
	w.text.Reset()
	if !w.whole {
		w.say(llm.EventPartEnd, "", w.t.Close(&w.Answer, i))
	}
}

func (w *writer) end(stop llm.StopReason) error {
	if w.t.Stop(stop) == "" {
		return fmt.Errorf("the answer ended with %q, which the client's dialect has no word for", stop)
	}
	w.begin()
	w.close()
	w.Answer.Stop = stop
	frames := w.t.Whole
	if !w.whole {
		frames = w.t.End
	}
	w.say(llm.EventDone, "", frames(&w.Answer))
	return nil
}
