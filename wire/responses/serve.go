package responses

import (
	"errors"

	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/openai"
	"github.com/reprise-run/reprise/wire/internal/scan"
)

var _ wire.Server = Codec{}

// local are the tools that run where the client is.
var local = map[string]bool{"": true, "function": true, "custom": true, "local_shell": true, "apply_patch": true,
	"computer_use_preview": true, "computer": true}

// Head implements wire.Server. A response in the background and a conversation are state that
// the provider keeps; that it stores what it answered is none that a repetition could harm.
func (Codec) Head(body []byte) (h wire.Head, err error) {
	tool := func(kind string) {
		if !local[kind] {
			h.ProviderTools = append(h.ProviderTools, wire.Provided(kind))
		}
	}
	err = scan.Fields(body, func(name, v []byte) (err error) {
		switch string(name) {
		case "model":
			h.Model, err = scan.String(v)
		case "stream":
			h.Stream = string(v) == "true"
		case "max_output_tokens":
			h.MaxOutputTokens = max(h.MaxOutputTokens, int(scan.Int(v)))
		case "tools":
			err = listed(v, tool)
		case "background":
			h.ProviderState = h.ProviderState || string(v) == "true"
		case "conversation":
			h.ProviderState = h.ProviderState || !scan.Empty(v)
		}
		return err
	})
	return h, err
}

// listed calls f for each tool, and for those in a namespace in its place.
func listed(list []byte, f func(kind string)) (err error) {
	inner := func(name, v []byte) error {
		if string(name) == "tools" {
			return openai.Types(v, func(kind string, _ []byte) { f(kind) })
		}
		return nil
	}
	types := openai.Types(list, func(kind string, tool []byte) {
		if kind == "namespace" {
			err = errors.Join(err, openai.Fields(tool, inner))
		} else {
			f(kind)
		}
	})
	return errors.Join(err, types)
}

// NewTail implements wire.Server.
func (Codec) NewTail() wire.Tail { return new(tail) }

// KeepAlive implements wire.Server: nothing but a comment may come before response.created.
func (Codec) KeepAlive() []byte { return []byte(openai.KeepAlive) }

// Refusal implements wire.Server.
func (Codec) Refusal(r wire.Refusal) []byte {
	return wire.JSON(struct {
		Error openai.Error `json:"error"`
	}{openai.Error{Message: r.Message, Type: openai.TypeOf(r.Status), Code: r.Code, Metadata: r.Metadata}})
}
