package chat

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/openai"
	"github.com/reprise-run/reprise/wire/internal/strict"
)

// ReadRequest implements wire.Server.
func (Codec) ReadRequest(body []byte) (*llm.Request, error) {
	req := new(llm.Request)
	err := strict.Read(body, func(o *strict.Object) {
		req.Model = o.String("model")
		if req.MaxOutputTokens = o.Int("max_tokens"); o.Has("max_completion_tokens") {
			req.MaxOutputTokens = o.Int("max_completion_tokens")
		}
		req.Temperature, req.TopP, req.Stop = o.Float("temperature"), o.Float("top_p"), o.Strings("stop")
		req.Reasoning.Effort = o.String("reasoning_effort")
		o.Each("messages", func(m *strict.Object) { readMessage(req, m) })
		if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == llm.RoleAssistant {
			o.Lose("messages", "the last is the answer's own beginning")
		}
		o.Each("tools", func(t *strict.Object) { openai.ReadTool(req, t, "function") })
		req.ToolChoice = openai.ReadChoice(o, "function")
		o.Skip("stream", "stream_options", "user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
		o.Only("n", "1")
		for _, name := range []string{"store", "logprobs"} {
			o.Only(name, "false")
		}
		for _, name := range []string{"frequency_penalty", "presence_penalty", "top_logprobs"} {
			o.Only(name, "0", "0.0")
		}
		o.Only("parallel_tool_calls", "true")
		o.Only("response_format", `{"type":"text"}`)
		o.Only("modalities", `["text"]`)
		o.Only("verbosity", `"medium"`)
		o.Only("logit_bias", "{}")
	})
	return req, err
}

func readMessage(req *llm.Request, o *strict.Object) {
	role := o.String("role")
	m := llm.Message{Role: llm.RoleUser}
	add := func(p llm.Part) { m.Parts = append(m.Parts, p) }
	said := func(s string) { add(llm.Text(s)) }
	switch role {
	case "system", "developer":
		o.Content("content", func(s string) { openai.Instruct(req, o, s) }, func(c *strict.Object) {
			c.Only("type", `"text"`)
			c.Skip("cache_control")
			openai.Instruct(req, c, c.String("text"))
		})
		return
	case "user":
		o.Content("content", said, func(c *strict.Object) { readContent(add, c) })
	case "tool":
		m.Role = llm.RoleTool
		r := llm.Part{Kind: llm.PartToolResult, CallID: o.String("tool_call_id")}
		o.Content("content", func(s string) { r.Content = append(r.Content, llm.Text(s)) },
			func(c *strict.Object) { readContent(func(p llm.Part) { r.Content = append(r.Content, p) }, c) })
		o.Skip("name")
		add(r)
	case "assistant":
		m.Role = llm.RoleAssistant
		for _, name := range []string{proofContent, proofPlain} {
			if t := o.String(name); t != "" {
				add(llm.Part{Kind: llm.PartThinking, Text: t, Signature: name})
			}
		}
		o.Skip("reasoning_details") // a proof, and what it proves once more
		o.Content("content", said, func(c *strict.Object) { readContent(add, c) })
		o.Each("tool_calls", func(c *strict.Object) {
			p := llm.Part{Kind: llm.PartToolCall, CallID: c.String("id")}
			c.Only("type", `"function"`)
			c.Skip("index")
			c.Object("function", func(f *strict.Object) { p.Name, p.Arguments = f.String("name"), f.String("arguments") })
			add(p)
		})
		o.Only("annotations", "[]")
	default:
		o.LoseAll("role", role)
		return
	}
	if len(req.Messages) > 0 && m.Role == llm.RoleTool && req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
		last := &req.Messages[len(req.Messages)-1]
		last.Parts = append(last.Parts, m.Parts...)
		return
	}
	req.Messages = append(req.Messages, m)
}

func readContent(add func(llm.Part), o *strict.Object) {
	switch kind := o.String("type"); kind {
	case "text":
		add(llm.Text(o.String("text")))
		o.Skip("cache_control")
	case "image_url":
		o.Object("image_url", func(i *strict.Object) {
			add(openai.Image(i.String("url")))
			i.Only("detail", `"auto"`)
		})
		o.Skip("cache_control")
	default:
		o.LoseAll("type", kind+" has no word in other dialects")
	}
}
