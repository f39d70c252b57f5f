package recovery_test

import (
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// F42, F80: at the ceiling no failure makes the provider be asked again, now or later; another one may
// be. Both answers stay what they are.
func TestDecideAtTheCeiling(t *testing.T) {
	scope := llm.Scope{Session: "s", Run: "r", Lineage: llm.LineageMain, Generation: 1}
	clean := replay.Evidence{Scope: scope, Attempt: "a", State: replay.StateSealed}
	p := recovery.DefaultPolicy()
	for _, class := range failure.Classes() {
		f := &failure.Failure{Class: class, Retryable: class.Retryable(), Provider: "p"}
		for i := range 8 {
			b := recovery.Budget{Requests: 1, Attempts: 1, MoreKeys: i&1 != 0, MoreModels: i&2 != 0, Later: i&4 != 0}
			free := recovery.Decide(f, clean, p, b, time.Now())
			b.Ceiling = true
			d := recovery.Decide(f, clean, p, b, time.Now())
			if d.Verdict != recovery.Stop && d.Verdict != recovery.Advance || d.Verdict == recovery.Advance && !b.MoreModels {
				t.Errorf("%s, %+v: %s", class, b, d.Verdict)
			}
			if d.Eligible != free.Eligible || d.Safe != free.Safe || d.Evidence != free.Evidence {
				t.Errorf("%s, %+v: eligible %v, safe %v", class, b, d.Eligible, d.Safe)
			}
			if free.Verdict == recovery.Retry && d.Verdict == recovery.Stop && d.Rule != recovery.RuleLarge {
				t.Errorf("%s, %+v: by %s", class, b, d.Rule)
			}
		}
	}
}
