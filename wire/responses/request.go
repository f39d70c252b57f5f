package responses

import (
	"encoding/json"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/openai"
	"github.com/reprise-run/reprise/wire/internal/strict"
)

// ReadRequest implements wire.Server. That the provider stores what it answers is lost where a
// request asks for it, not where the dialect does so by itself: who builds on it names what was
// stored (previous_response_id), which is lost by that name.
func (Codec) ReadRequest(body []byte) (*llm.Request, error) {
	req := new(llm.Request)
	err := strict.Read(body, func(o *strict.Object) {
		req.Model, req.System, req.MaxOutputTokens = o.String("model"), o.String("instructions"), o.Int("max_output_tokens")
		req.Temperature, req.TopP = o.Float("temperature"), o.Float("top_p")
		o.Content("input", func(s string) { say(req, llm.RoleUser, llm.Text(s)) }, func(i *strict.Object) { readInput(req, i) })
		if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == llm.RoleAssistant {
			o.Lose("input", "the last is the answer's own beginning")
		}
		o.Each("tools", func(t *strict.Object) { openai.ReadTool(req, t, "") })
		req.ToolChoice = openai.ReadChoice(o, "")
		o.Object("reasoning", func(r *strict.Object) {
			req.Reasoning.Effort = r.String("effort")
			req.Reasoning.Show = r.Has("summary") || r.Has("generate_summary")
			r.Skip("summary", "generate_summary") // how long it is to be is a wish
		})
		o.Skip("stream", "stream_options", "user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "client_metadata")
		o.Only("include", "[]", `["reasoning.encrypted_content"]`)
		o.Only("store", "false")
		o.Only("background", "false")
		o.Only("parallel_tool_calls", "true")
		o.Only("truncation", `"disabled"`)
		o.Only("top_logprobs", "0")
		o.Object("text", func(t *strict.Object) {
			t.Only("format", `{"type":"text"}`)
			t.Only("verbosity", `"medium"`)
		})
	})
	return req, err
}

// say adds a part to what the role says last.
func say(req *llm.Request, role llm.Role, p llm.Part) {
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == role {
		req.Messages[n-1].Parts = append(req.Messages[n-1].Parts, p)
		return
	}
	req.Messages = append(req.Messages, llm.Message{Role: role, Parts: []llm.Part{p}})
}

func readInput(req *llm.Request, o *strict.Object) {
	switch kind := o.String("type"); kind {
	case "", "message":
		readMessage(req, o)
	case "function_call":
		say(req, llm.RoleAssistant, llm.Part{Kind: llm.PartToolCall, CallID: o.String("call_id"), Name: o.String("name"), Arguments: o.String("arguments")})
	case "function_call_output":
		p := llm.Part{Kind: llm.PartToolResult, CallID: o.String("call_id")}
		add := func(c llm.Part) { p.Content = append(p.Content, c) }
		o.Content("output", func(s string) { add(llm.Text(s)) }, func(c *strict.Object) { readContent(add, c) })
		say(req, llm.RoleTool, p)
	case "reasoning":
		readThought(req, o)
	default:
		o.LoseAll("type", kind+" has no word in other dialects")
		return
	}
	o.Skip("id", "status", "phase")
}

func readMessage(req *llm.Request, o *strict.Object) {
	add := func(p llm.Part) { say(req, llm.RoleUser, p) }
	switch role := o.String("role"); role {
	case "user":
	case "assistant":
		add = func(p llm.Part) { say(req, llm.RoleAssistant, p) }
	case "system", "developer":
		add = func(p llm.Part) {
			if openai.Instruct(req, o, p.Text); p.Kind != llm.PartText {
				o.Lose("content", "instructions that are no text")
			}
		}
	default:
		o.LoseAll("role", role)
		return
	}
	o.Content("content", func(s string) { add(llm.Text(s)) }, func(c *strict.Object) { readContent(add, c) })
}

func readContent(add func(llm.Part), o *strict.Object) {
	switch kind := o.String("type"); kind {
	case "input_text", "output_text", "text":
		add(llm.Text(o.String("text")))
		o.Skip("annotations", "logprobs")
	case "input_image":
		if o.Has("file_id") {
			break // it is the provider's file
		}
		add(openai.Image(o.String("image_url")))
		o.Only("detail", `"auto"`)
	default:
		o.LoseAll("type", kind+" has no word in other dialects")
	}
}

func readThought(req *llm.Request, o *strict.Object) {
	p := llm.Part{Kind: llm.PartThinking}
	section := func(s *strict.Object) {
		s.Skip("type")
		if p.Text != "" {
			p.Text += gap
		}
		p.Text += s.String("text")
	}
	o.Each("summary", section)
	o.Each("content", section)
	if own := (proof{ID: o.String("id"), Encrypted: o.String("encrypted_content")}); own.Encrypted != "" {
		b, err := json.Marshal(own)
		if err != nil {
			o.Lose("", err.Error())
		}
		p.Signature = string(b)
	}
	say(req, llm.RoleAssistant, p)
}
