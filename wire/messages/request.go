package messages

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/history"
	"github.com/reprise-run/reprise/wire/internal/strict"
)

// ReadRequest implements wire.Server.
func (Codec) ReadRequest(body []byte) (*llm.Request, error) {
	req := new(llm.Request)
	err := strict.Read(body, func(o *strict.Object) {
		req.Model, req.MaxOutputTokens = o.String("model"), o.Int("max_tokens")
		req.Temperature, req.TopP, req.Stop = o.Float("temperature"), o.Float("top_p"), o.Strings("stop_sequences")
		readSystem(req, o, "system")
		o.Each("messages", func(m *strict.Object) { readMessage(req, m) })
		if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == llm.RoleAssistant {
			o.Lose("messages", "the last is the answer's own beginning")
		}
		o.Each("tools", func(t *strict.Object) { readTool(req, t) })
		o.Object("tool_choice", func(c *strict.Object) { req.ToolChoice = readChoice(c) })
		o.Object("thinking", func(t *strict.Object) { readThinking(&req.Reasoning, t) })
		o.Object("output_config", func(c *strict.Object) { req.Reasoning.Effort = c.String("effort") })
		o.Object("context_management", func(c *strict.Object) {
			c.Each("edits", func(e *strict.Object) {
				e.Only("type", `"clear_thinking_20251015"`) // thoughts go to their maker alone
				e.Skip("keep")
			})
		})
		o.Skip("stream", "metadata", "service_tier", "cache_control")
		o.Only("mcp_servers", "[]")
		o.Only("speed", `"standard"`)
	})
	return req, err
}

func readSystem(req *llm.Request, o *strict.Object, field string) {
	add := func(s string) {
		if !history.Instruct(req, s) {
			o.LoseAll("", "instructions behind an answer")
		}
	}
	o.Content(field, add, func(b *strict.Object) {
		b.Only("type", `"text"`)
		b.Skip("cache_control")
		b.Only("citations", "[]")
		add(b.String("text"))
	})
}

func readMessage(req *llm.Request, o *strict.Object) {
	role := llm.Role(o.String("role"))
	switch role {
	case llm.RoleUser, llm.RoleAssistant:
	case "system":
		readSystem(req, o, "content")
		return
	default:
		o.LoseAll("role", string(role))
		return
	}
	add := func(p llm.Part) {
		speaker := role
		if p.Kind == llm.PartToolResult {
			speaker = llm.RoleTool
		}
		if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == speaker {
			req.Messages[n-1].Parts = append(req.Messages[n-1].Parts, p)
			return
		}
		req.Messages = append(req.Messages, llm.Message{Role: speaker, Parts: []llm.Part{p}})
	}
	o.Content("content", func(s string) { add(llm.Text(s)) }, func(b *strict.Object) { readBlock(add, b) })
}

func readBlock(add func(llm.Part), o *strict.Object) {
	kind := o.String("type")
	o.Skip("cache_control")
	switch kind {
	case "text":
		o.Only("citations", "[]")
		add(llm.Text(o.String("text")))
	case "image":
		o.Object("source", func(s *strict.Object) {
			p := llm.Part{Kind: llm.PartImage, MediaType: s.String("media_type"), Data: s.Bytes("data"), URL: s.String("url")}
			s.Only("type", `"base64"`, `"url"`)
			add(p)
		})
	case "tool_use":
		p := llm.Part{Kind: llm.PartToolCall, CallID: o.String("id"), Name: o.String("name"), Arguments: string(o.Raw("input"))}
		o.Object("caller", func(c *strict.Object) { c.Only("type", `"direct"`) })
		add(p)
	case "tool_result":
		p := llm.Part{Kind: llm.PartToolResult, CallID: o.String("tool_use_id"), IsError: o.Bool("is_error")}
		o.Content("content", func(s string) { p.Content = append(p.Content, llm.Text(s)) },
			func(b *strict.Object) { readBlock(func(c llm.Part) { p.Content = append(p.Content, c) }, b) })
		add(p)
	case "thinking":
		add(llm.Part{Kind: llm.PartThinking, Text: o.String("thinking"), Signature: o.String("signature")})
	case "redacted_thinking":
		add(llm.Part{Kind: llm.PartRedacted, Text: o.String("data")})
	default:
		o.LoseAll("type", kind+" has no word in other dialects")
	}
}

func readTool(req *llm.Request, o *strict.Object) {
	if kind := o.String("type"); kind != "" && kind != "custom" {
		o.LoseAll("type", kind+" is a tool of the provider")
		return
	}
	req.Tools = append(req.Tools, llm.Tool{Name: o.String("name"), Description: o.String("description"), Schema: o.Raw("input_schema")})
	o.Skip("cache_control", "eager_input_streaming")
	o.Only("strict", "false")
	o.Only("defer_loading", "false")
	o.Only("allowed_callers", `["direct"]`)
}

func readChoice(o *strict.Object) string {
	o.Only("disable_parallel_tool_use", "false")
	switch kind, name := o.String("type"), o.String("name"); kind {
	case "any":
		return "required"
	case "tool":
		return name
	default:
		return kind
	}
}

// readThinking reads what think writes.
func readThinking(r *llm.Reasoning, o *strict.Object) {
	switch kind := o.String("type"); kind {
	case "disabled":
		r.Effort = "none"
	case "enabled", "adaptive":
		r.Budget = o.Int("budget_tokens")
	default:
		o.Lose("type", kind)
	}
	display := o.String("display")
	r.Show = display == "summarized"
	if display != "" && display != "omitted" && !r.Show {
		o.Lose("display", display)
	}
}
