package recovery

import (
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// hints are the kinds of stated waits that a failure may carry.
var hints = map[string]time.Duration{"none": 0, "past": -time.Minute, "in window": 10 * time.Second,
	"beyond": 10 * time.Minute, "over 1 h": 2 * time.Hour}

// second is the documents' answer, worked out as a list of rules instead of a switch.
func second(f *failure.Failure, safe bool, p Policy, b Budget, hint time.Duration) Verdict {
	if b.Cancelled || f.Class == failure.Cancelled || !safe {
		return Stop
	}
	in := func(cs ...failure.Class) bool {
		for _, c := range cs {
			if f.Class == c {
				return true
			}
		}
		return false
	}
	retryable := f.Retryable && in(failure.RateLimited, failure.Overloaded, failure.ServerError, failure.Network,
		failure.Timeout, failure.StreamInterrupted, failure.Interrupted)
	again := retryable || p.Unknown && in(failure.Unknown)
	more := b.Requests < p.MaxRequests
	rules := []struct {
		when bool
		then Verdict
	}{
		{in(failure.ContextOverflow) && b.CanCompact && more, Compact},
		{more && b.MoreKeys && in(failure.RateLimited, failure.QuotaExhausted, failure.AuthFailed), Rotate},
		{more && again && b.Attempts < p.Tier1.Attempts && hint <= p.Tier1.Cap, Retry},
		{more && b.MoreModels && retryable, Advance},
		{more && b.MoreModels && in(failure.QuotaExhausted, failure.AuthFailed, failure.CredentialsUnresolved,
			failure.ModelNotFound, failure.SpendLimitExceeded), Advance},
		{retryable && p.HandOver, HandOver},
	}
	for _, r := range rules {
		if r.when {
			return r.then
		}
	}
	return Stop
}

// TestDecideEverything enumerates class × delivery × evidence × budget × hint × cancelled and
// compares with the second opinion. F01, F27, F29, F33, F36, F41, F44, F45, F57, N42, N56, N57;
// K-090, K-094, K-095, K-097, K-112–K-117.
func TestDecideEverything(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	scope := llm.Scope{Session: "s", Run: "r", Lineage: "main", Generation: 1}
	var evidence []replay.Evidence
	for _, state := range []replay.State{replay.StateMissing, replay.StateOpen, replay.StateSealed, replay.StateStale, replay.StateEvicted} {
		for _, marks := range []replay.Reasons{0, replay.TextShown, replay.ThinkingShown, replay.CallShown, replay.ToolStarted, replay.ProviderTool, replay.HookRan, replay.CommandRan} {
			for _, d := range []llm.Delivery{llm.MaybeAccepted, llm.NeverSent, llm.Refused} {
				for _, remote := range []bool{false, true} {
					evidence = append(evidence, replay.Evidence{Scope: scope, Attempt: "a", State: state, Marks: marks, Delivery: d, Remote: remote})
				}
			}
		}
	}
	count := 0
	bools := []bool{false, true}
	for _, class := range failure.Classes() {
		for name, hint := range hints {
			f := &failure.Failure{Class: class, Retryable: class.Retryable(), Provider: "p"}
			if name != "none" {
				f.NotBefore = now.Add(hint)
			}
			for _, e := range evidence {
				safe := e.State == replay.StateSealed && e.Marks == 0 && (!e.Remote || e.Delivery != llm.MaybeAccepted)
				for i := range 128 {
					bit := func(n int) bool { return bools[i>>n&1] }
					p := DefaultPolicy()
					p.Unknown, p.HandOver = bit(0), bit(1)
					b := Budget{Cancelled: bit(2), MoreKeys: bit(3), MoreModels: bit(4), CanCompact: bit(5), Jitter: 0.5}
					b.Attempts, b.Requests = 1, 1
					for _, left := range []int{0, 1, 2} {
						if bit(6) {
							b.Requests = p.MaxRequests - left
						} else {
							b.Attempts = p.Tier1.Attempts - left
						}
						count++
						d := Decide(f, e, p, b, now)
						// A spend limit that is not the key's does not rotate.
						if want := second(f, safe, p, b, hint); d.Verdict != want {
							t.Fatalf("%v, hint %s, %+v, %+v, %+v: %v by %s, want %v", class, name, e, p, b, d.Verdict, d.Rule, want)
						}
						if Rules[d.Rule] == "" {
							t.Fatalf("rule %q is not explained", d.Rule)
						}
						again := d.Verdict == Retry || d.Verdict == Rotate || d.Verdict == Advance || d.Verdict == Compact
						switch {
						case d.Safe != safe || again && !(d.Safe && d.Eligible):
							t.Fatalf("%v, %+v: %+v", class, e, d)
						case d.Verdict == Retry && d.NextAt.Before(f.NotBefore):
							t.Fatalf("%v, hint %s: next at %v, before the hint", class, name, d.NextAt)
						case d.Verdict == Retry && d.NextAt.Sub(now) > p.Tier1.Cap:
							t.Fatalf("%v, hint %s: waits %v", class, name, d.NextAt.Sub(now))
						case again == d.NextAt.IsZero():
							t.Fatalf("%v: %+v", class, d)
						}
					}
				}
			}
		}
	}
	t.Logf("%d decisions", count)
}

// TestDecideChains enumerates what a chain adds: probes, silence, an earlier failure that may
// pass, and the time at which another key is ready. F36, F40, F62, N50.
func TestDecideChains(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	safe := replay.Evidence{Scope: llm.Scope{Run: "r"}, Attempt: "a", State: replay.StateSealed}
	p := DefaultPolicy()
	ready := map[string]time.Time{"at its own time": {}, "now": now, "in window": now.Add(9 * time.Second), "beyond": now.Add(time.Hour)}
	for _, class := range failure.Classes() {
		for name, hint := range hints {
			for when, at := range ready {
				for i := range 64 {
					bit := func(n int) bool { return i>>n&1 == 1 }
					f := &failure.Failure{Class: class, Retryable: class.Retryable(), Provider: "p"}
					if name != "none" {
						f.NotBefore = now.Add(hint)
					}
					if bit(0) {
						f.Transport = "first_event_timeout"
					}
					b := Budget{Requests: 1, Attempts: 1, Jitter: 0.5, MoreModels: bit(1), Probe: bit(2), Later: bit(3), Ready: at}
					if bit(4) {
						b.Attempts = p.Tier1.Attempts
					}
					if bit(5) {
						b.Requests = p.MaxRequests
					}
					d := Decide(f, safe, p, b, now)
					own := f.NotBefore
					if !at.IsZero() {
						own = at
					}
					retry := class.Retryable()
					terminal := !retry && !rotates(f) && !advances(f)
					silent := bit(0) && class == failure.Timeout && b.MoreModels
					bound := bit(5)
					want := Stop
					switch {
					case class == failure.Cancelled, terminal:
					case retry && !bound && !bit(4) && !b.Probe && !silent && own.Sub(now) <= p.Tier1.Cap:
						want = Retry
					case !bound && b.MoreModels && (retry || advances(f)):
						want = Advance
					case retry, b.Later:
						want = HandOver
					}
					if d.Verdict != want {
						t.Fatalf("%v, hint %s, ready %s, %+v, silent %v: %v by %s, want %v", class, name, when, b, silent, d.Verdict, d.Rule, want)
					}
					if d.Verdict == Retry && d.NextAt.Before(own) || d.Verdict == Advance && !d.NextAt.Equal(now) {
						t.Fatalf("%v, hint %s, ready %s: next at %v", class, name, when, d.NextAt)
					}
				}
			}
		}
	}
}

// N45: a 403 rotates only where a typed code says that the key is invalid; F69.
func TestDecideRotation(t *testing.T) {
	safe := replay.Evidence{Scope: llm.Scope{Run: "r"}, Attempt: "a", State: replay.StateSealed}
	for name, c := range map[string]struct {
		f    failure.Failure
		want Verdict
	}{
		"401":                 {failure.Failure{Class: failure.AuthFailed, Status: 401}, Rotate},
		"403 without a code":  {failure.Failure{Class: failure.AuthFailed, Status: 403}, Stop},
		"403, key invalid":    {failure.Failure{Class: failure.AuthFailed, Status: 403, KeyInvalid: true}, Rotate},
		"forbidden":           {failure.Failure{Class: failure.PermissionDenied, Status: 403}, Stop},
		"the key's own limit": {failure.Failure{Class: failure.SpendLimitExceeded, Provider: "p", PerKey: true}, Rotate},
		"the account's limit": {failure.Failure{Class: failure.SpendLimitExceeded, Provider: "p"}, Stop},
		"our own cap":         {failure.Failure{Class: failure.SpendLimitExceeded, PerKey: true}, Stop},
	} {
		d := Decide(&c.f, safe, DefaultPolicy(), Budget{Requests: 1, Attempts: 1, MoreKeys: true}, time.Now())
		if d.Verdict != c.want {
			t.Errorf("%s: %v by %s", name, d.Verdict, d.Rule)
		}
	}
}

// A failure of a retryable class that says it is not (certificate trust) is not retried.
func TestDecideNotRetryable(t *testing.T) {
	safe := replay.Evidence{Scope: llm.Scope{Run: "r"}, Attempt: "a", State: replay.StateSealed}
	f := &failure.Failure{Class: failure.Network}
	if d := Decide(f, safe, DefaultPolicy(), Budget{Attempts: 1, Requests: 1}, time.Now()); d.Verdict != Stop || d.Eligible {
		t.Errorf("%+v", d)
	}
}

// K-110–K-117, N83: what may happen by itself after a failed run.
func TestArm(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clean := replay.Gather("r", 0, nil, nil)
	step := replay.RunEvidence{Run: "r", Committed: 2, Whole: replay.TextShown | replay.ToolStarted}
	shown := replay.RunEvidence{Run: "r", Whole: replay.TextShown, Tail: replay.TextShown}
	off := DefaultPolicy()
	off.HandOver = false
	unbounded := DefaultPolicy()
	unbounded.AutoWithin = 0
	for name, c := range map[string]struct {
		class failure.Class
		hint  time.Duration
		run   replay.RunEvidence
		p     Policy
		auto  bool
		verb  replay.Verb
		why   string
	}{
		"clean":                  {failure.Overloaded, 0, clean, DefaultPolicy(), true, replay.Regenerate, "eligible_and_safe"},
		"clean tail":             {failure.Overloaded, 0, step, DefaultPolicy(), true, replay.Resume, "eligible_and_safe"},
		"text was shown":         {failure.Overloaded, 0, shown, DefaultPolicy(), false, 0, "not_safe"},
		"no record":              {failure.Overloaded, 0, replay.RunEvidence{}, DefaultPolicy(), false, 0, "not_safe"},
		"K-112 overflow":         {failure.ContextOverflow, 0, clean, DefaultPolicy(), false, replay.Regenerate, "not_eligible"},
		"K-113 auth":             {failure.AuthFailed, 0, clean, DefaultPolicy(), false, replay.Regenerate, "not_eligible"},
		"K-114 credentials":      {failure.CredentialsUnresolved, 0, clean, DefaultPolicy(), false, replay.Regenerate, "not_eligible"},
		"K-115 spend":            {failure.SpendLimitExceeded, 0, clean, DefaultPolicy(), false, replay.Regenerate, "not_eligible"},
		"K-116 quota":            {failure.QuotaExhausted, 0, clean, DefaultPolicy(), false, replay.Regenerate, "not_eligible"},
		"K-117 cancelled":        {failure.Cancelled, 0, clean, DefaultPolicy(), false, replay.Regenerate, "cancelled"},
		"unknown is never":       {failure.Unknown, 0, clean, Policy{HandOver: true, Unknown: true}, false, replay.Regenerate, "not_eligible"},
		"N83 a far reset":        {failure.ServerError, 2 * time.Hour, clean, DefaultPolicy(), false, replay.Regenerate, "far_reset"},
		"a far reset, unbounded": {failure.ServerError, 2 * time.Hour, clean, unbounded, true, replay.Regenerate, "eligible_and_safe"},
		"off":                    {failure.ServerError, 0, clean, off, false, replay.Regenerate, "off"},
	} {
		f := &failure.Failure{Class: c.class, Retryable: c.class.Retryable()}
		if c.hint > 0 {
			f.NotBefore = now.Add(c.hint)
		}
		a := Arm(f, c.run, c.p, now)
		if a.Auto != c.auto || a.Verb != c.verb || a.Reason != c.why || a.Auto && !a.Safe {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	f := &failure.Failure{Class: failure.Overloaded, Retryable: true, NotBefore: time.Now().Add(time.Second)}
	e := replay.Evidence{Scope: llm.Scope{Run: "r"}, Attempt: "a", State: replay.StateSealed}
	p, budget, now := DefaultPolicy(), Budget{Requests: 1, Attempts: 1, Jitter: 0.3}, time.Now()
	b.ReportAllocs()
	for b.Loop() {
		Decide(f, e, p, budget, now)
	}
}
