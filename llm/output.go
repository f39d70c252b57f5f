package llm

import "strings"

// Output is what the events of one stream add up to. The zero value is ready. It is the only
// fold of events into parts: the transaction, the restart after a crash and the tests use it.
type Output struct {
	ID    string // the provider's id of the response
	Model string // the model that answered, in the provider's words
	Stop  StopReason
	Usage *Usage // nil: none was reported
	// Interrupted says why the output was cut off; empty where it was not.
	Interrupted string

	parts []*building
}

type building struct {
	Part
	text  strings.Builder
	ended bool
}

// Add folds one event in. Events that show nothing change nothing but ids and usage.
func (o *Output) Add(e *Event) {
	switch e.Kind {
	case EventStart:
		if e.ID != "" {
			o.ID = e.ID
		}
		if e.Name != "" {
			o.Model = e.Name
		}
	case EventUsage, EventDone:
		if e.Usage != nil {
			if o.Usage == nil {
				o.Usage = new(Usage)
			}
			o.Usage.Merge(e.Usage)
		}
		if e.Kind == EventDone {
			o.Stop = e.Stop
		}
	case EventText:
		o.add(e, PartText)
	case EventThinking:
		o.add(e, PartThinking)
	case EventRedacted:
		o.add(e, PartRedacted)
	case EventSignature:
		if p := o.at(e.Part, PartThinking); p != nil {
			p.Signature += e.Text
		}
	case EventCallStart:
		p := o.at(e.Part, PartToolCall)
		p.CallID, p.Name = e.ID, e.Name
	case EventCallDelta:
		o.at(e.Part, PartToolCall).text.WriteString(e.Text)
	case EventCallEnd:
		o.at(e.Part, PartToolCall).ended = true
	case EventCallCut:
		o.at(e.Part, PartToolCall)
	case EventInterrupted:
		o.Interrupted = e.Text
	case EventOpaque:
		p := o.at(e.Part, PartOpaque)
		p.Name, p.Raw = e.Name, []byte(e.Text)
	}
}

func (o *Output) add(e *Event, kind PartKind) {
	if e.Text != "" {
		o.at(e.Part, kind).text.WriteString(e.Text)
	}
}

// at returns the part with that index, and makes it, with the given kind, where there is none.
func (o *Output) at(i int, kind PartKind) *building {
	for len(o.parts) <= i {
		o.parts = append(o.parts, new(building))
	}
	p := o.parts[i]
	if p.Kind == "" {
		p.Kind = kind
	}
	return p
}

// Parts returns the parts so far, in order, without those that hold nothing. A tool call that
// never ended is marked as cut.
func (o *Output) Parts() []Part {
	parts := make([]Part, 0, len(o.parts))
	for _, b := range o.parts {
		p := b.Part
		switch p.Kind {
		case "":
			continue
		case PartToolCall:
			p.Arguments, p.Cut = b.text.String(), !b.ended
		case PartOpaque:
		default:
			p.Text = b.text.String()
			if p.Text == "" && p.Signature == "" {
				continue
			}
		}
		parts = append(parts, p)
	}
	return parts
}
