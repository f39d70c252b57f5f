package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/transport"
)

// stage is a provider that fails on cue.
func stage() (*rehearsal.Server, *httptest.Server) {
	upstream, err := rehearsal.New()
	if err != nil {
		panic(err)
	}
	return upstream, httptest.NewServer(upstream)
}

// prompts streams one prompt to a model with each SDK, as it comes, over the given transport. It
// returns the text, and the names and arguments of the calls that a program would run.
var prompts = map[string]func(ctx context.Context, c *http.Client, base, model string) (string, error){
	"openai chat": func(ctx context.Context, c *http.Client, base, model string) (string, error) {
		client := openai.NewClient(option.WithBaseURL(base+"/v1/"), option.WithAPIKey("key"), option.WithHTTPClient(c))
		stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
			Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello?")}})
		var text strings.Builder
		for stream.Next() {
			for _, c := range stream.Current().Choices {
				text.WriteString(c.Delta.Content)
				for _, call := range c.Delta.ToolCalls {
					text.WriteString(call.Function.Name + call.Function.Arguments)
				}
			}
		}
		return text.String(), stream.Err()
	},
	"openai responses": func(ctx context.Context, c *http.Client, base, model string) (string, error) {
		client := openai.NewClient(option.WithBaseURL(base+"/v1/"), option.WithAPIKey("key"), option.WithHTTPClient(c))
		stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: model,
			Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello?")}})
		var text strings.Builder
		for stream.Next() {
			switch e := stream.Current(); {
			case e.Type == "response.output_text.delta":
				text.WriteString(e.Delta)
			case e.Type == "response.output_item.done" && e.Item.Type == "function_call":
				text.WriteString(e.Item.Name + e.Item.Arguments.OfString)
			case e.Type == "response.failed":
				return text.String(), errors.New(e.Response.Error.Message)
			}
		}
		return text.String(), stream.Err()
	},
	"anthropic": func(ctx context.Context, c *http.Client, base, model string) (string, error) {
		client := anthropic.NewClient(anthropicoption.WithBaseURL(base), anthropicoption.WithAPIKey("key"), anthropicoption.WithHTTPClient(c))
		stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{Model: anthropic.Model(model), MaxTokens: 1000,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello?"))}})
		var text strings.Builder
		for stream.Next() {
			e := stream.Current()
			text.WriteString(e.ContentBlock.Name + e.Delta.Text + e.Delta.PartialJSON)
		}
		return text.String(), stream.Err()
	},
	"genai": func(ctx context.Context, c *http.Client, base, model string) (string, error) {
		client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "key", Backend: genai.BackendGeminiAPI, HTTPClient: c,
			HTTPOptions: genai.HTTPOptions{BaseURL: base}})
		if err != nil {
			return "", err
		}
		var text strings.Builder
		for r, err := range client.Models.GenerateContentStream(ctx, model, genai.Text("Hello?"), nil) {
			if err != nil {
				return text.String(), err
			}
			for _, c := range r.Candidates {
				if c.Content == nil {
					continue
				}
				for _, part := range c.Content.Parts {
					if !part.Thought {
						text.WriteString(part.Text)
					}
					if call := part.FunctionCall; call != nil {
						arguments, err := json.Marshal(call.Args)
						if err != nil {
							return text.String(), err
						}
						text.WriteString(call.Name + string(arguments))
					}
				}
			}
		}
		return text.String(), nil
	},
}

// Every SDK, with its own retries on: what failed before output is repaired, what broke after it is
// an error and is asked once, and what does not pass is asked once.
func TestTransportUnderSDKs(t *testing.T) {
	for name, prompt := range prompts {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				model    string
				says     string
				broken   bool // the error is a *recovery.Stopped
				fails    bool
				requests int
			}{
				{"overloaded-then-ok-fast", "models.\n", false, false, 2},
				{"cut-before-text-then-ok-fast", "models.\n", false, false, 2},
				{"cut-after-text-fast", "*rehearsed* ", true, true, 1},
				{"ended-after-text-fast", "*rehearsed* ", true, true, 1},
				{"failed-inside-text-fast", "*rehearsed* ", true, true, 1},
				{"rate-limited-3000s", "", false, true, 1},
				{"quota", "", false, true, 1},
				{"overloaded", "", false, true, 3},
			} {
				upstream, server := stage()
				policy := recovery.DefaultPolicy()
				policy.Tier1.Base = 1
				way := &transport.Transport{Policy: policy}
				text, err := prompt(t.Context(), &http.Client{Transport: way}, server.URL, c.model)
				_, stopped := errors.AsType[*recovery.Stopped](err)
				worded := err != nil && strings.Contains(err.Error(), "stream_interrupted")
				if !strings.HasSuffix(text, c.says) || (err != nil) != c.fails || c.broken && !stopped && !worded {
					t.Errorf("%s: %q, %T %v", c.model, text, err, err)
				}
				if n := upstream.Requests().Total; n != c.requests {
					t.Errorf("%s: %d requests, want %d", c.model, n, c.requests)
				}
				way.CloseIdleConnections()
				server.Close()
			}
		})
	}
}

// One line makes OpenAI's SDK replay-safe.
func Example_openai() {
	upstream, server := stage()
	defer server.Close()

	client := openai.NewClient(option.WithBaseURL(server.URL+"/v1/"), option.WithAPIKey("key"),
		option.WithHTTPClient(&http.Client{Transport: new(transport.Transport)}))

	stream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model: "cut-before-text-then-ok-fast", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello?")}})
	said := false
	for stream.Next() {
		said = said || len(stream.Current().Choices) > 0 && stream.Current().Choices[0].Delta.Content != ""
	}
	fmt.Println(said, stream.Err(), upstream.Requests().Total, "requests")
	// Output: true <nil> 2 requests
}

// One line makes Anthropic's SDK replay-safe. With HoldWhole, a break in the middle is repaired too.
func Example_anthropic() {
	upstream, server := stage()
	defer server.Close()

	client := anthropic.NewClient(anthropicoption.WithBaseURL(server.URL), anthropicoption.WithAPIKey("key"),
		anthropicoption.WithHTTPClient(&http.Client{Transport: &transport.Transport{Hold: replay.Hold{Mode: replay.HoldWhole}}}))

	stream := client.Messages.NewStreaming(context.Background(), anthropic.MessageNewParams{Model: "failed-inside-text-once-fast", MaxTokens: 1000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello?"))}})
	stops := 0
	for stream.Next() {
		if stream.Current().Type == "message_stop" {
			stops++
		}
	}
	fmt.Println(stops, stream.Err(), upstream.Requests().Total, "requests")
	// Output: 1 <nil> 2 requests
}

// One line makes Google's SDK, which never repeats anything, replay-safe.
func Example_genai() {
	upstream, server := stage()
	defer server.Close()
	ctx := context.Background()

	client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "key", Backend: genai.BackendGeminiAPI,
		HTTPClient: &http.Client{Transport: new(transport.Transport)}, HTTPOptions: genai.HTTPOptions{BaseURL: server.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := client.Models.GenerateContent(ctx, "503-then-ok-fast", genai.Text("Hello?"), nil)
	fmt.Println(answer != nil && answer.Text() != "", err, upstream.Requests().Total, "requests")
	// Output: true <nil> 2 requests
}
