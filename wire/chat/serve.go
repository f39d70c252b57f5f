package chat

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/openai"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/sse"
)

var _ wire.Server = Codec{}

// Head implements wire.Server. Tools that are neither function nor custom, OpenAI's search
// options and OpenRouter's plugins run at the provider.
func (Codec) Head(body []byte) (h wire.Head, err error) {
	provided := func(kind string, _ []byte) {
		if kind != "" && kind != "function" && kind != "custom" {
			h.ProviderTools = append(h.ProviderTools, wire.Provided(kind))
		}
	}
	err = scan.Fields(body, func(name, v []byte) (err error) {
		switch string(name) {
		case "model":
			h.Model, err = scan.String(v)
		case "stream":
			h.Stream = string(v) == "true"
		case "max_tokens", "max_completion_tokens":
			h.MaxOutputTokens = max(h.MaxOutputTokens, int(scan.Int(v)))
		case "n":
			h.Answers = max(h.Answers, int(scan.Int(v)))
		case "tools":
			err = openai.Types(v, provided)
		case "web_search_options":
			if string(v) != "null" {
				provided("web_search", nil)
			}
		case "plugins":
			if !scan.Empty(v) {
				provided("plugins", nil)
			}
		}
		return err
	})
	return h, err
}

// NewTail implements wire.Server.
func (Codec) NewTail() wire.Tail { return tail{} }

// KeepAlive implements wire.Server: four clients break on a data event that they don't know.
func (Codec) KeepAlive() []byte { return []byte(openai.KeepAlive) }

// Refusal implements wire.Server.
func (Codec) Refusal(r wire.Refusal) []byte {
	return wire.JSON(struct {
		Error openai.Error `json:"error"`
	}{openai.Error{Message: r.Message, Type: openai.TypeOf(r.Status), Code: r.Code, Metadata: r.Metadata}})
}

// tail needs no memory: nothing is ever open in a stream of chunks.
type tail struct{}

// Sent implements wire.Tail.
func (tail) Sent([]llm.Event) {}

// Broken implements wire.Tail: an error chunk, and no finish reason, which the model has not
// given.
func (tail) Broken(r wire.Refusal) []byte {
	r.Status = 400
	return sse.Append(nil, "", Codec{}.Refusal(r))
}
