package messages

import (
	"io"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/sse"
)

type decoder struct {
	id    string
	open  []block // in the order in which they began
	parts int
	tools map[string]string // names of the provider's tools, by call id
	calls bool
	stop  string
	// The call at part ending stopped, and nothing came after it.
	ending  int
	stopped bool
	fresh   int64 // input tokens that touched no cache
	usage   llm.Usage
	done    bool
	over    bool // after message_stop or an error
}

// frame is any event of the stream. Its slices are the frame's own bytes.
type frame struct {
	kind                                        string
	index, block, delta, message, usage, failed []byte
}

// Decode appends the frame's events.
func (d *decoder) Decode(dst []llm.Event, f sse.Frame) ([]llm.Event, error) {
	n := len(dst)
	dst, err := d.decode(dst, f)
	return wire.Framed(dst, n, f, "messages frame", err)
}

// End reports whether the stream came to message_stop.
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	if !d.done {
		return dst, io.ErrUnexpectedEOF
	}
	return dst, nil
}

func (d *decoder) decode(dst []llm.Event, f sse.Frame) ([]llm.Event, error) {
	data := f.Data
	if data == nil && len(f.Raw) > 0 && f.Raw[0] == '{' {
		data = f.Raw // a JSON answer where a stream was due
	}
	if d.over || len(data) == 0 {
		return dst, nil
	}
	in := frame{kind: string(f.Event)}
	if err := in.read(data); err != nil {
		if string(f.Event) == "error" {
			return d.fail(dst, data), nil
		}
		return dst, err
	}
	switch in.kind {
	case "content_block_delta":
		return d.delta(dst, int(scan.Int(in.index)), in.delta)
	case "content_block_start":
		return d.start(dst, int(scan.Int(in.index)), in.block)
	case "content_block_stop":
		if b := d.find(int(scan.Int(in.index))); b != nil {
			return d.close(dst, b)
		}
	case "message_start":
		return d.begun(dst, in.message)
	case "message_delta":
		err := object(in.delta, func(name, v []byte) (err error) {
			if string(name) == "stop_reason" && scan.IsString(v) {
				d.stop, err = scan.String(v)
			}
			return err
		})
		if err != nil {
			return dst, err
		}
		if d.stop != "" {
			dst = append(dst, llm.Event{Kind: llm.EventPing, Stop: stopReason(d.stop)})
		}
		return d.count(dst, in.usage)
	case "message_stop":
		return d.finish(dst)
	case "message":
		return d.whole(dst, data)
	default:
		if in.kind == "error" || !scan.Empty(in.failed) {
			return d.fail(dst, data), nil
		}
	}
	return dst, nil
}

// read finds the fields of a frame. The type in the data wins over the event's name.
func (f *frame) read(data []byte) error {
	return scan.Fields(data, func(name, v []byte) (err error) {
		switch string(name) {
		case "type":
			if scan.IsString(v) {
				f.kind, err = scan.String(v)
			}
		case "index":
			f.index = v
		case "delta":
			f.delta = v
		case "content_block":
			f.block = v
		case "message":
			f.message = v
		case "usage":
			f.usage = v
		case "error":
			f.failed = v
		}
		return err
	})
}

// object calls f with the fields of an object; a value of another kind has none.
func object(v []byte, f func(name, value []byte) error) error {
	if len(v) == 0 || v[0] != '{' {
		return nil
	}
	return scan.Fields(v, f)
}

func (d *decoder) begun(dst []llm.Event, message []byte) ([]llm.Event, error) {
	e := llm.Event{Kind: llm.EventStart}
	var usage []byte
	err := object(message, func(name, v []byte) (err error) {
		switch string(name) {
		case "id":
			e.ID, err = scan.String(v)
		case "model":
			e.Name, err = scan.String(v)
		case "usage":
			usage = v
		}
		return err
	})
	if err != nil {
		return dst, err
	}
	d.id = e.ID
	return d.count(append(dst, e), usage)
}

// whole decodes an answer that came in one piece.
func (d *decoder) whole(dst []llm.Event, message []byte) ([]llm.Event, error) {
	dst, err := d.begun(dst, message)
	if err != nil {
		return dst, err
	}
	var content []byte
	if err := scan.Fields(message, func(name, v []byte) (err error) {
		switch string(name) {
		case "content":
			content = v
		case "stop_reason":
			d.stop, err = scan.String(v)
		}
		return err
	}); err != nil {
		return dst, err
	}
	if len(content) > 0 && content[0] == '[' {
		index := 0
		if err := scan.Elements(content, func(v []byte) (err error) {
			dst, err = d.start(dst, index, v)
			index++
			return err
		}); err != nil {
			return dst, err
		}
	}
	return d.finish(dst)
}

// count reports usage. Counts are totals so far; a report leaves out, or has as 0, what an
// earlier one said.
func (d *decoder) count(dst []llm.Event, usage []byte) ([]llm.Event, error) {
	var u llm.Usage
	err := object(usage, func(name, v []byte) error {
		switch string(name) {
		case "input_tokens":
			u.Input = scan.Int(v)
		case "output_tokens":
			u.Output = scan.Int(v)
		case "cache_read_input_tokens":
			u.CacheRead = scan.Int(v)
		case "cache_creation_input_tokens":
			u.CacheWrite = scan.Int(v)
		case "output_tokens_details":
			return object(v, func(name, v []byte) error {
				if string(name) == "thinking_tokens" {
					u.Thinking = scan.Int(v)
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return dst, err
	}
	if u.Input != 0 {
		d.fresh = u.Input
	}
	before := d.usage
	d.usage.Merge(&u)
	d.usage.Input = d.fresh + d.usage.CacheRead + d.usage.CacheWrite
	if d.usage == before {
		return dst, nil
	}
	now := d.usage
	return append(dst, llm.Event{Kind: llm.EventUsage, Usage: &now}), nil
}

func (d *decoder) fail(dst []llm.Event, data []byte) []llm.Event {
	d.over = true
	return append(dst, llm.Event{Kind: llm.EventFailed, Text: string(data)})
}

func (d *decoder) finish(dst []llm.Event) ([]llm.Event, error) {
	for len(d.open) > 0 {
		var err error
		if dst, err = d.close(dst, &d.open[0]); err != nil {
			return dst, err
		}
	}
	if d.stop == "" && d.calls {
		d.stop = "tool_use"
	} else if d.stop == "" {
		d.stop = "end_turn"
	}
	d.done, d.over = true, true
	stop := stopReason(d.stop)
	if stop != llm.StopLength && stop != llm.StopFiltered {
		dst = d.endCall(dst)
	}
	return append(dst, llm.Event{Kind: llm.EventDone, Stop: stop}), nil
}
