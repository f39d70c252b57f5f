package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/server"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// watching runs a command until its output satisfies the condition. act is called once, when
// it watches.
func (h *home) watching(args []string, act func(), until func(stdout, stderr string) bool) ran {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	changed := make(chan struct{}, 1)
	note := func(string) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	stdout, stderr := &output{on: note}, &output{on: note}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, args, h.env, strings.NewReader(""), stdout, stderr) }()
	for begun := false; ; {
		select {
		case <-changed:
			if !begun {
				begun = true
				act()
			}
			if until(stdout.String(), stderr.String()) {
				cancel()
			}
		case code := <-ended:
			if ctx.Err() == context.DeadlineExceeded {
				h.t.Errorf("%v never said what it should", args)
			}
			return ran{code, stdout.String(), stderr.String()}
		}
	}
}

// client is a client of the home's server.
func (h *home) client() *client.Client {
	h.t.Helper()
	p := &program{env: server.ParseEnv(h.env)}
	c, err := p.client()
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// A retry that is due starts because somebody watches, who sees the reply; each change is one
// line.
func TestWatch(t *testing.T) {
	h := newHome(t, "REPRISE_RECOVERY_TIER1_ATTEMPTS=1", "REPRISE_RECOVERY_TIER2_BASE=50ms")
	stop := h.serve()
	defer func() { stop().want(t, exitDone) }()
	c := h.client()
	s, err := c.CreateSession(t.Context(), session.NewSession{Model: "rehearsal/overloaded-then-ok-fast"})
	if err != nil {
		t.Fatal(err)
	}
	post := func() {
		if _, err := c.Post(t.Context(), s.ID, []llm.Part{llm.Text("Hello")}, session.Routing{}, ""); err != nil {
			t.Error(err)
		}
	}
	done := func(stdout, stderr string) bool { return strings.Contains(stderr, "succeeded") }
	r := h.watching([]string{"watch", string(s.ID)}, post, done)
	r.want(t, exitDone)
	if !strings.HasPrefix(r.stdout, "You asked: **Hello**") || !strings.HasSuffix(r.stdout, "\n") {
		t.Errorf("stdout %q", r.stdout)
	}
	var states []string
	for line := range strings.Lines(r.stderr) {
		state, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		states = append(states, state)
	}
	if got := strings.Join(states, " "); got != "idle queued running waiting failed queued running succeeded" {
		t.Errorf("stderr says %s: %s", got, r.stderr)
	}

	// Who comes later sees where it stands and none of what was.
	late := h.watching([]string{"watch", string(s.ID)}, func() {}, done)
	late.want(t, exitDone)
	if late.stdout != "" || !strings.HasPrefix(late.stderr, "succeeded  run_") {
		t.Errorf("later: %q and %q", late.stdout, late.stderr)
	}
	events := h.watching([]string{"watch", "--json", string(s.ID)}, func() {}, done)
	events.want(t, exitDone)
	var e session.Event
	if err := json.Unmarshal([]byte(events.stdout), &e); err != nil || e.Type != session.EventSnapshot {
		t.Errorf("as JSON: %v: %q", err, events.stdout)
	}
}

// On a terminal the wait is one line, written over, with keys that act on it.
func TestWatchKeys(t *testing.T) {
	h := newHome(t, far...)
	stop := h.serve()
	defer func() { stop().want(t, exitDone) }()
	id := session.ID(h.run("run", "--model", "rehearsal/overloaded", "Hello").id(t, "ses"))
	keys := make(chan byte)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changed := make(chan string, 1000)
	stderr := &output{on: func(all string) { changed <- all }}
	w := &watcher{client: h.client(), session: id, stdout: &output{}, stderr: stderr, live: true}
	ended := make(chan error, 1)
	go func() { ended <- w.follow(ctx, keys) }()
	await := func(want string, times int) {
		t.Helper()
		for all := ""; strings.Count(all, want) < times; {
			select {
			case all = <-changed:
			case err := <-ended:
				t.Fatalf("ended with %v: %q", err, all)
			}
		}
	}
	await("  [t] try now  [c] cancel", 1)
	keys <- 'x'
	keys <- 't'
	await("failed  run_", 2) // the second is the retry's
	await("attempt 3  next ", 1)
	keys <- 'c'
	await("cancelled  overloaded  attempt 3  nothing starts by itself\n", 1)
	keys <- 't' // nothing waits
	cancel()
	if err := <-ended; err == nil || ctx.Err() == nil {
		t.Errorf("ended with %v", err)
	}
	runs := map[string]bool{}
	for _, id := range ids.FindAllString(stderr.String(), -1) {
		runs[id] = true
	}
	if len(runs) != 2 {
		t.Errorf("there were %d runs: %q", len(runs), stderr)
	}
}

// A line is written over without a trace, and never in the middle of a text.
func TestCountdown(t *testing.T) {
	var screen output
	w := &watcher{stderr: &screen, live: true, shared: true, keys: true, ahead: time.Hour}
	w.text.to = &screen
	w.reschedule(&session.Schedule{State: session.ScheduleArmed, Attempt: 1, Token: 1, NextAt: session.At(time.Now().Add(time.Hour + 8*time.Second))})
	w.draw()
	if s := screen.String(); !strings.Contains(s, "(in 8s)  [t] try now  [c] cancel") || strings.Contains(s, "\n") {
		t.Errorf("%q", s)
	}
	w.reschedule(nil)
	if s := screen.String(); !strings.HasSuffix(s, "\r\x1b[K") {
		t.Errorf("%q", s)
	}
	if err := w.text.write(stepOf{"run_1", 0}, "Hi"); err != nil {
		t.Fatal(err)
	}
	w.say("tool")
	w.say("tool")
	if s := screen.String(); !strings.HasSuffix(s, "\x1b[KHi\ntool\ntool\n") {
		t.Errorf("%q", s)
	}
}

// A device that is no terminal has no keys.
func TestNoKeys(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	keys, restore := keypresses(null)
	restore()
	if keys != nil {
		t.Error("there are keys")
	}
}

// A watcher gives up a server that stays away.
func TestWatchServerGone(t *testing.T) {
	w := &watcher{stderr: &output{}, lost: time.Now().Add(-awayTime)}
	if err := w.take(&news{lost: context.DeadlineExceeded}); err == nil {
		t.Error("still waiting")
	}
}
