package chat

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/scan"
)

// delta holds the spans of a delta's fields that we know. Others are tolerated.
type delta struct {
	content, refusal, calls, function, images, audio, executed []byte
	thought, details                                           []byte
	proof                                                      string // the field that thought came in
}

func (d *decoder) delta(dst []llm.Event, v []byte) ([]llm.Event, error) {
	var in delta
	known := 0
	if err := scan.Fields(v, func(name, v []byte) error {
		if scan.Empty(v) {
			return nil
		}
		known++
		switch string(name) {
		case "content":
			in.content = v
		case "reasoning_content":
			in.thought, in.proof = v, proofContent
		case "reasoning":
			if in.thought == nil {
				in.thought, in.proof = v, proofPlain
			}
		case "reasoning_details":
			in.details = v
		case "refusal":
			in.refusal = v
		case "tool_calls":
			in.calls = v
		case "function_call":
			in.function = v
		case "images":
			in.images = v
		case "audio":
			in.audio = v
		case "executed_tools": // Groq
			in.executed = v
		default:
			known--
		}
		return nil
	}); err != nil {
		return dst, err
	}
	if known == 1 && scan.IsString(in.content) {
		return d.say(dst, llm.EventText, in.content) // nearly every delta
	}
	return d.rare(dst, &in)
}

func (d *decoder) rare(dst []llm.Event, in *delta) (_ []llm.Event, err error) {
	each := func(list []byte, f func(v []byte) error) {
		switch {
		case err != nil || list == nil:
		case list[0] == '[':
			err = scan.Elements(list, f)
		default:
			err = f(list)
		}
	}
	if in.thought != nil {
		d.proof = in.proof
		each(in.thought, func(v []byte) (err error) { dst, err = d.say(dst, llm.EventThinking, v); return })
	} else {
		each(in.details, func(v []byte) (err error) { dst, err = d.piece(dst, v, llm.EventThinking); return })
	}
	each(in.content, func(v []byte) (err error) { dst, err = d.piece(dst, v, llm.EventText); return })
	each(in.refusal, func(v []byte) (err error) {
		d.refused = true
		dst, err = d.say(dst, llm.EventText, v)
		return
	})
	each(in.images, func(v []byte) error { dst = d.opaque(dst, "image_url", v); return nil })
	if in.audio != nil && err == nil {
		dst = d.opaque(dst, "audio", in.audio)
	}
	each(in.executed, func(v []byte) (err error) { dst, err = d.executed(dst, v); return })
	each(in.calls, func(v []byte) (err error) { dst, err = d.call(dst, v); return })
	if in.function != nil && err == nil { // the dialect's first form of tool calls
		dst, err = d.function(dst, nil, nil, in.function)
	}
	return dst, err
}

// piece decodes content that is no plain string: one element of a list, of text, thinking or
// some other type.
func (d *decoder) piece(dst []llm.Event, v []byte, kind llm.EventKind) ([]llm.Event, error) {
	if len(v) == 0 || v[0] != '{' {
		return d.say(dst, kind, v)
	}
	var name, text, thought, data []byte
	if err := scan.Fields(v, func(field, v []byte) error {
		switch string(field) {
		case "type":
			name = v
		case "text", "summary":
			text = v
		case "thinking":
			thought = v
		case "data":
			data = v
		}
		return nil
	}); err != nil {
		return dst, err
	}
	t, err := scan.String(name)
	switch {
	case err != nil:
		return dst, err
	case kind == llm.EventThinking && t == "reasoning.encrypted":
		secret, err := scan.String(data)
		if err != nil || secret == "" {
			return dst, err
		}
		dst = d.close(dst)
		return append(dst, llm.Event{Kind: llm.EventRedacted, Part: d.begin(), Text: secret}), nil
	case kind == llm.EventThinking || t == "text":
		return d.say(dst, kind, text)
	case t != "thinking":
		return d.opaque(dst, t, v), nil
	case len(thought) == 0 || thought[0] != '[':
		return d.say(dst, llm.EventThinking, thought)
	}
	err = scan.Elements(thought, func(v []byte) (err error) {
		dst, err = d.piece(dst, v, llm.EventThinking)
		return err
	})
	return dst, err
}

func (d *decoder) executed(dst []llm.Event, v []byte) ([]llm.Event, error) {
	name := "executed_tool"
	if v[0] == '{' {
		if err := scan.Fields(v, func(field, v []byte) (err error) {
			if string(field) == "type" {
				name, err = scan.Text(v)
			}
			return err
		}); err != nil {
			return dst, err
		}
	}
	return append(dst, llm.Event{Kind: llm.EventProviderTool, Name: name, Text: string(v)}), nil
}

// say appends a delta of text or thinking, and ends and begins parts where the kind changes.
func (d *decoder) say(dst []llm.Event, kind llm.EventKind, v []byte) ([]llm.Event, error) {
	text, err := scan.Text(v)
	if err != nil || text == "" {
		return dst, err
	}
	if d.open != kind {
		dst = d.close(dst)
		d.open, d.part = kind, d.begin()
		dst = append(dst, llm.Event{Kind: llm.EventPartStart, Part: d.part})
	}
	return append(dst, llm.Event{Kind: kind, Part: d.part, Text: text}), nil
}

func (d *decoder) begin() int {
	d.parts++
	return d.parts - 1
}

// close ends the open part of text or thinking.
func (d *decoder) close(dst []llm.Event) []llm.Event {
	if d.open == 0 {
		return dst
	}
	if d.open == llm.EventThinking && d.proof != "" {
		dst = append(dst, llm.Event{Kind: llm.EventSignature, Part: d.part, Text: d.proof})
	}
	d.open = 0
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Part: d.part})
}

func (d *decoder) opaque(dst []llm.Event, name string, v []byte) []llm.Event {
	dst = d.close(dst)
	return append(dst, llm.Event{Kind: llm.EventOpaque, Part: d.begin(), Name: name, Text: string(v)})
}
