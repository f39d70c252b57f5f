package rehearsal

import (
	"encoding/json"
	"net/http"
	"time"
)

// messages is Anthropic Messages.
type messages struct{}

func (messages) name() string { return "messages" }

func (messages) read(c *call, body []byte) error {
	var in struct {
		Model    string          `json:"model"`
		Stream   bool            `json:"stream"`
		System   json.RawMessage `json:"system"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	c.model, c.stream = bare(in.Model), in.Stream
	c.size += len(plain(in.System))
	t := turns{c: c}
	for _, m := range in.Messages {
		if m.Role == "assistant" {
			t.add(assistant, plain(m.Content))
			continue
		}
		var blocks []struct {
			Type    string          `json:"type"`
			Content json.RawMessage `json:"content"`
		}
		answered := false
		if json.Unmarshal(m.Content, &blocks) == nil {
			for _, b := range blocks {
				if b.Type == "tool_result" {
					t.add(tool, plain(b.Content))
					answered = true
				}
			}
		}
		// What stands beside a tool result is not a new question.
		if !answered {
			t.add(user, plain(m.Content))
		}
	}
	return nil
}

// vendor returns the fault in the words of one API.
func (f *Fault) vendor(w vendorError) vendorError {
	if f.Status != 0 {
		w.status = f.Status
	}
	if f.Code != "" {
		w.kind = f.Code
	}
	w.message = f.sentence(w.message)
	return w
}

func (messages) object(f *Fault, id string, now time.Time) (int, json.RawMessage) {
	w := f.vendor(words[f.Kind].messages)
	object := append(append(fill(`{"type":$,"message":$`, w.kind, w.message), f.extras(now)...), '}')
	return w.status, fill(`{"type":"error","error":$,"request_id":$}`, object, id)
}

func (d messages) refusal(f *Fault, id string, now time.Time) (int, json.RawMessage) {
	return d.object(f, id, now)
}

func (messages) header(f *Fault, now time.Time) http.Header { return f.header(now, true) }

func (messages) start(s *stage) {
	s.send("message_start", `{"type":"message_start","message":{"id":$,"type":"message","role":"assistant","model":$,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":$,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}`,
		"msg_"+s.id, s.call.model, s.call.tokens())
	s.send("ping", `{"type":"ping"}`)
}

func (d messages) open(s *stage, b *block) {
	var object []byte
	switch b.kind {
	case textBlock:
		object = fill(`{"type":"text","text":""}`)
	case thinkingBlock:
		object = fill(`{"type":"thinking","thinking":"","signature":""}`)
	case redactedBlock:
		return // it comes whole
	case callBlock:
		object = fill(`{"type":"tool_use","id":$,"name":$,"input":{}}`, b.id, b.name)
	case remoteBlock:
		object = fill(`{"type":"server_tool_use","id":$,"name":"web_search","input":{}}`, "srvtoolu_"+b.id)
	}
	s.send("content_block_start", blockStart, d.index(s, b), object)
}

func (d messages) delta(s *stage, b *block, text string) {
	const frame = `{"type":"content_block_delta","index":$,"delta":$}`
	switch b.kind {
	case textBlock:
		s.send("content_block_delta", frame, d.index(s, b), fill(`{"type":"text_delta","text":$}`, text))
	case thinkingBlock:
		s.send("content_block_delta", frame, d.index(s, b), fill(`{"type":"thinking_delta","thinking":$}`, text))
	case redactedBlock:
		s.send("content_block_start", blockStart, d.index(s, b), fill(`{"type":"redacted_thinking","data":$}`, text))
	case callBlock:
		s.send("content_block_delta", frame, d.index(s, b), fill(`{"type":"input_json_delta","partial_json":$}`, text))
	case remoteBlock:
		s.send("content_block_delta", frame, d.index(s, b), fill(`{"type":"input_json_delta","partial_json":$}`, string(fill(`{"query":$}`, text))))
	}
}

func (d messages) shut(s *stage, b *block) {
	if b.kind == thinkingBlock {
		s.send("content_block_delta", `{"type":"content_block_delta","index":$,"delta":{"type":"signature_delta","signature":$}}`,
			d.index(s, b), signature)
	}
	const stop = `{"type":"content_block_stop","index":$}`
	s.send("content_block_stop", stop, d.index(s, b))
	if b.kind == remoteBlock {
		s.send("content_block_start", blockStart, d.index(s, b)+1, found(b))
		s.send("content_block_stop", stop, d.index(s, b)+1)
	}
}

const blockStart = `{"type":"content_block_start","index":$,"content_block":$}`

// index is the block's place on the wire, where the result of the provider's own tool is a
// block too.
func (messages) index(s *stage, b *block) int {
	n := b.index
	for _, earlier := range s.blocks[:b.index] {
		if earlier.kind == remoteBlock {
			n++
		}
	}
	return n
}

// found is the result of the provider's own tool.
func found(b *block) json.RawMessage {
	return fill(`{"type":"web_search_tool_result","tool_use_id":$,"content":[]}`, "srvtoolu_"+b.id)
}

func (messages) ping(s *stage) { s.send("ping", `{"type":"ping"}`) }

func (d messages) broken(s *stage, f *Fault, _ bool) {
	_, body := d.object(f, s.call.requestID, time.Now())
	s.send("error", "$", body)
}

func (messages) finish(reason string) string {
	switch reason {
	case "tool_calls":
		return "tool_use"
	case "length":
		return "max_tokens"
	case "filtered":
		return "refusal"
	}
	return "end_turn"
}

func (d messages) done(s *stage) {
	out, _ := s.tokens()
	s.send("message_delta", `{"type":"message_delta","delta":{"stop_reason":$,"stop_sequence":null},"usage":{"output_tokens":$}}`,
		d.finish(s.reason()), out)
	s.send("message_stop", `{"type":"message_stop"}`)
}

func (d messages) whole(s *stage) json.RawMessage {
	var content [][]byte
	for _, b := range s.blocks {
		text := b.text.String()
		switch b.kind {
		case textBlock:
			content = append(content, fill(`{"type":"text","text":$}`, text))
		case thinkingBlock:
			content = append(content, fill(`{"type":"thinking","thinking":$,"signature":$}`, text, signature))
		case redactedBlock:
			content = append(content, fill(`{"type":"redacted_thinking","data":$}`, text))
		case remoteBlock:
			content = append(content, fill(`{"type":"server_tool_use","id":$,"name":"web_search","input":{"query":$}}`, "srvtoolu_"+b.id, text), found(b))
		case callBlock:
			content = append(content, fill(`{"type":"tool_use","id":$,"name":$,"input":$}`, b.id, b.name, json.RawMessage(text)))
		}
	}
	out, _ := s.tokens()
	return fill(`{"id":$,"type":"message","role":"assistant","model":$,"content":$,"stop_reason":$,"stop_sequence":null,"usage":{"input_tokens":$,"output_tokens":$}}`,
		"msg_"+s.id, s.call.model, list(content), d.finish(s.reason()), s.call.tokens(), out)
}
