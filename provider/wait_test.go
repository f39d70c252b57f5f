package provider

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
)

// TestStatedWait: a wait counts from the answer by our clock, whatever the provider's clock
// says: it is never shorter than was asked for (K-131).
func TestStatedWait(t *testing.T) {
	for _, behind := range []time.Duration{0, 900 * time.Millisecond, 10 * time.Minute, -10 * time.Minute} {
		for name, header := range map[string]func(date time.Time) string{
			"a delay": func(time.Time) string { return "30" },
			"a date":  func(date time.Time) string { return date.Add(30 * time.Second).UTC().Format(http.TimeFormat) },
		} {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, Config{Dial: serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					date := time.Now().Add(-behind)
					w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
					w.Header().Set("Retry-After", header(date))
					w.WriteHeader(http.StatusTooManyRequests)
				}))})
				now := time.Now()
				_, err := call(t, p, hello("m"))
				f, ok := errors.AsType[*failure.Failure](err)
				if !ok {
					t.Fatalf("%T %v", err, err)
				}
				// A date has whole seconds, so it may mean one less.
				if wait := f.NotBefore.Sub(now); wait > 30*time.Second || wait < 29*time.Second || name == "a delay" && wait != 30*time.Second {
					t.Errorf("%s of a clock that is %s behind: %s", name, behind, wait)
				}
			})
		}
	}
}
