package messages

import (
	"slices"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/sse"
)

var _ wire.Server = Codec{}

// ours are the versioned tools that run where the client is.
var ours = []string{"bash_", "text_editor_", "computer_", "memory_"}

// Head implements wire.Server.
func (Codec) Head(body []byte) (h wire.Head, err error) {
	tool := func(v []byte) error {
		var kind string
		err := object(v, func(name, v []byte) (err error) {
			if string(name) == "type" {
				kind, err = scan.String(v)
			}
			return err
		})
		client := func(prefix string) bool { return strings.HasPrefix(kind, prefix) }
		if kind != "" && kind != "custom" && !slices.ContainsFunc(ours, client) {
			h.ProviderTools = append(h.ProviderTools, wire.Provided(kind))
		}
		return err
	}
	err = scan.Fields(body, func(name, v []byte) (err error) {
		switch string(name) {
		case "model":
			h.Model, err = scan.String(v)
		case "stream":
			h.Stream = string(v) == "true"
		case "max_tokens":
			h.MaxOutputTokens = max(h.MaxOutputTokens, int(scan.Int(v)))
		case "tools":
			if len(v) > 0 && v[0] == '[' {
				err = scan.Elements(v, tool)
			}
		case "mcp_servers":
			if !scan.Empty(v) {
				h.ProviderTools = append(h.ProviderTools, wire.Provided("mcp"))
			}
		case "container":
			h.ProviderState = h.ProviderState || !scan.Empty(v)
		}
		return err
	})
	return h, err
}

var _ wire.Prefiller = Codec{}

// Prefilled implements wire.Prefiller.
func (Codec) Prefilled(body []byte) bool {
	var last []byte
	var role string
	err := scan.Fields(body, func(name, v []byte) error {
		if string(name) != "messages" {
			return nil
		}
		return scan.Elements(v, func(message []byte) error {
			last = message
			return nil
		})
	})
	if err == nil && last != nil {
		err = scan.Fields(last, func(name, v []byte) (err error) {
			if string(name) == "role" {
				role, err = scan.String(v)
			}
			return err
		})
	}
	return err == nil && role == "assistant"
}

// NewTail implements wire.Server.
func (Codec) NewTail() wire.Tail { return new(tail) }

// KeepAlive implements wire.Server: a comment may come before message_start, a ping may not.
func (Codec) KeepAlive() []byte { return []byte(": keep-alive\n\n") }

type failed struct {
	Type     string            `json:"type"`
	Message  string            `json:"message"`
	Code     string            `json:"code,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Refusal implements wire.Server.
func (Codec) Refusal(r wire.Refusal) []byte {
	return wire.JSON(struct {
		Type  string `json:"type"`
		Error failed `json:"error"`
	}{"error", failed{errorType(r.Status), r.Message, r.Code, r.Metadata}})
}

// errorType is the type that goes with a status (https://docs.anthropic.com/en/api/errors).
func errorType(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503, 529:
		return "overloaded_error"
	case 504:
		return "timeout_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// tail knows the blocks that the client has seen begin and not end.
type tail struct{ open []int64 }

// Sent implements wire.Tail.
func (t *tail) Sent(events []llm.Event) {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case llm.EventText, llm.EventThinking, llm.EventCallDelta:
		default:
			for data := range sse.Data(e.Raw) {
				t.frame(data)
			}
		}
	}
}

func (t *tail) frame(data []byte) {
	var in frame
	if in.read(data) != nil {
		return // the decoder has taken it, so that there is nothing to follow in it
	}
	index := scan.Int(in.index)
	switch in.kind {
	case "content_block_start":
		t.open = append(t.open, index)
	case "content_block_stop":
		t.open = slices.DeleteFunc(t.open, func(i int64) bool { return i == index })
	}
}

// Broken implements wire.Tail: an error after the blocks were closed is final for clients that
// repeat any error while one is open.
func (t *tail) Broken(r wire.Refusal) []byte {
	var out []byte
	for _, index := range t.open {
		out = sse.Append(out, "content_block_stop", wire.JSON(struct {
			Type  string `json:"type"`
			Index int64  `json:"index"`
		}{"content_block_stop", index}))
	}
	r.Status = 400
	return sse.Append(out, "error", Codec{}.Refusal(r))
}
