package failure

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxWait bounds every stated wait. Nothing that a provider means is farther off.
const maxWait = 366 * 24 * time.Hour

// wait is one stated time before which nothing may be tried.
type wait struct {
	at     time.Time // by our clock
	source string
	// plain: a bare delay (RetryInfo, prose) that says nothing of the window it belongs to.
	plain bool
}

// after records a relative wait. Negative ones are a stated zero.
func (e *evidence) after(d time.Duration, source string, plain bool) {
	e.waits = append(e.waits, wait{e.now.Add(min(max(d, 0), maxWait)), source, plain})
}

// until records an absolute time of the provider's clock. The past is a stated zero.
func (e *evidence) until(t time.Time, source string) {
	at := t.Add(e.skew)
	if e.facts.undated {
		e.waits = append(e.waits, wait{at, source, false})
		return
	}
	if at.Before(e.now) {
		at = e.now
	}
	if far := e.now.Add(maxWait); at.After(far) {
		at = far
	}
	e.waits = append(e.waits, wait{at, source, false})
}

// stamp records an absolute time written as a number or a date; zero and less mean nothing.
func (e *evidence) stamp(s, source string) {
	if t, ok := parseStamp(s, e.zone()); ok {
		e.until(t, source)
	}
}

// apply puts the latest binding wait on the failure, and makes a rate failure that is told to
// stay away for more than an hour a spent quota.
func (e *evidence) apply(out *Failure, v *verdict) {
	switch {
	case out.Class.Retryable(), out.Class == QuotaExhausted, out.Class == SpendLimitExceeded:
	default:
		return
	}
	var best wait
	for _, w := range e.waits {
		// A bare delay beside a spent day or an allowance of none belongs to another window.
		if w.plain && v.long && w.at.Sub(e.now) <= farReset {
			continue
		}
		if best.source == "" || w.at.After(best.at) {
			best = w
		}
	}
	if best.source == "" {
		return
	}
	out.NotBefore, out.Hint = best.at.UTC(), best.source
	if out.Class == RateLimited && !e.facts.undated && best.at.Sub(e.now) > farReset ||
		out.Class == RateLimited && e.facts.undated && best.at.Sub(e.now) > farReset && best.at.Sub(e.now) <= maxWait {
		out.set(QuotaExhausted, out.Rule, out.Source)
	}
}

// readWaits collects what prose and headers state. Fields of the body were read with it.
func (e *evidence) readWaits() {
	inBody := len(e.waits) > 0
	for i := range e.layers {
		if !e.html {
			e.proseWait(e.layers[i].folded())
		}
	}
	e.stated = len(e.waits) > 0
	e.headerWaits(e.header, inBody)
	for _, h := range e.inner {
		e.headerWaits(h, inBody)
	}
}

func (e *evidence) headerWaits(h http.Header, inBody bool) {
	if len(h) == 0 {
		return
	}
	for _, k := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if v := h.Get(k); v != "" {
			if d, ok := parseNumber(v, time.Millisecond); ok {
				e.after(d, "retry-after-ms", false)
			}
		}
	}
	if v := h.Get("Retry-After"); v != "" {
		if d, ok := parseNumber(v, time.Second); ok {
			e.after(d, "retry-after", false)
		} else if t, err := http.ParseTime(v); err == nil {
			e.until(t, "retry-after")
		} else if d, ok := parseDuration(v); ok {
			e.after(d, "retry-after", false)
		} else if t, ok := parseStamp(v, time.UTC); ok {
			e.until(t, "retry-after")
		} else {
			for part := range strings.SplitSeq(v, ",") { // a proxy joined two headers
				if d, ok := parseNumber(part, time.Second); ok {
					e.after(d, "retry-after", false)
				}
			}
		}
	}
	keys := slices.Sorted(maps.Keys(h)) // in order, so that ties have one winner
	for _, k := range keys {
		e.resetHeader(h, k, inBody)
	}
	if len(e.waits) > 0 || e.status != http.StatusTooManyRequests {
		return
	}
	for _, k := range keys {
		// The only window of a 429, though nobody says how much of it is left.
		if lower := strings.ToLower(k); strings.HasSuffix(lower, "ratelimit-reset") && h.Get(remaining(lower)) == "" {
			e.resetValue(h.Get(k), lower)
		}
	}
}

// remaining is the name of the header beside a reset header.
func remaining(reset string) string { return strings.Replace(reset, "reset", "remaining", 1) }

// resetHeader reads one reset header of a bucket. A bucket binds only where it is empty.
func (e *evidence) resetHeader(h http.Header, key string, inBody bool) {
	lower := strings.ToLower(key)
	switch {
	case strings.HasPrefix(lower, "anthropic-ratelimit-unified"):
		// A plan's windows: the representative one is stated without a name of its own.
		if base, ok := strings.CutSuffix(lower, "-reset"); ok && h.Get(base+"-status") == "rejected" {
			e.stamp(h.Get(key), lower)
		}
	case strings.HasPrefix(lower, "anthropic-ratelimit-"):
		if base, ok := strings.CutSuffix(lower, "-reset"); ok && h.Get(base+"-remaining") == "0" {
			e.stamp(h.Get(key), lower)
		}
	case strings.HasPrefix(lower, "x-codex-"):
		// The body states the same window to the second.
		base, ok := strings.CutSuffix(lower, "-used-percent")
		if used, err := strconv.ParseFloat(h.Get(key), 64); !ok || inBody || err != nil || used < 100 {
			return
		}
		if v := h.Get(base + "-reset-at"); v != "" {
			e.stamp(v, base+"-reset-at")
		} else if d, ok := parseNumber(h.Get(base+"-reset-after-seconds"), time.Second); ok {
			e.after(d, base+"-reset-after-seconds", false)
		}
	case strings.Contains(lower, "ratelimit-reset"):
		if h.Get(remaining(lower)) == "0" {
			e.resetValue(h.Get(key), lower)
		}
	case lower == "x-ratelimit-timeremaining":
		if d, ok := parseNumber(h.Get(key), time.Second); ok && d > 0 {
			e.after(d, lower, false)
		}
	case lower == "ratelimit":
		e.policies(h.Get(key), lower)
	}
}

// resetValue reads the value of a reset header, which vendors write as a duration, as
// seconds, as a time stamp in seconds or milliseconds, or as a date. Zero means unknown.
func (e *evidence) resetValue(v, source string) {
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		if n >= 1e8 {
			e.stamp(v, source)
		} else if d, ok := parseNumber(v, time.Second); ok && d > 0 {
			e.after(d, source, false)
		}
	} else if d, ok := parseDuration(v); ok {
		if d > 0 {
			e.after(d, source, false)
		}
	} else {
		e.stamp(v, source)
	}
}

// policies reads a RateLimit header: a list of policies ("burst";r=0;t=50, "day";r=9;t=8000) or,
// in its older form, the parts of one (limit=10, remaining=0, reset=50).
func (e *evidence) policies(v, source string) {
	left, until := "r", "t"
	if strings.Contains(v, "reset=") {
		v, left, until = strings.ReplaceAll(v, ",", ";"), "remaining", "reset"
	}
	for policy := range strings.SplitSeq(v, ",") {
		r, _ := parameter(policy, left)
		t, _ := parameter(policy, until)
		if d, ok := parseNumber(t, time.Second); ok && r == "0" {
			e.after(d, source, false)
		}
	}
}

// parameter reads a parameter of a structured header.
func parameter(v, name string) (string, bool) {
	for p := range strings.SplitSeq(v, ";") {
		if k, val, ok := strings.Cut(strings.TrimSpace(p), "="); ok && k == name {
			return val, true
		}
	}
	return "", false
}

// eventHeaders reads headers that travel inside a body or an event.
func (e *evidence) eventHeaders(n *node) {
	h := make(http.Header, len(n.keys))
	for i, k := range n.keys {
		if v := &n.kids[i]; v.kind != kindObject && v.kind != kindArray {
			h.Set(k, v.text)
		} else if v.kind == kindArray && len(v.kids) > 0 {
			h.Set(k, v.kids[0].text)
		}
	}
	e.inner = append(e.inner, h)
}

// bodyWait reads a member of a body that states a wait. Others are ignored.
func (e *evidence) bodyWait(key string, v *node) {
	if v == nil || v.kind != kindText && v.kind != kindNumber {
		return
	}
	unit := time.Second
	switch key {
	case "retryafterms":
		unit = time.Millisecond
	case "retryafter", "retryafterseconds", "resetsinseconds", "resetinseconds", "resetafter", "resetseconds":
	case "retrydelay", "quotaresetdelay":
		if d, ok := parseDuration(v.text); ok {
			e.after(d, key, key == "retrydelay")
		}
		return
	case "resetsat", "resetat", "resettime", "quotaresettimestamp", "resettimestamp", "quotaresettime":
		if v.text != "0" {
			source := key
			if key == "resetsat" {
				source = "resets_at"
			}
			e.stamp(v.text, source)
		}
		return
	default:
		return
	}
	if d, ok := parseNumber(v.text, unit); ok {
		e.after(d, key, false)
	} else if d, ok := parseDuration(v.text); ok {
		e.after(d, key, false)
	} else if t, err := http.ParseTime(v.text); err == nil {
		e.until(t, key)
	}
}

// parseNumber reads a number of units. What is too large is as long as a wait can be; what is
// no number is no wait.
func parseNumber(s string, unit time.Duration) (time.Duration, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil && !math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, false
	}
	return bounded(f, unit), true
}

func bounded(f float64, unit time.Duration) time.Duration {
	switch ns := math.Ceil(f * float64(unit)); {
	case ns <= 0:
		return 0
	case ns >= float64(maxWait):
		return maxWait
	default:
		return time.Duration(ns)
	}
}
