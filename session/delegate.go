package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// DelegateTool is the name of the tool by which a model gives a task to a subagent.
const DelegateTool = "delegate"

// DelegateDescription tells a model what that tool does.
const DelegateDescription = "Gives a task to a subagent, which works on it with the same tools in a conversation of its own. " +
	"It knows nothing but the task: say all that it needs. Its last message is the result. Several may work at the same time."

// agentActor is who acts in the session of a subagent.
const agentActor = "agent"

// Subagents says whether models may give tasks to subagents. The zero value: they may not.
type Subagents struct {
	Depth    int       // how deep they may be nested; 0: there are none
	MaxSteps int       // of each run; 0: those of its parent's session
	Spend    llm.Money // what each may cost, besides the limit of its tree; 0: no limit of its own
	Ask      bool      // each is begun only after the operator has approved of it
}

// delegate is the tool that lets a subagent carry out a task: in a session of its own, which the
// call's record names, by a run that takes no slot but its parent's. Whatever becomes of that
// session is stored there, so a call that a crash has cut off is gone on with.
type delegate struct{ x *execution }

// task is what a subagent is asked for.
type task struct {
	Task  string `json:"task"`
	Title string `json:"title"`
	Model string `json:"model"`
}

// Spec implements agent.Tool.
func (delegate) Spec() llm.Tool {
	return llm.Tool{
		Name:        DelegateTool,
		Description: DelegateDescription,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"task":{"type":"string","minLength":1,"description":"What to do, and what to report."},` +
			`"title":{"type":"string","description":"A few words for whoever watches."},` +
			`"model":{"type":"string","description":"The model or chain that works on it; without it, the same as here."}},` +
			`"required":["task"],"additionalProperties":false}`),
	}
}

// Traits implements agent.Tool.
func (d delegate) Traits() agent.Traits {
	return agent.Traits{Effect: true, Parallel: true, Resumes: true, Ask: d.x.m.cfg.Subagents.Ask}
}

// Run implements agent.Tool.
func (d delegate) Run(ctx context.Context, arguments json.RawMessage, report func(agent.Progress)) ([]llm.Part, error) {
	var t task
	if err := json.Unmarshal(arguments, &t); err != nil {
		return nil, err
	}
	t.Model = cmp.Or(t.Model, d.x.run.Model)
	if err := d.x.m.checkModel(t.Model); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		run, claimed, err := d.x.begin(ctx, agent.CallOf(ctx), t)
		switch {
		case err != nil:
			return nil, fmt.Errorf("begin the subagent: %w", err)
		case run.State.Terminal():
			return d.x.m.outcome(ctx, run)
		case claimed:
			if !d.x.m.execute(ctx, &execution{m: d.x.m, run: run, report: report}) {
				return nil, errShutdown
			}
		default: // somebody has it who does not know yet that our run is ours now
			select {
			case <-time.After(sweepEvery):
			case <-ctx.Done():
			}
		}
	}
	return nil, context.Cause(ctx)
}

// begin stores the session of a call's subagent with the run that carries the task out, or finds
// them; it claims that run where nobody has it. To wait for it is no attempt to run that came to
// nothing, so the claims that were needed to wait do not count.
func (x *execution) begin(ctx context.Context, c agent.Call, t task) (run Run, claimed bool, err error) {
	err = x.commit(ctx, func(tx Tx, above *Run) error {
		if above.CancelRequested {
			return errStopped
		}
		above.Claims = 1
		call, err := findCall(tx, above.ID, c)
		if err != nil {
			return err
		}
		runs, err := tx.Runs(call.Child)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			run, err = x.insertChild(tx, call, t)
		} else {
			run = runs[0]
		}
		if claimed = err == nil && run.State == Queued; claimed {
			run, err = x.m.claimRun(tx, run)
		}
		return err
	})
	return run, claimed, err
}

// insertChild stores the session of a subagent and its queued run. Nobody has seen anything of
// that, which is what lets its first request out: it is this run that somebody has asked for.
func (x *execution) insertChild(tx Tx, call ToolCall, t task) (Run, error) {
	set, parent, err := tx.Settings(x.run.SessionID)
	if err != nil {
		return Run{}, err
	}
	own := x.m.cfg.Subagents
	set.Routing, set.SpendLimit = x.routing, nil
	if own.MaxSteps > 0 {
		set.MaxSteps = own.MaxSteps
	}
	if own.Spend > 0 {
		set.SpendLimit = &own.Spend
	}
	now, parts := time.Now(), []llm.Part{llm.Text(t.Task)}
	s := Session{
		ID: call.Child, Title: title([]llm.Part{llm.Text(t.Title), parts[0]}), Model: t.Model, Settings: set, Actor: agentActor,
		CreatedAt: At(now), UpdatedAt: At(now), State: Idle,
		Parent: &Parent{SessionID: call.SessionID, RunID: call.RunID, Step: call.Step, CallID: call.CallID, Root: call.SessionID, Depth: 1},
	}
	if parent != nil {
		s.Parent.Root, s.Parent.Depth = parent.Root, parent.Depth+1
	}
	if err := tx.InsertSession(s); err != nil {
		return Run{}, err
	}
	if err := audit(tx, agentActor, "create session", s.ID, "", s.Model); err != nil {
		return Run{}, err
	}
	msg := Message{ID: NewID[MessageID]("msg_", now), SessionID: s.ID, Role: RoleOperator, Parts: parts,
		Actor: agentActor, CreatedAt: At(now), RunID: NewID[RunID]("run_", now)}
	if msg.Position, err = tx.InsertMessage(msg); err != nil {
		return Run{}, err
	}
	run := Run{
		ID: msg.RunID, SessionID: s.ID, MessageID: msg.ID, Trigger: TriggerMessage, Actor: agentActor, Model: s.Model, Parent: x.run.ID,
		Origin: Origin{Verb: replay.Regenerate, Run: replay.Gather(string(msg.RunID), 0, nil, nil)},
	}
	if err := queueRun(tx, run, Event{Type: EventMessage, Message: &msg}); err != nil {
		return Run{}, err
	}
	return tx.Run(run.ID)
}

// outcome is what a subagent's run has come to: its last words, or one error for all that was
// tried.
func (m *Manager) outcome(ctx context.Context, run Run) (parts []llm.Part, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		if run.State == Succeeded {
			parts, err = lastWords(tx, run)
			return err
		}
		return failedChild(tx, run)
	})
	return parts, err
}

func lastWords(tx ReadTx, run Run) (parts []llm.Part, err error) {
	rows, err := tx.Messages(run.SessionID, true, 0, 0)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.RunID != run.ID || row.Role != RoleReply {
			continue
		}
		parts = nil
		for _, p := range row.Parts {
			if p.Kind == llm.PartText && p.Text != "" {
				parts = append(parts, llm.Text(p.Text))
			}
		}
	}
	if parts == nil {
		parts = []llm.Part{llm.Text("The subagent has ended without a word.")}
	}
	return parts, nil
}

// failedChild is the error of a run that did not succeed: why, what was tried, and which of its
// calls nobody knows the end of. Where that could not be read it is that.
func failedChild(tx ReadTx, run Run) error {
	var b strings.Builder
	if run.State == Cancelled {
		fmt.Fprintf(&b, "The subagent was stopped by %s before it had answered.", run.CancelledBy)
	} else {
		fmt.Fprintf(&b, "The subagent failed: %s", run.Reason)
	}
	attempts, err := tx.Attempts(run.ID)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		if a.Failure != nil && a.Failure.Class != failure.Cancelled {
			fmt.Fprintf(&b, "\nAttempt %d, %s/%s, from %s to %s: %s", a.Number, a.Provider, a.Model,
				a.OpenedAt.Std().Format(time.TimeOnly), a.EndedAt.Std().Format(time.TimeOnly), a.Failure.Class)
		}
	}
	calls, err := tx.ToolCalls(run.ID)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if c.State == CallUnknown {
			fmt.Fprintf(&b, "\nNobody knows how its call of %s ended: the operator can look into session %s.", c.Name, run.SessionID)
		}
	}
	return errors.New(b.String())
}

// acted reports whether the subagent of a call may have changed something.
func acted(tx ReadTx, call ToolCall) (bool, error) {
	runs, err := tx.Runs(call.Child)
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		if !r.State.Terminal() {
			return true, nil
		}
		calls, err := tx.ToolCalls(r.ID)
		if err != nil {
			return false, err
		}
		for _, c := range calls {
			did := c.Effect && c.StartedAt != 0
			if did && c.Child != "" {
				if did, err = acted(tx, c); err != nil {
					return false, err
				}
			}
			if did {
				return true, nil
			}
		}
	}
	return false, nil
}

// cancelChildren asks the runs to stop that the calls of a run have begun.
func cancelChildren(tx Tx, id RunID, actor string) error {
	runs, err := tx.ChildRuns(id)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.State.Terminal() {
			continue
		}
		if _, err := cancelRun(tx, r, actor); err != nil {
			return fmt.Errorf("cancel run %s of a subagent: %w", r.ID, err)
		}
	}
	return nil
}

// Children lists the sessions that the calls of a session have begun, oldest first.
func (m *Manager) Children(ctx context.Context, id ID) (list []Session, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		if _, _, err := tx.Settings(id); err != nil {
			return err
		}
		list, err = tx.Children(id)
		return err
	})
	return list, err
}

// aboveOpened tells who is asked, and whom that replaces (N76).
func (x *execution) aboveOpened(a Attempt) {
	asked := a.Provider + "/" + a.Model
	if a.SwitchedFrom != nil {
		asked += fmt.Sprintf(", in place of %s/%s: %s", a.SwitchedFrom.Provider, a.SwitchedFrom.Model, a.SwitchedFrom.Reason)
	}
	x.above(a.Evidence.Scope.Step, "asks %s", asked)
}

// above tells the call that has begun this run, where one has, what the run is doing.
func (x *execution) above(step int, format string, args ...any) {
	if x.report != nil {
		x.report(agent.Progress{Done: float64(step), Text: fmt.Sprintf("step %d: ", step+1) + fmt.Sprintf(format, args...)})
	}
}
