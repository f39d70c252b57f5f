package responses

import (
	"bytes"
	"io"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/sse"
)

type decoder struct {
	started bool
	parts   int // begun so far
	items   []*item
	last    *item // the reasoning item whose end waits for what follows it
	refused bool
	done    bool
	over    bool // after the terminal event or an error
}

// event holds the spans of one frame's fields that we look at.
type event struct {
	kind, itemID                      []byte // without quotes
	outputIndex, contentIndex         []byte
	delta, text, item, part, response []byte
	object, failure                   []byte
}

// Decode appends the frame's events.
func (d *decoder) Decode(dst []llm.Event, f sse.Frame) ([]llm.Event, error) {
	n := len(dst)
	dst, err := d.frame(dst, f)
	return wire.Framed(dst, n, f, "responses event", err)
}

// End reports whether the stream came to its terminal event.
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	if !d.done {
		return dst, io.ErrUnexpectedEOF
	}
	return dst, nil
}

func (d *decoder) frame(dst []llm.Event, f sse.Frame) ([]llm.Event, error) {
	data := bytes.TrimSpace(f.Data)
	if f.Data == nil && len(f.Raw) > 0 && f.Raw[0] == '{' {
		data = f.Raw // an answer that is no stream
	}
	if d.over || len(data) == 0 || string(data) == "[DONE]" {
		return dst, nil
	}
	if string(f.Event) == "error" {
		return d.fail(dst, data), nil
	}
	var e event
	if err := scan.Fields(data, func(name, v []byte) error {
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
			if scan.IsString(v) {
				e.itemID = v[1 : len(v)-1]
			}
		case "delta":
			e.delta = v
		case "text", "refusal", "arguments", "input":
			e.text = v
		case "item":
			e.item = v
		case "part":
			e.part = v
		case "response":
			e.response = v
		case "object":
			e.object = v
		case "error":
			e.failure = v
		}
		return nil
	}); err != nil {
		return dst, err
	}
	if e.kind == nil {
		e.kind = f.Event
	}
	if len(e.kind) == 0 && string(e.object) == `"response"` {
		e.kind, e.response, e.failure = []byte("response.completed"), data, nil
	}
	return d.event(dst, &e, data)
}

func (d *decoder) event(dst []llm.Event, e *event, data []byte) ([]llm.Event, error) {
	switch string(e.kind) {
	case "response.output_text.delta":
		return d.delta(dst, e, kindMessage, sectionText)
	case "response.function_call_arguments.delta":
		return d.delta(dst, e, kindFunction, sectionArguments)
	case "response.custom_tool_call_input.delta":
		return d.delta(dst, e, kindCustom, sectionArguments)
	case "response.reasoning_summary_text.delta":
		return d.delta(dst, e, kindReasoning, sectionSummary)
	case "response.reasoning_text.delta":
		return d.delta(dst, e, kindReasoning, sectionThought)
	case "response.refusal.delta":
		return d.delta(dst, e, kindMessage, sectionRefusal)
	case "response.output_text.done":
		return d.whole(dst, e, kindMessage, sectionText)
	case "response.function_call_arguments.done":
		return d.whole(dst, e, kindFunction, sectionArguments)
	case "response.custom_tool_call_input.done":
		return d.whole(dst, e, kindCustom, sectionArguments)
	case "response.reasoning_summary_text.done":
		return d.whole(dst, e, kindReasoning, sectionSummary)
	case "response.reasoning_text.done":
		return d.whole(dst, e, kindReasoning, sectionThought)
	case "response.refusal.done":
		return d.whole(dst, e, kindMessage, sectionRefusal)
	case "response.content_part.added", "response.content_part.done":
		return d.contentPart(dst, e)
	case "response.output_item.added", "response.output_item.done":
		in, err := readItem(e.item)
		if err != nil {
			return dst, err
		}
		return d.item(dst, e, in, bytes.HasSuffix(e.kind, []byte("done")))
	case "response.created", "response.in_progress", "response.queued":
		r, err := readResponse(e.response)
		return d.start(dst, &r), err
	case "response.completed", "response.incomplete", "response.done":
		return d.finish(dst, e, data)
	case "response.failed", "response.cancelled", "error":
		return d.fail(dst, data), nil
	}
	return d.unknown(dst, e, data)
}

// unknown decodes an event that we have no word for: news of a provider's tool, a delta of
// some other content, or nothing that matters.
func (d *decoder) unknown(dst []llm.Event, e *event, data []byte) ([]llm.Event, error) {
	if !scan.Empty(e.failure) {
		return d.fail(dst, data), nil
	}
	name, isNews := strings.CutPrefix(string(e.kind), "response.")
	name, detail, _ := strings.Cut(name, ".")
	switch {
	case !isNews:
	case strings.Contains(name, "_call") || strings.HasPrefix(name, "mcp_"):
		if d.find("", e.outputIndex, e.itemID) != nil {
			return dst, nil // its item has said so
		}
		if tool, _, ok := strings.Cut(name, "_call"); ok {
			name = tool + "_call"
		}
		dst, _ = d.itemAdded(dst, scan.Int(e.outputIndex), &fields{kind: name, id: string(e.itemID), raw: data})
	case detail == "delta":
		dst = d.seal(dst, true)
		return append(dst, llm.Event{Kind: llm.EventOpaque, Part: d.begin(), Name: name, Text: string(data)}), nil
	}
	return dst, nil
}

func (d *decoder) begin() int {
	d.parts++
	return d.parts - 1
}

func (d *decoder) fail(dst []llm.Event, data []byte) []llm.Event {
	d.over = true
	return append(dst, llm.Event{Kind: llm.EventFailed, Text: string(data)})
}

func (d *decoder) start(dst []llm.Event, r *response) []llm.Event {
	if d.started || r.id == "" && r.model == "" {
		return dst
	}
	d.started = true
	return append(dst, llm.Event{Kind: llm.EventStart, ID: r.id, Name: r.model})
}

// response is what we read of a response object.
type response struct {
	id, model, status, reason string
	output                    []byte
	usage                     *llm.Usage
}

func readResponse(v []byte) (r response, err error) {
	if scan.Empty(v) {
		return r, nil
	}
	err = scan.Fields(v, func(name, v []byte) (err error) {
		switch string(name) {
		case "id":
			r.id, err = scan.String(v)
		case "model":
			r.model, err = scan.String(v)
		case "status":
			r.status, err = scan.String(v)
		case "output":
			r.output = v
		case "incomplete_details":
			if !scan.Empty(v) {
				err = scan.Fields(v, func(name, v []byte) (err error) {
					if string(name) == "reason" {
						r.reason, err = scan.String(v)
					}
					return err
				})
			}
		case "usage":
			r.usage, err = usage(v)
		}
		return err
	})
	return r, err
}

func usage(v []byte) (*llm.Usage, error) {
	if scan.Empty(v) {
		return nil, nil
	}
	u := new(llm.Usage)
	var read func(name, v []byte) error
	read = func(name, v []byte) error {
		switch string(name) {
		case "input_tokens":
			u.Input = scan.Int(v)
		case "output_tokens":
			u.Output = scan.Int(v)
		case "cached_tokens":
			u.CacheRead = scan.Int(v)
		case "cache_write_tokens":
			u.CacheWrite = scan.Int(v)
		case "reasoning_tokens":
			u.Thinking = scan.Int(v)
		case "input_tokens_details", "output_tokens_details":
			if !scan.Empty(v) {
				return scan.Fields(v, read)
			}
		}
		return nil
	}
	err := scan.Fields(v, read)
	if *u == (llm.Usage{}) {
		return nil, err
	}
	return u, err
}

// finish decodes the final response: first what the stream has left out.
func (d *decoder) finish(dst []llm.Event, e *event, data []byte) ([]llm.Event, error) {
	r, err := readResponse(e.response)
	if err != nil {
		return dst, err
	}
	if r.status == "failed" || r.status == "cancelled" {
		return d.fail(dst, data), nil
	}
	dst = d.start(dst, &r)
	stop := d.reason(string(e.kind), &r)
	if dst, err = d.complete(dst, r.output); err != nil {
		return dst, err
	}
	dst = d.seal(dst, false)
	for _, it := range d.items {
		dst = it.close(d, dst, false)
	}
	if stop == llm.StopEnd {
		stop = d.wish()
	}
	if r.usage != nil {
		dst = append(dst, llm.Event{Kind: llm.EventUsage, Usage: r.usage})
	}
	d.done, d.over = true, true
	return append(dst, llm.Event{Kind: llm.EventDone, Stop: stop}), nil
}

// reason says why the answer ended, as the final response states it.
func (d *decoder) reason(kind string, r *response) llm.StopReason {
	switch {
	case r.reason == "max_output_tokens" || r.reason == "max_tokens":
		return llm.StopLength
	case r.reason == "content_filter":
		return llm.StopFiltered
	case r.reason != "":
		return llm.StopReason(r.reason)
	case kind == "response.incomplete" || r.status == "incomplete":
		return llm.StopReason("incomplete")
	}
	return llm.StopEnd
}

// wish says what a complete answer asks for.
func (d *decoder) wish() llm.StopReason {
	for _, it := range d.items {
		if it.call() {
			return llm.StopToolCalls
		}
	}
	if d.refused {
		return llm.StopFiltered
	}
	return llm.StopEnd
}

// complete adds what only the final output says. The nth item of a type there is the nth of
// that type in the stream: ids and indexes are not reliable on every server.
func (d *decoder) complete(dst []llm.Event, output []byte) ([]llm.Event, error) {
	if scan.Empty(output) {
		return dst, nil
	}
	seen := map[string]int{}
	err := scan.Elements(output, func(v []byte) error {
		in, err := readItem(v)
		if err != nil {
			return err
		}
		n := seen[in.kind]
		seen[in.kind]++
		for _, it := range d.items {
			if it.kind == in.kind {
				if n == 0 {
					if it.done {
						dst, err = it.fill(d, dst, &in)
						return err
					}
					dst, err = d.itemDone(dst, it, &in)
					return err
				}
				n--
			}
		}
		var it *item
		dst, it = d.itemAdded(dst, int64(len(d.items)), &in)
		dst, err = d.itemDone(dst, it, &in)
		return err
	})
	return dst, err
}
