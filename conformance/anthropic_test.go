package conformance

import (
	"context"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/reprise-run/reprise/llm"
)

var messagesDiffers = map[string]string{
	"error_after_stop":       "for the SDK the last terminal event wins, for us the first",
	"max_tokens_in_call":     "the SDK makes a whole call of one that was cut off",
	"refusal_in_call":        "the SDK makes a whole call of one that was cut off",
	"relay_bare":             "the SDK needs event names",
	"relay_event_names_only": "the SDK needs types",
	"relay_indexes":          "the SDK wants indexes without gaps",
	"relay_input_whole":      "the SDK drops arguments that come with a block's start",
	"relay_text_after_call":  "the SDK wants every block to begin",
}

func anthropicMessages(ctx context.Context, base string) (answer, error) {
	client := anthropic.NewClient(option.WithBaseURL(base), option.WithAPIKey("key"), option.WithMaxRetries(0))
	stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{Model: "m", MaxTokens: 100,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}})
	var m anthropic.Message
	var broken error
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil && broken == nil {
			broken = err
		}
	}
	if broken == nil {
		broken = stream.Err()
	}
	a := answer{
		Usage: llm.Usage{
			Input:  m.Usage.InputTokens + m.Usage.CacheReadInputTokens + m.Usage.CacheCreationInputTokens,
			Output: m.Usage.OutputTokens, CacheRead: m.Usage.CacheReadInputTokens, CacheWrite: m.Usage.CacheCreationInputTokens,
			Thinking: m.Usage.OutputTokensDetails.ThinkingTokens,
		},
		Stop: map[anthropic.StopReason]llm.StopReason{"end_turn": llm.StopEnd, "tool_use": llm.StopToolCalls,
			"max_tokens": llm.StopLength, "stop_sequence": llm.StopSequence, "pause_turn": llm.StopPaused,
			"refusal": llm.StopFiltered, "model_context_window_exceeded": llm.StopLength}[m.StopReason],
	}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			a.Text += b.Text
		case "thinking":
			a.Thinking += b.Thinking
		case "tool_use":
			a.Calls = append(a.Calls, call{b.ID, b.Name, canonical(string(b.Input))})
		}
	}
	return a, broken
}
