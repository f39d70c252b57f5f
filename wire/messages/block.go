package messages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/rawjson"
	"github.com/reprise-run/reprise/wire/internal/scan"
)

// block is a block that is open. kind is the kind of event that carries its content.
type block struct {
	kind        llm.EventKind
	index, part int
	id, name    string
	start       []byte                     // its JSON, of provider tools and opaque blocks
	whole       string                     // a call's arguments, as long as its start alone has them
	input       []byte                     // a provider tool's arguments, from deltas
	fields      map[string]json.RawMessage // an opaque block, once a delta came
}

// content is what the start of a block says, or a delta of it.
type content struct {
	kind, text, thinking, signature, data, partial, id, name, call string
	input                                                          []byte
}

func (c *content) read(data []byte) error {
	return object(data, func(name, v []byte) (err error) {
		switch string(name) {
		case "type":
			c.kind, err = scan.String(v)
		case "text":
			c.text, err = scan.String(v)
		case "thinking":
			c.thinking, err = scan.String(v)
		case "signature":
			c.signature, err = scan.String(v)
		case "data":
			c.data, err = scan.String(v)
		case "partial_json":
			c.partial, err = scan.String(v)
		case "id":
			c.id, err = scan.String(v)
		case "name":
			c.name, err = scan.String(v)
		case "tool_use_id":
			c.call, err = scan.String(v)
		case "input":
			c.input = v
		}
		return err
	})
}

func (d *decoder) find(index int) *block {
	for i := range d.open {
		if d.open[i].index == index {
			return &d.open[i]
		}
	}
	return nil
}

// begin opens a block and returns its part.
func (d *decoder) begin(b block) int {
	b.part = d.parts
	d.parts++
	d.open = append(d.open, b)
	return b.part
}

func (d *decoder) start(dst []llm.Event, index int, raw []byte) ([]llm.Event, error) {
	if b := d.find(index); b != nil {
		var err error
		if dst, err = d.close(dst, b); err != nil {
			return dst, err
		}
	}
	dst = d.endCall(dst)
	if scan.Empty(raw) {
		return dst, nil // its deltas say what it is
	}
	var c content
	if err := c.read(raw); err != nil {
		return dst, err
	}
	switch c.kind {
	case "text":
		part := d.begin(block{kind: llm.EventText, index: index})
		dst = append(dst, llm.Event{Kind: llm.EventPartStart, Part: part})
		return say(dst, llm.EventText, part, c.text), nil
	case "thinking":
		part := d.begin(block{kind: llm.EventThinking, index: index})
		dst = append(dst, llm.Event{Kind: llm.EventPartStart, Part: part})
		dst = say(dst, llm.EventThinking, part, c.thinking)
		return say(dst, llm.EventSignature, part, c.signature), nil
	case "redacted_thinking":
		part := d.begin(block{kind: llm.EventRedacted, index: index})
		return append(dst, llm.Event{Kind: llm.EventRedacted, Part: part, Text: c.data}), nil
	case "tool_use":
		b := block{kind: llm.EventCallStart, index: index, whole: "{}"}
		if !scan.Empty(c.input) {
			b.whole = string(c.input)
		}
		part := d.begin(b)
		if c.id == "" {
			c.id = "call_" + d.id + "_" + strconv.Itoa(part)
		}
		d.calls = true
		return append(dst, llm.Event{Kind: llm.EventCallStart, Part: part, ID: c.id, Name: c.name}), nil
	}
	if !json.Valid(raw) {
		return dst, fmt.Errorf("content block of type %q is no JSON", c.kind)
	}
	b := block{kind: llm.EventOpaque, index: index, name: c.kind, start: bytes.Clone(raw)}
	switch {
	case strings.HasSuffix(c.kind, "_tool_use"):
		if d.tools == nil {
			d.tools = map[string]string{}
		}
		d.tools[c.id] = c.name
		b.kind, b.id, b.name = llm.EventProviderTool, c.id, c.name
	case strings.HasSuffix(c.kind, "tool_result"):
		b.kind, b.id, b.name = llm.EventProviderTool, c.call, d.tools[c.call]
		if b.name == "" {
			b.name = strings.TrimSuffix(c.kind, "_tool_result")
		}
	}
	part := d.begin(b)
	return append(dst, llm.Event{Kind: b.kind, Part: part, ID: b.id, Name: b.name, Text: string(raw)}), nil
}

// say appends a delta, unless it is empty.
func say(dst []llm.Event, kind llm.EventKind, part int, text string) []llm.Event {
	if text == "" {
		return dst
	}
	return append(dst, llm.Event{Kind: kind, Part: part, Text: text})
}

func (d *decoder) delta(dst []llm.Event, index int, raw []byte) ([]llm.Event, error) {
	b := d.find(index)
	if b != nil && b.kind == llm.EventOpaque {
		return dst, b.merge(raw)
	}
	var c content
	if err := c.read(raw); err != nil {
		return dst, err
	}
	switch c.kind {
	case "text_delta":
		return d.say(dst, index, llm.EventText, c.text)
	case "thinking_delta":
		return d.say(dst, index, llm.EventThinking, c.thinking)
	case "signature_delta":
		if b != nil && b.kind == llm.EventThinking {
			dst = say(dst, llm.EventSignature, b.part, c.signature)
		}
	case "input_json_delta":
		switch {
		case c.partial == "":
		case b != nil && b.kind == llm.EventCallStart:
			b.whole = ""
			dst = append(dst, llm.Event{Kind: llm.EventCallDelta, Part: b.part, Text: c.partial})
		case b != nil && b.kind == llm.EventProviderTool:
			b.input = append(b.input, c.partial...)
		default:
			return dst, fmt.Errorf("input_json_delta for block %d, which is no tool call", index)
		}
	case "citations_delta":
	default:
		dst = append(dst, llm.Event{Kind: llm.EventOpaque, Part: d.parts, Name: c.kind, Text: string(raw)})
		d.parts++
	}
	return dst, nil
}

// say appends text or thinking. Where the block of that index is of another kind, or there is
// none, a part begins here.
func (d *decoder) say(dst []llm.Event, index int, kind llm.EventKind, text string) ([]llm.Event, error) {
	if text == "" {
		return dst, nil
	}
	b := d.find(index)
	if b != nil && b.kind == kind {
		return append(dst, llm.Event{Kind: kind, Part: b.part, Text: text}), nil
	}
	if b != nil {
		var err error
		if dst, err = d.close(dst, b); err != nil {
			return dst, err
		}
	}
	dst = d.endCall(dst)
	part := d.begin(block{kind: kind, index: index})
	return append(dst, llm.Event{Kind: llm.EventPartStart, Part: part},
		llm.Event{Kind: kind, Part: part, Text: text}), nil
}

// close ends a block and says what is complete now.
func (d *decoder) close(dst []llm.Event, b *block) ([]llm.Event, error) {
	switch b.kind {
	case llm.EventText, llm.EventThinking:
		dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Part: b.part})
	case llm.EventCallStart:
		dst = say(d.endCall(dst), llm.EventCallDelta, b.part, b.whole)
		d.ending, d.stopped = b.part, true
	case llm.EventProviderTool:
		if !json.Valid(b.input) {
			break // there is none, or the token limit cut it: its start said all
		}
		whole, err := rawjson.Set(b.start, rawjson.Field{Name: "input", Value: string(b.input)})
		if err != nil {
			return dst, err
		}
		dst = append(dst, llm.Event{Kind: b.kind, Part: b.part, ID: b.id, Name: b.name, Text: string(whole)})
	case llm.EventOpaque:
		if b.fields == nil {
			break
		}
		whole, err := json.Marshal(b.fields)
		if err != nil {
			return dst, err
		}
		dst = append(dst, llm.Event{Kind: b.kind, Part: b.part, Name: b.name, Text: string(whole)})
	}
	i := 0
	for d.open[i].part != b.part {
		i++
	}
	d.open = append(d.open[:i], d.open[i+1:]...)
	return dst, nil
}

// endCall ends the call whose block stopped, now that it is known not to be the last thing said:
// a block stops where the token limit or a refusal cuts it, too.
func (d *decoder) endCall(dst []llm.Event) []llm.Event {
	if d.stopped {
		d.stopped = false
		dst = append(dst, llm.Event{Kind: llm.EventCallEnd, Part: d.ending})
	}
	return dst
}

// merge adds a delta to a block of a kind that we don't know, as the known ones are built:
// texts grow, everything else is replaced.
func (b *block) merge(delta []byte) error {
	if scan.Empty(delta) {
		return nil
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal(delta, &in); err != nil {
		return err
	}
	if b.fields == nil {
		if err := json.Unmarshal(b.start, &b.fields); err != nil {
			return err
		}
	}
	for name, value := range in {
		if name == "type" {
			continue
		}
		if old := b.fields[name]; scan.IsString(old) && scan.IsString(value) {
			value = append(old[:len(old)-1], value[1:]...)
		}
		b.fields[name] = value
	}
	return nil
}
