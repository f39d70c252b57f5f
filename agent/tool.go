package agent

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/reprise-run/reprise/llm"
)

// Tool is something that a model may ask us to do. It is safe for concurrent use.
type Tool interface {
	Spec() llm.Tool
	Traits() Traits
	// Run carries the call out. What it returns is told to the model as the call's result, and so
	// is its error. It ends soon after ctx has. report may be called until Run returns.
	Run(ctx context.Context, arguments json.RawMessage, report func(Progress)) ([]llm.Part, error)
}

// Traits say how a tool may be used. The zero value is a tool without effect that is run alone.
type Traits struct {
	// Effect: running it may change something outside.
	Effect bool
	// Parallel: it may run beside other such calls of its step.
	Parallel bool
	// Ask: it starts only after the operator has approved of the call.
	Ask bool
	// Resumes: what a call has begun outlives our process, and running it again under the same
	// Call goes on with that. After a crash it is run again, where others are not.
	Resumes bool
}

type callKey struct{}

// CallOf is the call that a tool was started for, from the context of its Run.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// Progress is what a running tool says of how far it is. Total is 0 where nobody knows.
type Progress struct {
	Done  float64 `json:"done"`
	Total float64 `json:"total,omitempty"`
	Text  string  `json:"text,omitempty"`
}

// ErrResult is the error of a tool whose parts say themselves what went wrong.
var ErrResult = errors.New("the tool's result is an error")
