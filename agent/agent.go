// Package agent runs the loop of one run: a model call, its output committed, the tools it
// asks for, their results committed, the next call.
//
// It promises: an output is committed before any of its tools starts; a tool call is recorded
// before it starts, starts at most once, with arguments that fit the tool's schema and, where it
// needs that, only after the operator has approved of it; its stored result is used where there is
// one, and is bounded; no model call goes out but through recovery.Do. It refuses to decide what a failure means and
// keeps nothing itself: the Journal does.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// Call is one tool call of a step.
type Call struct {
	Step      int
	ID        string
	Name      string
	Arguments string
	Effect    bool
	Ask       bool // it starts only after the operator has approved of it
	Resumes   bool // where it was started before, running it again goes on with it
}

// Journal is the durable story of a run. Each method returns when its change is stored. Those
// that take a Call are used for several calls at a time.
type Journal interface {
	// Output commits the output of a step.
	Output(ctx context.Context, step int, r recovery.Reply) error
	// Result is the result that a call has already, nil where it has none. ErrUnknownOutcome: the
	// call was started before and does not resume, and nobody knows how it ended.
	Result(c Call) (*llm.Part, error)
	// Refuse stores the result of a call that never starts, because it cannot be carried out.
	Refuse(ctx context.Context, c Call, result llm.Part) error
	// Ask waits for the operator's word on a call that needs it. Where they deny it, it returns
	// the result that says so, and the tool must not start.
	Ask(ctx context.Context, c Call) (denied *llm.Part, err error)
	// Start records a call before its tool starts, where that was not done before. An error: it must
	// not start.
	Start(ctx context.Context, c Call) error
	// End stores the result of a call.
	End(ctx context.Context, c Call, result llm.Part) error
	// Results commits the results of a step, in call order.
	Results(ctx context.Context, step int, results []llm.Part) error
	// Compact stores that the conversation was made shorter before a step's call, as f says of the
	// conversation that is stored, and returns it as it is from then on. An error of f is
	// returned as it is, and nothing stored.
	Compact(ctx context.Context, step int, f func([]llm.Message) (Cut, error)) ([]llm.Message, error)
}

// ErrUnknownOutcome is a tool call of which nobody knows whether it has happened.
var ErrUnknownOutcome = errors.New("the outcome of a tool call is not known")

// Run is one execution of the agent.
type Run struct {
	Scope    llm.Scope // of the run; Step is set by the loop
	Ledger   replay.Ledger
	Origin   replay.Origin
	Sink     func(step int) replay.Sink // where a step's output goes
	Journal  Journal
	Plan     recovery.Plan // its Bound and Compact are set by the loop
	Tools    []Tool
	MaxSteps int
	// Request is the conversation so far. Where its last message is an output already, the
	// loop begins with the calls that it asks for, and is done where it asks for none.
	Request llm.Request
	// Step is the first step that is not committed; Sent counts what it has sent under
	// earlier claims of the run.
	Step, Sent int
	Compaction Compaction
	// About is what is known of an entry's model.
	About func(provider, model string) llm.ModelFacts
	// Progress is told how far a tool is that runs, a few times a second at most; nil: nobody is.
	Progress func(Call, Progress)
	Log      *slog.Logger // required

	schemas map[string]*jsonschema.Resolved // of the tools that were called; nil: not checked
}

// Do runs the loop until the model asks for no more tools. Its error is a
// *recovery.Stopped, or what the journal answered.
func (r *Run) Do(ctx context.Context) error {
	tools := map[string]Tool{}
	for _, t := range r.Tools {
		spec := t.Spec()
		tools[spec.Name] = t
		r.Request.Tools = append(r.Request.Tools, spec)
	}
	step, sent := r.Step, r.Sent
	if Answered(r.Request.Messages) {
		return nil
	}
	if n := len(r.Request.Messages); n > 0 && r.Request.Messages[n-1].Role == llm.RoleAssistant {
		if err := r.act(ctx, step-1, callsOf(r.Request.Messages[n-1].Parts), tools); err != nil {
			return err
		}
	}
	for ; ; step++ {
		if step >= r.MaxSteps {
			return &recovery.Stopped{Failure: failure.NewLocal("max_steps",
				fmt.Sprintf("The run has used its %d steps and the model still asks for tools.", r.MaxSteps))}
		}
		scope := r.Scope
		scope.Step = step
		gate := replay.New(scope, r.Ledger, r.Origin)
		r.Plan.Bound = &recovery.Bound{Sent: sent}
		if r.Compaction.Strategy != "" {
			r.Plan.Compact = func(ctx context.Context, c recovery.Compaction) (*llm.Request, error) {
				return r.overflow(ctx, step, c)
			}
		}
		if err := r.relieve(ctx, step); err != nil {
			return err
		}
		reply, err := recovery.Do(ctx, r.Plan, gate, r.Sink(step), &r.Request)
		if err != nil {
			return err
		}
		sent = 0 // what earlier claims sent belongs to the step that is now committed
		if err := r.Journal.Output(ctx, step, reply); err != nil {
			return fmt.Errorf("commit the output of step %d: %w", step, err)
		}
		parts := reply.Parts()
		r.Request.Messages = append(r.Request.Messages, llm.Message{Role: llm.RoleAssistant, Parts: parts})
		calls := callsOf(parts)
		if len(calls) == 0 {
			return nil
		}
		if err := r.act(ctx, step, calls, tools); err != nil {
			return err
		}
	}
}

// Answered reports whether the conversation ends in an output that asks for no tools.
func Answered(messages []llm.Message) bool {
	n := len(messages)
	return n > 0 && messages[n-1].Role == llm.RoleAssistant && len(callsOf(messages[n-1].Parts)) == 0
}

// callsOf returns the calls that may be run: whole ones.
func callsOf(parts []llm.Part) []llm.Part {
	var calls []llm.Part
	for _, p := range parts {
		if p.Kind == llm.PartToolCall && !p.Cut {
			calls = append(calls, p)
		}
	}
	return calls
}
