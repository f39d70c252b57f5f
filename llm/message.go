package llm

// Role says who speaks in a message.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // the results of one step's tool calls
)

// Message is one turn of the conversation as a model sees it.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// PartKind names the kinds of Part. It is open: a kind we don't know is kept and counts as
// content.
type PartKind string

const (
	PartText       PartKind = "text"
	PartThinking   PartKind = "thinking"
	PartRedacted   PartKind = "redacted_thinking"
	PartToolCall   PartKind = "tool_call"
	PartToolResult PartKind = "tool_result"
	PartImage      PartKind = "image"
	PartNotice     PartKind = "notice" // said by Reprise, never sent to a model
	PartOpaque     PartKind = "opaque" // content of a kind we don't know; Raw holds it
)

// Part is one piece of a message. Which fields count depends on Kind; the others are zero.
type Part struct {
	Kind PartKind `json:"kind"`
	// Text is the text of text, thinking and notice parts, and the data of redacted thinking.
	Text string `json:"text,omitempty"`
	// Signature proves a thinking part or a tool call to the provider that made it.
	Signature string `json:"signature,omitempty"`
	// CallID and Name identify a tool call, and the call that a tool result answers.
	CallID string `json:"call_id,omitempty"`
	Name   string `json:"name,omitempty"`
	// Arguments is the JSON text of a tool call's arguments, as the model wrote it.
	Arguments string `json:"arguments,omitempty"`
	// Cut marks a tool call that a broken stream cut off: never run, never sent to a model.
	Cut bool `json:"cut,omitempty"`
	// Content is a tool result: text and image parts.
	Content []Part `json:"content,omitempty"`
	// IsError marks the result of a tool call that failed.
	IsError bool `json:"is_error,omitempty"`
	// MediaType and Data hold an image inline; URL points to one. A text part with a media type is
	// the text of such a file: "text/x-diff" a unified diff.
	MediaType string `json:"media_type,omitempty"`
	Data      []byte `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
	// Provider is the name of the provider that made the part. Signature, redacted thinking
	// and opaque parts mean something to that provider alone and go to no other.
	Provider string `json:"provider,omitempty"`
	// Raw is the dialect's own JSON of an opaque part.
	Raw []byte `json:"raw,omitempty"`
}

// Text returns a text part.
func Text(s string) Part { return Part{Kind: PartText, Text: s} }

// Own writes on the parts that only their maker can read who that is, and returns them.
func Own(parts []Part, provider string) []Part {
	for i := range parts {
		p := &parts[i]
		if p.Signature != "" || p.Kind == PartRedacted || p.Kind == PartOpaque || p.Kind == PartThinking {
			p.Provider = provider
		}
	}
	return parts
}
