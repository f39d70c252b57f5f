package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/history"
	"github.com/reprise-run/reprise/wire/internal/openai"
)

// proof is the signature of a thinking part: what the provider needs to know its own again.
type proof struct {
	ID        string `json:"id"`
	Encrypted string `json:"encrypted_content"`
}

type request struct {
	Model           string     `json:"model"`
	Instructions    string     `json:"instructions,omitempty"`
	Input           []any      `json:"input"`
	Stream          bool       `json:"stream"`
	Store           bool       `json:"store"`
	Include         []string   `json:"include,omitempty"`
	Tools           []any      `json:"tools,omitempty"`
	ToolChoice      any        `json:"tool_choice,omitempty"`
	MaxOutputTokens int        `json:"max_output_tokens,omitempty"`
	Temperature     *float64   `json:"temperature,omitempty"`
	TopP            *float64   `json:"top_p,omitempty"`
	Reasoning       *reasoning `json:"reasoning,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // the dialect's default, true, refuses most schemas
}

type message struct {
	Type    string    `json:"type"`
	Role    string    `json:"role"`
	Content []content `json:"content"`
}

type content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

type thought struct {
	Type      string    `json:"type"`
	ID        string    `json:"id,omitempty"`
	Summary   []content `json:"summary"`
	Encrypted string    `json:"encrypted_content"`
}

type call struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type result struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"` // string, or []content where there are images
}

// minTokens is the least that the dialect takes as a bound.
const minTokens = 16

// Encode writes the body.
//
// Where a history lacks a call's result, history.Turns puts one that says so. Thinking goes
// back only with the proof that this dialect gave for it, and only before an item of the same
// turn, as the provider demands. The dialect has no stop sequences: a request with some is
// refused. A bound under 16 tokens becomes 16, the dialect's least. A raw body goes out without the
// thoughts that NewWriter's answers had (see foreign).
func (Codec) Encode(req *llm.Request) ([]byte, error) {
	switch {
	case req.Raw != nil:
		raw, err := openai.Raw(req)
		if err != nil {
			return nil, err
		}
		return forget(raw)
	case len(req.Stop) > 0:
		return nil, errors.New("stop: the responses dialect has no stop sequences")
	}
	out := request{
		Model: req.Model, Instructions: req.System, Stream: true, Store: req.ProviderState,
		Temperature: req.Temperature, TopP: req.TopP,
	}
	if req.MaxOutputTokens > 0 {
		out.MaxOutputTokens = max(req.MaxOutputTokens, minTokens)
	}
	if reasons(req.Model) {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	if r := (reasoning{Effort: openai.Effort(req.Reasoning)}); r.Effort != "" || req.Reasoning.Show {
		if req.Reasoning.Show {
			r.Summary = "auto"
		}
		out.Reasoning = &r
	}
	var err error
	if out.Input, err = input(req); err != nil {
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
		return nil, fmt.Errorf("encode responses request: %w", err)
	}
	return body, nil
}

// reasons reports whether the model may reason. Those that don't refuse to be asked for
// encrypted thinking.
func reasons(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	for _, family := range []string{"gpt-3", "gpt-4", "chatgpt-"} {
		if strings.HasPrefix(model, family) {
			return false
		}
	}
	return !strings.HasPrefix(model, "gpt-") || !strings.Contains(model, "-chat")
}

func choice(s string) any {
	switch s {
	case "":
		return nil
	case "auto", "none", "required":
		return s
	}
	return map[string]string{"type": "function", "name": s}
}

func tools(req *llm.Request) ([]any, error) {
	var out []any
	for i := range req.Tools {
		t := &req.Tools[i]
		schema, err := openai.Schema(t)
		if err != nil {
			return nil, err
		}
		out = append(out, tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: schema})
	}
	provided, err := openai.Provided(req.ProviderTools)
	return append(out, provided...), err
}

func input(req *llm.Request) ([]any, error) {
	out := []any{}
	for _, t := range history.Turns(req.Messages, history.Rules{Keep: keep, CallID: callID}) {
		if t.Role == llm.RoleAssistant {
			out = assistant(out, t.Parts)
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
		return role == llm.RoleAssistant && readProof(p).Encrypted != ""
	case llm.PartToolResult, llm.PartImage:
		return role == llm.RoleUser
	case llm.PartOpaque:
		return role == llm.RoleAssistant && p.Name == "compaction" && json.Valid(p.Raw)
	}
	return false
}

// readProof returns the proof of a thinking part, or none where another dialect gave it.
func readProof(p *llm.Part) (own proof) {
	if err := json.Unmarshal([]byte(p.Signature), &own); err != nil {
		return proof{}
	}
	return own
}

// callID shortens the ids of other makers to the length that the dialect takes.
func callID(id string) string {
	const most, kept = 64, 40
	if len(id) <= most {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return strings.ToValidUTF8(id[:kept], "") + "_" + hex.EncodeToString(sum[:8])
}

func assistant(out []any, parts []llm.Part) []any {
	last := len(parts) - 1 // thinking after it is followed by nothing
	for last >= 0 && parts[last].Kind == llm.PartThinking {
		last--
	}
	for i := range parts[:last+1] {
		switch p := &parts[i]; p.Kind {
		case llm.PartText:
			out = append(out, message{"message", "assistant", []content{{Type: "output_text", Text: p.Text}}})
		case llm.PartToolCall:
			out = append(out, call{"function_call", p.CallID, p.Name, string(history.Arguments(p.Arguments))})
		case llm.PartThinking:
			own := readProof(p)
			t := thought{Type: "reasoning", ID: own.ID, Summary: []content{}, Encrypted: own.Encrypted}
			if p.Text != "" {
				t.Summary = append(t.Summary, content{Type: "summary_text", Text: p.Text})
			}
			out = append(out, t)
		case llm.PartOpaque:
			out = append(out, json.RawMessage(p.Raw))
		}
	}
	return out
}

// user appends the results and what the user says beside them.
func user(out []any, parts []llm.Part) ([]any, error) {
	said := message{Type: "message", Role: "user"}
	for i := range parts {
		p := &parts[i]
		if p.Kind == llm.PartToolResult {
			r, err := answer(p)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
			continue
		}
		c, err := show(p)
		if err != nil {
			return nil, err
		}
		said.Content = append(said.Content, c)
	}
	if len(said.Content) == 0 {
		return out, nil
	}
	return append(out, said), nil
}

func answer(p *llm.Part) (result, error) {
	var list []content
	var texts []string
	images := false
	if p.IsError {
		list = append(list, content{Type: "input_text", Text: "Error:"})
	}
	for i := range p.Content {
		c := &p.Content[i]
		switch {
		case c.Kind == llm.PartImage:
			images = true
		case c.Kind == llm.PartText && c.Text != "":
			texts = append(texts, c.Text)
		default:
			continue
		}
		shown, err := show(c)
		if err != nil {
			return result{}, err
		}
		list = append(list, shown)
	}
	r := result{Type: "function_call_output", CallID: p.CallID, Output: list}
	if !images {
		text := strings.Join(texts, "\n")
		if p.IsError {
			text = "Error: " + text
		}
		r.Output = text
	}
	return r, nil
}

func show(p *llm.Part) (content, error) {
	if p.Kind == llm.PartText {
		return content{Type: "input_text", Text: p.Text}, nil
	}
	url, err := openai.ImageURL(p)
	return content{Type: "input_image", ImageURL: url}, err
}
