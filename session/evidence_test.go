package session

import (
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// ledger holds the records of one run.
type ledger struct {
	ReadTx
	attempts []Attempt
	hooks    []HookMark
}

func (l ledger) LastMessages(ID, int) ([]Message, error) { return nil, nil }
func (l ledger) Attempts(RunID) ([]Attempt, error)       { return l.attempts, nil }
func (l ledger) ToolCalls(RunID) ([]ToolCall, error)     { return nil, nil }
func (l ledger) HookMarks(RunID) ([]HookMark, error)     { return l.hooks, nil }

// f18: a request of which there is no record may have had any effect, and speaks against
// every automatic path.
func TestEvidenceOfLostRecords(t *testing.T) {
	clean := func(step int) Attempt {
		return Attempt{Evidence: replay.Evidence{Attempt: "att", State: replay.StateSealed, Scope: llm.Scope{Run: "run", Step: step, Lineage: llm.LineageMain}, Delivery: llm.Refused}}
	}
	for name, c := range map[string]struct {
		run      Run
		attempts []Attempt
		tail     replay.Reasons
	}{
		"all there":               {Run{ID: "run", Requests: 2}, []Attempt{clean(0), clean(0)}, 0},
		"none sent":               {Run{ID: "run"}, nil, 0},
		"all lost":                {Run{ID: "run", Requests: 1}, nil, replay.Missing},
		"one lost":                {Run{ID: "run", Requests: 2}, []Attempt{clean(0)}, replay.Missing},
		"of a later step":         {Run{ID: "run", Steps: 1, Requests: 1}, []Attempt{clean(0)}, replay.Missing},
		"all of later step there": {Run{ID: "run", Steps: 1, Requests: 1}, []Attempt{clean(0), clean(1)}, 0},
	} {
		e, err := evidenceOf(ledger{attempts: c.attempts}, c.run)
		if err != nil || e.Tail != c.tail || e.Whole != c.tail {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// N33, F95: what a hook did that was told of no attempt speaks against everything that is not
// committed: nobody can say what it belongs to.
func TestEvidenceOfHookWithoutAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		steps, at   int
		whole, tail replay.Reasons
	}{
		"in the first step":     {0, 0, replay.HookRan, replay.HookRan},
		"in the step that runs": {2, 2, replay.HookRan, replay.HookRan},
		"in a committed one":    {2, 1, replay.HookRan, 0},
	} {
		e, err := evidenceOf(ledger{hooks: []HookMark{{Hook: "notify", Step: c.at}}}, Run{ID: "run", Steps: c.steps})
		if err != nil || e.Whole != c.whole || e.Tail != c.tail {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}
