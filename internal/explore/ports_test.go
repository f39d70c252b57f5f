package explore

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

var (
	errDead  = errors.New("the process is dead")
	errAgain = errors.New("the transaction lost to another one and runs again")
)

// storePort is the store as one node reaches it.
type storePort struct {
	n *node
	session.Store
}

func (p storePort) Close() error { return nil }

func (p storePort) View(ctx context.Context, f func(session.ReadTx) error) error {
	who := what(ctx)
	k := p.n.kindOf(who, kindRead)
	if ctx.Value(spending{}) != nil {
		k = kindUpkeep
	}
	if _, err := p.n.enter(ctx, k, who); err != nil {
		return err
	}
	p.n.w.one.Lock()
	defer p.n.w.one.Unlock()
	return p.Store.View(context.WithoutCancel(ctx), f)
}

func (p storePort) Update(ctx context.Context, d session.Durability, f func(session.Tx) error) error {
	who := what(ctx)
	o, err := p.n.enter(ctx, p.n.kindOf(who, kindWrite), who)
	if err != nil {
		return err
	}
	p.n.w.one.Lock()
	defer p.n.w.one.Unlock()
	if o == twice {
		_ = p.Store.Update(context.WithoutCancel(ctx), d, func(tx session.Tx) error {
			_ = f(tx) // what it came to is undone
			return errAgain
		})
	}
	var notes []note
	err = p.Store.Update(context.WithoutCancel(ctx), d, func(tx session.Tx) error {
		notes = notes[:0]
		return f(noting{tx, &notes})
	})
	if err == nil {
		p.n.w.committed(p.n, ctx, notes)
	}
	return err
}

// note is one write of a transaction. It is judged when that is committed.
type note any

type (
	runQueued     struct{ run session.Run }
	runPut        struct{ run session.Run }
	attemptOpened struct{ attempt session.Attempt }
	attemptMarked struct{ id session.AttemptID }
	decided       struct {
		id session.AttemptID
		d  recovery.Decision
	}
	messageStored  struct{ message session.Message }
	callStored     struct{ call session.ToolCall }
	scheduleStored struct{ schedule session.Schedule }
	scheduleGone   struct{ id session.ID }
	changed        struct{}
)

// noting writes down what a transaction writes.
type noting struct {
	session.Tx
	notes *[]note
}

func (t noting) note(n note, err error) error {
	if err == nil {
		*t.notes = append(*t.notes, n)
	}
	return err
}

func (t noting) InsertRun(r session.Run) error {
	return t.note(runQueued{r}, t.Tx.InsertRun(r))
}
func (t noting) PutRun(r session.Run, expect session.RunState, generation int64) error {
	return t.note(runPut{r}, t.Tx.PutRun(r, expect, generation))
}
func (t noting) OpenAttempt(a session.Attempt) (int, error) {
	n, err := t.Tx.OpenAttempt(a)
	return n, t.note(attemptOpened{a}, err)
}
func (t noting) MarkAttempt(id session.AttemptID, s llm.Scope, r replay.Reasons, now session.Time) error {
	return t.note(attemptMarked{id}, t.Tx.MarkAttempt(id, s, r, now))
}
func (t noting) PutDecision(id session.AttemptID, f *failure.Failure, d recovery.Decision) error {
	return t.note(decided{id, d}, t.Tx.PutDecision(id, f, d))
}
func (t noting) InsertMessage(m session.Message) (int64, error) {
	position, err := t.Tx.InsertMessage(m)
	m.Position = position
	return position, t.note(messageStored{m}, err)
}
func (t noting) InsertToolCall(c session.ToolCall) error {
	return t.note(callStored{c}, t.Tx.InsertToolCall(c))
}
func (t noting) PutToolCall(c session.ToolCall, expect session.CallState) error {
	return t.note(callStored{c}, t.Tx.PutToolCall(c, expect))
}
func (t noting) PutSchedule(s session.Schedule, expect int64, in session.ScheduleState) error {
	return t.note(scheduleStored{s}, t.Tx.PutSchedule(s, expect, in))
}
func (t noting) DeleteSchedule(id session.ID) (bool, error) {
	there, err := t.Tx.DeleteSchedule(id)
	if there {
		err = t.note(scheduleGone{id}, err)
	}
	return there, err
}
func (t noting) SealAttempt(id session.AttemptID, s llm.Scope, seal replay.Seal, now session.Time) error {
	return t.note(changed{}, t.Tx.SealAttempt(id, s, seal, now))
}
func (t noting) InsertPending(p session.Pending) error {
	return t.note(changed{}, t.Tx.InsertPending(p))
}

// logPort is the log as one node reaches it.
type logPort struct {
	n *node
	session.Log
}

func (p logPort) Close() error { return nil }

func (p logPort) Claim(ctx context.Context, s session.ID, run session.RunID, generation int64) (session.Writer, error) {
	o, err := p.n.enter(ctx, kindAppend, "claim the output")
	if err != nil {
		return nil, err
	}
	w, err := p.Log.Claim(context.WithoutCancel(ctx), s, run, generation)
	if o == unheard {
		return nil, context.Cause(ctx)
	}
	return &writerPort{p.n, run, w}, err
}

type writerPort struct {
	n   *node
	run session.RunID
	session.Writer
}

func (p *writerPort) Append(ctx context.Context, data []byte) error {
	o, err := p.n.enter(ctx, kindAppend, "append")
	if err != nil {
		return err
	}
	if err := p.Writer.Append(context.WithoutCancel(ctx), data); err != nil {
		return err
	}
	p.n.w.appended(p.run, data)
	if o == unheard {
		return context.Cause(ctx)
	}
	return nil
}

func (p logPort) Follow(ctx context.Context, f func(session.Record) error, caughtUp func()) error {
	return p.Log.Follow(ctx, func(r session.Record) error {
		if _, err := p.n.enter(ctx, kindUpkeep, "deliver"); err != nil {
			return err
		}
		return f(r)
	}, caughtUp)
}

func (p logPort) Publish(ctx context.Context, s session.ID, id string, data []byte) error {
	if _, err := p.n.enter(ctx, kindUpkeep, "publish"); err != nil {
		return err
	}
	return p.Log.Publish(context.WithoutCancel(ctx), s, id, data)
}

func (p logPort) Output(ctx context.Context, s session.ID, run session.RunID) iter.Seq2[session.Record, error] {
	if _, err := p.n.enter(ctx, kindRead, "read the output"); err != nil {
		return func(yield func(session.Record, error) bool) { yield(session.Record{}, err) }
	}
	p.n.w.judged(run)
	return p.Log.Output(context.WithoutCancel(ctx), s, run)
}

func (p logPort) Purge(ctx context.Context, s session.ID, run session.RunID) error {
	if _, err := p.n.enter(ctx, kindUpkeep, "purge"); err != nil {
		return err
	}
	return p.Log.Purge(context.WithoutCancel(ctx), s, run)
}

// tool is an effectful tool. It has started when it is called; the scheduler lets it end.
type tool struct{ n *node }

func (t tool) Spec() llm.Tool       { return llm.Tool{Name: "write"} }
func (t tool) Traits() agent.Traits { return agent.Traits{Effect: true} }
func (t tool) Run(ctx context.Context, arguments json.RawMessage, _ func(agent.Progress)) ([]llm.Part, error) {
	t.n.w.toolStarted(string(arguments))
	if _, err := t.n.enter(ctx, kindAnswer, "tool ends"); err != nil {
		return nil, err
	}
	return []llm.Part{llm.Text("written")}, nil
}
