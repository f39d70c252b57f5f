package recovery_test

import (
	"context"
	"errors"
	"testing"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// asides does something beside the model call, at the moments at which a hook may run: when an
// attempt has opened, and when the decision about a failed one is told.
type asides struct {
	*replay.Memory
	opened  func(attempt string)
	decided func(attempt string) error
	chosen  func(recovery.Choice)
	all     []recovery.Decision
}

func (a *asides) Open(ctx context.Context, o replay.Opening) (string, error) {
	id, err := a.Memory.Open(ctx, o)
	if err == nil && a.opened != nil {
		a.opened(id)
	}
	return id, err
}

func (a *asides) Decided(_ context.Context, attempt string, _ *failure.Failure, d recovery.Decision) error {
	a.all = append(a.all, d)
	if a.decided != nil {
		return a.decided(attempt)
	}
	return nil
}

func (a *asides) Chosen(c recovery.Choice) {
	if a.chosen != nil {
		a.chosen(c)
	}
}

func (a *asides) Append(context.Context, []llm.Event) error { return nil }

// limited is a provider that refuses every request with a typed 429, after it has said something
// that is held.
func limited() *llmtest.Provider {
	return llmtest.Script([]llmtest.Step{llmtest.Text("held"), llmtest.Fail(&failure.Failure{
		Class: failure.RateLimited, Retryable: true, Status: 429, Phase: failure.PhaseStream})})
}

func alone(p llm.Provider) *recovery.Route {
	entries := []recovery.Entry{{Provider: "script", Model: "m", Keys: []recovery.Key{{Provider: p}}}}
	return &recovery.Route{Entries: func() []recovery.Entry { return entries }, Person: true}
}

// A hook that runs in an attempt, at its start, or at the event that tells of its failure, vetoes
// the repetition of that attempt and of no other. N22, N38, N39, F10.
func TestHookVetoes(t *testing.T) {
	for name, c := range map[string]struct {
		at   int  // the attempt
		late bool // when its failure is told, not when it opens
		want int  // requests
	}{
		"N22 in the first attempt, which shows nothing": {1, false, 1},
		"N38 as the retry starts":                       {2, false, 2},
		"N39 at the end of the failed attempt":          {1, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := &asides{Memory: replay.NewMemory()}
			scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: a.Claim("run")}
			n := 0
			ran := func(attempt string) error { return a.Mark(t.Context(), scope, attempt, replay.HookRan) }
			a.opened = func(attempt string) {
				if n++; n == c.at && !c.late {
					if err := ran(attempt); err != nil {
						t.Error(err)
					}
				}
			}
			a.decided = func(attempt string) error {
				if n == c.at && c.late {
					return ran(attempt)
				}
				return nil
			}
			p := limited()
			policy := recovery.DefaultPolicy()
			policy.Tier1.Base = 0
			_, err := recovery.Do(t.Context(), recovery.Plan{Route: alone(p), Policy: policy, Trace: a, Terms: replay.Terms{Hold: replay.Hold{Mode: replay.HoldWhole}}},
				replay.New(scope, a, replay.Operator{Actor: "ann", Message: "msg"}), a, &llm.Request{})
			if got := len(p.Requests()); got != c.want {
				t.Errorf("%d requests, want %d: %v", got, c.want, a.all)
			}
			var stopped *recovery.Stopped
			if !errors.As(err, &stopped) {
				t.Fatal(err)
			}
			if last := a.all[len(a.all)-1]; !c.late && (!last.Eligible || last.Safe || last.Evidence != replay.HookRan || last.Rule != recovery.RuleNotSafe) {
				t.Errorf("%+v", last)
			}
		})
	}
}

// A mark that names no attempt of the run is refused: its effect can be attributed to nothing,
// and whoever ran the hook must not take it for recorded. N33, F95.
func TestHookWithoutScope(t *testing.T) {
	m := replay.NewMemory()
	scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: m.Claim("run")}
	id, err := m.Open(t.Context(), replay.Opening{Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Mark(t.Context(), llm.Scope{}, id, replay.HookRan); !errors.Is(err, replay.ErrStale) {
		t.Errorf("a mark without a scope: %v", err)
	}
}

// Where the decision cannot be told, it is not acted on: the failure is the end. N62.
func TestDecisionUntold(t *testing.T) {
	a := &asides{Memory: replay.NewMemory()}
	scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: a.Claim("run")}
	full := errors.New("disk full")
	a.decided = func(string) error { return full }
	p := limited()
	_, err := recovery.Do(t.Context(), recovery.Plan{Route: alone(p), Policy: recovery.DefaultPolicy(), Trace: a, Terms: replay.Terms{Hold: replay.Hold{Mode: replay.HoldWhole}}},
		replay.New(scope, a, replay.Operator{Actor: "ann", Message: "msg"}), a, &llm.Request{})
	var stopped *recovery.Stopped
	if !errors.As(err, &stopped) || stopped.Failure == nil || len(p.Requests()) != 1 {
		t.Errorf("%v after %d requests", err, len(p.Requests()))
	}
}

// A cancel at the switch to another model, or while the keys are looked up, wins: no request
// follows, and the next call begins at the head of the chain again. N60, N61, F68, F81.
func TestCancelAtSwitch(t *testing.T) {
	for _, at := range []string{"the switch", "the keys"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			stop := func() { cancel(errors.New("the operator said stop")) }
			head := llmtest.Script([]llmtest.Step{llmtest.Fail(&failure.Failure{Class: failure.ModelNotFound})},
				[]llmtest.Step{llmtest.Text("back"), llmtest.Done(llm.StopEnd)})
			next := llmtest.Script([]llmtest.Step{llmtest.Done(llm.StopEnd)})
			lookups := 0
			route := &recovery.Route{Person: true, Entries: func() []recovery.Entry {
				if lookups++; at == "the keys" && lookups == 1 {
					stop()
				}
				return []recovery.Entry{
					{Provider: "alpha", Model: "large", Keys: []recovery.Key{{Provider: head}}},
					{Provider: "beta", Model: "mini", Keys: []recovery.Key{{Provider: next}}},
				}
			}}
			a := &asides{Memory: replay.NewMemory()}
			a.chosen = func(c recovery.Choice) {
				if c.Switched != nil {
					stop()
				}
			}
			scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: a.Claim("run")}
			plan := recovery.Plan{Route: route, Policy: recovery.DefaultPolicy(), Trace: a}
			gate := replay.New(scope, a, replay.Operator{Actor: "ann", Message: "msg"})
			_, err := recovery.Do(ctx, plan, gate, a, &llm.Request{})
			var stopped *recovery.Stopped
			if !errors.As(err, &stopped) || stopped.Failure.Class != failure.Cancelled {
				t.Errorf("%v", err)
			}
			if len(next.Requests()) != 0 {
				t.Error("a request left after the cancel")
			}
			scope.Step = 1
			before := len(head.Requests())
			reply, err := recovery.Do(t.Context(), plan, replay.New(scope, a, replay.Operator{Actor: "ann", Message: "msg"}), a, &llm.Request{})
			if len(head.Requests()) != before+1 {
				t.Errorf("the next call did not begin at the head: %+v, %v", reply, err)
			}
		})
	}
}
