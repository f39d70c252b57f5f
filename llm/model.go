package llm

import "fmt"

// ModelFacts is what is known of a model: how much it takes, what it can do and what it costs. The
// zero value knows nothing.
type ModelFacts struct {
	// Context bounds input and output together, MaxOutput the output alone, in tokens; 0: not
	// known.
	Context   int64 `json:"context,omitempty"`
	MaxOutput int64 `json:"max_output,omitempty"`
	// What a request may ask for; nil: not known.
	Tools            *bool `json:"tools,omitempty"`
	Images           *bool `json:"images,omitempty"`
	StructuredOutput *bool `json:"structured_output,omitempty"`
	// Price is nil where it is not known.
	Price *Price `json:"price,omitempty"`
}

// Needs is what a request asks of a model.
type Needs struct {
	Input            int64 // tokens, estimated
	Output           int64 // tokens at most; 0: the request leaves it to the provider
	Tools            bool
	Images           bool
	StructuredOutput bool // of requests in raw form alone: Request has no field for it
}

// Takes reports whether a model can take the request, and why not. What is not known of the
// model does not speak against it.
func (m *ModelFacts) Takes(n Needs) (bool, string) {
	no := func(can *bool) bool { return can != nil && !*can }
	switch {
	case m.Context > 0 && n.Input >= m.Context:
		return false, fmt.Sprintf("the conversation has about %d tokens, and the model takes %d", n.Input, m.Context)
	case m.MaxOutput > 0 && n.Output > m.MaxOutput:
		return false, fmt.Sprintf("an answer of up to %d tokens is asked for, and the model gives %d", n.Output, m.MaxOutput)
	case n.Tools && no(m.Tools):
		return false, "the model uses no tools"
	case n.Images && no(m.Images):
		return false, "the model sees no images"
	case n.StructuredOutput && no(m.StructuredOutput):
		return false, "the model gives no structured output"
	}
	return true, ""
}

// Most is what a call with these needs costs at most. ok is false where the price, or how long
// the answer may get, is not known.
func (m *ModelFacts) Most(n Needs) (most Money, ok bool) {
	output := n.Output
	if output == 0 {
		output = m.MaxOutput
	}
	switch {
	case m.Price == nil:
		return 0, false
	case output == 0 && m.Price.Output > 0:
		return 0, false
	}
	return m.Price.Most(atMost(n.Input), output), true
}

// Reported is what a call cost for which the provider reported its usage.
func (m *ModelFacts) Reported(u Usage) Cost {
	if m.Price == nil {
		return Cost{Kind: CostUnknown}
	}
	return Cost{Amount: m.Price.Of(u), Kind: CostKnown}
}

// Unreported is what a call cost for which none was: its input, and the bytes of output that
// came. Output that the provider made and did not send is not in it.
func (m *ModelFacts) Unreported(n Needs, received int64) Cost {
	if m.Price == nil {
		return Cost{Kind: CostUnknown}
	}
	return Cost{Amount: m.Price.Of(Usage{Input: n.Input, Output: tokens(received)}), Kind: CostEstimated}
}

// Estimates of tokens. No tokenizer is asked: they differ, are large, and of most models none
// is public. Four bytes a token is what English and code come to.
const (
	bytesPerToken = 4
	perMessage    = 8     // tokens around each message, tool and result
	perImage      = 1_600 // of an image as large as providers keep it
)

func tokens(bytes int64) int64 { return (bytes + bytesPerToken - 1) / bytesPerToken }

// atMost is what an estimate may come to: twice, for text that compresses badly, as digits and
// encoded data do.
func atMost(estimate int64) int64 { return 2 * estimate }

// Needs estimates what the request asks of a model.
func (r *Request) Needs() Needs {
	n := Needs{Output: int64(r.MaxOutputTokens), Tools: len(r.Tools) > 0}
	if r.Raw != nil {
		n.Input = tokens(int64(len(r.Raw)))
		return n
	}
	size, fixed := int64(len(r.System)), int64(perMessage)
	for i := range r.Messages {
		fixed += perMessage
		n.add(r.Messages[i].Parts, &size, &fixed)
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		size += int64(len(t.Name) + len(t.Description) + len(t.Schema))
		fixed += perMessage
	}
	for i := range r.ProviderTools {
		size += int64(len(r.ProviderTools[i].Config))
		fixed += perMessage
	}
	n.Input = tokens(size) + fixed
	return n
}

func (n *Needs) add(parts []Part, size, fixed *int64) {
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case PartNotice:
			continue
		case PartImage:
			n.Images = true
			*fixed += perImage
			continue
		case PartToolCall, PartToolResult:
			*fixed += perMessage
		}
		*size += int64(len(p.Text) + len(p.Name) + len(p.Arguments) + len(p.Raw))
		n.add(p.Content, size, fixed)
	}
}
