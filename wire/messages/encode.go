package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/history"
	"github.com/reprise-run/reprise/wire/internal/rawjson"
)

// answerTokens is how long an answer may be, thinking apart, where the request does not say:
// the dialect demands a number, and every model and compatible server takes this one.
const answerTokens = 8192

type request struct {
	Model         string        `json:"model"`
	MaxTokens     int           `json:"max_tokens"`
	System        string        `json:"system,omitempty"`
	Messages      []message     `json:"messages"`
	Tools         []any         `json:"tools,omitempty"`
	ToolChoice    *toolChoice   `json:"tool_choice,omitempty"`
	Thinking      *thinking     `json:"thinking,omitempty"`
	OutputConfig  *outputConfig `json:"output_config,omitempty"`
	Temperature   *float64      `json:"temperature,omitempty"`
	TopP          *float64      `json:"top_p,omitempty"`
	StopSequences []string      `json:"stop_sequences,omitempty"`
	Stream        bool          `json:"stream"`
}

type message struct {
	Role    llm.Role `json:"role"`
	Content []any    `json:"content"`
}

// outBlock is any block that we send, but for opaque ones.
type outBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Data      string          `json:"data,omitempty"`
	Source    *source         `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []any           `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      []byte `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
}

type toolChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// Encode writes the body of a streaming call.
//
// Where the request states no MaxOutputTokens, max_tokens is 8192 and the room for thinking on
// top. An effort is sent as such to Claude 4.6 and later, and as a budget to every other model
// (see think). Temperature and TopP are left out where the model thinks or is Claude 4.7 or
// later, which refuse them. Texts of white space, thinking without a signature and an
// assistant's images are refused too, and left out. Arguments that are no JSON object go as the
// text of a field "arguments". A ProviderTool needs its Config. ProviderState cannot be
// expressed.
//
// Raw goes out with model and stream set, and without the thoughts that NewWriter's answers had
// (see unsigned); where nothing changes, it is Raw itself.
func (Codec) Encode(req *llm.Request) ([]byte, error) {
	if req.Raw != nil {
		model, err := json.Marshal(req.Model)
		if err != nil {
			return nil, fmt.Errorf("encode model: %w", err)
		}
		fields := []rawjson.Field{{Name: "model", Value: string(model)}}
		if !req.Whole {
			fields = append(fields, rawjson.Field{Name: "stream", Value: "true"})
		}
		body, err := rawjson.Set(req.Raw, fields...)
		if err == nil {
			body, err = forget(body)
		}
		if err != nil {
			return nil, fmt.Errorf("raw messages request: %w", err)
		}
		return body, nil
	}
	if req.ProviderState {
		return nil, errors.New("provider_state: the messages dialect keeps no state")
	}
	turns := history.Turns(req.Messages, history.Rules{Keep: keep, CallID: callID})
	if len(turns) == 0 {
		return nil, errors.New("messages: nothing to send")
	}
	out := request{Model: req.Model, System: req.System, StopSequences: req.Stop, Stream: true}
	var err error
	if out.Tools, err = tools(req); err != nil {
		return nil, err
	}
	if len(out.Tools) > 0 {
		out.ToolChoice = choice(req.ToolChoice)
	}
	for _, t := range turns {
		m := message{Role: t.Role, Content: make([]any, len(t.Parts))}
		for i := range t.Parts {
			if m.Content[i], err = encodePart(&t.Parts[i]); err != nil {
				return nil, err
			}
		}
		out.Messages = append(out.Messages, m)
	}
	if err := out.think(req, turns); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, fmt.Errorf("encode messages request: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// keep says what the dialect takes from each side.
func keep(role llm.Role, p *llm.Part) bool {
	assistant := role == llm.RoleAssistant
	switch p.Kind {
	case llm.PartText:
		return strings.TrimSpace(p.Text) != ""
	case llm.PartOpaque:
		// A delta that belonged to no block of its own is nothing to send back.
		return len(p.Raw) > 0 && !strings.HasSuffix(p.Name, "_delta")
	case llm.PartThinking:
		return assistant && p.Signature != ""
	case llm.PartRedacted:
		return assistant && p.Text != ""
	case llm.PartToolCall:
		return assistant
	case llm.PartToolResult, llm.PartImage:
		return !assistant
	}
	return false
}

// callID keeps to the characters that the dialect takes in an id.
func callID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

func encodePart(p *llm.Part) (any, error) {
	switch p.Kind {
	case llm.PartThinking:
		return outBlock{Type: "thinking", Thinking: &p.Text, Signature: p.Signature}, nil
	case llm.PartRedacted:
		return outBlock{Type: "redacted_thinking", Data: p.Text}, nil
	case llm.PartToolCall:
		return outBlock{Type: "tool_use", ID: p.CallID, Name: p.Name, Input: history.Arguments(p.Arguments)}, nil
	case llm.PartOpaque:
		return json.RawMessage(p.Raw), nil
	case llm.PartImage:
		src, err := imageSource(p)
		return outBlock{Type: "image", Source: src}, err
	case llm.PartToolResult:
		b := outBlock{Type: "tool_result", ToolUseID: p.CallID, IsError: p.IsError}
		for i := range p.Content {
			c := &p.Content[i]
			if c.Kind != llm.PartImage && (c.Kind != llm.PartText || !keep(llm.RoleUser, c)) {
				continue
			}
			sub, err := encodePart(c)
			if err != nil {
				return nil, err
			}
			b.Content = append(b.Content, sub)
		}
		return b, nil
	}
	return outBlock{Type: "text", Text: p.Text}, nil
}

func imageSource(p *llm.Part) (*source, error) {
	switch {
	case len(p.Data) == 0 && p.URL != "":
		return &source{Type: "url", URL: p.URL}, nil
	case len(p.Data) == 0:
		return nil, errors.New("image: neither data nor url")
	case p.MediaType == "":
		return nil, errors.New("image: media_type is missing")
	}
	return &source{Type: "base64", MediaType: p.MediaType, Data: p.Data}, nil
}

func tools(req *llm.Request) ([]any, error) {
	var out []any
	for _, t := range req.Tools {
		if len(t.Schema) == 0 {
			t.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, tool(t))
	}
	for _, t := range req.ProviderTools {
		if len(t.Config) == 0 {
			return nil, fmt.Errorf("provider_tools: %s has no config", t.Name)
		}
		out = append(out, t.Config)
	}
	return out, nil
}

func choice(s string) *toolChoice {
	switch s {
	case "":
		return nil
	case "auto", "none":
		return &toolChoice{Type: s}
	case "required":
		return &toolChoice{Type: "any"}
	}
	return &toolChoice{Type: "tool", Name: s}
}
