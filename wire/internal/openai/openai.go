// Package openai holds what a request says alike in OpenAI's two dialects, chat and responses.
package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/rawjson"
)

// Raw returns the raw body with the request's model, where it names one, and streaming on unless
// the answer is to come whole.
func Raw(req *llm.Request) ([]byte, error) {
	var fields []rawjson.Field
	if !req.Whole {
		fields = append(fields, rawjson.Field{Name: "stream", Value: "true"})
	}
	if req.Model != "" {
		model, err := json.Marshal(req.Model)
		if err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		fields = append(fields, rawjson.Field{Name: "model", Value: string(model)})
	}
	b, err := rawjson.Set(req.Raw, fields...)
	if err != nil {
		return nil, fmt.Errorf("raw: %w", err)
	}
	return b, nil
}

// Body returns the JSON of a request, with <, > and & as they are.
func Body(request any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(request); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// Effort returns the effort, and for a budget alone the nearest.
func Effort(r llm.Reasoning) string {
	switch {
	case r.Effort != "" || r.Budget <= 0:
		return r.Effort
	case r.Budget <= 4<<10:
		return "low"
	case r.Budget <= 16<<10:
		return "medium"
	}
	return "high"
}

// Schema returns the schema of a tool's arguments.
func Schema(t *llm.Tool) (json.RawMessage, error) {
	switch {
	case len(t.Schema) == 0:
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	case !json.Valid(t.Schema):
		return nil, fmt.Errorf("tools: schema of %q is not JSON", t.Name)
	}
	return t.Schema, nil
}

// Provided returns the entries of the tools that the provider runs.
func Provided(tools []llm.ProviderTool) ([]any, error) {
	var out []any
	for _, t := range tools {
		switch {
		case len(t.Config) == 0:
			out = append(out, map[string]string{"type": t.Name})
		case json.Valid(t.Config):
			out = append(out, t.Config)
		default:
			return nil, fmt.Errorf("provider_tools: config of %q is not JSON", t.Name)
		}
	}
	return out, nil
}

// Image is the part that shows an image, given as ImageURL gives it.
func Image(url string) llm.Part {
	if kind, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,"); ok && strings.HasPrefix(url, "data:") {
		if b, err := base64.StdEncoding.DecodeString(data); err == nil {
			return llm.Part{Kind: llm.PartImage, MediaType: kind, Data: b}
		}
	}
	return llm.Part{Kind: llm.PartImage, URL: url}
}

// ImageURL returns an image's address, or the image as a data URL.
func ImageURL(p *llm.Part) (string, error) {
	switch {
	case p.URL != "":
		return p.URL, nil
	case len(p.Data) == 0 || p.MediaType == "":
		return "", errors.New("messages: image without address, or without data and media type")
	}
	return "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data), nil
}
