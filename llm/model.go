package llm

import "math"

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
	// Prefill: a request may end with the beginning of the answer, and the model goes on from there.
	Prefill *bool `json:"prefill,omitempty"`
	// Price is nil where it is not known.
	Price *Price `json:"price,omitempty"`
}

// Needs is what a request asks of a model, in tokens.
type Needs struct {
	Input  int64 // estimated
	Output int64 // of each answer, at most; 0: the request leaves it to the provider
	// Answers is how many are asked for; 0: one.
	Answers int64
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
	if n.Answers > 1 && output > math.MaxInt64/n.Answers {
		return math.MaxInt64, true
	}
	return m.Price.Most(atMost(n.Input), output*max(n.Answers, 1)), true
}

// Cost is what a call cost. usage is what the provider reported, nil for nothing; whole: the
// call came to its end, so that the report is complete. Where it is not, or leaves out what there
// was for certain, what was sent and the bytes of output that came are counted: output that the
// provider made and did not send is then not in it.
func (m *ModelFacts) Cost(usage *Usage, whole bool, n Needs, received int64) Cost {
	switch {
	case m.Price == nil:
		return Cost{Kind: CostUnknown}
	case *m.Price == Price{}:
		return Cost{Kind: CostKnown}
	case usage != nil && whole && usage.Input > 0 && (usage.Output > 0 || received == 0):
		return Cost{Amount: m.Price.Of(*usage), Kind: CostKnown}
	}
	var u Usage
	if usage != nil {
		u = *usage
	}
	if u.Input == 0 {
		u.Input = n.Input
	}
	u.Output = max(u.Output, tokens(received))
	return Cost{Amount: m.Price.Of(u), Kind: CostEstimated}
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
	n := Needs{Output: int64(r.MaxOutputTokens), Answers: int64(r.Answers)}
	if r.Raw != nil {
		n.Input = tokens(int64(len(r.Raw)))
		return n
	}
	size, fixed := int64(len(r.System)), int64(perMessage)
	for i := range r.Messages {
		fixed += perMessage
		measure(r.Messages[i].Parts, &size, &fixed)
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

// Text estimates the tokens of what the request says, without the images and documents of which a
// raw one has the bytes: what those come to, they do not tell.
func (r *Request) Text() int64 {
	if r.Raw == nil {
		return r.Needs().Input
	}
	return tokens(int64(len(r.Raw)) - encoded(r.Raw))
}

// encoded is how many bytes of a JSON text are data: without a space, and longer than any word.
func encoded(raw []byte) (n int64) {
	const word = 4 << 10
	part := func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '=' || c == '-' || c == '_'
	}
	for i := word; i < len(raw); i += word { // in one of these every such run is
		from, to := i, i
		for from > 0 && part(raw[from-1]) {
			from--
		}
		for to < len(raw) && part(raw[to]) {
			to++
		}
		if to-from >= word {
			n += int64(to - from)
			i = to / word * word // the next one is behind it
		}
	}
	return n
}

// measure adds the bytes of parts, and the tokens of what is not counted by its bytes.
func measure(parts []Part, size, fixed *int64) {
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case PartNotice:
			continue
		case PartImage:
			*fixed += perImage
			continue
		case PartToolCall, PartToolResult:
			*fixed += perMessage
		}
		*size += int64(len(p.Text) + len(p.Name) + len(p.Arguments) + len(p.Raw))
		measure(p.Content, size, fixed)
	}
}

// Size is about how many bytes the request has when it is sent.
func (r *Request) Size() int64 {
	if r.Raw != nil {
		return int64(len(r.Raw))
	}
	size := int64(len(r.System))
	var add func([]Part)
	add = func(parts []Part) {
		for i := range parts {
			p := &parts[i]
			size += int64(len(p.Text) + len(p.Name) + len(p.Arguments) + len(p.Raw) + len(p.URL) + len(p.Data)*4/3)
			add(p.Content)
		}
	}
	for i := range r.Messages {
		add(r.Messages[i].Parts)
	}
	for i := range r.Tools {
		size += int64(len(r.Tools[i].Name) + len(r.Tools[i].Description) + len(r.Tools[i].Schema))
	}
	return size
}
