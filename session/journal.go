package session

import (
	"context"
	"errors"
	"slices"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// commit changes the run, under its generation, together with what f stores.
func (x *execution) commit(ctx context.Context, f func(tx Tx, run *Run) error) error {
	err := x.m.update(context.WithoutCancel(ctx), Full, func(tx Tx) error {
		run, err := tx.Run(x.run.ID)
		if err != nil {
			return err
		}
		if run.Generation != x.run.Generation || run.State != Running {
			return ErrLost
		}
		if err := f(tx, &run); err != nil {
			return err
		}
		return tx.PutRun(run, Running, x.run.Generation)
	})
	return stale(err)
}

// Output implements agent.Journal. A step that asks for no tools is committed with it. It is
// stored although the run was cancelled meanwhile: it has been shown. Where the store fails until
// then, what was shown is the end of the run; at a shutdown the next process goes on with it.
func (x *execution) Output(ctx context.Context, step int, r recovery.Reply) error {
	parts := r.Parts()
	msg := x.message(RoleReply, step, parts)
	msg.Usage = r.Output.Usage
	if r.Output.Model != "" {
		msg.Model = r.Output.Model
	}
	err := x.keep(ctx, msg, func(tx Tx, run *Run) error { return insert(tx, run, msg, !asks(parts)) })
	if err == nil || errors.Is(err, replay.ErrStale) {
		return err
	}
	x.unjudged = x.m.work.Err() != nil
	return &recovery.Stopped{Failure: failure.NewLocal("commit", err.Error()), Attempt: r.Attempt, Output: r.Output}
}

// Results implements agent.Journal. The step has come to its end, so the claims that were needed
// for it do not count against those that follow.
func (x *execution) Results(ctx context.Context, step int, results []llm.Part) error {
	msg := x.message(RoleTool, step, results)
	return x.keep(ctx, msg, func(tx Tx, run *Run) error {
		run.Claims = 1
		return insert(tx, run, msg, true)
	})
}

// keep commits a row, once, and insists on it.
func (x *execution) keep(ctx context.Context, msg *Message, f func(tx Tx, run *Run) error) error {
	again := false
	return x.insist(ctx, "store a row of the run", func() error {
		return x.commit(ctx, func(tx Tx, run *Run) error {
			if again { // the last try may have been stored, and its answer lost
				if _, err := tx.Message(msg.ID); !errors.Is(err, ErrNotFound) {
					return err
				}
			}
			again = true
			return f(tx, run)
		})
	})
}

// insert stores a row of the run; the last row of a step commits the step.
func insert(tx Tx, run *Run, msg *Message, last bool) error {
	var err error
	if msg.Position, err = tx.InsertMessage(*msg); err != nil {
		return err
	}
	run.Requests = 0
	if last {
		run.Steps = msg.Step + 1
	}
	if err := spentOn(tx, msg); err != nil {
		return err
	}
	return emit(tx, run.SessionID, Event{Type: EventMessage, Message: msg})
}

// asks reports whether an output asks for tools.
func asks(parts []llm.Part) bool {
	for _, p := range parts {
		if p.Kind == llm.PartToolCall && !p.Cut {
			return true
		}
	}
	return false
}

// conversation reads the model's context and the session's settings, and counts the run's
// stored outputs.
func (x *execution) conversation(tx ReadTx) (req llm.Request, set Settings, outputs int, err error) {
	if set, x.parent, err = tx.Settings(x.run.SessionID); err != nil {
		return req, set, 0, err
	}
	set = x.m.settings(set, x.run.Model)
	messages, err := tx.Messages(x.run.SessionID, false, 0, 0)
	if err != nil {
		return req, set, 0, err
	}
	req.System, req.MaxOutputTokens = set.System, set.MaxOutputTokens
	req.Messages, _ = contextOf(messages)
	if x.last, err = answered(tx, messages); err != nil {
		return req, set, 0, err
	}
	x.prior = map[callKey]ToolCall{}
	for run := x.run; ; {
		calls, err := tx.ToolCalls(run.ID)
		if err != nil {
			return req, set, 0, err
		}
		for _, c := range calls {
			key := callKey{c.Step, c.CallID}
			if _, newer := x.prior[key]; !newer {
				x.prior[key] = c
			}
		}
		if run.Continues == "" {
			return req, set, outputsOf(messages, x.run), nil
		}
		if run, err = tx.Run(run.Continues); err != nil {
			return req, set, 0, err
		}
	}
}

// answered names who wrote the last whole reply, as provider/model; empty: nobody.
func answered(tx ReadTx, rows []Message) (string, error) {
	for _, row := range slices.Backward(rows) {
		if row.AttemptID == "" || row.Interrupted != "" {
			continue
		}
		a, err := tx.Attempt(row.AttemptID)
		if errors.Is(err, ErrNotFound) {
			return "", nil
		}
		return a.Provider + "/" + a.Model, err
	}
	return "", nil
}

// contextOf turns rows into what a model is told. Interrupted and empty rows are history, not
// context. A call in the middle that has no result gets one that says so; the calls of the
// last row are left for the run to answer. What a compaction has left out is replaced by what it
// says. from lists the index of each message's row, -1 for those that stand for none.
func contextOf(rows []Message) (out []llm.Message, from []int) {
	var open []llm.Part
	add := func(role llm.Role, parts []llm.Part, row int) {
		out, from = append(out, llm.Message{Role: role, Parts: parts}), append(from, row)
	}
	cut := lastCompaction(rows)
	if cut != nil {
		out, from = append(out, agent.Told(cut.Summary)), append(from, -1)
	}
	settle := func() {
		if len(open) == 0 {
			return
		}
		results := make([]llm.Part, len(open))
		for i, c := range open {
			results[i] = llm.Part{Kind: llm.PartToolResult, CallID: c.CallID, Name: c.Name, IsError: true,
				Content: []llm.Part{llm.Text("The run ended before this call had a result.")}}
		}
		add(llm.RoleTool, results, -1)
		open = nil
	}
	for i, row := range rows {
		if row.Interrupted != "" || len(row.Parts) == 0 || cut != nil && row.Position <= cut.UpTo && row.ID != cut.Kept {
			continue
		}
		switch row.Role {
		case RoleOperator:
			settle()
			add(llm.RoleUser, row.Parts, i)
		case RoleTool:
			open = nil
			add(llm.RoleTool, row.Parts, i)
		case RoleReply:
			settle()
			parts := whole(row.Parts)
			for _, p := range parts {
				if p.Kind == llm.PartToolCall {
					open = append(open, p)
				}
			}
			if len(parts) > 0 {
				add(llm.RoleAssistant, parts, i)
			}
		}
	}
	return out, from
}

// whole leaves out notices and calls that were cut off.
func whole(parts []llm.Part) []llm.Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p llm.Part) bool { return p.Cut || p.Kind == llm.PartNotice })
}
