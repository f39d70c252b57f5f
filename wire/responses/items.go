package responses

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/scan"
)

// The items whose content we build. Others are tools of the provider, or opaque.
const (
	kindMessage   = "message"
	kindReasoning = "reasoning"
	kindFunction  = "function_call"
	kindCustom    = "custom_tool_call"
)

// item is one output item that the stream builds.
type item struct {
	kind     string
	index    int64
	id       string
	part     int    // of everything but a message's text
	initial  string // arguments that came with the item's beginning
	args     []byte
	sections []section
	done     bool // output_item.done was seen
	ended    bool // its last event is out
	proof    string
}

// fields is what we read of an item object.
type fields struct {
	kind, id, callID, name, status, args, encrypted string
	content, summary, raw                           []byte
}

func readItem(v []byte) (in fields, err error) {
	in.raw = v
	err = scan.Fields(v, func(name, v []byte) (err error) {
		switch string(name) {
		case "type":
			in.kind, err = scan.String(v)
		case "id":
			in.id, err = scan.String(v)
		case "call_id":
			in.callID, err = scan.String(v)
		case "name":
			in.name, err = scan.String(v)
		case "status":
			in.status, err = scan.String(v)
		case "arguments", "input":
			in.args, err = scan.Text(v)
		case "encrypted_content":
			in.encrypted, err = scan.String(v)
		case "content":
			in.content = v
		case "summary":
			in.summary = v
		}
		return err
	})
	return in, err
}

func (it *item) call() bool { return it.kind == kindFunction || it.kind == kindCustom }

// find returns the item that an event belongs to; an empty kind fits any. A known id
// decides, then the index: some servers give an item another id in every event, others give
// all items one index.
func (d *decoder) find(kind string, index, id []byte) *item {
	var found *item
	for i := len(d.items) - 1; i >= 0; i-- {
		it := d.items[i]
		switch {
		case kind != "" && it.kind != kind:
		case it.id != "" && it.id == string(id):
			return it
		case found != nil:
		case index != nil && it.index == scan.Int(index), index == nil && id == nil:
			found = it
		}
	}
	return found
}

func (d *decoder) contentPart(dst []llm.Event, e *event) ([]llm.Event, error) {
	done := strings.HasSuffix(string(e.kind), "done")
	if scan.Empty(e.part) {
		return dst, nil
	}
	it := d.find("", e.outputIndex, e.itemID)
	if it == nil {
		dst, it = d.itemAdded(dst, scan.Int(e.outputIndex), &fields{kind: kindMessage})
	}
	dst, err := it.content(d, dst, e.part, scan.Int(e.contentIndex), done)
	if err != nil || !done || it.kind != kindMessage {
		return dst, err
	}
	for i := range it.sections {
		if s := &it.sections[i]; s.index == scan.Int(e.contentIndex) {
			dst = s.end(dst)
		}
	}
	return dst, nil
}

// content decodes one element of an item's content. Of a kind that we have no word for, the
// whole element is content.
func (it *item) content(d *decoder, dst []llm.Event, v []byte, index int64, done bool) ([]llm.Event, error) {
	var kind, text string
	if err := scan.Fields(v, func(name, v []byte) (err error) {
		switch string(name) {
		case "type":
			kind, err = scan.String(v)
		case "text", "refusal":
			text, err = scan.String(v)
		}
		return err
	}); err != nil {
		return dst, err
	}
	var sk sectionKind
	switch kind {
	case "output_text", "text":
		sk = sectionText
	case "refusal":
		sk = sectionRefusal
	case "summary_text":
		sk = sectionSummary
	case "reasoning_text":
		sk = sectionThought
	default:
		sk = sectionOpaque
	}
	switch {
	case it.kind != kindMessage && it.kind != kindReasoning:
		return dst, nil
	case sk == sectionOpaque:
		if done {
			dst = it.opaque(d, dst, kind, index, v)
		}
		return dst, nil
	}
	dst, s := it.section(d, dst, sk, index)
	return it.rest(d, dst, s, text), nil
}

func (it *item) opaque(d *decoder, dst []llm.Event, kind string, index int64, v []byte) []llm.Event {
	for i := range it.sections {
		if s := &it.sections[i]; s.kind == sectionOpaque && s.index == index {
			return dst
		}
	}
	dst = d.seal(dst, true)
	it.sections = append(it.sections, section{kind: sectionOpaque, index: index})
	return append(dst, llm.Event{Kind: llm.EventOpaque, Part: d.begin(), Name: kind, Text: string(v)})
}

func (d *decoder) item(dst []llm.Event, e *event, in fields, done bool) ([]llm.Event, error) {
	it := d.find(in.kind, e.outputIndex, []byte(in.id))
	if it != nil && (it.done || it.id != "" && in.id != "" && it.id != in.id && !done) {
		it = nil // the server gives all items one index
	}
	if it == nil {
		dst, it = d.itemAdded(dst, scan.Int(e.outputIndex), &in)
	}
	if !done {
		return dst, nil
	}
	return d.itemDone(dst, it, &in)
}

func (d *decoder) itemAdded(dst []llm.Event, index int64, in *fields) ([]llm.Event, *item) {
	it := &item{kind: in.kind, index: index, id: in.id, initial: in.args}
	d.items = append(d.items, it)
	switch {
	case it.kind == kindMessage:
		return d.seal(dst, true), it
	case it.kind == kindReasoning:
		dst = d.seal(dst, true)
		it.part = d.begin()
		return append(dst, llm.Event{Kind: llm.EventPartStart, Part: it.part}), it
	case it.call():
		dst = d.seal(dst, true)
		it.part = d.begin()
		id := cmp.Or(in.callID, in.id, "call_"+rand.Text()) // results are found by it
		return append(dst, llm.Event{Kind: llm.EventCallStart, Part: it.part, ID: id, Name: in.name}), it
	case provided(it.kind):
		dst = d.seal(dst, false)
		it.part = d.begin()
		return append(dst, ran(it, in)), it
	}
	return dst, it // opaque: told when it is whole
}

func (d *decoder) itemDone(dst []llm.Event, it *item, in *fields) ([]llm.Event, error) {
	dst, err := it.fill(d, dst, in)
	if err != nil {
		return dst, err
	}
	it.done = true
	if it.kind != kindReasoning {
		return it.close(d, dst, in.status == "incomplete"), nil
	}
	if in.encrypted != "" {
		proof, err := json.Marshal(proof{ID: in.id, Encrypted: in.encrypted})
		if err != nil {
			return dst, err
		}
		it.proof = string(proof)
	}
	d.last = it
	return dst, nil
}

// fill adds what a whole item says and the stream has not.
func (it *item) fill(d *decoder, dst []llm.Event, in *fields) ([]llm.Event, error) {
	each := func(list []byte) (err error) {
		if len(list) == 0 || list[0] != '[' {
			return nil
		}
		index := int64(0)
		return scan.Elements(list, func(v []byte) (err error) {
			dst, err = it.content(d, dst, v, index, true)
			index++
			return err
		})
	}
	switch {
	case it.ended:
	case it.kind == kindMessage:
		return dst, each(in.content)
	case it.kind == kindReasoning:
		if err := each(in.summary); err != nil {
			return dst, err
		}
		return dst, each(in.content)
	case it.call():
		return it.arguments(d, dst, in.args), nil
	case it.done:
	case provided(it.kind):
		dst = append(dst, ran(it, in))
	default:
		dst = d.seal(dst, true)
		it.part = d.begin()
		dst = append(dst, llm.Event{Kind: llm.EventOpaque, Part: it.part, Name: it.kind, Text: string(in.raw)})
	}
	return dst, nil
}

func (it *item) arguments(d *decoder, dst []llm.Event, args string) []llm.Event {
	if args == "" {
		return dst
	}
	dst, s := it.section(d, dst, sectionArguments, 0)
	return it.rest(d, dst, s, args)
}

// close ends the item, once. A call that was cut, or of which the stream told no end and
// that is not whole, gets none.
func (it *item) close(d *decoder, dst []llm.Event, cut bool) []llm.Event {
	if it.ended {
		return dst
	}
	it.ended = true
	switch {
	case it.kind == kindMessage:
		for i := range it.sections {
			dst = it.sections[i].end(dst)
		}
	case it.kind == kindReasoning:
		if it.proof != "" {
			dst = append(dst, llm.Event{Kind: llm.EventSignature, Part: it.part, Text: it.proof})
		}
		dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Part: it.part})
	case it.call():
		if len(it.args) == 0 {
			dst = it.arguments(d, dst, it.initial)
		}
		if !cut && (it.done || json.Valid(it.args)) {
			dst = append(dst, llm.Event{Kind: llm.EventCallEnd, Part: it.part})
		}
	}
	return dst
}

// seal ends the reasoning item that came last. The provider takes reasoning back only
// together with the item that followed it: where that one is not among our parts, the proof
// is withheld, and with it the reasoning.
func (d *decoder) seal(dst []llm.Event, followed bool) []llm.Event {
	it := d.last
	if it == nil {
		return dst
	}
	d.last = nil
	if !followed {
		it.proof = ""
	}
	return it.close(d, dst, false)
}

// provided reports whether the provider runs what the item stands for. Tools that a client may
// run count too, as nothing in the item says who did.
func provided(kind string) bool {
	return strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_output") ||
		strings.HasPrefix(kind, "mcp_") || kind == "program"
}

func toolName(kind string) string {
	kind, _, _ = strings.Cut(strings.TrimSuffix(kind, "_output"), "_call")
	return kind
}

func ran(it *item, in *fields) llm.Event {
	id := it.id
	if id == "" {
		id = "item_" + strconv.FormatInt(it.index, 10)
	}
	return llm.Event{Kind: llm.EventProviderTool, Part: it.part, ID: id, Name: toolName(it.kind), Text: string(in.raw)}
}
