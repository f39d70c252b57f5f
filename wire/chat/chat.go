// Package chat speaks OpenAI's Chat Completions, and with it whatever else speaks them
// (Ollama, vLLM, llama.cpp, LM Studio, OpenRouter, Groq, Mistral, DeepSeek, Moonshot, xAI …).
//
// It promises that EventDone comes only when everything is known: at [DONE], or at the body's
// clean end after a finish reason, since usage may follow that reason. A stream without a
// finish reason is cut, with [DONE] or not: proxies write [DONE] after a broken upstream too.
// An error in any chunk, and a finish reason that says that the server gave up, is
// EventFailed. A refusal is text that ends as StopFiltered. Tool calls end with the answer,
// because only then it is certain that no piece is missing; their ids are made up where the
// server gives none.
//
// It asks for one answer a request; where a raw request asks for more, the others are opaque.
//
// Sources: https://platform.openai.com/docs/api-reference/chat-streaming and the
// documentation of the servers named where the code follows one.
package chat

import (
	"net/http"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
)

// Codec speaks the dialect. The zero value asks for usage, which most servers must be asked
// for.
type Codec struct {
	// Strict is for Mistral, which refuses stream_options, sends usage unasked, and takes call
	// ids of nine letters and digits alone.
	Strict bool
}

var _ wire.Codec = Codec{}

// Dialect is "chat".
func (Codec) Dialect() string { return "chat" }

// Path is the same for every model.
func (Codec) Path(*llm.Request) string { return "/chat/completions" }

// Authorize sets the bearer token, where there is a key: local servers need none.
func (Codec) Authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// NewDecoder returns the state of one answer.
func (Codec) NewDecoder() wire.Decoder { return new(decoder) }
