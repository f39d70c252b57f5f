package rehearsal

import (
	"encoding/json"
	"net/http"
	"time"
)

// responses is OpenAI Responses.
type responses struct{}

func (responses) name() string { return "responses" }

func (responses) read(c *call, body []byte) error {
	var in struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		Instructions string          `json:"instructions"`
		Input        json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	c.model, c.stream = bare(in.Model), in.Stream
	c.size += len(in.Instructions)
	t := turns{c: c}
	var items []struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"output"`
	}
	if json.Unmarshal(in.Input, &items) != nil {
		t.add(user, plain(in.Input))
		return nil
	}
	for _, i := range items {
		switch {
		case i.Type == "function_call_output" || i.Type == "custom_tool_call_output":
			t.add(tool, plain(i.Output))
		case i.Role == "user":
			t.add(user, plain(i.Content))
		case i.Role == "system" || i.Role == "developer":
			c.size += len(plain(i.Content))
		default:
			t.add(assistant, plain(i.Content))
		}
	}
	return nil
}

func (responses) refusal(f *Fault, id string, now time.Time) (int, json.RawMessage) {
	return chat{}.refusal(f, id, now)
}

func (responses) header(f *Fault, now time.Time) http.Header { return f.header(now, false) }

// response is the object that the events of a response's beginning and end carry.
func (responses) response(s *stage, status string, output [][]byte, reason, failure, usage json.RawMessage) json.RawMessage {
	null := func(v json.RawMessage) json.RawMessage {
		if v == nil {
			return json.RawMessage("null")
		}
		return v
	}
	return fill(`{"id":$,"object":"response","created_at":$,"status":$,"background":false,"error":$,"incomplete_details":$,"instructions":null,"max_output_tokens":null,"model":$,"output":$,"parallel_tool_calls":true,"previous_response_id":null,"store":false,"temperature":1.0,"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":$,"metadata":{}}`,
		"resp_"+s.id, s.at.Unix(), status, null(failure), null(reason), s.call.model, list(output), null(usage))
}

func (responses) event(s *stage, kind, members string, values ...any) {
	s.send(kind, `{"type":$,"sequence_number":$,`+members+`}`, append([]any{kind, s.next()}, values...)...)
}

func (d responses) start(s *stage) {
	d.event(s, "response.created", `"response":$`, d.response(s, "in_progress", nil, nil, nil, nil))
	d.event(s, "response.in_progress", `"response":$`, d.response(s, "in_progress", nil, nil, nil, nil))
}

// item is a block as an item of the output.
func (responses) item(b *block, status string) json.RawMessage {
	text, content := b.text.String(), [][]byte{}
	switch b.kind {
	case thinkingBlock:
		if status == "completed" {
			content = append(content, fill(`{"type":"summary_text","text":$}`, text))
		}
		return fill(`{"id":$,"type":"reasoning","summary":$}`, "rs_"+b.id, list(content))
	case redactedBlock:
		return fill(`{"id":$,"type":"reasoning","summary":[],"encrypted_content":$}`, "rs_"+b.id, text)
	case remoteBlock:
		return fill(`{"id":$,"type":"web_search_call","status":$,"action":{"type":"search","query":$}}`, "ws_"+b.id, status, text)
	case callBlock:
		return fill(`{"id":$,"type":"function_call","status":$,"arguments":$,"call_id":$,"name":$}`,
			"fc_"+b.id, status, text, b.id, b.name)
	}
	if status == "completed" {
		content = append(content, fill(`{"type":"output_text","text":$,"annotations":[],"logprobs":[]}`, text))
	}
	return fill(`{"id":$,"type":"message","status":$,"role":"assistant","content":$}`, "msg_"+b.id, status, list(content))
}

func (d responses) open(s *stage, b *block) {
	if b.kind == redactedBlock {
		return // it comes whole
	}
	d.event(s, "response.output_item.added", `"output_index":$,"item":$`, b.index, d.item(b, "in_progress"))
	switch b.kind {
	case textBlock:
		d.event(s, "response.content_part.added", `"item_id":$,"output_index":$,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}`,
			"msg_"+b.id, b.index)
	case thinkingBlock:
		d.event(s, "response.reasoning_summary_part.added", `"item_id":$,"output_index":$,"summary_index":0,"part":{"type":"summary_text","text":""}`,
			"rs_"+b.id, b.index)
	}
}

func (d responses) delta(s *stage, b *block, text string) {
	switch b.kind {
	case textBlock:
		d.event(s, "response.output_text.delta", `"item_id":$,"output_index":$,"content_index":0,"delta":$,"logprobs":[]`,
			"msg_"+b.id, b.index, text)
	case thinkingBlock:
		d.event(s, "response.reasoning_summary_text.delta", `"item_id":$,"output_index":$,"summary_index":0,"delta":$`,
			"rs_"+b.id, b.index, text)
	case redactedBlock:
		d.event(s, "response.output_item.added", `"output_index":$,"item":$`, b.index, d.item(b, "in_progress"))
	case callBlock:
		d.event(s, "response.function_call_arguments.delta", `"item_id":$,"output_index":$,"delta":$`,
			"fc_"+b.id, b.index, text)
	}
}

func (d responses) shut(s *stage, b *block) {
	text := b.text.String()
	switch b.kind {
	case textBlock:
		d.event(s, "response.output_text.done", `"item_id":$,"output_index":$,"content_index":0,"text":$,"logprobs":[]`,
			"msg_"+b.id, b.index, text)
		d.event(s, "response.content_part.done", `"item_id":$,"output_index":$,"content_index":0,"part":{"type":"output_text","text":$,"annotations":[],"logprobs":[]}`,
			"msg_"+b.id, b.index, text)
	case thinkingBlock:
		d.event(s, "response.reasoning_summary_text.done", `"item_id":$,"output_index":$,"summary_index":0,"text":$`,
			"rs_"+b.id, b.index, text)
		d.event(s, "response.reasoning_summary_part.done", `"item_id":$,"output_index":$,"summary_index":0,"part":{"type":"summary_text","text":$}`,
			"rs_"+b.id, b.index, text)
	case callBlock:
		d.event(s, "response.function_call_arguments.done", `"item_id":$,"output_index":$,"arguments":$`,
			"fc_"+b.id, b.index, text)
	}
	d.event(s, "response.output_item.done", `"output_index":$,"item":$`, b.index, d.item(b, "completed"))
}

// ping is a comment: the dialect has no event that says nothing.
func (responses) ping(s *stage) { s.comment("keep-alive") }

func (d responses) broken(s *stage, f *Fault, whole bool) {
	w, object := openaiRefusal(f, time.Now())
	if !whole {
		s.send("error", `{"type":"error","sequence_number":$,"error":$}`, s.next(), object)
		return
	}
	code := w.code
	if code == "" {
		code = w.kind
	}
	d.event(s, "response.failed", `"response":$`,
		d.response(s, "failed", nil, nil, fill(`{"code":$,"message":$}`, code, w.message), nil))
}

// end returns the finished response and the event that carries it.
func (d responses) end(s *stage) (kind string, response json.RawMessage) {
	var output [][]byte
	for _, b := range s.blocks {
		output = append(output, d.item(b, "completed"))
	}
	out, thought := s.tokens()
	usage := fill(`{"input_tokens":$,"input_tokens_details":{"cached_tokens":0},"output_tokens":$,"output_tokens_details":{"reasoning_tokens":$},"total_tokens":$}`,
		s.call.tokens(), out, thought, s.call.tokens()+out)
	switch s.reason() {
	case "length":
		return "response.incomplete", d.response(s, "incomplete", output, fill(`{"reason":"max_output_tokens"}`), nil, usage)
	case "filtered":
		return "response.incomplete", d.response(s, "incomplete", output, fill(`{"reason":"content_filter"}`), nil, usage)
	}
	return "response.completed", d.response(s, "completed", output, nil, nil, usage)
}

func (d responses) done(s *stage) {
	kind, response := d.end(s)
	d.event(s, kind, `"response":$`, response)
}

func (d responses) whole(s *stage) json.RawMessage {
	_, response := d.end(s)
	return response
}
