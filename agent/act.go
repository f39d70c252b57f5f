package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/reprise-run/reprise/llm"
)

const (
	sideBySide = 8 // calls of a step that run at a time
	// letGo is how long a tool may take to end after its context has. Then it is left to itself,
	// and nobody knows what it did.
	letGo = 5 * time.Second
)

// task is a call that a step asks for.
type task struct {
	Call
	tool Tool  // nil: there is none
	why  error // why it cannot be carried out
}

func (t *task) parallel() bool { return t.tool != nil && t.tool.Traits().Parallel }

// act runs a step's tools and commits their results, in call order. Calls that may run beside
// others do, up to the next one that may not.
func (r *Run) act(ctx context.Context, step int, calls []llm.Part, tools map[string]Tool) error {
	tasks := make([]task, len(calls))
	for i, p := range calls {
		t := task{Call: Call{Step: step, ID: p.CallID, Name: p.Name, Arguments: p.Arguments}, tool: tools[p.Name]}
		if t.tool != nil {
			traits := t.tool.Traits()
			t.Effect, t.Ask, t.Resumes = traits.Effect, traits.Ask, traits.Resumes
		}
		t.why = r.check(&t)
		tasks[i] = t
	}
	results := make([]llm.Part, len(tasks))
	for from := 0; from < len(tasks); {
		to := from + 1
		for tasks[from].parallel() && to < len(tasks) && tasks[to].parallel() {
			to++
		}
		if err := r.together(ctx, tasks[from:to], results[from:to]); err != nil {
			return err
		}
		from = to
	}
	if err := r.Journal.Results(ctx, step, results); err != nil {
		return fmt.Errorf("commit the results of step %d: %w", step, err)
	}
	r.Request.Messages = append(r.Request.Messages, llm.Message{Role: llm.RoleTool, Parts: results})
	return nil
}

// together runs calls side by side. After an error none starts any more; those that run come to
// their end, or to that of ctx.
func (r *Run) together(ctx context.Context, tasks []task, results []llm.Part) error {
	starts, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	slots := make(chan struct{}, sideBySide)
	var running sync.WaitGroup
	for i := range tasks {
		running.Go(func() {
			var err error
			if results[i], err = r.carryOut(ctx, starts, &tasks[i], slots); err != nil {
				stop(err)
			}
		})
	}
	running.Wait()
	return context.Cause(starts)
}

// carryOut brings a call to its result. It may start as long as starts is not done, and runs until
// ctx is.
func (r *Run) carryOut(ctx, starts context.Context, t *task, slots chan struct{}) (llm.Part, error) {
	none := llm.Part{}
	stored, err := r.Journal.Result(t.Call)
	switch {
	case err != nil:
		return none, fmt.Errorf("look for the result of %s: %w", t.Name, err)
	case stored != nil:
		return *stored, nil
	case t.why != nil:
		result := t.result([]llm.Part{llm.Text(t.why.Error())}, true)
		if err := r.Journal.Refuse(ctx, t.Call, result); err != nil {
			return none, fmt.Errorf("store why %s was not run: %w", t.Name, err)
		}
		return result, nil
	}
	if t.Ask {
		denied, err := r.Journal.Ask(starts, t.Call)
		if err != nil {
			return none, fmt.Errorf("ask about the call of %s: %w", t.Name, err)
		}
		if denied != nil {
			return *denied, nil
		}
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-starts.Done():
		return none, context.Cause(starts)
	}
	if err := r.Journal.Start(starts, t.Call); err != nil {
		return none, fmt.Errorf("record the call of %s: %w", t.Name, err)
	}
	parts, err := r.run(ctx, t)
	if err != nil && ctx.Err() != nil {
		return none, context.Cause(ctx) // it was cut off: what it says is no result
	}
	if err != nil && !errors.Is(err, ErrResult) {
		parts = append(parts, llm.Text(err.Error()))
	}
	result := t.result(bounded(parts), err != nil)
	if err := r.Journal.End(context.WithoutCancel(ctx), t.Call, result); err != nil {
		return none, fmt.Errorf("store the result of %s: %w", t.Name, err)
	}
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	return result, nil
}

func (t *task) result(parts []llm.Part, failed bool) llm.Part {
	return llm.Part{Kind: llm.PartToolResult, CallID: t.ID, Name: t.Name, Content: parts, IsError: failed}
}

// errLeft is the error of a tool that went on after it was told to end.
var errLeft = errors.New("the tool did not end in time")

// run lets the tool run until it ends, or for a moment longer than ctx. A tool that panics has
// failed.
func (r *Run) run(ctx context.Context, t *task) ([]llm.Part, error) {
	type end struct {
		parts []llm.Part
		err   error
	}
	ended := make(chan end, 1)
	m := meter{tell: func(p Progress) {
		if r.Progress != nil {
			r.Progress(t.Call, p)
		}
	}}
	defer m.stop()
	go func() {
		e := end{err: errors.New("the tool ended without a result")}
		defer func() {
			if p := recover(); p != nil {
				e = end{err: fmt.Errorf("the tool has failed: %v", p)}
				r.Log.Error("tool panicked", "tool", t.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			ended <- e
		}()
		e.parts, e.err = t.tool.Run(context.WithValue(ctx, callKey{}, t.Call), t.arguments(), m.report)
	}()
	select {
	case e := <-ended:
		return e.parts, e.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(letGo)
	defer timer.Stop()
	select {
	case e := <-ended:
		return e.parts, e.err
	case <-timer.C:
		r.Log.Warn("a tool goes on although its run has ended", "tool", t.Name)
		return nil, errLeft
	}
}
