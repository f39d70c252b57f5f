package conformance

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/reprise-run/reprise/llm"
)

const unstreamed = "the SDK reads no answer that is not a stream"

var chatDiffers = map[string]string{
	"call_arguments_repeated":    "the SDK adds up names and arguments that come again",
	"call_with_new_id_each_time": "the SDK takes the last id, we the first",
	"calls_all_index_zero":       "the SDK goes by the index alone",
	"calls_without_index":        "the SDK goes by the index alone",
	"groq_compound":              "the SDK knows no x_groq",
	"mistral_thinking":           "the SDK knows content as a string alone",
	"moonshot_usage_in_choice":   "the SDK knows no usage in a choice",
	"openrouter_details_only":    "the SDK knows no reasoning_details",
	"openrouter_reasoning":       "the SDK lets a null finish reason replace one",
	"unstreamed":                 unstreamed,
	"vllm_usage_in_each":         "the SDK adds up totals",
	"xai_reasoning_apart":        "the SDK leaves thinking out of the output's count",
}

var responsesDiffers = map[string]string{
	"rest_in_done": "nothing but a done event has the whole text, and SDK users read deltas or the final response",
	"unstreamed":   unstreamed,
}

func openaiClient(base string) openai.Client {
	return openai.NewClient(option.WithBaseURL(base+"/v1/"), option.WithAPIKey("key"), option.WithMaxRetries(0))
}

func openaiChat(ctx context.Context, base string) (answer, error) {
	client := openaiClient(base)
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}})
	var acc openai.ChatCompletionAccumulator
	var a answer
	for stream.Next() {
		chunk := stream.Current()
		acc.AddChunk(chunk)
		for _, c := range chunk.Choices {
			// Not in the SDK's types, since it is not OpenAI's.
			for _, name := range []string{"reasoning_content", "reasoning"} {
				var s string
				if f, ok := c.Delta.JSON.ExtraFields[name]; ok && json.Unmarshal([]byte(f.Raw()), &s) == nil && s != "" {
					a.Thinking += s
					break
				}
			}
		}
	}
	a.Usage = llm.Usage{Input: acc.Usage.PromptTokens, Output: acc.Usage.CompletionTokens,
		CacheRead: acc.Usage.PromptTokensDetails.CachedTokens, Thinking: acc.Usage.CompletionTokensDetails.ReasoningTokens}
	if len(acc.Choices) == 0 {
		return a, stream.Err()
	}
	m := acc.Choices[0].Message
	a.Text = m.Content + m.Refusal
	reason := acc.Choices[0].FinishReason
	for _, c := range m.ToolCalls {
		arguments := canonical(c.Function.Arguments)
		if reason == "length" && !json.Valid([]byte(c.Function.Arguments)) {
			continue
		}
		a.Calls = append(a.Calls, call{c.ID, c.Function.Name, arguments})
	}
	switch {
	case m.Refusal != "":
		a.Stop = llm.StopFiltered
	case reason == "stop" && len(a.Calls) > 0:
		a.Stop = llm.StopToolCalls
	default:
		a.Stop = map[string]llm.StopReason{"stop": llm.StopEnd, "length": llm.StopLength,
			"tool_calls": llm.StopToolCalls, "content_filter": llm.StopFiltered}[reason]
	}
	return a, stream.Err()
}

// openaiResponses takes text and calls from the final response where it holds them, and from
// the deltas else: our codec never sees them so.
func openaiResponses(ctx context.Context, base string) (answer, error) {
	client := openaiClient(base)
	stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: "m",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}})
	var told, final answer
	var output []responses.ResponseOutputItemUnion
	for stream.Next() {
		e := stream.Current()
		switch e.Type {
		case "response.output_text.delta", "response.refusal.delta":
			told.Text += e.Delta
		case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
			told.Thinking += e.Delta
		case "response.output_item.done":
			output = append(output, e.Item)
		case "response.completed", "response.incomplete":
			u := e.Response.Usage
			final.Usage = llm.Usage{Input: u.InputTokens, Output: u.OutputTokens,
				CacheRead: u.InputTokensDetails.CachedTokens, Thinking: u.OutputTokensDetails.ReasoningTokens}
			final.Stop = map[string]llm.StopReason{"": llm.StopEnd, "max_output_tokens": llm.StopLength,
				"content_filter": llm.StopFiltered}[e.Response.IncompleteDetails.Reason]
			if len(e.Response.Output) > 0 {
				output = e.Response.Output
			}
		}
	}
	var thoughts []string
	for _, item := range output {
		switch item.Type {
		case "message":
			for _, c := range item.Content {
				final.Text += c.Text + c.Refusal
				if c.Refusal != "" && final.Stop == llm.StopEnd {
					final.Stop = llm.StopFiltered
				}
			}
		case "reasoning":
			for _, s := range item.Summary {
				thoughts = append(thoughts, s.Text)
			}
		case "function_call", "custom_tool_call":
			if item.Status == "incomplete" {
				continue
			}
			c := call{item.CallID, item.Name, item.Input}
			if item.Type == "function_call" {
				c.Arguments = canonical(item.Arguments.OfString)
			}
			final.Calls = append(final.Calls, c)
			if final.Stop == llm.StopEnd {
				final.Stop = llm.StopToolCalls
			}
		}
	}
	final.Thinking = strings.Join(thoughts, "\n\n")
	if final.Text == "" {
		final.Text = told.Text
	}
	if final.Thinking == "" {
		final.Thinking = told.Thinking
	}
	return final, stream.Err()
}
