// Package responses speaks OpenAI's Responses.
//
// It promises that only response.completed and response.incomplete end an answer well, that
// response.failed, error and an error without a type are EventFailed, and that a stream which
// stops without any of them is cut. Text, thinking and arguments that come in a done event or
// in the final response alone are neither lost nor, where deltas brought them, doubled. A
// refusal is text that ends as StopFiltered.
//
// It keeps no state at the provider unless the request asks for it: thinking goes back in the
// encrypted form in which it came. Every tool that runs at the provider is
// EventProviderTool, with the item's JSON when it begins and again when it has ended.
//
// Source: https://platform.openai.com/docs/api-reference/responses-streaming
package responses

import (
	"net/http"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
)

// Codec speaks the dialect.
type Codec struct{}

var _ wire.Codec = Codec{}

// Dialect is "responses".
func (Codec) Dialect() string { return "responses" }

// Path is the same for every model.
func (Codec) Path(*llm.Request) string { return "/responses" }

// Authorize sets the bearer token, where there is a key: local servers need none.
func (Codec) Authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// NewDecoder returns the state of one answer.
func (Codec) NewDecoder() wire.Decoder { return new(decoder) }
