package recovery_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// refusing fails every request, each time with the next of its classes.
type refusing struct {
	name    string
	classes []failure.Class
	sent    *int
	early   *int // requests before the time that was asked for
	until   map[string]time.Time
}

func (r *refusing) Name() string { return r.name }

func (r *refusing) Stream(ctx context.Context, p llm.Permit, _ *llm.Request) (llm.Stream, error) {
	if err := p.Spend(ctx); err != nil {
		return nil, err
	}
	if time.Now().Before(r.until[r.name]) {
		*r.early++
	}
	f := &failure.Failure{Class: r.classes[*r.sent%len(r.classes)], Provider: r.name}
	f.Retryable = f.Class.Retryable()
	switch f.Class {
	case failure.RateLimited:
		f.Status, f.NotBefore = 429, time.Now().Add(5*time.Second)
	case failure.ServerError:
		f.NotBefore = time.Now().Add(2 * time.Second)
		r.until[r.name] = f.NotBefore
	}
	*r.sent++
	return nil, f
}

// F44, N53: all layers multiplied. Whatever fails in whichever order, with so many keys, models,
// attempts and compactions, and under however many claims, a step sends no more requests than
// its bound, and none before a model's own time.
func TestTheBoundHoldsOverEveryLayer(t *testing.T) {
	kinds := []failure.Class{failure.RateLimited, failure.AuthFailed, failure.Overloaded, failure.ServerError, failure.ContextOverflow, failure.ModelNotFound}
	most, worlds := 0, 0
	synctest.Test(t, func(t *testing.T) {
		for first := range kinds {
			for second := range kinds {
				for third := range kinds {
					for keys := 1; keys <= 3; keys += 2 {
						for models := 1; models <= 3; models++ {
							for _, bound := range []int{1, 2, 5, 8, 100} {
								worlds++
								classes := []failure.Class{kinds[first], kinds[second], kinds[third]}
								sent, early := exhaust(t, classes, keys, models, bound)
								if most = max(most, sent); sent > bound || early > 0 {
									t.Fatalf("%v, %d keys, %d models, bound %d: %d requests, %d too early", classes, keys, models, bound, sent, early)
								}
							}
						}
					}
				}
			}
		}
	})
	if most < 20 {
		t.Errorf("the most that a step has sent in %d worlds is %d: no bound was needed", worlds, most)
	}
}

// exhaust carries out one step under three claims of its run, each of which goes on where the
// one before it had failed, and counts.
func exhaust(t *testing.T, classes []failure.Class, keys, models, bound int) (sent, early int) {
	var entries []recovery.Entry
	until := map[string]time.Time{}
	for m := range models {
		e := recovery.Entry{Provider: fmt.Sprint("p", m), Model: "m"}
		for k := range keys {
			e.Keys = append(e.Keys, recovery.Key{Label: fmt.Sprint(k), Hash: fmt.Sprint(m, k),
				Provider: &refusing{name: e.Provider, classes: classes, sent: &sent, early: &early, until: until}})
		}
		entries = append(entries, e)
	}
	state, step := &memory{}, &recovery.Bound{}
	for claim := range 3 {
		ledger := replay.NewMemory()
		scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: ledger.Claim("run")}
		gate := replay.New(scope, ledger, replay.Operator{Actor: "ann", Message: "msg"})
		plan := recovery.Plan{Bound: step, Trace: silent{}, Policy: recovery.DefaultPolicy(),
			Route: &recovery.Route{Entries: func() []recovery.Entry { return entries }, State: state, Person: claim == 0},
			Compact: func(_ context.Context, c recovery.Compaction) (*llm.Request, error) {
				sent++ // a summary is a request, too
				c.Bound.Sent++
				return c.Request, nil
			}}
		plan.Policy.MaxRequests, plan.Policy.Tier1.Attempts = bound, 5
		if _, err := recovery.Do(t.Context(), plan, gate, silent{}, &llm.Request{}); err == nil {
			t.Fatal("it went through")
		}
	}
	return sent, early
}

// silent watches nothing.
type silent struct{}

func (silent) Append(context.Context, []llm.Event) error { return nil }
func (silent) Chosen(recovery.Choice)                    {}
func (silent) Decided(context.Context, string, *failure.Failure, recovery.Decision) error {
	return nil
}
