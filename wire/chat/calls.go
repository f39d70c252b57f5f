package chat

import (
	"bytes"
	"crypto/rand"
	"encoding/json"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/scan"
)

// call is one tool call that the stream builds.
type call struct {
	index int64  // the stream's own, -1 where it has none
	id    string // as the stream says it; empty where it does not
	name  string
	part  int
	args  []byte
	begun bool // CallStart is out, which needs the name
}

// complete reports whether the arguments are one JSON object.
func (c *call) complete() bool {
	args := bytes.TrimSpace(c.args)
	return len(args) > 0 && args[0] == '{' && json.Valid(args)
}

// end appends the call's end, unless the answer was cut before the call was whole: such a
// call stays without an end, which marks it as cut.
func (c *call) end(dst []llm.Event, stop llm.StopReason) []llm.Event {
	whole := c.begun
	switch stop {
	case llm.StopToolCalls, llm.StopEnd, llm.StopSequence:
	default:
		whole = whole && c.complete()
	}
	if !whole {
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventCallEnd, Part: c.part})
}

func (d *decoder) call(dst []llm.Event, v []byte) ([]llm.Event, error) {
	var index, id, function []byte
	if err := scan.Fields(v, func(name, v []byte) error {
		if scan.Empty(v) {
			return nil
		}
		switch string(name) {
		case "index":
			index = v
		case "id":
			id = v
		case "function", "custom":
			function = v
		}
		return nil
	}); err != nil {
		return dst, err
	}
	return d.function(dst, index, id, function)
}

// function adds a piece of a tool call to the call it belongs to. The arguments come as a
// string, or from some servers as an object.
func (d *decoder) function(dst []llm.Event, index, id, v []byte) ([]llm.Event, error) {
	var name, args string
	callID, err := scan.Text(id)
	if err != nil {
		return dst, err
	}
	if v != nil {
		if err := scan.Fields(v, func(field, v []byte) (err error) {
			switch string(field) {
			case "name":
				name, err = scan.String(v)
			case "arguments", "input":
				args, err = scan.Text(v)
			}
			return err
		}); err != nil {
			return dst, err
		}
	}
	at := int64(-1)
	if index != nil {
		at = scan.Int(index)
	}
	c := d.find(at, callID, name, args)
	if c == nil {
		dst = d.close(dst)
		c = &call{index: at, id: callID}
		d.calls = append(d.calls, c)
	} else if args != "" && c.complete() && string(bytes.TrimSpace(c.args)) == args {
		args = "" // the whole of it, repeated
	}
	return d.add(dst, c, name, args), nil
}

// add appends what a piece says about its call. A name that comes again says nothing new;
// arguments that come before the name wait for it.
func (d *decoder) add(dst []llm.Event, c *call, name, args string) []llm.Event {
	c.args = append(c.args, args...)
	if !c.begun {
		if name == "" {
			return dst
		}
		c.begun, c.name, c.part = true, name, d.begin()
		id := c.id
		if id == "" {
			// Results are found by call id, also those of earlier answers of this
			// conversation; response ids are not unique everywhere.
			id = "call_" + rand.Text()
		}
		dst = append(dst, llm.Event{Kind: llm.EventCallStart, Part: c.part, ID: id, Name: name})
		args = string(c.args)
	}
	if args == "" {
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventCallDelta, Part: c.part, Text: args})
}

// find returns the call that a piece continues, or nil where it begins one.
//
// An index decides, unless the piece has a name and what it says cannot be more of that
// call: another id, or a call that is whole already (servers that give every call index 0).
// Without an index the id decides; without both, a piece with a name begins a call, unless
// it repeats the name of one whose arguments are not whole yet.
func (d *decoder) find(index int64, id, name, args string) *call {
	if len(d.calls) == 0 {
		return nil
	}
	for i := len(d.calls) - 1; i >= 0; i-- {
		c := d.calls[i]
		switch {
		case id != "" && c.id == id && (index < 0 || c.index == index):
			return c
		case index < 0 || c.index != index:
		case name == "" || !c.begun:
			return c
		case id != "" && c.id != "":
			return nil
		case c.complete() && (name != c.name || args != "" && args != string(c.args)):
			return nil
		default:
			return c
		}
	}
	last := d.calls[len(d.calls)-1]
	switch {
	case index >= 0 || id != "" && last.id != "":
		return nil
	case name == "" || !last.begun || name == last.name && !last.complete():
		return last
	}
	return nil
}
