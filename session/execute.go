package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// execution is one claim of one run: the agent's journal, the gate's ledger, and the writer
// of its output. It is used by one goroutine.
type execution struct {
	m       *Manager
	run     Run
	writer  *lateWriter
	seq     int64
	attempt Attempt              // the open, or last, one
	prior   map[callKey]ToolCall // calls of this run and of those it continues
}

type callKey struct {
	step int
	id   string
}

// dispatchLoop starts queued runs, oldest first, while the cap allows, and keeps this node's
// leases.
func (m *Manager) dispatchLoop() {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		if err := m.dispatch(); err != nil && m.accept.Err() == nil {
			m.cfg.Log.Error("dispatch", "error", err)
		}
		select {
		case <-m.wake:
		case <-sweep.C:
			if err := m.sweep(); err != nil && m.work.Err() == nil {
				m.cfg.Log.Error("sweep", "error", err)
			}
		case <-m.accept.Done():
			m.runs.Done()
			m.keepLeases()
			return
		}
	}
}

// keepLeases keeps the leases of runs that are ending, until they have.
func (m *Manager) keepLeases() {
	sweep := time.NewTicker(m.cfg.Lease / 3)
	defer sweep.Stop()
	for {
		select {
		case <-sweep.C:
			if err := m.sweep(); err != nil {
				m.cfg.Log.Error("sweep", "error", err)
			}
		case <-m.work.Done():
			return
		}
	}
}

func (m *Manager) sweep() error {
	now := time.Now()
	if err := m.purge(now); err != nil {
		return err
	}
	return m.update(m.work, Soft, func(tx Tx) error {
		if err := tx.ExtendLeases(m.owner, At(now.Add(m.cfg.Lease))); err != nil {
			return err
		}
		return tx.Prune(At(now.Add(-keepAnswer)))
	})
}

// claimAtOnce bounds the runs that are claimed in one transaction.
const claimAtOnce = 32

// dispatch starts as many queued runs as the cap leaves room for.
func (m *Manager) dispatch() error {
	for m.accept.Err() == nil {
		var runs []Run
		err := m.store.Update(m.accept, Soft, func(tx Tx) (err error) {
			runs, err = m.claim(tx)
			return err
		})
		if err != nil {
			return err
		}
		kick(m.relay)
		for _, r := range runs {
			m.start(r)
		}
		if len(runs) < claimAtOnce {
			return nil
		}
	}
	return nil
}

// claim takes the oldest queued runs for this node, as many as there is room for; after the
// commit each is to be started. What finds no slot is left to the operator, where the
// configuration says so.
func (m *Manager) claim(tx Tx) (claimed []Run, err error) {
	running, _, err := tx.CountRuns()
	if err != nil {
		return nil, err
	}
	room := min(max(m.cfg.ConcurrentRuns-running, 0), claimAtOnce)
	limit := room
	if m.cfg.OperatorStarts {
		limit = 0
	} else if room == 0 {
		return nil, nil
	}
	queued, err := tx.QueuedRuns(limit)
	if err != nil {
		return nil, err
	}
	for i, r := range queued {
		switch {
		case i < room:
			if r, err = m.claimRun(tx, r); err != nil {
				return nil, err
			}
			claimed = append(claimed, r)
		case room < claimAtOnce:
			if err := park(tx, r); err != nil {
				return nil, err
			}
		}
	}
	return claimed, nil
}

// claimRun takes a queued run for this node under a new generation.
func (m *Manager) claimRun(tx Tx, r Run) (Run, error) {
	if _, _, err := Next(Status{Run: r.State, Stopping: r.CancelRequested}, MoveClaim); err != nil {
		return r, err
	}
	now, generation := time.Now(), r.Generation
	r.State, r.Owner, r.LeaseUntil = Running, m.owner, At(now.Add(m.cfg.Lease))
	r.Generation++
	r.Claims++
	if r.StartedAt == 0 {
		r.StartedAt = At(now)
	}
	if err := tx.PutRun(r, Queued, generation); err != nil {
		return r, err
	}
	return r, emitRun(tx, r)
}

func park(tx Tx, r Run) error {
	r.Parked = true
	if err := tx.PutRun(r, Queued, r.Generation); err != nil {
		return err
	}
	return emitRun(tx, r)
}

// StartRun lets a parked run start as soon as a slot is free. Where none is, it is parked
// again.
func (m *Manager) StartRun(ctx context.Context, actor string, id ID, rid RunID) (r Run, err error) {
	err = m.update(ctx, Full, func(tx Tx) error {
		if r, err = tx.Run(rid); err != nil {
			return err
		}
		if r.SessionID != id {
			return ErrNotFound
		}
		if r.State != Queued || !r.Parked {
			return &Refusal{Code: CodeConflict, Message: fmt.Sprintf("The run is %s: it does not wait to be started.", r.State)}
		}
		running, _, err := tx.CountRuns()
		if err != nil {
			return err
		}
		if running >= m.cfg.ConcurrentRuns {
			return &Refusal{Code: CodeRateLimited, Message: "No slot is free. Stop a run, or wait for one to end.",
				Details: map[string]any{"resource": "concurrent_runs", "limit": m.cfg.ConcurrentRuns, "count": running}}
		}
		r.Parked = false
		if err := tx.PutRun(r, Queued, r.Generation); err != nil {
			return err
		}
		if err := audit(tx, actor, "start run", id, rid, ""); err != nil {
			return err
		}
		return emitRun(tx, r)
	})
	if err == nil {
		kick(m.wake)
	}
	return r, err
}

// start runs a claimed run in a goroutine of its own. A manager that is closed already leaves
// it to the next one, which finds an orphan.
func (m *Manager) start(r Run) {
	ctx, cancel := context.WithCancelCause(m.work)
	m.mu.Lock()
	if m.ended {
		m.mu.Unlock()
		cancel(nil)
		return
	}
	m.active[r.ID] = cancel
	m.runs.Add(1)
	m.mu.Unlock()
	kick(m.counts)
	go func() {
		defer m.runs.Done()
		defer cancel(nil)
		x := &execution{m: m, run: r}
		err := x.do(ctx)
		m.mu.Lock()
		delete(m.active, r.ID)
		m.mu.Unlock()
		if err != nil {
			m.cfg.Log.Error("run", "session", r.SessionID, "run", r.ID, "error", err)
		}
		kick(m.quiet)
		kick(m.counts)
		kick(m.clock)
		kick(m.wake)
	}()
}

// do carries the run out and stores how it ended. Its error is what could not be stored.
func (x *execution) do(ctx context.Context) error {
	var err error
	x.writer = claimLater(ctx, x.m.log, x.run)
	if x.run.Claims > 1 {
		err = x.writer.claimed() // its output so far is about to be judged: nobody adds to it now
	}
	if err == nil {
		err = x.work(ctx)
	}
	if cerr := x.writer.claimed(); errors.Is(cerr, ErrFenced) {
		return fmt.Errorf("%w: %w", errLostRun, cerr)
	}
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
}

// work judges what earlier claims left, and goes on from there.
func (x *execution) work(ctx context.Context) error {
	if x.run.Claims > maxClaims {
		return &recovery.Stopped{Failure: failure.NewLocal("claims", fmt.Sprintf("The run was started %d times and never came to its end.", maxClaims))}
	}
	if x.run.Claims > 1 {
		if err := x.judge(ctx); err != nil {
			return err
		}
	}
	provider, model, err := x.m.models.Resolve(x.run.Model)
	if err != nil {
		var f *failure.Failure
		if !errors.As(err, &f) {
			f = failure.NewLocal("models", err.Error())
		}
		return &recovery.Stopped{Failure: f}
	}
	req, settings, outputs, err := x.conversation(ctx, provider.Name())
	if err != nil {
		return err
	}
	req.Model = model
	run := agent.Run{
		Scope:   llm.Scope{Session: string(x.run.SessionID), Run: string(x.run.ID), Lineage: llm.LineageMain, Generation: x.run.Generation},
		Ledger:  x,
		Origin:  x.run.origin(),
		Sink:    func(step int) replay.Sink { return sink{x, step} },
		Journal: x,
		Plan: recovery.Plan{
			Provider: provider, Policy: x.m.cfg.Policy, Requests: x.run.Requests, Trace: x, Jitter: x.m.cfg.Jitter,
			Terms: replay.Terms{Hold: settings.Hold, Progress: x.progress},
		},
		Tools:    x.m.cfg.Tools,
		Request:  req,
		Step:     outputs,
		MaxSteps: settings.MaxSteps,
	}
	if err := x.writer.claimed(); err != nil { // the marker is the fence: it goes before the first request
		return err
	}
	return run.Do(ctx)
}

// settings completes a session's settings from the configuration.
func (m *Manager) settings(set Settings) Settings {
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
	move := MoveSucceed
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopped):
		move = MoveStop
	case errors.Is(cause, errShutdown):
		move = MoveRelease
	case end != nil:
		move = MoveFail
	}
	return x.m.update(context.WithoutCancel(ctx), Full, func(tx Tx) error {
		run, err := tx.Run(x.run.ID)
		if err != nil {
			return err
		}
		if run.Generation != x.run.Generation || run.State != Running {
			return ErrLost
		}
		s, err := tx.Session(run.SessionID)
		if err != nil {
			return err
		}
		st, err := status(tx, s)
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
		f := (*failure.Failure)(nil)
		if stopped != nil {
			f = stopped.Failure
		}
		if move == MoveRelease {
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
		s.Paused = next.Paused
		if err := tx.PutSession(s); err != nil {
			return err
		}
		if err := tx.PutRun(run, Running, x.run.Generation); err != nil {
			return err
		}
		if err := emitRun(tx, run); err != nil {
			return err
		}
		if do&DoPromote != 0 {
			_, err := promote(tx, s)
			return err
		}
		return nil
	})
}

// ended sets what a run's end says, and stores the last row of a reply that is not whole.
func (x *execution) ended(tx Tx, run *Run, do Do, f *failure.Failure, stopped *recovery.Stopped, evidence replay.RunEvidence) error {
	now := time.Now()
	run.LeaseUntil, run.Owner = 0, ""
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
	case do&DoCancelRun != 0:
		run.State = Cancelled
		if row != nil {
			row.Interrupted = "cancelled"
		}
	case do&DoFailRun != 0:
		run.State = Failed
		if row != nil {
			row.Interrupted = f.Class.String()
		}
		run.Failure = failureOf(f)
		run.Recovery = recoveryOf(f, evidence, x.m.cfg.Policy, now)
		run.Reason = f.Message
		if row == nil {
			row = x.message(RoleReply, x.attempt.Evidence.Scope.Step, []llm.Part{})
		}
	}
	run.EndedAt = At(now)
	if run.State == Failed {
		if err := x.m.schedule(tx, *run, now); err != nil {
			return err
		}
	}
	if row == nil {
		return nil
	}
	var err error
	if row.Position, err = tx.InsertMessage(*row); err != nil {
		return err
	}
	row.Failure, row.Recovery = run.Failure, run.Recovery
	return emit(tx, run.SessionID, Event{Type: EventMessage, Message: row})
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
	}
	return msg
}

// failureOf is the part of a failure that a run stores.
func failureOf(f *failure.Failure) *Failure {
	return &Failure{
		Retryable: f.Retryable, RetryClass: f.Class, RetryAfterUntil: At(f.NotBefore),
		Message: f.Message, Provider: f.Provider, Model: f.Model,
		Status: f.Status, Code: f.Code, RequestID: f.RequestID,
	}
}

// recoveryOf is the gate's answer about a failed run.
func recoveryOf(f *failure.Failure, e replay.RunEvidence, p recovery.Policy, now time.Time) *Recovery {
	a := recovery.Arm(f, e, p, now)
	r := &Recovery{
		Auto: a.Auto, Verb: a.Verb, NotBefore: At(a.NotBefore), ReplaySafe: a.Safe,
		Evidence: a.Evidence, Reason: a.Reason, Choices: []string{"regenerate"},
	}
	if e.Committed > 0 {
		r.Choices = append(r.Choices, "resume")
	}
	r.Choices = append(r.Choices, "keep")
	return r
}

// evidenceOf gathers what the ledger holds about a run and those that it continues. A step
// whose output is stored counts as committed: only its tools can speak against going on.
func evidenceOf(tx ReadTx, run Run) (replay.RunEvidence, error) {
	messages, err := tx.Messages(run.SessionID, false, 0, 0)
	if err != nil {
		return replay.RunEvidence{}, err
	}
	outputs := outputsOf(messages, run)
	var evidence []replay.Evidence
	tools := map[int]replay.Reasons{}
	for of, own := run, true; ; own = false {
		attempts, err := tx.Attempts(of.ID)
		if err != nil {
			return replay.RunEvidence{}, err
		}
		for _, a := range attempts {
			if !own { // of a step that is committed, or was superseded: part of the whole, not of the tail
				a.Evidence.Scope.Step = min(a.Evidence.Scope.Step, outputs-1)
			}
			evidence = append(evidence, a.Evidence)
		}
		calls, err := tx.ToolCalls(of.ID)
		if err != nil {
			return replay.RunEvidence{}, err
		}
		for _, c := range calls {
			step := c.Step
			if c.State == CallStarted || c.State == CallUnknown {
				step = outputs // nobody knows how it ended: it speaks against any way on
			}
			tools[step] |= replay.ToolStarted
		}
		if of.Continues == "" {
			return replay.Gather(string(run.ID), outputs, evidence, tools), nil
		}
		if of, err = tx.Run(of.Continues); err != nil {
			return replay.RunEvidence{}, err
		}
	}
}

// outputsOf counts the run's steps whose output is stored: the committed ones, and one whose
// tools' results are not.
func outputsOf(rows []Message, run Run) int {
	n := run.Steps
	if len(rows) > 0 {
		last := rows[len(rows)-1]
		ours := last.RunID == run.ID || last.RunID == run.Continues
		if ours && last.Role == RoleReply && last.Step == n && last.Interrupted == "" && asks(last.Parts) {
			n++
		}
	}
	return n
}
