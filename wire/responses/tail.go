package responses

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/rawjson"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/sse"
)

// final is the only error code that every client of the dialect takes for the last word.
const final = "invalid_prompt"

// tail knows the response's identity, the items that have ended, and the one that is open with
// its open part and that part's text so far.
type tail struct {
	id, model string
	created   int64
	numbered  bool
	number    int64 // of the last event
	output    []json.RawMessage
	item      *sentItem
}

type sentItem struct {
	id, kind string
	index    int64
	raw      []byte            // as it was added
	parts    []json.RawMessage // that have ended
	part     *sentPart
}

type sentPart struct {
	kind  string
	index int64
	text  []byte
}

// Sent implements wire.Tail.
func (t *tail) Sent(events []llm.Event) {
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case llm.EventText, llm.EventThinking:
			t.text(e.Text)
		case llm.EventCallStart, llm.EventCallDelta, llm.EventCallEnd, llm.EventDone:
		default:
			for data := range sse.Data(e.Raw) {
				t.frame(data)
			}
		}
		t.count(e.Raw)
	}
}

// text adds to the open part. Between the sections of one thought the decoder has put a gap.
func (t *tail) text(s string) {
	if t.item == nil || t.item.part == nil {
		return
	}
	p := t.item.part
	if len(p.text) == 0 && len(t.item.parts) > 0 && t.item.kind == kindReasoning {
		s = strings.TrimPrefix(s, gap)
	}
	p.text = append(p.text, s...)
}

// count reads the number of the last event. In a text a quote is never bare, so that this finds
// the field alone.
func (t *tail) count(raw []byte) {
	const field = `"sequence_number":`
	i := bytes.LastIndex(raw, []byte(field))
	if i < 0 {
		return
	}
	digits := bytes.TrimLeft(raw[i+len(field):], " ")
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	if n, err := strconv.ParseInt(string(digits[:end]), 10, 64); err == nil {
		t.number, t.numbered = n, true
	}
}

// frame follows one event that is no delta. What it cannot read, the decoder has passed over.
func (t *tail) frame(data []byte) {
	var e event
	var added []byte
	if scan.Fields(data, func(name, v []byte) error {
		switch string(name) {
		case "type":
			if scan.IsString(v) {
				e.kind = v[1 : len(v)-1]
			}
		case "output_index":
			e.outputIndex = v
		case "content_index", "summary_index":
			e.contentIndex = v
		case "item_id":
			e.itemID = v
		case "item":
			e.item, added = v, v
		case "part":
			e.part = v
		case "response":
			e.response = v
		}
		return nil
	}) != nil {
		return
	}
	switch string(e.kind) {
	case "response.created", "response.in_progress", "response.queued":
		t.begin(e.response)
	case "response.output_item.added":
		if in, err := readItem(added); err == nil {
			t.item = &sentItem{id: in.id, kind: in.kind, index: scan.Int(e.outputIndex), raw: bytes.Clone(added)}
		}
	case "response.output_item.done":
		t.output, t.item = append(t.output, bytes.Clone(added)), nil
	case "response.content_part.added", "response.reasoning_summary_part.added":
		if in, err := readItem(e.part); err == nil && t.item != nil {
			t.item.part = &sentPart{kind: in.kind, index: scan.Int(e.contentIndex)}
		}
	case "response.content_part.done", "response.reasoning_summary_part.done":
		if t.item != nil {
			t.item.parts, t.item.part = append(t.item.parts, bytes.Clone(e.part)), nil
		}
	}
}

func (t *tail) begin(response []byte) {
	if t.id != "" || scan.Empty(response) {
		return
	}
	if r, err := readResponse(response); err == nil {
		t.id, t.model = r.id, r.model
	}
	_ = scan.Fields(response, func(name, v []byte) error { // it was read once already
		if string(name) == "created_at" {
			t.created = scan.Int(v)
		}
		return nil
	})
}

// said is one event of ours.
type said struct {
	Type         string `json:"type"`
	Number       *int64 `json:"sequence_number,omitempty"`
	ItemID       string `json:"item_id,omitempty"`
	OutputIndex  *int64 `json:"output_index,omitempty"`
	ContentIndex *int64 `json:"content_index,omitempty"`
	SummaryIndex *int64 `json:"summary_index,omitempty"`
	Delta        string `json:"delta,omitempty"`
	Text         any    `json:"text,omitempty"`
	Arguments    string `json:"arguments,omitempty"`
	Refusal      any    `json:"refusal,omitempty"`
	Part         any    `json:"part,omitempty"`
	Item         any    `json:"item,omitempty"`
	Response     any    `json:"response,omitempty"`
}

func (t *tail) say(out []byte, s said) []byte {
	if t.numbered {
		t.number++
		n := t.number
		s.Number = &n
	}
	return sse.Append(out, s.Type, wire.JSON(s))
}

// Broken implements wire.Tail: the open item ends incomplete, and the response fails.
func (t *tail) Broken(r wire.Refusal) []byte {
	var out []byte
	if it := t.item; it != nil {
		out = t.shut(out, it)
	}
	output := t.output
	if output == nil {
		output = []json.RawMessage{}
	}
	return t.say(out, said{Type: "response.failed", Response: object{
		ID: t.id, Object: "response", CreatedAt: t.created, Status: "failed", Model: t.model, Output: output,
		Error: &problem{final, r.Message}, Tools: []string{}, ToolChoice: "auto", Metadata: r.Metadata,
	}})
}

type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// object is a response object with the fields that the dialect's schema wants.
type object struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	CreatedAt  int64             `json:"created_at"`
	Status     string            `json:"status"`
	Error      *problem          `json:"error"`
	Incomplete any               `json:"incomplete_details"`
	Instr      *string           `json:"instructions"`
	Model      string            `json:"model"`
	Output     []json.RawMessage `json:"output"`
	Parallel   bool              `json:"parallel_tool_calls"`
	Temp       *float64          `json:"temperature"`
	ToolChoice string            `json:"tool_choice"`
	Tools      []string          `json:"tools"`
	TopP       *float64          `json:"top_p"`
	Usage      *counted          `json:"usage"`
	Metadata   map[string]string `json:"metadata"`
}

// shut closes the item's open part and the item.
func (t *tail) shut(out []byte, it *sentItem) []byte {
	summary := false
	if p := it.part; p != nil {
		at := said{ItemID: it.id, OutputIndex: &it.index, ContentIndex: &p.index}
		text := string(p.text)
		var whole any
		switch p.kind {
		case "refusal":
			at.Type, at.Refusal = "response.refusal.done", text
			whole = map[string]string{"type": p.kind, "refusal": text}
		case "summary_text":
			summary = true
			at.Type, at.Text = "response.reasoning_summary_text.done", text
			at.ContentIndex, at.SummaryIndex = nil, &p.index
			whole = map[string]string{"type": p.kind, "text": text}
		case "reasoning_text":
			at.Type, at.Text = "response.reasoning_text.done", text
			whole = map[string]string{"type": p.kind, "text": text}
		default:
			at.Type, at.Text = "response.output_text.done", text
			whole = map[string]any{"type": p.kind, "text": text, "annotations": []string{}}
		}
		out = t.say(out, at)
		at.Type, at.Text, at.Refusal, at.Part = "response.content_part.done", nil, nil, whole
		if summary {
			at.Type = "response.reasoning_summary_part.done"
		}
		out = t.say(out, at)
		it.parts, it.part = append(it.parts, wire.JSON(whole)), nil
	}
	item := t.incomplete(it)
	t.output, t.item = append(t.output, item), nil
	return t.say(out, said{Type: "response.output_item.done", OutputIndex: &it.index, Item: item})
}

// incomplete is the item as it was added, with what came of it since.
func (t *tail) incomplete(it *sentItem) json.RawMessage {
	fields := []rawjson.Field{{Name: "status", Value: `"incomplete"`}}
	if it.parts != nil {
		name := "content"
		if in, err := readItem(it.parts[0]); err == nil && in.kind == "summary_text" {
			name = "summary"
		}
		fields = append(fields, rawjson.Field{Name: name, Value: string(wire.JSON(it.parts))})
	}
	item, err := rawjson.Set(it.raw, fields...)
	if err != nil {
		return it.raw // it was read before, so that it is an object
	}
	return item
}
