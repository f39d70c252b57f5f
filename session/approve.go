package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// Answer is what the operator says about a call that they are asked about.
type Answer struct {
	Approve bool
	Reason  string // of a denial; told to the model
}

// Ask implements agent.Journal. The call is asked about once, whoever runs it by then: its row
// says until when. A wait for a person is no attempt to run that came to nothing, so the claims
// that were needed to wait do not count.
func (x *execution) Ask(ctx context.Context, c agent.Call) (denied *llm.Part, err error) {
	if x.mayStart(c) {
		return nil, nil
	}
	err = x.commit(ctx, func(tx Tx, run *Run) error {
		run.Claims = 1
		_, err := findCall(tx, run.ID, c)
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		now := time.Now()
		call := x.callOf(c, CallAsked)
		call.Approval = &Approval{AskedAt: At(now), ExpiresAt: At(now.Add(x.m.cfg.AnswerWithin))}
		return insertCall(tx, call)
	})
	if err != nil {
		return nil, err
	}
	x.above(c.Step, "asks whether %s may start: reprise approve %s %s", c.Name, x.run.SessionID, c.ID)
	for {
		answered := x.m.answered.next()
		call, err := x.asked(ctx, c)
		if err != nil {
			return nil, err
		}
		switch call.State {
		case CallApproved:
			return nil, nil
		case CallDenied:
			return call.Result, nil
		case CallAsked:
		default:
			return nil, fmt.Errorf("%w: the call is %s", ErrLost, call.State)
		}
		expired, err := x.await(ctx, call.Approval.ExpiresAt.Std(), answered)
		if err == nil && expired {
			err = x.deny(ctx, c)
		}
		if err != nil {
			return nil, err
		}
	}
}

// asked reads the call of a run that is still this claim's.
func (x *execution) asked(ctx context.Context, c agent.Call) (call ToolCall, err error) {
	err = x.m.store.View(ctx, func(tx ReadTx) error {
		run, err := tx.Run(x.run.ID)
		if err != nil {
			return err
		}
		if run.Generation != x.run.Generation || run.State != Running {
			return ErrLost
		}
		call, err = findCall(tx, x.run.ID, c)
		return err
	})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return call, stale(err)
}

// await waits until there may be an answer, and reports whether the time for one is over. Of another
// node's answers the log tells; where there may be one it looks now and then all the same. Nobody can
// answer a server that shuts down.
func (x *execution) await(ctx context.Context, until time.Time, answered <-chan struct{}) (expired bool, err error) {
	wait := time.Until(until)
	if wait <= 0 {
		return true, nil
	}
	if !x.m.cfg.Sole {
		wait = min(wait, sweepEvery)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-x.m.accept.Done():
		return false, errShutdown
	}
	return false, nil
}

// deny lets a call that nobody has answered never start. An answer that was quicker stands.
func (x *execution) deny(ctx context.Context, c agent.Call) error {
	return x.commit(ctx, func(tx Tx, run *Run) error {
		call, err := findCall(tx, run.ID, c)
		if err != nil || call.State != CallAsked {
			return err
		}
		_, err = answer(tx, call, timerActor, Answer{})
		return err
	})
}

// answer stores what was said about a call that is asked about.
func answer(tx Tx, c ToolCall, actor string, a Answer) (ToolCall, error) {
	now := At(time.Now())
	approval := *c.Approval
	approval.AnsweredAt, approval.AnsweredBy, approval.Reason = now, actor, a.Reason
	c.Approval, c.State = &approval, CallApproved
	act := "approve call"
	if !a.Approve {
		told := "The operator denied this call."
		switch {
		case actor == timerActor:
			told = "The operator was asked whether this call may run, and did not answer in time. It was not run."
		case a.Reason != "":
			told = "The operator denied this call: " + a.Reason
		}
		act, c.State, c.EndedAt = "deny call", CallDenied, now
		c.Result = &llm.Part{Kind: llm.PartToolResult, CallID: c.CallID, Name: c.Name, IsError: true, Content: []llm.Part{llm.Text(told)}}
	}
	if err := putCall(tx, c, CallAsked); err != nil {
		return c, err
	}
	return c, audit(tx, actor, act, c.SessionID, c.RunID, c.Name+" "+c.CallID)
}

// AnswerCall answers about a call that the session's last run asks about. The first answer stands:
// another one is refused, and told which that was.
func (m *Manager) AnswerCall(ctx context.Context, actor string, id ID, callID string, a Answer) (c ToolCall, err error) {
	err = m.update(ctx, Full, func(tx Tx) error {
		run, err := tx.LastRun(id)
		if err != nil {
			return err
		}
		if c, err = askedCall(tx, run, callID); err != nil {
			return err
		}
		c, err = answer(tx, c, actor, a)
		return err
	})
	if err != nil {
		return ToolCall{}, err
	}
	m.answered.give()
	return c, nil
}

// askedCall finds the call of a run that can be answered about.
func askedCall(tx ReadTx, run Run, callID string) (ToolCall, error) {
	calls, err := tx.ToolCalls(run.ID)
	if err != nil {
		return ToolCall{}, err
	}
	err = ErrNotFound
	for _, c := range calls {
		if c.CallID != callID {
			continue
		}
		why := ""
		switch a := c.Approval; {
		case a == nil:
			why = fmt.Sprintf("Nobody is asked about %s: it is %s.", c.Name, c.State)
		case a.AnsweredBy == timerActor:
			why = fmt.Sprintf("Nobody has answered in time: %s was denied.", c.Name)
		case a.AnsweredAt != 0 && c.State == CallDenied:
			why = fmt.Sprintf("%s was denied already, by %s.", c.Name, a.AnsweredBy)
		case a.AnsweredAt != 0:
			why = fmt.Sprintf("%s was approved already, by %s.", c.Name, a.AnsweredBy)
		case c.State != CallAsked || run.CancelRequested:
			why = fmt.Sprintf("The run was stopped: %s does not start.", c.Name)
		case !time.Now().Before(a.ExpiresAt.Std()):
			why = fmt.Sprintf("The time to answer is over: %s does not start.", c.Name)
		default:
			return c, nil
		}
		err = &Refusal{Code: CodeConflict, Message: why, Details: map[string]any{"state": c.State, "approval": c.Approval}}
	}
	return ToolCall{}, err
}
