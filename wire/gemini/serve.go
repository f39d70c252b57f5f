package gemini

import (
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/scan"
)

var _ wire.Server = Codec{}

// Head implements wire.Server. Model and stream are in the path. Every tool but declared
// functions and computer use, whose actions the client takes, runs at the provider.
func (Codec) Head(body []byte) (h wire.Head, err error) {
	tool := func(v []byte) error {
		return object(v, func(name, v []byte) error {
			switch strings.ReplaceAll(strings.ToLower(string(name)), "_", "") {
			case "functiondeclarations", "computeruse":
			default:
				if string(v) != "null" {
					h.ProviderTools = append(h.ProviderTools, wire.Provided(string(name)))
				}
			}
			return nil
		})
	}
	err = scan.Fields(body, func(name, v []byte) error {
		switch string(name) {
		case "tools":
			return elements(v, tool)
		case "generationConfig", "generation_config":
			return object(v, func(name, v []byte) error {
				switch string(name) {
				case "maxOutputTokens", "max_output_tokens":
					h.MaxOutputTokens = max(h.MaxOutputTokens, int(scan.Int(v)))
				case "candidateCount", "candidate_count":
					h.Answers = max(h.Answers, int(scan.Int(v)))
				}
				return nil
			})
		}
		return nil
	})
	return h, err
}

// NewTail implements wire.Server.
func (Codec) NewTail() wire.Tail { return tail{} }

// KeepAlive implements wire.Server: an empty text, as comments break a client of Google's.
func (Codec) KeepAlive() []byte {
	return []byte(`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"index":0}]}` + "\n\n")
}

type failed struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
	Details []any  `json:"details,omitempty"`
}

// Refusal implements wire.Server (https://cloud.google.com/apis/design/errors).
func (Codec) Refusal(r wire.Refusal) []byte {
	f := failed{Code: r.Status, Message: r.Message, Status: statusName(r.Status)}
	if r.Code != "" {
		f.Details = append(f.Details, map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
			"reason": strings.ToUpper(r.Code), "domain": "reprise", "metadata": r.Metadata})
	}
	return wire.JSON(map[string]any{"error": f})
}

func statusName(status int) string {
	switch status {
	case 401:
		return "UNAUTHENTICATED"
	case 403:
		return "PERMISSION_DENIED"
	case 404:
		return "NOT_FOUND"
	case 429:
		return "RESOURCE_EXHAUSTED"
	case 503, 529:
		return "UNAVAILABLE"
	case 504:
		return "DEADLINE_EXCEEDED"
	}
	if status >= 500 {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// tail ends nothing: a client that reads an error inside the stream asks again, whatever its
// code, and one whose connection is cut tells its user.
type tail struct{}

// Sent implements wire.Tail.
func (tail) Sent([]llm.Event) {}

// Broken implements wire.Tail.
func (tail) Broken(wire.Refusal) []byte { return nil }
