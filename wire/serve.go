package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/llm"
)

// Server is a dialect as it is spoken to clients, by a gateway that passes bytes on. Servers
// hold no state and are safe for concurrent use.
type Server interface {
	Codec
	// Head reads the few fields of a raw request that say where it goes and what it may do
	// there, and looks at nothing else: a long prompt costs one scan.
	Head(body []byte) (Head, error)
	// ReadRequest reads a raw request whole, for a model of another dialect. Its error is a Loss
	// where that would not be told everything. Left out is what changes no answer: who asks and
	// for what account (metadata, user), what a repetition costs (cache breakpoints and keys),
	// how the stream is cut (Writer knows), and what states the dialect's own default.
	ReadRequest(body []byte) (*llm.Request, error)
	// NewWriter says the answer of a model of another dialect to the client that sent body; in one
	// piece where whole.
	NewWriter(body []byte, whole bool) Writer
	// NewTail follows one streamed answer.
	NewTail() Tail
	// KeepAlive is what a waiting client is sent: it means nothing, also before the answer
	// begins.
	KeepAlive() []byte
	// Refusal is the body of an error status.
	Refusal(r Refusal) []byte
}

// Prefiller is a Server in whose dialect a request may end with the beginning of its answer, from which
// some models go on, and which others refuse.
type Prefiller interface {
	// Prefilled reports whether body is such a request. It costs a scan.
	Prefilled(body []byte) bool
}

// Writer says one answer in a dialect. It is used by one goroutine.
type Writer interface {
	// Write appends to dst the events that say e, each with its frames as Raw, as a Tail takes
	// them. Thoughts go on without the proof that only their maker reads. An error means that the
	// dialect has no word for something that may not be left out.
	Write(dst []llm.Event, e *llm.Event) ([]llm.Event, error)
}

// Loss is why a request cannot be told to a model of another dialect: the fields that would not
// arrive, by their paths, with a reason where the path is none.
type Loss []string

// told bounds how many fields Error names.
const told = 5

func (l Loss) Error() string {
	if n := len(l) - told; n > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(l[:told], "; "), n)
	}
	return strings.Join(l, "; ")
}

// Head is what a raw request says about itself. Gemini's model and stream are in the path.
type Head struct {
	Model           string
	Stream          bool
	MaxOutputTokens int // the largest number that says so
	Answers         int // how many are asked for; 0: one
	ProviderTools   []llm.ProviderTool
	ProviderState   bool
}

// searches are the tools of providers that look something up and do nothing else, as their names
// begin in lower case without underscores.
var searches = []string{"websearch", "filesearch", "googlesearch"}

// Provided is a tool that the provider runs itself, by its dialect's name for it. A search is
// read-only: to repeat one does nothing a second time. Whatever else there is may act.
func Provided(name string) llm.ProviderTool {
	plain := strings.ReplaceAll(strings.ToLower(name), "_", "")
	begins := func(s string) bool { return strings.HasPrefix(plain, s) }
	return llm.ProviderTool{Name: name, ReadOnly: slices.ContainsFunc(searches, begins)}
}

// Tail knows what is open in the part of an answer that a client was sent, so that a broken
// answer can be ended in the dialect's own words. It is used by one goroutine.
type Tail interface {
	// Sent is told what the client was sent, with its bytes. It keeps neither.
	Sent(events []llm.Event)
	// Broken returns the frames that close what is open and say that the answer is broken, in
	// the form that clients do not repeat by themselves. Nil: the dialect has none; the
	// connection is to be cut.
	Broken(r Refusal) []byte
}

// Refusal is what a client is told instead of an answer, or of the rest of one.
type Refusal struct {
	Status  int    // of the answer, or that it would have had
	Code    string // a word for programs, in OpenAI's vocabulary where that has one
	Message string // a sentence for a person
	// Metadata are further facts for programs.
	Metadata map[string]string
}

// JSON encodes what a server says. It cannot fail for values made of strings, numbers and
// valid JSON; nil otherwise.
func JSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
