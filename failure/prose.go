package failure

import (
	"strconv"
	"strings"
	"time"
)

// leads are the words that introduce a provider's wait. A client's own "retrying 1/5 in" is
// none of them. The first of them, as many as dateLeads, introduce an absolute time.
var leads = [...]string{"regain access on ", "reset at ", "resets at ", "reset on ", "resets on ", "try again at ",
	"retry at ", "available at ", "available again at ", "until ", "limit reached|", "将在 ", "将于 ", "resets ",

	"try again in ", "retry in ", "retry after ", "try again after ", "reset after ", "resets in ", "reset in ",
	"resets after ", "wait for ", "please wait ", "or wait ", "wait at least ", "available in ", "available again in ",
	"retry your request after ", "refresh in ", "resume in ", "replenished in "}

const dateLeads = 14

var leadIndex = newFinder(leads[:])

// proseWait reads the waits that a message, in lower case, states in words: the first 64, which
// no message in good faith exceeds.
func (e *evidence) proseWait(m string) {
	tries := 0
	leadIndex.each(m, func(i, end int) {
		if tries++; tries > 64 {
			return
		}
		if i < dateLeads {
			if t, ok := leadingDate(m[end:], e.zone()); ok {
				e.until(t, "prose")
			} else if t, ok := leadingClock(m[end:], e.now); ok && !e.facts.undated {
				e.until(t, "prose")
			}
		} else if d, ok := leadingDuration(m[end:]); ok {
			e.after(d, "prose", true)
		}
	})
}

// zone is the time zone of a vendor's dates that name none.
func (e *evidence) zone() *time.Location {
	switch e.vendor {
	case "zhipu", "minimax", "moonshot", "dashscope", "volcengine", "siliconflow":
		return china
	}
	return time.UTC
}

var china = time.FixedZone("UTC+8", 8*60*60)

var units = map[string]time.Duration{
	"ms": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond, "msec": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	"us": time.Microsecond, "µs": time.Microsecond, "ns": time.Nanosecond,
	"秒": time.Second, "分钟": time.Minute, "小时": time.Hour, "天": 24 * time.Hour,
}

// parseDuration reads a duration that is the whole of s: 6m0s, 1m47.5s, 434702.18s, 644ms,
// 20 seconds, "1 hour and 5 minutes".
func parseDuration(s string) (time.Duration, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	d, n := scanDuration(s)
	return d, n == len(s) && n > 0
}

// leadingDuration reads the duration that s begins with.
func leadingDuration(s string) (time.Duration, bool) {
	for _, skip := range [...]string{"about ", "at least ", "approximately ", "another ", "~"} {
		s = strings.TrimPrefix(s, skip)
	}
	if d, ok := clockDuration(s); ok {
		return d, true
	}
	d, n := scanDuration(s)
	return d, n > 0
}

// clockDuration reads a duration written as a clock, hours first: 02:30:15, 1.02:30:15 with days.
func clockDuration(s string) (time.Duration, bool) {
	end := 0
	for end < len(s) && (isDigit(s[end]) || s[end] == ':' || s[end] == '.') {
		end++
	}
	s = strings.TrimRight(s[:end], ".")
	parts := strings.Split(s, ":")
	if len(parts) != 3 || len(parts[1]) != 2 || len(parts[2]) < 2 {
		return 0, false
	}
	days, hours, ok := strings.Cut(parts[0], ".")
	if !ok {
		days, hours = "0", parts[0]
	}
	var total time.Duration
	for i, unit := range [...]time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		d, ok := parseNumber([...]string{days, hours, parts[1], parts[2]}[i], unit)
		if !ok {
			return 0, false
		}
		total = min(total+d, maxWait)
	}
	return total, true
}

// scanDuration adds up the leading numbers that have a unit, and returns how many bytes of s
// they take: 0 where s begins with none.
func scanDuration(s string) (total time.Duration, used int) {
	i := 0
	for {
		start := i
		for i < len(s) && (isDigit(s[i]) || s[i] == '.' && i+1 < len(s) && isDigit(s[i+1])) {
			i++
		}
		if i == start {
			return total, used
		}
		f, err := strconv.ParseFloat(s[start:i], 64)
		if err != nil && f == 0 {
			return total, used
		}
		for i < len(s) && s[i] == ' ' {
			i++
		}
		unitAt := i
		for i < len(s) && (isAlpha(s[i]) || s[i] >= 0x80) {
			i++
		}
		unit, ok := units[s[unitAt:i]]
		if !ok {
			return total, used
		}
		total = min(total+bounded(f, unit), maxWait)
		used = i
		for _, join := range [...]string{", and ", " and ", ", ", " "} {
			if strings.HasPrefix(s[i:], join) {
				i += len(join)
				break
			}
		}
	}
}

var dateLayouts = [...]string{
	"2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05 -0700 MST",
	"2006-01-02 15:04:05 MST",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04 MST",
	"2006-01-02 15:04",
	"2006-01-02",
	"Jan 2, 2006 3:04 PM",
	"January 2, 2006 3:04 PM",
	"Jan 2, 2006 15:04 MST",
}

// leadingDate reads the date that s begins with, in any of the layouts.
func leadingDate(s string, zone *time.Location) (time.Time, bool) {
	end := 0
	for end < len(s) && end < 40 && (isAlnum(s[end]) || strings.IndexByte("-:.+, ", s[end]) >= 0) {
		end++
	}
	for s = ordinals.Replace(s[:end]); s != ""; {
		if t, ok := parseStamp(s, zone); ok {
			return t, true
		}
		cut := strings.LastIndexAny(s, " .")
		if cut < 0 {
			break
		}
		s = s[:cut]
	}
	return time.Time{}, false
}

// leadingClock reads a time of the day in UTC that s begins with ("10:00 utc", "3pm (utc)")
// and returns when it is next.
func leadingClock(s string, now time.Time) (time.Time, bool) {
	at := strings.Index(s[:min(len(s), 20)], "utc")
	if at < 0 {
		return time.Time{}, false
	}
	text := strings.ReplaceAll(strings.Trim(s[:at], " ("), " ", "")
	for _, layout := range [...]string{"15:04", "3:04pm", "3pm"} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		y, m, d := now.UTC().Date()
		next := time.Date(y, m, d, t.Hour(), t.Minute(), 0, 0, time.UTC)
		if next.Before(now) {
			next = next.AddDate(0, 0, 1)
		}
		return next, true
	}
	return time.Time{}, false
}

// ordinals makes the 5th a 5, and "at 12:30" a bare time.
var ordinals = strings.NewReplacer(" at ", " ", "1st,", "1,", "2nd,", "2,", "3rd,", "3,", "4th,", "4,", "5th,", "5,", "6th,", "6,",
	"7th,", "7,", "8th,", "8,", "9th,", "9,", "0th,", "0,", "11th,", "11,", "12th,", "12,", "13th,", "13,")

// parseStamp reads an absolute time: seconds, milliseconds or more since 1970, or a date.
func parseStamp(s string, zone *time.Location) (time.Time, bool) {
	s = strings.ToUpper(strings.TrimSpace(s)) // prose comes in lower case: T, Z and UTC
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case f >= 1e8 && f < 1e11:
			whole := int64(f)
			return time.Unix(whole, int64((f-float64(whole))*1e9)), true
		case f >= 1e11 && f < 1e14:
			return time.UnixMilli(int64(f)), true
		case f >= 1e14 && f < 1e17:
			return time.UnixMicro(int64(f)), true
		case f >= 1e17 && f < 9e18:
			return time.Unix(0, int64(f)), true
		}
		return time.Time{}, false
	}
	if len(s) < 10 || len(s) > 64 {
		return time.Time{}, false
	}
	for _, layout := range dateLayouts {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil && t.Year() >= 2000 && t.Year() < 2200 {
			// Of an abbreviation Go knows UTC alone: another would be read as UTC without a word.
			if name, _ := t.Zone(); strings.HasSuffix(layout, "MST") && name != "UTC" && name != "GMT" {
				continue
			}
			return t, true
		}
	}
	return time.Time{}, false
}
