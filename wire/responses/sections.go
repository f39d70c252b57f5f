package responses

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/scan"
)

type sectionKind uint8

const (
	sectionText sectionKind = iota
	sectionRefusal
	sectionSummary
	sectionThought
	sectionArguments
	sectionOpaque
)

// gap stands between the sections of one thought.
const gap = "\n\n"

// section is one run of deltas within an item.
type section struct {
	kind  sectionKind
	index int64
	part  int
	sent  int // bytes
	open  bool
}

// section returns the item's section, and begins what is missing of both.
func (d *decoder) section(dst []llm.Event, e *event, kind string, sk sectionKind) ([]llm.Event, *item, *section) {
	it := d.find(kind, e.outputIndex, e.itemID)
	if it == nil {
		dst, it = d.itemAdded(dst, scan.Int(e.outputIndex), &fields{kind: kind, id: string(e.itemID)})
	}
	dst, s := it.section(d, dst, sk, scan.Int(e.contentIndex))
	return dst, it, s
}

func (it *item) section(d *decoder, dst []llm.Event, kind sectionKind, index int64) ([]llm.Event, *section) {
	for i := range it.sections {
		if s := &it.sections[i]; s.kind == kind && s.index == index {
			return dst, s
		}
	}
	s := section{kind: kind, index: index, part: it.part}
	if it.kind == kindMessage {
		dst = d.seal(dst, true)
		s.part, s.open = d.begin(), true
		dst = append(dst, llm.Event{Kind: llm.EventPartStart, Part: s.part})
	}
	it.sections = append(it.sections, s)
	return dst, &it.sections[len(it.sections)-1]
}

func (d *decoder) delta(dst []llm.Event, e *event, kind string, sk sectionKind) ([]llm.Event, error) {
	text, err := scan.String(e.delta)
	if err != nil || text == "" {
		return dst, err
	}
	dst, it, s := d.section(dst, e, kind, sk)
	return it.say(d, dst, s, text), nil
}

// whole adds what the deltas of a section have left out of its whole text.
func (d *decoder) whole(dst []llm.Event, e *event, kind string, sk sectionKind) ([]llm.Event, error) {
	text, err := scan.Text(e.text)
	if err != nil || text == "" {
		return dst, err
	}
	dst, it, s := d.section(dst, e, kind, sk)
	return it.rest(d, dst, s, text), nil
}

func (it *item) rest(d *decoder, dst []llm.Event, s *section, text string) []llm.Event {
	if len(text) <= s.sent {
		return dst
	}
	return it.say(d, dst, s, text[s.sent:])
}

func (it *item) say(d *decoder, dst []llm.Event, s *section, text string) []llm.Event {
	if it.ended && it.call() {
		return dst // it may be running
	}
	kind := llm.EventText
	switch s.kind {
	case sectionRefusal:
		d.refused = true
	case sectionSummary, sectionThought:
		kind = llm.EventThinking
		if s.sent == 0 && it.spoke() {
			s.sent -= len(gap)
			text = gap + text
		}
	case sectionArguments:
		kind = llm.EventCallDelta
		it.args = append(it.args, text...)
	}
	s.sent += len(text)
	return append(dst, llm.Event{Kind: kind, Part: s.part, Text: text})
}

func (it *item) spoke() bool {
	for i := range it.sections {
		if it.sections[i].sent > 0 {
			return true
		}
	}
	return false
}

func (s *section) end(dst []llm.Event) []llm.Event {
	if !s.open {
		return dst
	}
	s.open = false
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Part: s.part})
}
