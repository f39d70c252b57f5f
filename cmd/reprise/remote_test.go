package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// far is an environment in which a retry waits for an hour.
var far = []string{"REPRISE_RECOVERY_TIER1_BASE=1ms", "REPRISE_RECOVERY_TIER2_BASE=1h", "REPRISE_RECOVERY_TIER2_CAP=2h"}

// says checks a command's end and what it has said.
func (r ran) says(t *testing.T, code int, want string) {
	t.Helper()
	r.want(t, code)
	if !regexp.MustCompile(`(?s)^(?:` + want + `)$`).MatchString(r.stdout + r.stderr) {
		t.Errorf("said %q and %q, want %s", r.stdout, r.stderr, want)
	}
}

const (
	aTime   = `(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d \S+`
	receipt = `(?:queued|running)  run run_\w+  message msg_\w+`
)

func TestRetryVerbs(t *testing.T) {
	h := newHome(t, far...)
	stop := h.serve()
	defer func() { stop().want(t, exitDone) }()
	h.run("waiting").says(t, exitDone, "")
	failed := h.run("run", "--model", "rehearsal/overloaded", "Hello")
	failed.want(t, exitLater)
	id := failed.id(t, "ses")

	waiting := `waiting  overloaded  attempt 2  next ` + aTime + ` \(in \w+\)`
	h.run("waiting").says(t, exitDone, id+"  "+waiting+"\n")
	h.run("show", id).says(t, exitDone, id+"  waiting  rehearsal/overloaded  .*\n"+waiting+"\n\noperator  .*Hello\n.*failed: overloaded.*")
	h.run("sessions").says(t, exitDone, id+"  waiting  .*  rehearsal/overloaded  .*\n")
	h.run("cancel", id).says(t, exitFailed, "reprise: nothing is running in "+id+", a retry waits: reprise retry cancel "+id+"\n")
	var list waitingList
	answered(t, h.run("waiting", "--json"), &list)
	if len(list.Waiting) != 1 || list.Waiting[0].SessionID != session.ID(id) || list.Now == 0 {
		t.Errorf("waits: %+v", list)
	}

	h.run("retry", "snooze", id, "--for", "90m").says(t, exitDone, strings.Replace(waiting, `\w+\)`, `1h(?:29m5\ds|30m0s)\)`, 1)+"\n")
	var snoozed session.Schedule
	answered(t, h.run("retry", "snooze", "--json", id, "--until", "00:00"), &snoozed)
	if at := snoozed.NextAt.Std().Local(); snoozed.ChosenBy != session.ChosenByOperator || at.Hour() != 0 || at.Minute() != 0 || snoozed.Token <= list.Waiting[0].Token {
		t.Errorf("put off to %s: %+v", at, snoozed)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "at least one of the flags"},
		{[]string{"--for", "1m", "--until", "12:00"}, "none of the others can be"},
		{[]string{"--for", "-1m"}, "above 0"},
		{[]string{"--until", "noon"}, "hours and minutes"},
	} {
		h.run(append([]string{"retry", "snooze", id}, c.args...)...).says(t, exitUsage, "reprise: .*"+c.want+".*\n")
	}
	h.run("retry", "schedule", id).says(t, exitFailed, "reprise: "+id+": There is no stated time.*\n")

	h.run("retry", "now", id).says(t, exitDone, receipt+"  superseded 1\n")
	again := h.run("run", "--session", id, "--model", "rehearsal/ok-fast", "And") // behind it
	if again.code != exitDone && !strings.Contains(again.stderr, "queue is paused") {
		t.Errorf("%+v", again)
	}
	second := h.run("run", "--model", "rehearsal/overloaded", "Again").id(t, "ses")
	h.run("retry", "cancel", second).says(t, exitDone, "cancelled  overloaded  attempt 2  nothing starts by itself\n")
	h.run("retry", "cancel", second).says(t, exitDone, "dismissed\n")
	h.run("retry", "cancel", second).says(t, exitFailed, "reprise: "+second+" has no retry\n")
	h.run("cancel", second).says(t, exitFailed, "reprise: nothing is running in "+second+"\n")
	h.run("retry", "frobnicate", second).want(t, exitUsage)
}

// What the gate does not let be repeated ends as it does in a run.
func TestRetryRefused(t *testing.T) {
	h := newHome(t, "REPRISE_RECOVERY_TIER1_BASE=1ms")
	stop := h.serve()
	defer func() { stop().want(t, exitDone) }()
	id := h.run("run", "--model", "rehearsal/always-503-2h", "Hello").id(t, "ses")
	h.run("show", id).says(t, exitDone, id+"  failed .*\nnever  \\w+  worth retrying: yes  safe to repeat: yes  not before "+aTime+"\n.*")
	h.run("retry", "schedule", id).says(t, exitDone, "waiting  .*  attempt 2  next "+aTime+" \\(in .*\\)\n")
	var end *ended
	if err := failed(fmt.Errorf("schedule: %w", &client.Error{Status: 409, Code: session.CodeNotSafe})); !errors.As(err, &end) || end.code != exitRefused {
		t.Errorf("%v", err)
	}
}

func TestSessionVerbs(t *testing.T) {
	h := newHome(t)
	stop := h.serve()
	defer func() { stop().want(t, exitDone) }()
	first := h.run("run", "--model", "rehearsal/tool-fast", "Hello")
	id := first.id(t, "ses")
	h.run("show", id).says(t, exitDone, id+"  succeeded  .*\noperator  msg_.*\nHello\n\nreply  msg_.*  rehearsal/tool-fast  \\$0\n.*\\[clock .*\ntool  msg_.*\\[clock: .*\nreply  .*You asked.*")
	var shown conversation
	answered(t, h.run("show", "--json", id), &shown)
	if len(shown.Messages) != 4 || shown.Session.ID != session.ID(id) {
		t.Errorf("%+v", shown)
	}
	h.run("regenerate", id).says(t, exitDone, receipt+"  superseded 3\n")
	at := `\S+ \S+ \S+  operator    `
	h.run("audit", id).says(t, exitDone, at+"regenerate  "+id+"  run_\\w+  .*\n"+at+"post  "+id+"  run_\\w+\n"+at+"create session  "+id+"  rehearsal/tool-fast\n")
	h.run("audit", "-n", "1").says(t, exitDone, at+"regenerate  .*\n")
	h.run("audit", "ses_x").want(t, exitUsage)
	h.run("cancel", id, "run_x").want(t, exitUsage)
	h.run("regenerate", id, "msg_x").want(t, exitUsage)
	h.with(t.Context(), "From a pipe", nil, "send", id).says(t, exitDone, "(?:queued|running|pending)  run .*\n")
	h.run("send", id, " ").says(t, exitUsage, "reprise: the prompt is empty\n")

	broken := h.run("run", "--model", "rehearsal/failed-inside-text-fast", "Hello")
	broken.want(t, exitRefused)
	h.run("resume", broken.id(t, "ses")).says(t, exitDone, receipt+"  superseded 1\n")

	var made session.Receipt
	quiet := h.run("run", "--model", "rehearsal/ok-fast", "Hello").id(t, "ses")
	h.run("run", "--session", quiet, "--model", "rehearsal/ok-fast", "Hello").want(t, exitDone)
	answered(t, h.run("send", "--json", quiet, "And"), &made)
	if made.RunID == "" || made.MessageID == "" {
		t.Errorf("%+v", made)
	}
}

// A run that goes on is ended by its session's name alone.
func TestCancelVerb(t *testing.T) {
	h := newHome(t)
	stop := h.serve()
	defer func() { stop().want(t, exitDone) }()
	said := make(chan struct{}, 1)
	ended := make(chan ran, 1)
	go func() {
		ended <- h.with(t.Context(), "", func(text string) {
			if strings.Contains(text, "You") {
				select {
				case said <- struct{}{}:
				default:
				}
			}
		}, "run", "--model", "rehearsal/stall-after-text", "Hello")
	}()
	<-said
	var list sessionList
	answered(t, h.run("sessions", "--json"), &list)
	if len(list.Sessions) != 1 || list.Sessions[0].State != session.StateRunning {
		t.Fatalf("%+v", list)
	}
	h.run("cancel", string(list.Sessions[0].ID)).says(t, exitDone, "(?:cancelled|cancelling)  run run_\\w+\n")
	r := <-ended
	r.want(t, exitCancelled)
}

// Every verb that asks a server says so where there is none, and what it does not find.
func TestNoServer(t *testing.T) {
	verbs := [][]string{{"sessions"}, {"waiting"}, {"audit", "ses_x"}, {"show", "ses_x"}, {"send", "ses_x", "Hello"}, {"regenerate", "ses_x"}, {"resume", "ses_x"},
		{"cancel", "ses_x"}, {"retry", "now", "ses_x"}, {"retry", "cancel", "ses_x"}, {"retry", "snooze", "ses_x", "--for", "1m"},
		{"retry", "schedule", "ses_x"}, {"watch", "ses_x"}}
	h := newHome(t)
	for _, args := range verbs {
		h.run(args...).says(t, exitFailed, "reprise: no server uses the data folder .*: start one with reprise serve\n")
	}
	for _, args := range [][]string{{"fences"}, {"cool-offs"}, {"keys"}} { // they need none
		h.run(args...).says(t, exitDone, "")
	}
	h.run("fences", "--lift", "fen_x").says(t, exitUsage, "reprise: fen_x: .*\n")
	stop := h.serve()
	defer func() { stop().want(t, exitDone) }()
	for _, args := range verbs[2:] {
		h.run(args...).says(t, exitUsage, "reprise: ses_x: .*\n")
	}
}

// REPRISE_URL and REPRISE_TOKEN name a server on another machine.
func TestServerOfTheEnvironment(t *testing.T) {
	there := newHome(t)
	stop := there.serve()
	defer func() { stop().want(t, exitDone) }()
	base, _, _ := strings.Cut(there.run("link").stdout, "/#")
	home := ""
	for _, v := range there.env {
		if dir, ok := strings.CutPrefix(v, "HOME="); ok {
			home = dir
		}
	}
	token, err := httpapi.LocalToken(filepath.Join(home, ".local", "share", "reprise"))
	if err != nil {
		t.Fatal(err)
	}

	here := newHome(t, "REPRISE_URL="+base, "REPRISE_TOKEN="+token)
	r := here.run("run", "--model", "rehearsal/ok-fast", "Hello")
	r.want(t, exitDone)
	here.run("sessions").says(t, exitDone, r.id(t, "ses")+"  succeeded  .*\n")
	there.run("sessions").says(t, exitDone, r.id(t, "ses")+"  succeeded  .*\n")
	here.run("explain", r.id(t, "run")).says(t, exitDone, r.id(t, "run")+"  succeeded .*")
	here.run("explain", "run_x").says(t, exitUsage, "reprise: run_x: .*\n")
	here.run("link").says(t, exitDone, base+"/#launch=\\w+\n")

	newHome(t, "REPRISE_URL="+base, "REPRISE_TOKEN=wrong").run("sessions").want(t, exitFailed)
	newHome(t, "REPRISE_TOKEN="+token).run("sessions").says(t, exitUsage, "reprise: REPRISE_TOKEN belongs to .*\n")
	newHome(t, "REPRISE_URL=http://127.0.0.1:1").run("sessions").want(t, exitFailed)
}

func answered(t *testing.T, r ran, into any) {
	t.Helper()
	r.want(t, exitDone)
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		t.Fatalf("%v: %q", err, r.stdout)
	}
}

func TestWaits(t *testing.T) {
	now := time.Date(2026, 3, 4, 14, 2, 0, 0, time.Local)
	zone := now.Format("MST")
	in := func(d time.Duration) session.Time { return session.At(now.Add(d)) }
	for want, s := range map[string]session.Schedule{
		"waiting  overloaded  attempt 3  next 14:02:08 " + zone + " (in 8s)":                      {State: session.ScheduleArmed, NextAt: in(8 * time.Second)},
		"waiting  overloaded  attempt 3  next 14:01:59 " + zone + " (in 0s)":                      {State: session.ScheduleArmed, NextAt: in(-time.Second)},
		"waiting  overloaded  attempt 3  next 2026-03-05 00:02:00 " + zone + " (in 10h0m0s)":      {State: session.ScheduleScheduled, NextAt: in(10 * time.Hour)},
		"waiting  overloaded  attempt 3  held until somebody watches":                             {State: session.ScheduleHeld, HoldReason: session.HoldNobody, NextAt: in(-time.Hour)},
		"waiting  overloaded  attempt 3  held until you try now":                                  {State: session.ScheduleHeld, HoldReason: session.HoldAsks, NextAt: in(-time.Hour)},
		"waiting  overloaded  attempt 3  held until the server has a network":                     {State: session.ScheduleHeld, HoldReason: session.HoldOffline, NextAt: in(-time.Hour)},
		"cancelled  overloaded  attempt 3  nothing starts by itself":                              {State: session.ScheduleCancelled},
		"exhausted  overloaded  2 attempts since 14:01:00 " + zone + "  nothing starts by itself": {State: session.ScheduleExhausted, Since: in(-time.Minute)},
		"never  overloaded  worth retrying: yes  safe to repeat: no (text_shown)":                 {State: session.ScheduleNever, Retryable: true, Evidence: replay.TextShown},
		"never  overloaded  worth retrying: no  safe to repeat: yes  not before 15:02:00 " + zone: {State: session.ScheduleNever, ReplaySafe: true, NotBefore: in(time.Hour)},
	} {
		s.RetryClass, s.Attempt = failure.Overloaded, 2
		if got := waits(&s, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNextClock(t *testing.T) {
	now := time.Date(2026, 3, 31, 14, 2, 30, 0, time.Local)
	for s, want := range map[string]time.Time{
		"14:03": time.Date(2026, 3, 31, 14, 3, 0, 0, time.Local),
		"14:02": time.Date(2026, 4, 1, 14, 2, 0, 0, time.Local),
		"00:00": time.Date(2026, 4, 1, 0, 0, 0, 0, time.Local),
	} {
		if got, err := nextClock(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "24:00", "2pm", "14"} {
		if at, err := nextClock(s, now); err == nil {
			t.Errorf("%q is %s", s, at)
		}
	}
}
