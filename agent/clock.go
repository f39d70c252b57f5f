package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// Clock is a tool that tells the time. It changes nothing.
type Clock struct{}

// Spec implements Tool.
func (Clock) Spec() llm.Tool {
	return llm.Tool{
		Name:        "clock",
		Description: "Tells the current date and time of the server, with its time zone.",
		Schema:      json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	}
}

// Traits implements Tool.
func (Clock) Traits() Traits { return Traits{Parallel: true} }

// Run implements Tool.
func (Clock) Run(context.Context, json.RawMessage, func(Progress)) ([]llm.Part, error) {
	return []llm.Part{llm.Text(time.Now().Format("Monday, 2 January 2006, 15:04:05 MST"))}, nil
}
