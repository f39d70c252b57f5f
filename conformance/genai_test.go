package conformance

import (
	"context"
	"encoding/json"

	"google.golang.org/genai"

	"github.com/reprise-run/reprise/llm"
)

var geminiDiffers = map[string]string{
	"call_args_text":       "the SDK knows arguments as an object alone",
	"call_in_pieces":       "the SDK makes a call of every piece",
	"call_never_ends":      "the SDK makes a call of every piece",
	"call_with_id":         "the SDK keeps an id that two calls share",
	"error_beside_content": "the SDK drops what comes beside an error",
	"unknown_fields":       "the SDK takes no comments",
}

func googleGemini(ctx context.Context, base string) (answer, error) {
	client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "key", Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: base}})
	if err != nil {
		return answer{}, err
	}
	var a answer
	var end error
	for r, err := range client.Models.GenerateContentStream(ctx, "m", genai.Text("hi"), nil) {
		if err != nil {
			end = err
			break
		}
		if u := r.UsageMetadata; u != nil {
			a.Usage.Merge(&llm.Usage{
				Input:     int64(u.PromptTokenCount + u.ToolUsePromptTokenCount),
				Output:    int64(u.CandidatesTokenCount + u.ThoughtsTokenCount),
				CacheRead: int64(u.CachedContentTokenCount), Thinking: int64(u.ThoughtsTokenCount),
			})
		}
		if r.PromptFeedback != nil && r.PromptFeedback.BlockReason != "" {
			a.Stop = llm.StopFiltered
		}
		for _, c := range r.Candidates {
			if c.Index == 0 {
				if err := candidate(&a, c); err != nil {
					return a, err
				}
			}
		}
	}
	if len(a.Calls) > 0 && a.Stop == llm.StopEnd {
		a.Stop = llm.StopToolCalls
	}
	return a, end
}

func candidate(a *answer, c *genai.Candidate) error {
	if c.FinishReason != "" {
		a.Stop = map[genai.FinishReason]llm.StopReason{"STOP": llm.StopEnd, "MAX_TOKENS": llm.StopLength,
			"SAFETY": llm.StopFiltered, "RECITATION": llm.StopFiltered, "OTHER": "other",
			"MALFORMED_FUNCTION_CALL": llm.StopMalformed}[c.FinishReason]
	}
	if c.Content == nil {
		return nil
	}
	for _, p := range c.Content.Parts {
		switch {
		case p.FunctionCall != nil:
			arguments := ""
			if p.FunctionCall.Args != nil {
				b, err := json.Marshal(p.FunctionCall.Args)
				if err != nil {
					return err
				}
				arguments = string(b)
			}
			a.Calls = append(a.Calls, call{p.FunctionCall.ID, p.FunctionCall.Name, canonical(arguments)})
		case p.Thought:
			a.Thinking += p.Text
		default:
			a.Text += p.Text
		}
	}
	return nil
}
