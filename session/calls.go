package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// Result implements agent.Journal.
func (x *execution) Result(c agent.Call) (*llm.Part, error) {
	prior, ok := x.prior[callKey{c.Step, c.ID}]
	if !ok {
		return nil, nil
	}
	switch prior.State {
	case CallEnded, CallDenied, CallRefused:
		return prior.Result, nil
	case CallStarted, CallUnknown:
		if prior.resumes() {
			return nil, nil
		}
		return nil, agent.ErrUnknownOutcome
	}
	return nil, nil
}

// Refuse implements agent.Journal.
func (x *execution) Refuse(ctx context.Context, c agent.Call, result llm.Part) error {
	call := x.callOf(c, CallRefused)
	call.Result, call.EndedAt = &result, At(time.Now())
	return x.commit(ctx, func(tx Tx, run *Run) error { return insertCall(tx, call) })
}

// Start implements agent.Journal. Whether the call may start is read in the transaction that
// starts it.
func (x *execution) Start(ctx context.Context, c agent.Call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := x.commit(ctx, func(tx Tx, run *Run) error {
		if run.CancelRequested {
			return ErrLost
		}
		call, err := findCall(tx, run.ID, c)
		if err == nil && call.resumes() {
			return nil
		}
		if errors.Is(err, ErrNotFound) && x.mayStart(c) {
			call = x.callOf(c, CallStarted)
			call.StartedAt = At(time.Now())
			return insertCall(tx, call)
		}
		if err != nil {
			return fmt.Errorf("the operator was not asked: %w", err)
		}
		call.State, call.StartedAt = CallStarted, At(time.Now())
		return putCall(tx, call, CallApproved)
	})
	if err == nil {
		x.above(c.Step, "runs %s", c.Name)
	}
	return err
}

// mayStart reports whether a call need not be asked about. One that the operator lets run again
// was decided on then.
func (x *execution) mayStart(c agent.Call) bool {
	return !c.Ask || x.prior[callKey{c.Step, c.ID}].State == CallAgain
}

// End implements agent.Journal.
func (x *execution) End(ctx context.Context, c agent.Call, result llm.Part) error {
	return x.commit(ctx, func(tx Tx, run *Run) error {
		call, err := findCall(tx, run.ID, c)
		if err != nil {
			return fmt.Errorf("the call was not recorded: %w", err)
		}
		call.State, call.Result, call.EndedAt = CallEnded, &result, At(time.Now())
		return putCall(tx, call, CallStarted)
	})
}

// resumes reports whether running the started call again goes on with what it has begun.
func (c *ToolCall) resumes() bool { return c.Child != "" && c.State == CallStarted }

// callOf makes the record of a call of this run.
func (x *execution) callOf(c agent.Call, s CallState) ToolCall {
	call := ToolCall{SessionID: x.run.SessionID, RunID: x.run.ID, Step: c.Step, CallID: c.ID, Name: c.Name,
		Arguments: c.Arguments, Effect: c.Effect, State: s}
	if c.Resumes {
		call.Child = NewID[ID]("ses_", time.Now())
	}
	return call
}

func findCall(tx ReadTx, run RunID, c agent.Call) (ToolCall, error) {
	calls, err := tx.ToolCalls(run)
	if err != nil {
		return ToolCall{}, err
	}
	for _, call := range calls {
		if call.CallID == c.ID && call.Step == c.Step {
			return call, nil
		}
	}
	return ToolCall{}, ErrNotFound
}

func insertCall(tx Tx, c ToolCall) error {
	if err := tx.InsertToolCall(c); err != nil {
		return err
	}
	return emitCall(tx, c, "")
}

// putCall stores the call in place of what it was.
func putCall(tx Tx, c ToolCall, was CallState) error {
	if err := tx.PutToolCall(c, was); err != nil {
		return err
	}
	return emitCall(tx, c, was)
}

// emitCall tells of a call, and of its session where that asks for more or less than before.
func emitCall(tx Tx, c ToolCall, was CallState) error {
	events := []Event{{Type: EventToolCall, ToolCall: &c}}
	if c.State != CallAsked && was != CallAsked {
		return emit(tx, c.SessionID, events...)
	}
	if err := emit(tx, c.SessionID, append(events, Event{Type: EventSession})...); err != nil {
		return err
	}
	_, parent, err := tx.Settings(c.SessionID)
	if err != nil || parent == nil {
		return err
	}
	return emit(tx, parent.Root, Event{Type: EventSession}) // it counts the calls of its tree
}

// settle says of the calls of a run that ends what became of those that have not ended. What the
// operator has stopped is cancelled; what may have changed something is unknown.
func settle(tx Tx, run RunID, stopped bool) error {
	calls, err := tx.ToolCalls(run)
	if err != nil {
		return err
	}
	for _, c := range calls {
		was := c.State
		switch was {
		case CallAsked, CallApproved:
			c.State, c.EndedAt = CallCancelled, At(time.Now())
		case CallStarted:
			changed := c.Effect || !stopped
			if c.Child != "" {
				if changed, err = acted(tx, c); err != nil {
					return err
				}
			}
			c.State = CallUnknown
			if !changed {
				c.State, c.EndedAt = CallCancelled, At(time.Now())
			}
		default:
			continue
		}
		if err := putCall(tx, c, was); err != nil {
			return err
		}
	}
	return nil
}

// markUnknown notes which tools were started by an owner that is gone.
func markUnknown(tx Tx, run RunID) error {
	calls, err := tx.ToolCalls(run)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if c.State != CallStarted || c.resumes() {
			continue
		}
		c.State = CallUnknown
		if err := putCall(tx, c, CallStarted); err != nil {
			return err
		}
	}
	return nil
}

// ToolCalls lists a run's calls by step.
func (m *Manager) ToolCalls(ctx context.Context, id ID, rid RunID) (list []ToolCall, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		run, err := tx.Run(rid)
		if err != nil {
			return err
		}
		if run.SessionID != id {
			return ErrNotFound
		}
		list, err = tx.ToolCalls(rid)
		return err
	})
	return list, err
}

// Asked lists the calls of all sessions about which the operator is asked, the oldest first.
func (m *Manager) Asked(ctx context.Context) (list []ToolCall, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		list, err = tx.Asked()
		return err
	})
	return list, err
}

// toolProgress tells whoever watches how far a tool is.
func (x *execution) toolProgress(c agent.Call, p agent.Progress) {
	if p.Text != "" {
		x.above(c.Step, "%s: %s", c.Name, p.Text)
	}
	x.m.hub.broadcast(Event{Type: EventToolProgress, SessionID: x.run.SessionID,
		Tool: &ToolProgress{RunID: x.run.ID, Step: c.Step, CallID: c.ID, Progress: p}})
}
