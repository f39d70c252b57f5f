// Package messages speaks Anthropic's Messages dialect, streamed, as Anthropic and the many
// servers compatible with it do (https://docs.anthropic.com/en/api/messages-streaming).
//
// Decoding. The terminal event is message_stop and nothing else: a message_delta with its
// stop reason is not one, and a body that ends without it is io.ErrUnexpectedEOF. What follows
// message_stop or an error is a ping. Blocks get dense part indexes in the order in which they
// began, whatever their own indexes are; a block that was opened twice, never opened or never
// stopped is closed where the next thing shows that it ended. A call at which the token limit
// or a refusal struck never ends, whatever its arguments look like. Tool calls that the
// provider runs, and their results, are provider tools with their JSON in Text, each with a
// part index of its own; any type that ends in _tool_use or _tool_result counts as one. Other
// unknown blocks and unknown deltas are opaque. Citations are left in the frame's raw bytes.
//
// Encoding. The codec sends the parts that it gets: whoever calls it has taken out signatures,
// redacted thinking and opaque parts that another provider made. See history.Turns for how a
// conversation is made valid, and Codec.Encode for what a request is made of.
package messages

import (
	"net/http"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
)

// version is the only value of anthropic-version that the streaming format has.
const version = "2023-06-01"

// Codec implements wire.Codec.
type Codec struct{}

var _ wire.Codec = Codec{}

// Dialect returns "messages".
func (Codec) Dialect() string { return "messages" }

// Path returns the path of a call; the model is named in the body.
func (Codec) Path(req *llm.Request) string {
	if req.Count {
		return "/v1/messages/count_tokens"
	}
	return "/v1/messages"
}

// Authorize sets x-api-key, where there is a key, and anthropic-version where it is not set.
func (Codec) Authorize(h http.Header, key string) {
	if key != "" {
		h.Set("X-Api-Key", key)
	}
	if h.Get("Anthropic-Version") == "" {
		h.Set("Anthropic-Version", version)
	}
}

// NewDecoder returns the state of one answer.
func (Codec) NewDecoder() wire.Decoder { return new(decoder) }

// stopReason translates a stop reason; one that we don't know stays as it is.
func stopReason(s string) llm.StopReason {
	switch s {
	case "end_turn":
		return llm.StopEnd
	case "tool_use":
		return llm.StopToolCalls
	case "max_tokens", "model_context_window_exceeded":
		return llm.StopLength
	case "stop_sequence":
		return llm.StopSequence
	case "pause_turn":
		return llm.StopPaused
	case "refusal":
		return llm.StopFiltered
	}
	return llm.StopReason(s)
}
