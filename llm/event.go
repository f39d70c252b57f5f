package llm

import "fmt"

// EventKind is what one event of a stream is. The set is closed.
type EventKind uint8

const (
	// EventStart: the response exists. ID is the response's id, Name the model that answers.
	EventStart EventKind = iota + 1
	// EventPing: the provider lives. Also every event we need not understand. With Stop, it says
	// why the answer is about to end: its reader may take it for whole from there.
	EventPing
	// EventPartStart and EventPartEnd bound a part of text or thinking, where the dialect
	// says so.
	EventPartStart
	EventPartEnd
	// EventText and EventThinking carry a delta in Text.
	EventText
	EventThinking
	// EventRedacted carries thinking that only the provider can read, in Text.
	EventRedacted
	// EventSignature carries, in Text, the proof of the part it names.
	EventSignature
	// EventCallStart begins a tool call: ID and Name. EventCallDelta adds Text to its
	// arguments. EventCallEnd ends it: Part is complete.
	EventCallStart
	EventCallDelta
	EventCallEnd
	// EventProviderTool: the provider runs, or ran, a tool itself. Name is the tool.
	EventProviderTool
	// EventOpaque is content of a kind we have no word for (image, audio, unknown blocks).
	// Name is the dialect's name of the kind, Text its JSON.
	EventOpaque
	// EventUsage reports Usage so far; later reports replace earlier ones field by field.
	EventUsage
	// EventDone is the dialect's terminal event: Stop says why. Nothing follows.
	EventDone
	// EventFailed is an error that the provider reports inside its stream. Text is the
	// error's JSON as it came. Decoders return it; a Stream turns it into an error.
	EventFailed
	// EventCallCut and EventInterrupted come from the transaction, never from a provider:
	// a held tool call whose stream broke, of which nothing else is told; and the end of an
	// output that was cut off, with the reason in Text. Nothing follows an interruption.
	EventCallCut
	EventInterrupted
)

var eventNames = [...]string{"", "start", "ping", "part_start", "part_end", "text", "thinking",
	"redacted_thinking", "signature", "call_start", "call_delta", "call_end", "provider_tool",
	"opaque", "usage", "done", "failed", "call_cut", "interrupted"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) && k > 0 {
		return eventNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText writes the kind's name.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a kind's name.
func (k *EventKind) UnmarshalText(b []byte) error {
	for i, n := range eventNames {
		if i > 0 && n == string(b) {
			*k = EventKind(i)
			return nil
		}
	}
	return fmt.Errorf("unknown event kind %q", b)
}

// Event is one thing that a model's stream says.
type Event struct {
	Kind EventKind `json:"kind"`
	// Part is the index, from 0, of the output part that the event belongs to, in the order
	// in which the parts began. Events that belong to none leave it 0.
	Part  int        `json:"part,omitempty"`
	Text  string     `json:"text,omitempty"`
	ID    string     `json:"id,omitempty"`
	Name  string     `json:"name,omitempty"`
	Stop  StopReason `json:"stop,omitempty"`
	Usage *Usage     `json:"usage,omitempty"`
	// Raw is the frame that the event came from, as it came, without the blank line that
	// ends it. It is set on the first of a frame's events, and valid until the stream's next
	// call that does not return another of them. More says that there is one.
	Raw  []byte `json:"-"`
	More bool   `json:"-"`
}

// Observability is what an event means to somebody who watches.
type Observability uint8

const (
	// Content is the zero value: what we cannot tell counts as output.
	Content Observability = iota
	// Preamble is everything that shows nothing: ids, roles, pings, empty deltas, block
	// starts, usage.
	Preamble
	// ToolCall is any part of a tool call: content that is held until the terminal event.
	ToolCall
	// Effect is something that happened at the provider.
	Effect
	// Terminal ends the stream well.
	Terminal
	// Failing ends the stream badly.
	Failing
)

// Observability classifies the event. Text of white space alone is content; an empty delta
// is preamble; an unknown kind is content.
func (e *Event) Observability() Observability {
	switch e.Kind {
	case EventText, EventThinking:
		if e.Text == "" {
			return Preamble
		}
		return Content
	case EventRedacted, EventOpaque:
		return Content
	case EventCallStart, EventCallDelta, EventCallEnd, EventCallCut:
		return ToolCall
	case EventStart, EventPing, EventPartStart, EventPartEnd, EventSignature, EventUsage:
		return Preamble
	case EventProviderTool:
		return Effect
	case EventDone:
		return Terminal
	case EventFailed, EventInterrupted:
		return Failing
	}
	return Content
}

// StopReason says why a model stopped. It is open; these are the ones we act on.
type StopReason string

const (
	StopEnd       StopReason = "end"        // the answer is complete
	StopToolCalls StopReason = "tool_calls" // it asks for tools
	StopLength    StopReason = "length"     // the token limit was reached
	StopSequence  StopReason = "stop_sequence"
	StopFiltered  StopReason = "filtered"  // the provider withheld the rest, or the model refused
	StopPaused    StopReason = "paused"    // the provider paused a long turn
	StopMalformed StopReason = "malformed" // the model broke its own tool call
)

// Usage counts tokens. Input includes what was read from or written to the provider's cache.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"` // thinking included
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Thinking   int64 `json:"thinking,omitempty"`
}

// Merge takes from v every count that it states.
func (u *Usage) Merge(v *Usage) {
	take := func(dst *int64, src int64) {
		if src != 0 {
			*dst = src
		}
	}
	take(&u.Input, v.Input)
	take(&u.Output, v.Output)
	take(&u.CacheRead, v.CacheRead)
	take(&u.CacheWrite, v.CacheWrite)
	take(&u.Thinking, v.Thinking)
}
