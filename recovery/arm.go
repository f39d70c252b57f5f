package recovery

import (
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm/replay"
)

// Armed is what may happen by itself after a run has failed.
type Armed struct {
	Auto      bool
	Verb      replay.Verb // 0: neither is possible by itself
	NotBefore time.Time
	Safe      bool
	Evidence  replay.Reasons
	// Reason is a word: "eligible_and_safe", "not_eligible", "not_safe", "cancelled",
	// "far_reset", "off".
	Reason string
}

// Arm decides whether a failed run may be repeated by itself, and how. A run of which nothing
// was observable is regenerated; one with committed steps and a clean tail is resumed.
func Arm(f *failure.Failure, run replay.RunEvidence, p Policy, now time.Time) Armed {
	a := Armed{NotBefore: f.NotBefore}
	for _, v := range []replay.Verb{replay.Regenerate, replay.Resume} {
		ok, why := run.Allows(v)
		if ok {
			a.Verb, a.Safe, a.Evidence = v, true, 0
			break
		}
		a.Evidence |= why &^ replay.NothingCommitted
	}
	switch {
	case f.Class == failure.Cancelled:
		a.Reason = "cancelled"
	case !f.Retryable || !f.Class.Retryable():
		a.Reason = "not_eligible"
	case !a.Safe:
		a.Reason = "not_safe"
	case !p.HandOver:
		a.Reason = "off"
	case p.AutoWithin > 0 && f.NotBefore.Sub(now) > p.AutoWithin:
		a.Reason = "far_reset"
	default:
		a.Auto, a.Reason = true, "eligible_and_safe"
	}
	return a
}
