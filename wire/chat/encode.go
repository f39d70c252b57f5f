package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/history"
	"github.com/reprise-run/reprise/wire/internal/openai"
)

// The signatures of thinking that came in a field of its own, and that goes back in it.
const (
	proofContent = "reasoning_content"
	proofPlain   = "reasoning"
)

type request struct {
	Model               string         `json:"model"`
	Messages            []message      `json:"messages"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	Tools               []any          `json:"tools,omitempty"`
	ToolChoice          any            `json:"tool_choice,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	TopP                *float64       `json:"top_p,omitempty"`
	Stop                []string       `json:"stop,omitempty"`
	ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
	Store               bool           `json:"store,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role             string     `json:"role"`
	Content          any        `json:"content"` // string, []content, or nil beside tool calls
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
}

type content struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Arguments   string          `json:"arguments,omitempty"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// Encode writes the body.
//
// A raw body is not asked for usage: its stream options are the caller's. Where a history
// lacks a call's result, history.Turns puts one that says so. Images in tool results follow
// the results as a user's message, since the dialect takes text alone there. Thinking goes
// back only to servers that gave it in a field of its own, and only for the turn that is
// still going on, as they ask; thinking of other dialects is left out.
func (c Codec) Encode(req *llm.Request) ([]byte, error) {
	if req.Raw != nil {
		return openai.Raw(req)
	}
	out := request{
		Model: req.Model, Stream: true, Temperature: req.Temperature, TopP: req.TopP,
		Stop: req.Stop, ReasoningEffort: openai.Effort(req.Reasoning), Store: req.ProviderState,
	}
	if !c.Strict {
		out.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if openAIReasons(req.Model) {
		out.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		out.MaxTokens = req.MaxOutputTokens
	}
	var err error
	if out.Messages, err = messages(req, c.callID); err != nil {
		return nil, err
	}
	if out.Tools, err = tools(req); err != nil {
		return nil, err
	}
	if len(out.Tools) > 0 {
		out.ToolChoice = choice(req.ToolChoice)
	}
	body, err := openai.Body(out)
	if err != nil {
		return nil, fmt.Errorf("encode chat request: %w", err)
	}
	return body, nil
}

// openAIReasons reports whether the model is one of OpenAI's that refuse max_tokens. Strict
// servers of other makers refuse the newer name.
func openAIReasons(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	for _, family := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if rest, ok := strings.CutPrefix(model, family); ok && (rest == "" || rest[0] == '-' || rest[0] == '.') {
			return true
		}
	}
	return false
}

func choice(s string) any {
	switch s {
	case "":
		return nil
	case "auto", "none", "required":
		return s
	}
	return map[string]any{"type": "function", "function": map[string]string{"name": s}}
}

func tools(req *llm.Request) ([]any, error) {
	var out []any
	for i := range req.Tools {
		t := &req.Tools[i]
		schema, err := openai.Schema(t)
		if err != nil {
			return nil, err
		}
		out = append(out, tool{"function", function{Name: t.Name, Description: t.Description, Parameters: schema}})
	}
	provided, err := openai.Provided(req.ProviderTools)
	return append(out, provided...), err
}

// callID makes other makers' ids acceptable: OpenAI takes 40 characters, Mistral exactly nine
// letters and digits.
func (c Codec) callID(id string) string {
	const most, strict = 40, 9
	sum := sha256.Sum256([]byte(id))
	short := hex.EncodeToString(sum[:])
	switch {
	case c.Strict && (len(id) != strict || strings.ContainsFunc(id, notAlphanumeric)):
		return short[:strict]
	case len(id) > most:
		return short[:most]
	}
	return id
}

func notAlphanumeric(r rune) bool {
	return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
}

func messages(req *llm.Request, callID func(string) string) ([]message, error) {
	out := []message{}
	if req.System != "" {
		out = append(out, message{Role: "system", Content: req.System})
	}
	turns := history.Turns(req.Messages, history.Rules{Keep: keep, CallID: callID})
	said := 0 // index of the last turn in which the user says something
	for i, t := range turns {
		if t.Role == llm.RoleUser && len(t.Parts) > 0 && t.Parts[len(t.Parts)-1].Kind != llm.PartToolResult {
			said = i
		}
	}
	for i, t := range turns {
		if t.Role == llm.RoleAssistant {
			out = append(out, assistant(t.Parts, i > said)...)
			continue
		}
		var err error
		if out, err = user(out, t.Parts); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func keep(role llm.Role, p *llm.Part) bool {
	switch p.Kind {
	case llm.PartText:
		return true
	case llm.PartToolCall:
		return role == llm.RoleAssistant
	case llm.PartThinking:
		return role == llm.RoleAssistant && (p.Signature == proofContent || p.Signature == proofPlain)
	case llm.PartToolResult, llm.PartImage:
		return role == llm.RoleUser
	}
	return false
}

// assistant returns the turn as one message, or as none where nothing of it can be sent.
func assistant(parts []llm.Part, current bool) []message {
	m := message{Role: "assistant"}
	var text strings.Builder
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case llm.PartText:
			text.WriteString(p.Text)
		case llm.PartToolCall:
			m.ToolCalls = append(m.ToolCalls, toolCall{p.CallID, "function",
				function{Name: p.Name, Arguments: string(history.Arguments(p.Arguments))}})
		case llm.PartThinking:
			if !current {
				continue
			}
			if p.Signature == proofContent {
				m.ReasoningContent += p.Text
			} else {
				m.Reasoning += p.Text
			}
		}
	}
	switch {
	case text.Len() > 0:
		m.Content = text.String()
	case len(m.ToolCalls) == 0:
		return nil
	}
	return []message{m}
}

// user appends the results and what the user says beside them.
func user(out []message, parts []llm.Part) ([]message, error) {
	var said []content
	images := false
	image := func(p *llm.Part) error {
		url, err := openai.ImageURL(p)
		said = append(said, content{Type: "image_url", ImageURL: &imageURL{url}})
		images = true
		return err
	}
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case llm.PartText:
			said = append(said, content{Type: "text", Text: p.Text})
		case llm.PartImage:
			if err := image(p); err != nil {
				return nil, err
			}
		case llm.PartToolResult:
			var texts []string
			shown := false
			for j := range p.Content {
				switch c := &p.Content[j]; c.Kind {
				case llm.PartText:
					texts = append(texts, c.Text)
				case llm.PartImage:
					if !shown {
						shown = true
						said = append(said, content{Type: "text", Text: "Images in the result of " + p.Name + " (" + p.CallID + "):"})
					}
					if err := image(c); err != nil {
						return nil, err
					}
				}
			}
			text := strings.Join(texts, "\n")
			if p.IsError {
				text = "Error: " + text
			}
			out = append(out, message{Role: "tool", ToolCallID: p.CallID, Content: text})
		}
	}
	switch {
	case len(said) == 0:
		return out, nil
	case images:
		return append(out, message{Role: "user", Content: said}), nil
	}
	texts := make([]string, len(said)) // some servers take lists only from models that see
	for i := range said {
		texts[i] = said[i].Text
	}
	return append(out, message{Role: "user", Content: strings.Join(texts, "\n\n")}), nil
}
