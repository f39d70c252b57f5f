package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// execution is one claim of one run: the agent's journal, the gate's ledger, and the writer
// of its output. It is used by one goroutine, but for what the journal says of tool calls.
type execution struct {
	m       *Manager
	run     Run
	writer  *lateWriter
	seq     int64
	choice  recovery.Choice // who is asked by the attempt that is opened next
	attempt Attempt         // the open, or last, one
	bill    bill            // of the attempt
	fell    *Notice         // of the attempt's failure, once it was sealed so
	caps    []spendCap
	routing Routing              // the session's and the message's
	parent  *Parent              // of the session; nil: it is a tree's first
	prior   map[callKey]ToolCall // calls of this run and of those it continues
	last    string               // who wrote the conversation's last reply, as provider/model
	// report tells the call that has begun this run how far it is; nil: none has.
	report func(agent.Progress)
	// unjudged: a shutdown came before it was known, or stored, what was shown.
	unjudged bool
}

type callKey struct {
	step int
	id   string
}

// do carries the run out and stores how it ended: it does not give that up while this node works and
// has the run. Its error is what could not be stored.
func (x *execution) do(ctx context.Context) error {
	var err error
	if x.run.Claims > 1 {
		// Its output so far is judged, when nobody adds to it any more; also where it was asked to
		// stop, because what it has shown is kept all the same.
		x.writer = claimLater(x.m.work, x.m.log, x.run)
		if err = x.writer.claimed(); err == nil {
			err = x.insist(x.m.work, "judge what an earlier claim has left", func() error { return x.judge(x.m.work) })
		}
		if x.m.work.Err() != nil {
			x.unjudged = !errors.As(err, new(*recovery.Stopped))
		}
	} else {
		x.writer = claimLater(ctx, x.m.log, x.run)
	}
	if err == nil {
		err = x.work(ctx)
	}
	if cerr := x.writer.claimed(); errors.Is(cerr, ErrFenced) {
		return fmt.Errorf("%w: %w", errLostRun, cerr)
	}
	return x.insist(x.m.work, "store the end of the run", func() error {
		for {
			ferr := x.finish(ctx, err)
			if !errors.Is(ferr, ErrLost) {
				return ferr
			}
			var cur Run
			if verr := x.m.store.View(context.WithoutCancel(ctx), func(tx ReadTx) (err error) { cur, err = tx.Run(x.run.ID); return err }); verr != nil {
				return verr
			}
			if cur.Generation != x.run.Generation || cur.State != Running {
				return fmt.Errorf("%w: generation %d", errLostRun, cur.Generation)
			}
		}
	})
}

// work answers what is not answered yet.
func (x *execution) work(ctx context.Context) error {
	var (
		live     Live
		req      llm.Request
		settings Settings
		outputs  int
	)
	err := x.m.store.View(ctx, func(tx ReadTx) (err error) {
		if live, err = x.m.live(tx); err != nil {
			return err
		}
		if req, settings, outputs, err = x.conversation(tx); err != nil {
			return err
		}
		x.caps, err = x.capsOf(tx, settings, live.Spend)
		return err
	})
	if err != nil {
		return err
	}
	x.routing = settings.Routing.and(x.run.Routing)
	route, err := x.route()
	if err != nil {
		return err
	}
	if x.run.Claims > maxClaims && !agent.Answered(req.Messages) {
		return &recovery.Stopped{Failure: failure.NewLocal("claims", fmt.Sprintf("The run was started %d times and never came to its end.", maxClaims))}
	}
	run := agent.Run{
		Scope:   llm.Scope{Session: string(x.run.SessionID), Run: string(x.run.ID), Lineage: llm.LineageMain, Generation: x.run.Generation},
		Ledger:  x,
		Origin:  x.run.origin(),
		Sink:    func(step int) replay.Sink { return sink{x, step} },
		Journal: x,
		Plan: recovery.Plan{
			Route: route, Policy: x.policy(live), Trace: x, Jitter: x.m.cfg.Jitter,
			Terms: replay.Terms{Hold: settings.Hold, Progress: x.progress},
		},
		Request:    req,
		Step:       outputs,
		Sent:       x.run.Requests,
		MaxSteps:   settings.MaxSteps,
		Compaction: x.m.cfg.Compaction,
		About:      x.m.models.About,
	}
	run.Log, run.Progress = x.m.cfg.Log, x.toolProgress
	run.Tools = x.tools(ctx, settings)
	if x.run.Claims > 1 {
		if err := x.heed(ctx, outputs); err != nil {
			return err
		}
	}
	return run.Do(ctx)
}

// tools are what the run's model is offered.
func (x *execution) tools(ctx context.Context, set Settings) []agent.Tool {
	var all []agent.Tool
	if x.m.cfg.Tools != nil {
		all = x.m.cfg.Tools(ctx, set)
	}
	if depth := x.m.cfg.Subagents.Depth; depth > 0 && (x.parent == nil || x.parent.Depth < depth) {
		all = append(slices.Clip(all), delegate{x})
	}
	list, idle := offered(all, set.Tools)
	if len(idle) > 0 {
		x.m.cfg.Log.Warn("a session offers its model tools that are not there", "session", x.run.SessionID, "tools", idle)
	}
	return list
}

// policy is how the run recovers. One that a call has begun leaves what is not repeated at once to
// its parent.
func (x *execution) policy(live Live) recovery.Policy {
	p := x.routing.within(live.Policy)
	p.HandOver = p.HandOver && x.run.Parent == ""
	return p
}

// route is who may answer the run. Where the keys cannot be read any more in its middle, those
// of its start are used.
func (x *execution) route() (*recovery.Route, error) {
	entries, err := x.m.models.Entries(x.run.Model)
	if err != nil {
		var f *failure.Failure
		if !errors.As(err, &f) {
			f = failure.NewLocal("models", err.Error())
		}
		return nil, &recovery.Stopped{Failure: f}
	}
	now := func() []recovery.Entry {
		if now, err := x.m.models.Entries(x.run.Model); err == nil {
			entries = now
		}
		return entries
	}
	return &recovery.Route{Entries: now, State: x.m.Credentials(), NoFallback: x.routing.NoFallback, Key: x.routing.Key,
		Person: x.run.Origin.Operator, Going: x.run.Claims > 1, Last: x.last}, nil
}

// settings completes a session's settings from the configuration, for its model.
func (m *Manager) settings(set Settings, model string) Settings {
	if set.System == "" {
		set.System = m.cfg.System
	}
	if set.MaxSteps == 0 {
		set.MaxSteps = m.cfg.MaxSteps
	}
	if set.MaxOutputTokens == 0 {
		set.MaxOutputTokens = m.cfg.MaxOutputTokens
	}
	if set.Hold == (replay.Hold{}) {
		set.Hold = m.cfg.Hold
		if h, ok := m.cfg.Holds[model]; ok {
			set.Hold = h
		}
	}
	return set
}

// progress tells whoever watches how much is held back.
func (x *execution) progress(characters int, call bool) {
	x.m.hub.broadcast(Event{Type: EventProgress, SessionID: x.run.SessionID,
		Progress: &Progress{RunID: x.run.ID, Characters: characters, Call: call}})
}

// finish ends the run in one transaction with all that belongs to its end.
func (x *execution) finish(ctx context.Context, end error) error {
	var stopped *recovery.Stopped
	if end != nil && !errors.As(end, &stopped) {
		stopped = &recovery.Stopped{Failure: failure.NewLocal("run", end.Error())}
	}
	wanted := MoveSucceed
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopped):
		wanted = MoveStop
	case errors.Is(cause, errShutdown), errors.Is(end, errShutdown):
		wanted = MoveRelease
	case end != nil:
		wanted = MoveFail
	}
	var run Run
	err := x.m.update(context.WithoutCancel(ctx), Full, func(tx Tx) (err error) {
		if run, err = tx.Run(x.run.ID); err != nil {
			return err
		}
		if run.Generation != x.run.Generation || run.State != Running {
			return ErrLost
		}
		s, st, err := sessionStatus(tx, run.SessionID)
		if err != nil {
			return err
		}
		if err := tx.SealOpen(run.ID, At(time.Now())); err != nil {
			return err
		}
		evidence, err := evidenceOf(tx, run)
		if err != nil {
			return err
		}
		move, f := wanted, (*failure.Failure)(nil) // of this try alone: the transaction may run again
		if stopped != nil {
			f = stopped.Failure
		}
		if move == MoveRelease && run.CancelRequested && !x.unjudged {
			move = MoveStop
		}
		if move == MoveRelease && !x.unjudged {
			if ok, _ := evidence.Allows(replay.Restart); !ok && end != nil {
				move, f = MoveFail, failure.NewInterrupted()
			} else if end == nil {
				move = MoveSucceed // it was done before the shutdown reached it
			}
		}
		next, do, err := Next(st, move)
		if err != nil {
			return err
		}
		if err := x.ended(tx, &run, do, f, stopped, evidence); err != nil {
			return err
		}
		if s.Paused != next.Paused {
			s.Paused = next.Paused
			if err := tx.PutSession(s); err != nil {
				return err
			}
		}
		if err := tx.PutRun(run, Running, x.run.Generation); err != nil {
			return err
		}
		if err := emitRun(tx, run); err != nil {
			return err
		}
		if do&DoPromote == 0 {
			return nil
		}
		if _, err := promote(tx, s); err != nil {
			return err
		}
		return emit(tx, s.ID, Event{Type: EventSession})
	})
	if err == nil && run.State == Queued && run.Parent == "" { // this node stops: another one may go on
		x.m.announce(run)
	}
	return err
}

// ended sets what a run's end says, and stores the last row of a reply that is not whole.
func (x *execution) ended(tx Tx, run *Run, do Do, f *failure.Failure, stopped *recovery.Stopped, evidence replay.RunEvidence) error {
	now := time.Now()
	run.Owner = ""
	var row *Message
	if stopped != nil {
		if parts := stopped.Output.Parts(); len(parts) > 0 {
			row = x.message(RoleReply, x.attempt.Evidence.Scope.Step, parts)
			row.Interrupted = stopped.Output.Interrupted
		}
	}
	switch {
	case do&DoReleaseRun != 0:
		run.State = Queued
		run.Generation++
		return nil
	case do&DoSucceedRun != 0:
		run.State = Succeeded
		if err := noteRun(tx, HookRunSucceeded, run, evidence.Committed); err != nil {
			return err
		}
	case do&DoCancelRun != 0:
		run.State = Cancelled
		if err := noteRun(tx, HookRunCancelled, run, evidence.Committed); err != nil {
			return err
		}
		if row != nil {
			row.Interrupted = "cancelled"
		}
	case do&DoFailRun != 0:
		run.State = Failed
		if row != nil {
			row.Interrupted = f.Class.String()
		}
		live, err := x.m.live(tx)
		if err != nil {
			return err
		}
		hooks, evidence, err := x.noteFailed(tx, run, evidence)
		if err != nil {
			return err
		}
		run.Failure = failureOf(f)
		run.Failure.Tried = stopped.Tried
		policy := x.policy(live)
		run.Recovery = recoveryOf(f, evidence, policy, now)
		run.Recovery.Hooks = hooks
		if run.Recovery.Auto && stopped.Decision.Rule == recovery.RuleLarge {
			run.Recovery.Auto, run.Recovery.Reason = false, string(recovery.RuleLarge)
		}
		if err := schedule(tx, *run, policy, now); err != nil {
			return err
		}
		run.Reason = strings.TrimSpace(f.Message + " " + stopped.Exhausted())
		if row == nil {
			row = x.message(RoleReply, x.attempt.Evidence.Scope.Step, []llm.Part{})
		}
	}
	run.EndedAt = At(now)
	if err := cancelChildren(tx, run.ID, cmp.Or(run.CancelledBy, agentActor)); err != nil {
		return err
	}
	if err := settle(tx, run.ID, run.State == Cancelled); err != nil {
		return err
	}
	if row == nil {
		return nil
	}
	var err error
	if row.Position, err = tx.InsertMessage(*row); err != nil {
		return err
	}
	row.Failure, row.Recovery = run.Failure, run.Recovery
	if err := spentOn(tx, row); err != nil {
		return err
	}
	return emit(tx, run.SessionID, Event{Type: EventMessage, Message: row})
}

// noteFailed lets hooks be told that the run has failed. Those with an effect are evidence of the
// run from here on. It names every hook that is.
func (x *execution) noteFailed(tx Tx, run *Run, before replay.RunEvidence) ([]string, replay.RunEvidence, error) {
	scope, attempt := scopeOf(*run, before.Committed), AttemptID("")
	if x.attempt.ID != "" && x.attempt.Evidence.Scope == scope {
		attempt = x.attempt.ID
	}
	n, err := note(tx, HookRunFailed, scope, attempt)
	if err != nil {
		return nil, before, err
	}
	n.Run = run
	e := before
	if _, effects := x.m.cfg.Hooks.Asks(HookRunFailed); len(effects) > 0 {
		e, err = evidenceOf(tx, *run)
	}
	if err != nil || e.Whole&replay.HookRan == 0 {
		return nil, e, err
	}
	hooks, err := hooksOf(tx, *run)
	return hooks, e, err
}

// message makes a row of this run.
func (x *execution) message(role Role, step int, parts []llm.Part) *Message {
	now := time.Now()
	msg := &Message{
		ID: NewID[MessageID]("msg_", now), SessionID: x.run.SessionID, Role: role, Parts: parts,
		CreatedAt: At(now), RunID: x.run.ID, Step: step,
	}
	if role == RoleReply {
		msg.AttemptID, msg.Provider, msg.Model = x.attempt.ID, x.attempt.Provider, x.attempt.Model
		msg.SwitchedFrom = x.attempt.InsteadOf
	}
	return msg
}

// failureOf is the part of a failure that a run stores.
func failureOf(f *failure.Failure) *Failure {
	return &Failure{
		Retryable: f.Retryable, RetryClass: f.Class, RetryAfterUntil: NotBefore(f.NotBefore),
		Message: f.Message, Provider: f.Provider, Model: f.Model,
		Status: f.Status, Code: f.Code, RequestID: f.RequestID,
	}
}

// recoveryOf is the gate's answer about a failed run.
func recoveryOf(f *failure.Failure, e replay.RunEvidence, p recovery.Policy, now time.Time) *Recovery {
	a := recovery.Arm(f, e, p, now)
	r := &Recovery{
		Auto: a.Auto, Verb: a.Verb, NotBefore: NotBefore(a.NotBefore), ReplaySafe: a.Safe,
		Evidence: a.Evidence, Reason: a.Reason, Choices: []string{"regenerate"},
	}
	if e.Committed > 0 {
		r.Choices = append(r.Choices, "resume")
	}
	r.Choices = append(r.Choices, "keep")
	return r
}
