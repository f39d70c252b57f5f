package session

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// Resolution is what the operator decides about a tool call whose outcome nobody knows.
type Resolution string

const (
	// UseAsIs tells the model that the outcome is not known.
	UseAsIs Resolution = "use_as_is"
	// MarkDone tells the model that the call was carried out.
	MarkDone Resolution = "mark_done"
	// RunAgain lets the tool start once more when the run is resumed.
	RunAgain Resolution = "run_again"
)

// ResolveCall settles a tool call of the session's last run that was started before a crash,
// so that the run can be resumed. It starts nothing by itself.
func (m *Manager) ResolveCall(ctx context.Context, actor string, id ID, callID string, how Resolution) (c ToolCall, err error) {
	err = m.update(ctx, Full, func(tx Tx) error {
		run, err := tx.LastRun(id)
		if err != nil {
			return err
		}
		rid := run.ID
		if c, err = unknownCall(tx, rid, callID); err != nil {
			return err
		}
		result := llm.Part{Kind: llm.PartToolResult, CallID: c.CallID, Name: c.Name}
		switch how {
		case UseAsIs:
			result.IsError = true
			result.Content = []llm.Part{llm.Text("The server stopped while this ran. Whether it was done is not known.")}
			c.State, c.Result = CallEnded, &result
		case MarkDone:
			result.Content = []llm.Part{llm.Text("The server stopped while this ran. The operator has checked: it was done.")}
			c.State, c.Result = CallEnded, &result
		case RunAgain:
			c.State = CallAgain
		default:
			return &Refusal{Code: CodeValidation, Message: fmt.Sprintf("Unknown resolution %q: want use_as_is, mark_done or run_again.", how)}
		}
		c.EndedAt = At(time.Now())
		c.Resolved = &Resolved{How: how, By: actor, At: c.EndedAt}
		if err := putCall(tx, c, CallUnknown); err != nil {
			return err
		}
		return audit(tx, actor, "resolve call: "+string(how), id, rid, c.CallID)
	})
	return c, err
}

func unknownCall(tx ReadTx, rid RunID, callID string) (ToolCall, error) {
	calls, err := tx.ToolCalls(rid)
	if err != nil {
		return ToolCall{}, err
	}
	for _, c := range calls {
		if c.CallID != callID {
			continue
		}
		if c.State == CallUnknown {
			return c, nil
		}
		err = &Refusal{Code: CodeConflict, Message: fmt.Sprintf("The outcome of %s is known: it is %s.", c.Name, c.State)}
	}
	if err == nil {
		err = ErrNotFound
	}
	return ToolCall{}, err
}
