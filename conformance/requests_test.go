package conformance

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// geminiRequest is put together from the SDK's types, which has none for the whole.
type geminiRequest struct {
	Contents          []*genai.Content        `json:"contents"`
	SystemInstruction *genai.Content          `json:"systemInstruction,omitempty"`
	Tools             []*genai.Tool           `json:"tools,omitempty"`
	ToolConfig        *genai.ToolConfig       `json:"toolConfig,omitempty"`
	GenerationConfig  *genai.GenerationConfig `json:"generationConfig,omitempty"`
}

// verbatim lists requests with parts and tools that go out as they came, and here are those of
// another dialect.
var verbatim = map[string]bool{"gemini/opaque.json": true, "gemini/provider_tools.json": true}

// TestRequests reads every encoded request into the SDK's own type and writes it again: what
// the SDK does not know would be gone.
func TestRequests(t *testing.T) {
	for name, into := range map[string]func() any{
		"chat":      func() any { return new(openai.ChatCompletionNewParams) },
		"responses": func() any { return new(responses.ResponseNewParams) },
		"messages":  func() any { return new(anthropic.MessageNewParams) },
		"gemini":    func() any { return new(geminiRequest) },
	} {
		t.Run(name, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("..", "wire", name, "testdata", "encode", "*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no requests: %v", err)
			}
			for _, file := range files {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
					ours, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					if bytes.HasPrefix(ours, []byte("error:")) || verbatim[filepath.Join(name, filepath.Base(file))] {
						return
					}
					params := into()
					if err := json.Unmarshal(ours, params); err != nil {
						t.Fatal(err)
					}
					theirs, err := json.Marshal(params)
					if err != nil {
						t.Fatal(err)
					}
					got, want := object(t, ours), object(t, theirs)
					delete(got, "stream") // the method sets it, not the caller
					if !reflect.DeepEqual(got, want) {
						t.Errorf("\nours   %v\ntheirs %v", got, want)
					}
				})
			}
		})
	}
}

func object(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	plain(m)
	return m
}

// plain brings to one form what may be written in two, and leaves out what the SDKs forget.
func plain(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if args, ok := value.(map[string]any); value == nil || ok && name == "args" && len(args) == 0 {
				delete(v, name)
			}
			plain(value)
		}
		if text, ok := v["system"].(string); ok {
			v["system"] = []any{map[string]any{"type": "text", "text": text}}
		}
		if choice, ok := v["tool_choice"].(map[string]any); ok && choice["type"] == "function" {
			v["tool_choice"] = map[string]any{"type": "function"} // OpenAI's forgets the name
		}
	case []any:
		for _, value := range v {
			plain(value)
		}
	}
}
