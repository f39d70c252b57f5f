// Package gemini speaks Google's Gemini dialect: generateContent, streamed as server-sent
// events (https://ai.google.dev/api/generate-content).
//
// Decoding. The dialect has no terminal event: a finish reason (or a blocked prompt) says that
// the answer is whole, usage and grounding may follow it, and EventDone comes when the body
// then ends. A body that ends without a finish reason, or with more content after one, is
// io.ErrUnexpectedEOF. A part ends where one of another kind begins, with its signature, or
// with the finish reason. Function calls come whole; where they have no id, or one that the
// answer used before, the codec makes one out of the response's id and the part's number. Calls
// whose arguments come in pieces (partialArgs) keep the pieces' JSON as their arguments, which
// no tool accepts; one that never ends is never complete. Code that the provider runs, its
// output and its own tools' calls are provider tools with a part index of their own; grounding
// and URL context are provider tools that belong to no part. Images, audio and parts of an
// unknown kind are opaque. Only the first candidate (index 0) counts: the others are left in
// the frames' raw bytes. What follows an error is a ping.
//
// Encoding. The codec sends the parts that it gets: whoever calls it has taken out signatures
// and opaque parts that another provider made. See history.Turns for how a conversation is
// made valid, and Codec.Encode for what a request is made of.
package gemini

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
)

// Codec implements wire.Codec.
type Codec struct{}

var _ wire.Codec = Codec{}

// Dialect returns "gemini".
func (Codec) Dialect() string { return "gemini" }

// Path returns the method of the model that answers as the request asks for. A name with a slash (tunedModels/x) is the whole
// resource name.
func (Codec) Path(req *llm.Request) string {
	model := req.Model
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	u := url.URL{Path: "/v1beta/" + model + ":streamGenerateContent", RawQuery: "alt=sse"}
	if req.Whole {
		u = url.URL{Path: "/v1beta/" + model + ":generateContent"}
	}
	if req.Count {
		u = url.URL{Path: "/v1beta/" + model + ":countTokens"}
	}
	return u.String()
}

// Authorize sets x-goog-api-key, where there is a key.
func (Codec) Authorize(h http.Header, key string) {
	if key != "" {
		h.Set("X-Goog-Api-Key", key)
	}
}

// NewDecoder returns the state of one answer.
func (Codec) NewDecoder() wire.Decoder { return &decoder{ids: map[string]bool{}} }

// stopReason translates a finish reason; one that we don't know stays, in lower case.
func stopReason(s string) llm.StopReason {
	switch s {
	case "STOP":
		return llm.StopEnd
	case "MAX_TOKENS":
		return llm.StopLength
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return llm.StopFiltered
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE":
		return llm.StopMalformed
	case "CONTINUATION":
		return llm.StopPaused
	}
	return llm.StopReason(strings.ToLower(s))
}
