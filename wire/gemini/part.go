package gemini

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/scan"
)

// part is one piece of a chunk. kind is the field that says what it is, where that is neither
// text nor a call.
type part struct {
	text, signature, kind string
	thought               bool
	call                  []byte
}

func (p *part) read(data []byte) error {
	return object(data, func(name, v []byte) (err error) {
		switch string(name) {
		case "text":
			p.text, err = scan.String(v)
		case "thought":
			p.thought = string(v) == "true"
		case "thoughtSignature":
			p.signature, err = scan.String(v)
		case "functionCall":
			p.call = v
		case "videoMetadata", "partMetadata", "mediaResolution", "mediaProcessing", "speechMetadata":
		default:
			if string(v) != "null" {
				p.kind = string(name)
			}
		}
		return err
	})
}

func (d *decoder) part(dst []llm.Event, data []byte) ([]llm.Event, error) {
	var p part
	if err := p.read(data); err != nil {
		return dst, err
	}
	switch {
	case len(p.call) > 0 && string(p.call) != "null":
		return d.call(dst, p.call, p.signature)
	case p.kind != "":
		return d.other(dst, p.kind, data)
	case p.thought:
		return d.say(dst, llm.EventThinking, p.text, p.signature), nil
	}
	return d.say(dst, llm.EventText, p.text, p.signature), nil
}

// begin starts the next part.
func (d *decoder) begin(kind llm.EventKind) {
	d.open = kind
	d.parts++
}

// close ends the part that is open.
func (d *decoder) close(dst []llm.Event) []llm.Event {
	if d.open == llm.EventText || d.open == llm.EventThinking {
		dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Part: d.parts - 1})
	}
	d.open = 0
	return dst
}

// say appends text or thinking. A signature proves the part up to there, and ends it.
func (d *decoder) say(dst []llm.Event, kind llm.EventKind, text, signature string) []llm.Event {
	if text == "" && signature == "" {
		return dst
	}
	if d.open != kind {
		dst = d.close(dst)
		d.begin(kind)
		dst = append(dst, llm.Event{Kind: llm.EventPartStart, Part: d.parts - 1})
	}
	if text != "" {
		d.stop = ""
		dst = append(dst, llm.Event{Kind: kind, Part: d.parts - 1, Text: text})
	}
	if signature != "" {
		dst = append(dst, llm.Event{Kind: llm.EventSignature, Part: d.parts - 1, Text: signature})
		dst = d.close(dst)
	}
	return dst
}

func (d *decoder) call(dst []llm.Event, data []byte, signature string) ([]llm.Event, error) {
	var id, name, args string
	var pieces []byte
	var more bool
	err := object(data, func(field, v []byte) (err error) {
		switch string(field) {
		case "id":
			id, err = scan.String(v)
		case "name":
			name, err = scan.String(v)
		case "args":
			args, err = scan.Text(v)
		case "partialArgs":
			pieces = v
		case "willContinue":
			more = string(v) == "true"
		}
		return err
	})
	if err != nil {
		return dst, err
	}
	d.stop = ""
	if name != "" || d.open != llm.EventCallStart {
		dst = d.close(dst)
		d.begin(llm.EventCallStart)
		dst = append(dst, llm.Event{Kind: llm.EventCallStart, Part: d.parts - 1, ID: d.unique(id), Name: name})
		if args == "" && !more && scan.Empty(pieces) {
			args = "{}"
		}
	}
	if args += string(pieces); args != "" {
		dst = append(dst, llm.Event{Kind: llm.EventCallDelta, Part: d.parts - 1, Text: args})
	}
	if signature != "" {
		dst = append(dst, llm.Event{Kind: llm.EventSignature, Part: d.parts - 1, Text: signature})
	}
	if !more {
		d.open, d.calls = 0, true
		dst = append(dst, llm.Event{Kind: llm.EventCallEnd, Part: d.parts - 1})
	}
	return dst, nil
}

// unique returns the id, or makes one, so that no two calls of the answer share theirs.
func (d *decoder) unique(id string) string {
	for n := d.parts - 1; id == "" || d.ids[id]; n++ {
		id = "call_" + strconv.Itoa(n)
		if d.id != "" {
			id = "call_" + d.id + "_" + strconv.Itoa(n)
		}
	}
	d.ids[id] = true
	return id
}

// other appends a part that is neither text nor a call of ours.
func (d *decoder) other(dst []llm.Event, kind string, data []byte) ([]llm.Event, error) {
	if !json.Valid(data) {
		return dst, fmt.Errorf("part with %q is no JSON", kind)
	}
	dst = d.close(dst)
	d.begin(0)
	d.stop = ""
	e := llm.Event{Kind: llm.EventOpaque, Part: d.parts - 1, Name: kind, Text: string(data)}
	switch kind {
	case "executableCode", "codeExecutionResult":
		e.Kind, e.Name = llm.EventProviderTool, "code_execution"
	case "toolCall", "toolResponse":
		e.Kind = llm.EventProviderTool
		err := object(data, func(name, v []byte) error {
			if string(name) != kind {
				return nil
			}
			return object(v, func(name, v []byte) (err error) {
				switch string(name) {
				case "id":
					e.ID, err = scan.String(v)
				case "toolType":
					e.Name, err = scan.String(v)
				}
				return err
			})
		})
		if err != nil {
			return dst, err
		}
	}
	return append(dst, e), nil
}
