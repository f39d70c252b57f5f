package gemini

import (
	"io"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/sse"
)

type decoder struct {
	id      string
	started bool
	parts   int
	open    llm.EventKind // what the part at the end holds; 0: it is closed
	ids     map[string]bool
	calls   bool
	stop    llm.StopReason // empty: no finish reason, or content came after it
	counts  llm.Usage      // as the provider counts
	tools   int64          // input tokens of the provider's tools
	usage   llm.Usage
	failed  bool
}

// chunk is one response of the stream. Its slices are the frame's own bytes.
type chunk struct {
	id, model, candidates, feedback, usage, problem []byte
}

// Decode appends the frame's events.
func (d *decoder) Decode(dst []llm.Event, f sse.Frame) ([]llm.Event, error) {
	n := len(dst)
	dst, err := d.decode(dst, f)
	return wire.Framed(dst, n, f, "gemini frame", err)
}

// End appends the terminal event, if a finish reason said that the answer is whole.
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	if d.failed || d.stop == "" {
		return dst, io.ErrUnexpectedEOF
	}
	if d.stop == llm.StopEnd && d.calls {
		d.stop = llm.StopToolCalls
	}
	return append(dst, llm.Event{Kind: llm.EventDone, Stop: d.stop}), nil
}

func (d *decoder) decode(dst []llm.Event, f sse.Frame) ([]llm.Event, error) {
	data := f.Data
	if data == nil && len(f.Raw) > 0 && (f.Raw[0] == '{' || f.Raw[0] == '[') {
		data = f.Raw // an error is sent without "data:", and a JSON answer too
	}
	if d.failed || len(data) == 0 {
		return dst, nil
	}
	if data[0] == '[' {
		err := scan.Elements(data, func(v []byte) (err error) {
			dst, err = d.chunk(dst, v)
			return err
		})
		return dst, err
	}
	return d.chunk(dst, data)
}

func (d *decoder) chunk(dst []llm.Event, data []byte) ([]llm.Event, error) {
	if d.failed {
		return dst, nil
	}
	var in chunk
	if err := in.read(data); err != nil {
		return dst, err
	}
	broken := !scan.Empty(in.problem)
	if !d.started && !broken {
		e, err := in.start()
		if err != nil {
			return dst, err
		}
		d.started, d.id = true, e.ID
		dst = append(dst, e)
	}
	err := elements(in.candidates, func(v []byte) (err error) {
		dst, err = d.candidate(dst, v)
		return err
	})
	if err != nil {
		return dst, err
	}
	err = object(in.feedback, func(name, v []byte) error {
		if string(name) == "blockReason" && scan.IsString(v) && string(v) != `"BLOCK_REASON_UNSPECIFIED"` {
			dst = d.close(dst)
			d.stop = llm.StopFiltered
			dst = append(dst, llm.Event{Kind: llm.EventPing, Stop: d.stop})
		}
		return nil
	})
	if err != nil {
		return dst, err
	}
	if dst, err = d.count(dst, in.usage); err != nil {
		return dst, err
	}
	if broken {
		d.failed = true
		dst = append(dst, llm.Event{Kind: llm.EventFailed, Text: `{"error":` + string(in.problem) + "}"})
	}
	return dst, nil
}

func (c *chunk) read(data []byte) error {
	return scan.Fields(data, func(name, v []byte) error {
		switch string(name) {
		case "candidates":
			c.candidates = v
		case "promptFeedback":
			c.feedback = v
		case "usageMetadata":
			c.usage = v
		case "modelVersion":
			c.model = v
		case "responseId":
			c.id = v
		case "error":
			c.problem = v
		}
		return nil
	})
}

func (c *chunk) start() (llm.Event, error) {
	id, err := scan.String(c.id)
	if err != nil {
		return llm.Event{}, err
	}
	model, err := scan.String(c.model)
	return llm.Event{Kind: llm.EventStart, ID: id, Name: model}, err
}

// object calls f with the fields of an object; a value of another kind has none.
func object(v []byte, f func(name, value []byte) error) error {
	if len(v) == 0 || v[0] != '{' {
		return nil
	}
	return scan.Fields(v, f)
}

// elements calls f with the elements of an array; a value of another kind has none.
func elements(v []byte, f func(value []byte) error) error {
	if len(v) == 0 || v[0] != '[' {
		return nil
	}
	return scan.Elements(v, f)
}

func (d *decoder) candidate(dst []llm.Event, data []byte) ([]llm.Event, error) {
	var index, parts, grounding, urls []byte
	var finish string
	err := object(data, func(name, v []byte) (err error) {
		switch string(name) {
		case "index":
			index = v
		case "content":
			return object(v, func(name, v []byte) error {
				if string(name) == "parts" {
					parts = v
				}
				return nil
			})
		case "groundingMetadata":
			grounding = v
		case "urlContextMetadata":
			urls = v
		case "finishReason":
			finish, err = scan.String(v)
		}
		return err
	})
	if err != nil || scan.Int(index) != 0 {
		return dst, err
	}
	err = elements(parts, func(v []byte) (err error) {
		dst, err = d.part(dst, v)
		return err
	})
	if err != nil {
		return dst, err
	}
	dst = ran(dst, "google_search", grounding)
	dst = ran(dst, "url_context", urls)
	if finish != "" && finish != "FINISH_REASON_UNSPECIFIED" {
		dst = d.close(dst)
		d.stop = stopReason(finish)
		dst = append(dst, llm.Event{Kind: llm.EventPing, Stop: d.stop})
	}
	return dst, nil
}

// ran reports a tool that the provider ran, by what it left behind.
func ran(dst []llm.Event, tool string, v []byte) []llm.Event {
	if scan.Empty(v) {
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventProviderTool, Name: tool, Text: string(v)})
}

// count reports usage. Counts are totals so far; a report may leave out what an earlier one said.
func (d *decoder) count(dst []llm.Event, usage []byte) ([]llm.Event, error) {
	var u llm.Usage
	err := object(usage, func(name, v []byte) error {
		switch string(name) {
		case "promptTokenCount":
			u.Input = scan.Int(v)
		case "candidatesTokenCount":
			u.Output = scan.Int(v)
		case "thoughtsTokenCount":
			u.Thinking = scan.Int(v)
		case "cachedContentTokenCount":
			u.CacheRead = scan.Int(v)
		case "toolUsePromptTokenCount":
			if n := scan.Int(v); n != 0 {
				d.tools = n
			}
		}
		return nil
	})
	if err != nil {
		return dst, err
	}
	d.counts.Merge(&u)
	now := d.counts
	now.Input += d.tools
	now.Output += now.Thinking
	if now == d.usage {
		return dst, nil
	}
	d.usage = now
	return append(dst, llm.Event{Kind: llm.EventUsage, Usage: &now}), nil
}
