package main

import (
	"context"
	"strings"
	"testing"
)

// F85: with --wait a run that failed is followed through the second tier: to its reply, to the limit
// of tries, or until somebody ends the wait.
func TestRunWaits(t *testing.T) {
	for _, how := range []string{"alone", "with a server"} {
		t.Run(how, func(t *testing.T) {
			h := newHome(t, "REPRISE_RECOVERY_TIER1_ATTEMPTS=1", "REPRISE_RECOVERY_TIER2_BASE=20ms", "REPRISE_RECOVERY_TIER2_MAX_ATTEMPTS=2")
			if how != "alone" {
				stop := h.serve()
				defer func() { stop().want(t, exitDone) }()
			}
			r := h.run("run", "--wait", "--model", "rehearsal/overloaded-then-ok-fast", "Hello")
			r.want(t, exitDone)
			if strings.Count(r.stdout, "Hello") != 1 {
				t.Errorf("stdout %q", r.stdout)
			}
			for _, want := range []string{"waiting  overloaded  attempt 2  next ", "starting  attempt 2  run run_"} {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("stderr %q, want %q", r.stderr, want)
				}
			}

			r = h.run("run", "--wait", "--model", "rehearsal/overloaded", "Hello")
			r.want(t, exitExhausted)
			if r.stdout != "" || strings.Count(r.stderr, "starting") != 1 {
				t.Errorf("said %q and %q", r.stdout, r.stderr)
			}

			ctx, cancel := context.WithCancel(t.Context())
			r = h.with(ctx, "", func(text string) {
				if strings.Contains(text, `"type":"schedule"`) {
					cancel()
				}
			}, "run", "--json", "--wait", "--model", "rehearsal/rate-limited-3000s", "Hello")
			r.want(t, exitCancelled)
			if !strings.Contains(r.stdout, `"state":"cancelled"`) {
				t.Errorf("the schedule: %s", r.stdout)
			}
		})
	}
}

// F62, K-161: what a flag forbids is not done, in the run that it was given to.
func TestRunForbids(t *testing.T) {
	h := newHome(t, "REPRISE_RECOVERY_TIER1_BASE=1ms")
	r := h.run("run", "--one-attempt", "--model", "rehearsal/overloaded-then-ok-fast", "Hello")
	if r.code == exitDone || r.stdout != "" || strings.Contains(r.stderr, "attempt 2") {
		t.Errorf("exit %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	r = h.run("run", "--only-key", "env:NOBODY", "--model", "rehearsal/ok-fast", "Hello")
	if r.code == exitDone || !strings.Contains(r.stderr, "another_key_is_pinned") {
		t.Errorf("exit %d, %q", r.code, r.stderr)
	}
}
