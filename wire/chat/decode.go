package chat

import (
	"bytes"
	"fmt"
	"io"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/sse"
)

type decoder struct {
	started bool
	id      string
	parts   int // begun so far
	open    llm.EventKind
	part    int // the open part of text or thinking, where open is not 0
	proof   string
	calls   []*call

	reason  string // the finish reason; empty: not yet seen
	early   bool   // content came after a finish reason, which therefore ends nothing
	refused bool
	done    bool
	over    bool // after the terminal event or an error
}

// chunk holds the spans of one frame's fields that we look at.
type chunk struct {
	id, model, object, kind, choices, usage, groq, failure, base []byte
}

// Decode appends the frame's events.
func (d *decoder) Decode(dst []llm.Event, f sse.Frame) ([]llm.Event, error) {
	n := len(dst)
	dst, err := d.frame(dst, f)
	return wire.Framed(dst, n, f, "chat chunk", err)
}

// End appends the terminal event where a finish reason was seen: many servers send no [DONE].
// From one that gives a reason before its last content, only [DONE] counts.
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	switch {
	case d.done:
		return dst, nil
	case d.over || d.early || d.reason == "":
		return dst, io.ErrUnexpectedEOF
	}
	return d.finish(dst), nil
}

func (d *decoder) frame(dst []llm.Event, f sse.Frame) ([]llm.Event, error) {
	data := bytes.TrimSpace(f.Data)
	if f.Data == nil {
		if text, ok := bytes.CutPrefix(f.Raw, []byte("error:")); ok { // llama.cpp
			data, f.Event = bytes.TrimSpace(text), []byte("error")
		} else if len(f.Raw) > 0 && f.Raw[0] == '{' { // an answer that is no stream
			data = f.Raw
		}
	}
	switch {
	case d.over || len(data) == 0:
		return dst, nil
	case string(f.Event) == "error":
		return d.fail(dst, data), nil
	case string(data) == "[DONE]":
		if d.reason == "" {
			return dst, fmt.Errorf("[DONE] without a finish reason: %w", io.ErrUnexpectedEOF)
		}
		return d.finish(dst), nil
	}
	var c chunk
	if err := scan.Fields(data, func(name, v []byte) error {
		switch string(name) {
		case "id":
			c.id = v
		case "model":
			c.model = v
		case "object":
			c.object = v
		case "type":
			c.kind = v
		case "choices":
			c.choices = v
		case "usage":
			c.usage = v
		case "x_groq":
			c.groq = v
		case "error":
			c.failure = v
		case "base_resp":
			c.base = v
		}
		return nil
	}); err != nil {
		return dst, err
	}
	refused, err := minimaxRefused(c.base)
	if err != nil {
		return dst, err
	}
	failed := refused || !scan.Empty(c.failure) && string(c.failure) != "false" ||
		string(c.object) == `"error"` || string(c.kind) == `"error"`
	return d.chunk(dst, &c, data, failed)
}

// minimaxRefused reports whether the status that MiniMax puts beside every answer is a failure's.
func minimaxRefused(base []byte) (bad bool, err error) {
	if len(base) == 0 || base[0] != '{' {
		return false, nil
	}
	err = scan.Fields(base, func(name, v []byte) error {
		bad = bad || string(name) == "status_code" && scan.Int(v) != 0
		return nil
	})
	return bad, err
}

func (d *decoder) chunk(dst []llm.Event, c *chunk, data []byte, failed bool) ([]llm.Event, error) {
	if !d.started && (!scan.Empty(c.id) || !scan.Empty(c.choices)) && !failed {
		d.started = true
		model, err := scan.String(c.model)
		if err != nil {
			return dst, err
		}
		if d.id, err = scan.Text(c.id); err != nil {
			return dst, err
		}
		dst = append(dst, llm.Event{Kind: llm.EventStart, ID: d.id, Name: model})
	}
	if len(c.choices) > 0 && c.choices[0] == '[' {
		if err := scan.Elements(c.choices, func(v []byte) (err error) {
			dst, err = d.choice(dst, v)
			return err
		}); err != nil {
			return dst, err
		}
	}
	dst, err := usage(dst, c.usage)
	if err == nil && len(c.groq) > 0 && c.groq[0] == '{' {
		err = scan.Fields(c.groq, func(name, v []byte) (err error) {
			if string(name) == "usage" {
				dst, err = usage(dst, v)
			}
			return err
		})
	}
	if err == nil && (failed || broken(d.reason)) {
		dst = d.fail(dst, data)
	}
	return dst, err
}

// broken reports whether a finish reason says that the server gave up.
func broken(reason string) bool {
	switch reason {
	case "error", "abort", "insufficient_system_resource":
		return true
	}
	return false
}

func (d *decoder) choice(dst []llm.Event, v []byte) ([]llm.Event, error) {
	var index, delta, message, reason, counts []byte
	if err := scan.Fields(v, func(name, v []byte) error {
		switch string(name) {
		case "index":
			index = v
		case "delta":
			delta = v
		case "message":
			message = v
		case "finish_reason":
			reason = v
		case "usage": // Moonshot
			counts = v
		}
		return nil
	}); err != nil {
		return dst, err
	}
	if scan.Int(index) != 0 { // another answer to the same request, which we never ask for
		return d.opaque(dst, "choice", v), nil
	}
	if delta == nil && d.parts == 0 {
		delta = message
	}
	before := len(dst)
	var err error
	if !scan.Empty(delta) {
		if dst, err = d.delta(dst, delta); err != nil {
			return dst, err
		}
	}
	d.early = d.early || d.reason != "" && len(dst) > before
	said, err := scan.Text(reason)
	if err != nil {
		return dst, err
	}
	if said != "" && said != "null" { // DashScope writes the word
		d.reason = said
		dst = append(dst, llm.Event{Kind: llm.EventPing, Stop: d.stop()})
	}
	return usage(dst, counts)
}

func (d *decoder) fail(dst []llm.Event, data []byte) []llm.Event {
	d.over = true
	return append(dst, llm.Event{Kind: llm.EventFailed, Text: string(data)})
}

func (d *decoder) finish(dst []llm.Event) []llm.Event {
	d.done, d.over = true, true
	stop := d.stop()
	for _, c := range d.calls {
		if !c.begun && stop == llm.StopToolCalls {
			stop = llm.StopMalformed // it never got a name
		}
	}
	dst = d.close(dst)
	for _, c := range d.calls {
		dst = c.end(dst, stop)
	}
	return append(dst, llm.Event{Kind: llm.EventDone, Stop: stop})
}

func (d *decoder) stop() llm.StopReason {
	switch d.reason {
	case "stop", "eos", "eos_token", "end_turn", "STOP":
		switch {
		case d.refused:
			return llm.StopFiltered
		case len(d.calls) > 0: // some servers know no other word
			return llm.StopToolCalls
		}
		return llm.StopEnd
	case "tool_calls", "function_call", "tool_use":
		return llm.StopToolCalls
	case "length", "max_tokens", "model_length", "MAX_TOKENS":
		return llm.StopLength
	case "stop_sequence":
		return llm.StopSequence
	case "content_filter", "refusal", "safety", "SAFETY":
		return llm.StopFiltered
	case "malformed_function_call", "MALFORMED_FUNCTION_CALL":
		return llm.StopMalformed
	}
	return llm.StopReason(d.reason)
}

func usage(dst []llm.Event, v []byte) ([]llm.Event, error) {
	if len(v) == 0 || v[0] != '{' {
		return dst, nil
	}
	var u llm.Usage
	var total int64
	nested := func(v []byte, set func(name string, n int64)) error {
		if len(v) == 0 || v[0] != '{' {
			return nil
		}
		return scan.Fields(v, func(name, v []byte) error {
			set(string(name), scan.Int(v))
			return nil
		})
	}
	if err := scan.Fields(v, func(name, v []byte) error {
		switch string(name) {
		case "prompt_tokens":
			u.Input = scan.Int(v)
		case "completion_tokens":
			u.Output = scan.Int(v)
		case "total_tokens":
			total = scan.Int(v)
		case "prompt_cache_hit_tokens", "cached_tokens": // DeepSeek, Moonshot
			u.CacheRead = scan.Int(v)
		case "prompt_tokens_details":
			return nested(v, func(name string, n int64) {
				switch {
				case name == "cached_tokens" && n != 0:
					u.CacheRead = n
				case name == "cache_write_tokens":
					u.CacheWrite = n
				}
			})
		case "completion_tokens_details":
			return nested(v, func(name string, n int64) {
				if name == "reasoning_tokens" {
					u.Thinking = n
				}
			})
		}
		return nil
	}); err != nil {
		return dst, err
	}
	if u.Thinking > 0 && total == u.Input+u.Output+u.Thinking { // xAI counts them apart
		u.Output += u.Thinking
	}
	if u == (llm.Usage{}) {
		return dst, nil
	}
	return append(dst, llm.Event{Kind: llm.EventUsage, Usage: &u}), nil
}
