package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/history"
)

type request struct {
	System     *turn       `json:"systemInstruction,omitempty"`
	Contents   []turn      `json:"contents"`
	Tools      []any       `json:"tools,omitempty"`
	ToolConfig *toolConfig `json:"toolConfig,omitempty"`
	Generation generation  `json:"generationConfig,omitzero"`
}

type turn struct {
	Role  string `json:"role,omitempty"`
	Parts []any  `json:"parts"`
}

// outPart is any part that we send, but for opaque ones.
type outPart struct {
	Text             *string           `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	Signature        string            `json:"thoughtSignature,omitempty"`
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

type fileData struct {
	MIMEType string `json:"mimeType,omitempty"`
	URI      string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type functionResponse struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
	Parts    []any             `json:"parts,omitempty"`
}

type declarations struct {
	Functions []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	Calling calling `json:"functionCallingConfig"`
}

type calling struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

type generation struct {
	Temperature *float64  `json:"temperature,omitempty"`
	TopP        *float64  `json:"topP,omitempty"`
	MaxTokens   int       `json:"maxOutputTokens,omitempty"`
	Stop        []string  `json:"stopSequences,omitempty"`
	Thinking    *thinking `json:"thinkingConfig,omitempty"`
}

// unsigned stands in for the signature of a call that another model made. Gemini 3 and later
// demand one on each turn's first call and let this one pass
// (https://ai.google.dev/gemini-api/docs/thought-signatures).
const unsigned = "skip_thought_signature_validator"

// Encode writes the body of a streaming call.
//
// A tool's result is a text in the field "output", or "error" where the call failed; its images
// go inside the result for Gemini 3 and later, and beside it for others. Thinking goes back
// only with its signature. A call's arguments that are no JSON object go as the text of a field
// "arguments". A ProviderTool without Config is an entry {name: {}}. See thinkingOf for what
// becomes of Reasoning. ProviderState cannot be expressed.
//
// Raw goes out as it is: model and stream switch are in the path.
func (Codec) Encode(req *llm.Request) ([]byte, error) {
	if req.Raw != nil {
		return req.Raw, nil
	}
	if req.ProviderState {
		return nil, errors.New("provider_state: the gemini dialect keeps no state")
	}
	turns := history.Turns(req.Messages, history.Rules{Keep: keep})
	if len(turns) == 0 {
		return nil, errors.New("messages: nothing to send")
	}
	out := request{Tools: tools(req), Generation: generation{Temperature: req.Temperature,
		TopP: req.TopP, MaxTokens: req.MaxOutputTokens, Stop: req.Stop}}
	var err error
	if out.Generation.Thinking, err = thinkingOf(req.Model, req.Reasoning, req.MaxOutputTokens); err != nil {
		return nil, err
	}
	if req.System != "" {
		out.System = &turn{Parts: []any{outPart{Text: &req.System}}}
	}
	if len(req.Tools) > 0 {
		out.ToolConfig = choice(req.ToolChoice)
	}
	modern := version(req.Model) >= 3
	for i := range turns {
		t, err := encodeTurn(&turns[i], modern)
		if err != nil {
			return nil, err
		}
		out.Contents = append(out.Contents, t)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, fmt.Errorf("encode gemini request: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// keep says what the dialect takes from each side.
func keep(role llm.Role, p *llm.Part) bool {
	assistant := role == llm.RoleAssistant
	switch p.Kind {
	case llm.PartText, llm.PartImage:
		return true
	case llm.PartOpaque:
		return len(p.Raw) > 0
	case llm.PartThinking:
		return assistant && p.Signature != ""
	case llm.PartToolCall:
		return assistant
	case llm.PartToolResult:
		return !assistant
	}
	return false
}

func encodeTurn(t *history.Turn, modern bool) (turn, error) {
	out := turn{Role: "user"}
	if t.Role == llm.RoleAssistant {
		out.Role = "model"
	}
	var beside []any
	called := false
	for i := range t.Parts {
		p := &t.Parts[i]
		switch p.Kind {
		case llm.PartToolResult:
			response, images, err := result(p)
			if err != nil {
				return out, err
			}
			if modern {
				response.Parts = images
			} else {
				beside = append(beside, images...)
			}
			out.Parts = append(out.Parts, outPart{FunctionResponse: response})
			if i+1 == len(t.Parts) || t.Parts[i+1].Kind != llm.PartToolResult {
				out.Parts = append(out.Parts, beside...)
			}
		case llm.PartToolCall:
			call := outPart{Signature: p.Signature, FunctionCall: &functionCall{p.CallID, p.Name, history.Arguments(p.Arguments)}}
			if modern && !called && call.Signature == "" {
				call.Signature = unsigned
			}
			called = true
			out.Parts = append(out.Parts, call)
		case llm.PartImage:
			img, err := image(p)
			if err != nil {
				return out, err
			}
			out.Parts = append(out.Parts, img)
		case llm.PartOpaque:
			out.Parts = append(out.Parts, json.RawMessage(p.Raw))
		default:
			// A signature that came with no text goes back as it came, in an empty part.
			out.Parts = append(out.Parts, outPart{Text: &p.Text, Signature: p.Signature,
				Thought: p.Kind == llm.PartThinking && p.Text != ""})
		}
	}
	return out, nil
}

func result(p *llm.Part) (*functionResponse, []any, error) {
	var texts []string
	var images []any
	for i := range p.Content {
		switch c := &p.Content[i]; c.Kind {
		case llm.PartText:
			texts = append(texts, c.Text)
		case llm.PartImage:
			img, err := image(c)
			if err != nil {
				return nil, nil, err
			}
			images = append(images, img)
		}
	}
	field := "output"
	if p.IsError {
		field = "error"
	}
	return &functionResponse{ID: p.CallID, Name: p.Name,
		Response: map[string]string{field: strings.Join(texts, "\n")}}, images, nil
}

func image(p *llm.Part) (outPart, error) {
	switch {
	case len(p.Data) == 0 && p.URL != "":
		return outPart{FileData: &fileData{p.MediaType, p.URL}}, nil
	case len(p.Data) == 0:
		return outPart{}, errors.New("image: neither data nor url")
	case p.MediaType == "":
		return outPart{}, errors.New("image: media_type is missing")
	}
	return outPart{InlineData: &inlineData{p.MediaType, p.Data}}, nil
}

func tools(req *llm.Request) []any {
	var out []any
	var d declarations
	for _, t := range req.Tools {
		d.Functions = append(d.Functions, declaration(t))
	}
	if len(d.Functions) > 0 {
		out = append(out, d)
	}
	for _, t := range req.ProviderTools {
		if len(t.Config) > 0 {
			out = append(out, t.Config)
		} else {
			out = append(out, map[string]struct{}{t.Name: {}})
		}
	}
	return out
}

func choice(s string) *toolConfig {
	switch s {
	case "":
		return nil
	case "auto", "none":
		return &toolConfig{calling{Mode: strings.ToUpper(s)}}
	case "required":
		return &toolConfig{calling{Mode: "ANY"}}
	}
	return &toolConfig{calling{Mode: "ANY", Allowed: []string{s}}}
}
