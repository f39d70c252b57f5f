package recovery

import (
	"fmt"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm/replay"
)

// Verdict is what follows a failed attempt. The zero value stops.
type Verdict uint8

const (
	Stop     Verdict = iota
	Retry            // the same model, after a wait
	Rotate           // the same model with another key, at once
	Advance          // the chain's next model, at once
	Compact          // the same model, after the conversation was made shorter
	HandOver         // the run fails; the second tier may repeat it
	verdicts
)

var verdictNames = [verdicts]string{"stop", "retry", "rotate", "advance", "compact", "hand_over"}

func (v Verdict) String() string {
	if v < verdicts {
		return verdictNames[v]
	}
	return verdictNames[Stop]
}

// MarshalText writes the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's name.
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, n := range verdictNames {
		if n == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("unknown verdict %q", b)
}

// Decision is the gate's word on one failed attempt, with its reasons. It is stored, shown
// and counted as it is.
type Decision struct {
	// Eligible: the failure is of a class that a recovery which is there could help.
	Eligible bool          `json:"eligible"`
	Class    failure.Class `json:"class"`
	// Safe: nothing of the attempt has become observable. Evidence lists what has.
	Safe     bool           `json:"safe"`
	Evidence replay.Reasons `json:"evidence"`
	Verdict  Verdict        `json:"verdict"`
	// NotBefore is the time that the provider asked for; NextAt when the next attempt
	// starts, where there is one.
	NotBefore time.Time `json:"not_before,omitzero"`
	NextAt    time.Time `json:"next_at,omitzero"`
	// Rule is the id of the rule that decided; Rules explains it.
	Rule Rule `json:"rule"`
}

// Rule names what decided.
type Rule string

const (
	RuleCancelled   Rule = "cancelled"
	RuleNotEligible Rule = "not_eligible"
	RuleNotSafe     Rule = "not_safe"
	RuleBound       Rule = "request_bound"
	RuleOtherKey    Rule = "other_key"
	RuleSilent      Rule = "silent"
	RuleProbe       Rule = "probe_failed"
	RuleCooling     Rule = "cooling_off"
	RuleTier1       Rule = "tier1"
	RuleTier1Hint   Rule = "tier1_beyond_window"
	RuleTier1Spent  Rule = "tier1_spent"
	RuleNextModel   Rule = "next_model"
	RuleCompactOnce Rule = "compact_once"
	RuleLarge       Rule = "large_request"
	RuleNoWay       Rule = "no_way_left"
)

// Rules explains every rule in a sentence.
var Rules = map[Rule]string{
	RuleCancelled:   "The run was cancelled: nothing is repeated.",
	RuleNotEligible: "A failure of this class does not pass by trying again.",
	RuleNotSafe:     "Something of this attempt has become observable, or may have: it is not repeated.",
	RuleBound:       "The step has sent as many requests as it may.",
	RuleOtherKey:    "Another key of the same provider is tried at once.",
	RuleSilent:      "The model said nothing in time: it is not asked again, the next one is.",
	RuleProbe:       "The model had just cooled off and still fails: it is left alone again.",
	RuleCooling:     "Everything that could answer cools off after earlier failures: nothing was sent.",
	RuleTier1:       "Nothing was shown: the same request is sent again after a short wait.",
	RuleTier1Hint:   "The provider asked for a longer wait than a run sits through.",
	RuleTier1Spent:  "The fast retries are used up.",
	RuleNextModel:   "The next model of the chain is tried at once.",
	RuleCompactOnce: "The conversation is made shorter, once, and sent again.",
	RuleLarge:       "The request is so large that this provider is asked no more often by itself.",
	RuleNoWay:       "The failure may pass, but no automatic way is left.",
}

// Decide answers both questions about a failed attempt and says what follows. It is pure and
// does not allocate.
//
// The order is: cancelled, eligible, safe, the step's bound, another key, the same model
// after a wait, the next model, the second tier.
func Decide(f *failure.Failure, e replay.Evidence, p Policy, b Budget, now time.Time) Decision {
	d := Decision{Class: f.Class, NotBefore: f.NotBefore}
	d.Safe, d.Evidence = e.Safe()
	retry := f.Retryable && f.Class.Retryable()
	bounded := f.Class == failure.Unknown && p.Unknown
	rotate := b.MoreKeys && rotates(f)
	advance := b.MoreModels && (retry || advances(f))
	compact := b.CanCompact && f.Class == failure.ContextOverflow
	later := b.Later && (rotates(f) || advances(f)) // not this one, but somebody else
	d.Eligible = retry || bounded || rotate || advance || compact || later
	switch {
	case b.Cancelled || f.Class == failure.Cancelled:
		d.Eligible = false
		d.Rule = RuleCancelled
		return d
	case !d.Eligible:
		d.Rule = RuleNotEligible
		return d
	case !d.Safe:
		d.Rule = RuleNotSafe
		return d
	}
	more := b.Requests < p.MaxRequests
	switch {
	case more && compact:
		d.Verdict, d.Rule, d.NextAt = Compact, RuleCompactOnce, now
		return d
	case more && rotate && !b.Ceiling:
		d.Verdict, d.Rule, d.NextAt = Rotate, RuleOtherKey, now
		return d
	}
	d.Rule = RuleNoWay
	if retry || bounded {
		window := p.Tier1.window(b.Attempts)
		hint := f.NotBefore.Sub(now)
		if !b.Ready.IsZero() {
			hint = b.Ready.Sub(now)
		}
		switch {
		case b.Ceiling:
			d.Rule = RuleLarge
		case b.Probe:
			d.Rule = RuleProbe
		case advance && silent(f):
			d.Rule = RuleSilent
		case b.Attempts >= p.Tier1.Attempts:
			d.Rule = RuleTier1Spent
		case hint > p.Tier1.Cap:
			d.Rule = RuleTier1Hint
		case more:
			wait := max(time.Duration(b.Jitter*float64(window)), hint)
			d.Verdict, d.Rule, d.NextAt = Retry, RuleTier1, now.Add(wait)
			return d
		}
	}
	if more && advance {
		if d.Verdict, d.NextAt = Advance, now; d.Rule != RuleSilent && d.Rule != RuleProbe {
			d.Rule = RuleNextModel
		}
		return d
	}
	if !more {
		d.Rule = RuleBound
	}
	if (retry || later) && p.HandOver && !b.Ceiling {
		d.Verdict = HandOver
	}
	return d
}

// window is the largest wait after so many attempts.
func (t Tier1) window(attempts int) time.Duration {
	w := t.Base
	for i := 1; i < attempts && w < t.Cap; i++ {
		w *= 2
	}
	return min(w, t.Cap)
}

// rotates reports whether another key of the same provider could help.
func rotates(f *failure.Failure) bool {
	switch f.Class {
	case failure.RateLimited, failure.QuotaExhausted, failure.AuthFailed:
		return f.Status != 403 || f.KeyInvalid
	case failure.SpendLimitExceeded:
		return f.Provider != "" && f.PerKey
	}
	return false
}

// advances reports whether another model could help although the same one cannot.
func advances(f *failure.Failure) bool {
	switch f.Class {
	case failure.QuotaExhausted, failure.AuthFailed, failure.CredentialsUnresolved, failure.ModelNotFound:
		return true
	case failure.SpendLimitExceeded:
		return f.Provider != "" // not our own cap
	}
	return false
}

// silent reports whether a whole watchdog went by and nothing was said.
func silent(f *failure.Failure) bool {
	switch f.Transport {
	case "connect_timeout", "first_event_timeout", "first_content_timeout":
		return f.Class == failure.Timeout
	}
	return false
}
