package gateway_test

import (
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/gateway"
)

// R6, R7: a client that comes again before the time that it was told is answered from memory, and
// each failure in a row doubles that time. Others, and other requests, are not concerned.
func TestRepetitionsDoNotMultiply(t *testing.T) {
	for _, dialect := range names {
		run(t, gateway.Options{}, func(w *world) {
			sent := 0
			ask := func(when, model string, status int, after string, requests int, header ...string) {
				t.Helper()
				resp, body, err := w.post(dialect, model, true, header...)
				if dialect == "messages" && status == 503 {
					status = 529
				}
				sent += requests
				if got := resp.Header.Get("Retry-After"); err != nil || resp.StatusCode != status || got != after || w.upstream.Requests().Total != sent {
					t.Errorf("%s %s: %d, come back in %q, %d requests, want %d, %q, %d\n%v %s", dialect, when, resp.StatusCode, got,
						w.upstream.Requests().Total, status, after, sent, err, body)
				}
				if resp.StatusCode != 200 && resp.Header.Get("X-Should-Retry") != "" {
					t.Errorf("%s %s: X-Should-Retry: %s", dialect, when, resp.Header.Get("X-Should-Retry"))
				}
			}
			ask("at first", "always-503", 503, "2", 3)
			<-time.After(900 * time.Millisecond)
			ask("too early", "always-503", 503, "2", 0)
			ask("something else", "ok-fast", 200, "", 1)
			<-time.After(1100 * time.Millisecond)
			ask("in time", "always-503", 503, "4", 3)
			ask("at once", "always-503", 503, "4", 0)
			ask("on purpose", "always-503", 503, "8", 3, gateway.HeaderInsist, "1")
			for _, wait := range []string{"16", "30", "30"} {
				<-time.After(30 * time.Second)
				ask("again and again", "always-503", 503, wait, 3)
			}
			<-time.After(2 * time.Minute)
			ask("much later", "always-503", 503, "2", 3)

			ask("another, at first", "overloaded-6-times-then-ok-fast", 503, "2", 3)
			<-time.After(2 * time.Second)
			ask("another, in time", "overloaded-6-times-then-ok-fast", 503, "4", 3)
			<-time.After(4 * time.Second)
			ask("another, when it is well", "overloaded-6-times-then-ok-fast", 200, "", 1)
			ask("another, afterwards", "overloaded-6-times-then-ok-fast", 503, "2", 3)
		})
	}
}
