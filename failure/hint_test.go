package failure

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestHint: every way to state a wait becomes one absolute time. N51.
func TestHint(t *testing.T) {
	for _, c := range []struct {
		name, header, body string
		wait               time.Duration
		hint               string
	}{
		{"seconds", "Retry-After: 20", "", 20 * time.Second, "retry-after"},
		{"a fraction", "Retry-After: 0.25", "", 250 * time.Millisecond, "retry-after"},
		{"milliseconds", "Retry-After-Ms: 1500", "", 1500 * time.Millisecond, "retry-after-ms"},
		{"the later of two", "Retry-After-Ms: 1500\nRetry-After: 3", "", 3 * time.Second, "retry-after"},
		{"a date", "Retry-After: Mon, 04 May 2026 12:00:30 GMT", "", 30 * time.Second, "retry-after"},
		{"a date by the server's clock, an hour ahead", "Retry-After: Mon, 04 May 2026 13:00:30 GMT\nDate: Mon, 04 May 2026 13:00:00 GMT", "", 30 * time.Second, "retry-after"},
		{"a date by the server's clock, an hour behind", "Retry-After: Mon, 04 May 2026 11:00:30 GMT\nDate: Mon, 04 May 2026 11:00:00 GMT", "", 30 * time.Second, "retry-after"},
		{"a stored answer's date is no clock", "Retry-After: Mon, 04 May 2026 12:00:30 GMT\nDate: Mon, 04 May 2026 11:00:00 GMT\nAge: 3600", "", 30 * time.Second, "retry-after"},
		{"a date in the past", "Retry-After: Mon, 04 May 2026 11:00:00 GMT", "", 0, "retry-after"},
		{"zero", "Retry-After: 0", "", 0, "retry-after"},
		{"negative", "Retry-After: -20", "", 0, "retry-after"},
		{"1e308", "Retry-After: 1e308", "", maxWait, "retry-after"},
		{"beyond a float", "Retry-After: 1e999", "", maxWait, "retry-after"},
		{"nothing that is a number", "Retry-After: NaN", "", 0, ""},
		{"words", "Retry-After: soon", "", 0, ""},
		{"an empty bucket", "X-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 6m0s", "", 6 * time.Minute, "x-ratelimit-reset-requests"},
		{"a bucket that is not empty", "X-Ratelimit-Remaining-Requests: 1\nX-Ratelimit-Reset-Requests: 6m0s", "", 0, ""},
		{"the emptier of two buckets", "X-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 20ms\nX-Ratelimit-Remaining-Tokens: 0\nX-Ratelimit-Reset-Tokens: 1.5s", "", 1500 * time.Millisecond, "x-ratelimit-reset-tokens"},
		{"unknown is not now", "X-Ratelimit-Remaining-Tokens: -1\nX-Ratelimit-Reset-Tokens: 0", "", 0, ""},
		{"seconds since 1970", "X-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 1777896060", "", time.Minute, "x-ratelimit-reset"},
		{"milliseconds since 1970", "X-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 1777896060000", "", time.Minute, "x-ratelimit-reset"},
		{"a structured header", "Ratelimit: \"default\";r=0;t=50", "", 50 * time.Second, "ratelimit"},
		{"a structured header with some left", "Ratelimit: \"default\";r=3;t=50", "", 0, ""},
		{"an RFC 3339 stamp", "Anthropic-Ratelimit-Tokens-Remaining: 0\nAnthropic-Ratelimit-Tokens-Reset: 2026-05-04T12:01:00Z", "", time.Minute, "anthropic-ratelimit-tokens-reset"},
		{"resets_at", "", `{"error":{"message":"slow down","resets_at":1777896060}}`, time.Minute, "resets_at"},
		{"resets_at in milliseconds", "", `{"error":{"message":"slow down","resets_at":1777896060000}}`, time.Minute, "resets_at"},
		{"resets_at of 0", "", `{"error":{"message":"slow down","resets_at":0}}`, 0, ""},
		{"retry_after", "", `{"retry_after":120}`, 2 * time.Minute, "retryafter"},
		{"RetryInfo", "", `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36.5s"}]}}`, 36500 * time.Millisecond, "retrydelay"},
		{"ErrorInfo", "", `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","metadata":{"quotaResetDelay":"5m4.5s","quotaResetTimeStamp":"2026-05-04T12:05:04Z"}}]}}`, 5*time.Minute + 4500*time.Millisecond, "quotaresetdelay"},
		{"6m0s", "", `Please try again in 6m0s.`, 6 * time.Minute, "prose"},
		{"1m47.5s", "", `Please try again in 1m47.5s.`, 107500 * time.Millisecond, "prose"},
		{"644ms", "", `Please try again in 644ms. Visit us`, 644 * time.Millisecond, "prose"},
		{"seconds in words", "", `Please retry after 45 seconds.`, 45 * time.Second, "prose"},
		{"several units", "", `try again in 10 minutes and 5 seconds`, 605 * time.Second, "prose"},
		{"a client's own wait", "", `no; retrying 1/5 in 214ms…`, 0, ""},
		{"a number without a unit", "", `try again in 5`, 0, ""},
		{"a number of something else", "", `try again in 5 attempts`, 0, ""},
		{"a date in words", "", `You will regain access on 2026-05-04 at 12:30 UTC.`, 30 * time.Minute, "prose"},
		{"far too many units", "", "try again in " + strings.Repeat("9999999h ", 400), maxWait, "prose"},
		{"a clock time", "", `Free quota used. Resets at 14:30 UTC.`, 150 * time.Minute, "prose"},
		{"a clock time of tomorrow", "", `resets 3am (UTC)`, 15 * time.Hour, "prose"},
		{"a clock time of nowhere", "", `resets 3am`, 0, ""},
		{"the later of header and prose", "Retry-After: 3", `Please try again in 20s.`, 20 * time.Second, "prose"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := FromResponse(Facts{Provider: "some", Phase: PhaseOpen, Now: now}, 503, headers(c.header), []byte(c.body))
			if out.Hint != c.hint || c.hint != "" && out.NotBefore.Sub(now) != c.wait {
				t.Errorf("%v by %q, want %v by %q", out.NotBefore.Sub(now), out.Hint, c.wait, c.hint)
			}
			if out.Class != Overloaded || !out.Retryable {
				t.Errorf("class %v, retryable %v: a far reset leaves other classes than rate limits alone (N83)", out.Class, out.Retryable)
			}
		})
	}
}

// TestFarReset: a rate failure told to stay away for more than an hour is a spent quota; an
// hour is not.
func TestFarReset(t *testing.T) {
	for seconds, want := range map[string]Class{"3000": RateLimited, "3600": RateLimited, "3600.001": QuotaExhausted, "7200": QuotaExhausted} {
		out := FromResponse(Facts{Phase: PhaseOpen, Now: now}, 429, http.Header{"Retry-After": {seconds}}, nil)
		if out.Class != want || out.Retryable != want.Retryable() || out.Hint == "" {
			t.Errorf("%s s: %v, retryable %v, hint %q", seconds, out.Class, out.Retryable, out.Hint)
		}
	}
}

// TestZones: dates without a zone are the vendor's.
func TestZones(t *testing.T) {
	body := []byte(`您的限额将在 2026-05-04 21:00:00 重置。`)
	for provider, want := range map[string]time.Duration{"zhipu": time.Hour, "openai": 9 * time.Hour} {
		out := FromResponse(Facts{Provider: provider, Phase: PhaseOpen, Now: now}, 429, nil, body)
		if got := out.NotBefore.Sub(now); got != want {
			t.Errorf("%s: %v, want %v", provider, got, want)
		}
	}
}

// TestNowUnknown: without a clock from the caller the answer's own date is the clock.
func TestNowUnknown(t *testing.T) {
	out := FromResponse(Facts{}, 429, headers("Retry-After: 20\nDate: Mon, 04 May 2026 12:00:00 GMT"), nil)
	if want := now.Add(20 * time.Second); !out.NotBefore.Equal(want) {
		t.Errorf("%v, want %v", out.NotBefore, want)
	}
}

// FuzzHint: whatever is stated, the time is never before a binding wait, never in the past
// and never beyond the bound.
func FuzzHint(f *testing.F) {
	f.Add(20.0, "Retry-After", "6m0s")
	f.Add(1e308, "Retry-After-Ms", "1e308s")
	f.Add(-1.0, "X-Ratelimit-Reset-Requests", "99999999999999999999h")
	f.Add(3e9, "Retry-After", "try again in 1m1m1m")
	f.Fuzz(func(t *testing.T, seconds float64, key, prose string) {
		h := make(http.Header)
		h.Set("Retry-After", strconv.FormatFloat(seconds, 'g', -1, 64))
		if key != "" && !strings.EqualFold(key, "Date") && !strings.EqualFold(key, "Retry-After") {
			h.Set(key, prose)
		}
		out := FromResponse(Facts{Phase: PhaseOpen, Now: now}, 503, h, []byte("Please try again in "+prose))
		if !out.Class.Retryable() {
			return
		}
		if math.IsNaN(seconds) {
			return
		}
		got := out.NotBefore.Sub(now)
		if got < 0 || got > maxWait {
			t.Fatalf("%v is out of bounds", got)
		}
		if seconds > 0 && seconds < maxWait.Seconds() && got.Seconds() < seconds*(1-1e-12) {
			t.Fatalf("%v is before the stated %v s", got, seconds)
		}
		if d, err := time.ParseDuration(prose); err == nil && d > 0 && d < maxWait && !strings.ContainsAny(prose, "+-") && got < d {
			t.Fatalf("%v is before the stated %v", got, d)
		}
	})
}

// FuzzDuration agrees with the standard library wherever that reads a duration, but for its
// rounding down, and never returns more than the bound.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"6m0s", "1m47.5s", "12h34m16s", "644ms", "434702.184334124s", "1 hour and 5 minutes", "9999999999h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := parseDuration(s)
		if d < 0 || d > maxWait {
			t.Fatal(d)
		}
		std, err := time.ParseDuration(strings.TrimSpace(s))
		if err == nil && std >= 0 && std < maxWait && !strings.ContainsAny(s, "+-μ") && strings.TrimSpace(s) != "0" && !strings.Contains(s, ".") && ok && d != std {
			t.Fatal(fmt.Sprint(s, d, std))
		}
	})
}
