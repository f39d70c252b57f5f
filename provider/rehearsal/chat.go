package rehearsal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// chat is OpenAI Chat Completions.
type chat struct{}

func (chat) name() string { return "chat" }

func (chat) read(c *call, body []byte) error {
	var in struct {
		Model         string `json:"model"`
		Stream        bool   `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	c.model, c.stream, c.usage = bare(in.Model), in.Stream, in.StreamOptions.IncludeUsage
	t := turns{c: c}
	for _, m := range in.Messages {
		switch text := plain(m.Content); m.Role {
		case "user":
			t.add(user, text)
		case "tool", "function":
			t.add(tool, text)
		case "assistant":
			t.add(assistant, text)
		default:
			c.size += len(text)
		}
	}
	return nil
}

// openaiRefusal returns the error object of a fault in OpenAI's words.
func openaiRefusal(f *Fault, now time.Time) (openaiError, json.RawMessage) {
	w := words[f.Kind].openai
	if f.Status != 0 {
		w.status = f.Status
	}
	if f.Code != "" {
		w.code = f.Code
	}
	w.message = f.sentence(w.message)
	code := json.RawMessage("null")
	if w.code != "" {
		code = fill("$", w.code)
	}
	return w, append(append(fill(`{"message":$,"type":$,"param":null,"code":$`, w.message, w.kind, code),
		f.extras(now)...), '}')
}

func (chat) refusal(f *Fault, _ string, now time.Time) (int, json.RawMessage) {
	w, object := openaiRefusal(f, now)
	return w.status, fill(`{"error":$}`, object)
}

func (chat) header(f *Fault, now time.Time) http.Header { return f.header(now, false) }

func (chat) chunk(s *stage, delta json.RawMessage, finish any) {
	s.send("", `{"id":$,"object":"chat.completion.chunk","created":$,"model":$,"choices":[{"index":0,"delta":$,"logprobs":null,"finish_reason":$}]}`,
		"chatcmpl-"+s.id, s.at.Unix(), s.call.model, delta, finish)
}

func (d chat) start(s *stage) { d.chunk(s, fill(`{"role":"assistant","content":""}`), nil) }

func (d chat) open(s *stage, b *block) {
	switch b.kind {
	case textBlock:
		d.chunk(s, fill(`{"content":""}`), nil)
	case callBlock:
		d.chunk(s, fill(`{"tool_calls":[{"index":$,"id":$,"type":"function","function":{"name":$,"arguments":""}}]}`,
			b.nth, b.id, b.name), nil)
	}
}

func (d chat) delta(s *stage, b *block, text string) {
	switch b.kind {
	case textBlock:
		d.chunk(s, fill(`{"content":$}`, text), nil)
	case thinkingBlock:
		d.chunk(s, fill(`{"reasoning_content":$}`, text), nil)
	case redactedBlock:
		d.chunk(s, fill(`{"reasoning_details":[{"type":"reasoning.encrypted","index":0,"data":$}]}`, text), nil)
	case callBlock:
		d.chunk(s, fill(`{"tool_calls":[{"index":$,"function":{"arguments":$}}]}`, b.nth, text), nil)
	case remoteBlock:
		d.chunk(s, fill(`{"executed_tools":[$]}`, d.executed(b)), nil)
	}
}

func (chat) shut(*stage, *block) {}

// executed is a tool of the provider's own as Groq tells of it; OpenAI has no word for it here.
func (chat) executed(b *block) json.RawMessage {
	return fill(`{"index":$,"type":"search","arguments":$,"output":"rehearsed"}`, b.nth, string(fill(`{"query":$}`, b.text.String())))
}

func (chat) ping(s *stage) { s.comment("PROCESSING") }

func (chat) broken(s *stage, f *Fault, _ bool) {
	_, object := openaiRefusal(f, time.Now())
	s.send("", `{"error":$}`, object)
}

func (chat) finish(reason string) string {
	switch reason {
	case "tool_calls", "length":
		return reason
	case "filtered":
		return "content_filter"
	}
	return "stop"
}

func (chat) count(s *stage) json.RawMessage {
	out, thought := s.tokens()
	return fill(`{"prompt_tokens":$,"completion_tokens":$,"total_tokens":$,"completion_tokens_details":{"reasoning_tokens":$}}`,
		s.call.tokens(), out, s.call.tokens()+out, thought)
}

func (d chat) done(s *stage) {
	d.chunk(s, fill(`{}`), d.finish(s.reason()))
	if s.call.usage {
		s.send("", `{"id":$,"object":"chat.completion.chunk","created":$,"model":$,"choices":[],"usage":$}`,
			"chatcmpl-"+s.id, s.at.Unix(), s.call.model, d.count(s))
	}
	s.write([]byte("data: [DONE]\n\n"))
}

func (d chat) whole(s *stage) json.RawMessage {
	message := fmt.Appendf(nil, `{"role":"assistant","content":%s`, fill("$", s.joined(textBlock)))
	if t := s.joined(thinkingBlock); t != "" {
		message = append(message, fill(`,"reasoning_content":$`, t)...)
	}
	var calls, executed [][]byte
	for _, b := range s.blocks {
		switch b.kind {
		case remoteBlock:
			executed = append(executed, d.executed(b))
		case callBlock:
			calls = append(calls, fill(`{"id":$,"type":"function","function":{"name":$,"arguments":$}}`,
				b.id, b.name, b.text.String()))
		}
	}
	if len(calls) > 0 {
		message = append(message, fill(`,"tool_calls":$`, list(calls))...)
	}
	if len(executed) > 0 {
		message = append(message, fill(`,"executed_tools":$`, list(executed))...)
	}
	return fill(`{"id":$,"object":"chat.completion","created":$,"model":$,"choices":[{"index":0,"message":$,"logprobs":null,"finish_reason":$}],"usage":$}`,
		"chatcmpl-"+s.id, s.at.Unix(), s.call.model, json.RawMessage(append(message, '}')),
		d.finish(s.reason()), d.count(s))
}
