package llm

import (
	"encoding/json"
	"slices"
)

// Request is one model call, in no dialect.
type Request struct {
	// Model is the upstream's name of the model, without the provider's name before it.
	Model    string    `json:"model"`
	System   string    `json:"system,omitempty"`
	Messages []Message `json:"messages,omitempty"`
	Tools    []Tool    `json:"tools,omitempty"`
	// ToolChoice is "", "auto", "none", "required", or the name of one tool.
	ToolChoice string `json:"tool_choice,omitempty"`
	// MaxOutputTokens bounds the answer, thinking included. 0: the provider's default, or
	// the codec's where its dialect demands a number.
	MaxOutputTokens int       `json:"max_output_tokens,omitempty"`
	Temperature     *float64  `json:"temperature,omitempty"`
	TopP            *float64  `json:"top_p,omitempty"`
	Stop            []string  `json:"stop,omitempty"`
	Reasoning       Reasoning `json:"reasoning,omitzero"`
	// ProviderTools are tools that the provider itself executes (web search, code
	// execution, remote MCP, computer use).
	ProviderTools []ProviderTool `json:"provider_tools,omitempty"`
	// ProviderState asks the provider to keep state of its own (a background response, a
	// stored conversation).
	ProviderState bool `json:"provider_state,omitempty"`

	// Raw is a whole request body in the provider's own dialect. Where it is set, the codec
	// sends these bytes with nothing changed but the model's name and the stream switch, and
	// everything above but Model, MaxOutputTokens and the two Provider fields is ignored.
	Raw []byte `json:"-"`
	// Whole asks, with Raw, for the answer in one piece. It comes as one frame. Count asks, with
	// Whole, how many tokens Raw is, where the dialect has such a call.
	Whole bool `json:"-"`
	Count bool `json:"-"`
	// Answers is how many answers Raw asks for; 0: one.
	Answers int `json:"-"`
	// Header and Query go out with Raw. What the provider is configured to send wins.
	Header map[string][]string `json:"-"`
	Query  string              `json:"-"`
	// Relay says that the answer goes on to somebody who reads why it stopped, as one to Raw does: it
	// ends well for whatever reason it does.
	Relay bool `json:"-"`
	// Answered is told the header fields of an answer that has begun well, before its
	// first event is read.
	Answered func(header map[string][]string) `json:"-"`
}

// Tool is a function that the model may ask us to run.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // JSON Schema of the arguments; empty: no arguments
}

// ProviderTool is a tool that runs at the provider, out of our sight.
type ProviderTool struct {
	Name string `json:"name"`
	// Config is the tool's entry in the request, in the provider's own dialect.
	Config json.RawMessage `json:"config,omitempty"`
	// ReadOnly is the operator's word that the tool changes nothing.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Reasoning sets how much a model thinks. The zero value leaves it to the provider.
type Reasoning struct {
	Effort string `json:"effort,omitempty"` // "none", "minimal", "low", "medium", "high"; dialects that take numbers map it
	Budget int    `json:"budget,omitempty"` // tokens; wins over Effort where the dialect takes a number
	Show   bool   `json:"show,omitempty"`   // ask for thoughts or their summary
}

// MayActRemotely reports whether the provider may have done something for this request that
// we cannot see: it executes tools that the operator has not marked read-only, or keeps state.
func (r *Request) MayActRemotely() bool {
	if r.ProviderState {
		return true
	}
	for _, t := range r.ProviderTools {
		if !t.ReadOnly {
			return true
		}
	}
	return false
}

// For returns the request as a model of the provider may be told it: what only another
// provider can read is left out. The request itself is not changed; what both say is shared.
func (r *Request) For(provider, model string) *Request {
	c := *r
	c.Model = model
	foreign := func(p Part) bool { return p.Provider != "" && p.Provider != provider }
	if !slices.ContainsFunc(r.Messages, func(m Message) bool { return slices.ContainsFunc(m.Parts, foreign) }) {
		return &c
	}
	c.Messages = make([]Message, 0, len(r.Messages))
	for _, m := range r.Messages {
		kept := make([]Part, 0, len(m.Parts))
		for _, p := range m.Parts {
			if foreign(p) {
				if p.Kind != PartText && p.Kind != PartToolCall {
					continue
				}
				p.Signature = ""
			}
			kept = append(kept, p)
		}
		if m.Parts = kept; len(kept) > 0 {
			c.Messages = append(c.Messages, m)
		}
	}
	return &c
}
