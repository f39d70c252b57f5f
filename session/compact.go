package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// Compact implements agent.Journal. A compaction is a row like others: superseded, it is out of
// the context with what it says.
func (x *execution) Compact(ctx context.Context, _ int, f func([]llm.Message) (agent.Cut, error)) ([]llm.Message, error) {
	var rows []Message
	read := func(tx ReadTx) (err error) {
		rows, err = tx.Messages(x.run.SessionID, false, 0, 0)
		return err
	}
	if err := x.m.store.View(ctx, read); err != nil {
		return nil, err
	}
	messages, from := contextOf(rows)
	c, err := f(messages)
	if err != nil {
		return nil, err
	}
	told := &Compaction{Cause: c.Cause, Strategy: c.Strategy, Summary: c.Summary, Before: c.Before, After: c.After}
	if old := lastCompaction(rows); old != nil {
		told.UpTo = old.UpTo
	}
	for _, i := range from[:c.First] {
		if i >= 0 {
			told.UpTo = max(told.UpTo, rows[i].Position)
		}
	}
	if c.Held >= 0 {
		told.Kept = rows[from[c.Held]].ID
	}
	err = x.commit(ctx, func(tx Tx, run *Run) error {
		msg := x.message(RoleNotice, -1, []llm.Part{{Kind: llm.PartNotice, Text: told.String()}})
		msg.Compaction = told
		var err error
		if msg.Position, err = tx.InsertMessage(*msg); err != nil {
			return err
		}
		if err := audit(tx, run.Actor, "compact", run.SessionID, run.ID, told.String()); err != nil {
			return err
		}
		if err := emit(tx, run.SessionID, Event{Type: EventMessage, Message: msg}); err != nil {
			return err
		}
		return read(tx)
	})
	if err != nil {
		return nil, err
	}
	messages, _ = contextOf(rows)
	return messages, nil
}

// String says what was done, for a person.
func (c *Compaction) String() string {
	why, what := "had grown as long as it may", "left out"
	if c.Cause == agent.CauseOverflow {
		why = "was too long for the model"
	}
	if c.Strategy == agent.Summarize {
		what = "summarised"
	}
	return fmt.Sprintf("The conversation %s: what the model is told of its beginning was %s, about %d tokens of it are now %d. Everything stays readable here.",
		why, what, c.Before, c.After)
}

// lastCompaction is the newest one among the rows, nil where there is none.
func lastCompaction(rows []Message) *Compaction {
	for i := len(rows) - 1; i >= 0; i-- {
		if c := rows[i].Compaction; c != nil {
			return c
		}
	}
	return nil
}

// supersedable leaves out of the rows behind an anchor what stays in the context when they are
// superseded: a compaction that says something only of what came before.
func supersedable(later []Message, anchor Message) []Message {
	return slices.DeleteFunc(later, func(m Message) bool { return m.Compaction != nil && m.Compaction.UpTo <= anchor.Position })
}
