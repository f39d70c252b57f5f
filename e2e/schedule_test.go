package e2e

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// outlives is a script whose first two requests are refused, as many as the first tier sends
// under retryAfter, and the third is answered.
func outlives(text string) rehearsal.Script {
	refused := rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}}
	return script("outlives", time.Millisecond, refused, refused, rehearsal.Take{say(text)})
}

// retryAfter is a configuration in which a failed run is repeated after this time.
func retryAfter(base time.Duration) string {
	return "recovery: {tier1: {attempts: 2, base: 5ms}, tier2: {base: " + base.String() + "}}"
}

// waiting posts a message whose run fails and waits for its schedule.
func (o *observer) waiting(s *server, text string) (session.Receipt, session.Schedule) {
	o.t.Helper()
	r := s.post(o.id, text)
	if run := o.end(r.RunID); run.State != session.Failed || run.Recovery == nil || !run.Recovery.Auto {
		o.t.Fatalf("%+v", run)
	}
	e := o.await("schedule", func(e *session.Event) bool { return e.Schedule != nil && e.Schedule.RunID == r.RunID })
	if sch := *e.Schedule; sch.State != session.ScheduleArmed || sch.Token == 0 || sch.Anchor != r.MessageID {
		o.t.Fatalf("%+v", sch)
	}
	return r, *e.Schedule
}

// retries are the runs that a schedule has started, as they were seen first.
func (o *observer) retries() (runs []session.Run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := map[session.RunID]bool{}
	for _, e := range o.events {
		if e.Run != nil && e.Run.Trigger == session.TriggerRetry && !seen[e.Run.ID] {
			seen[e.Run.ID] = true
			runs = append(runs, *e.Run)
		}
	}
	return runs
}

// repeated waits for the end of the run that the schedule starts, and checks that it is the
// only one, at its time and good.
func (o *observer) repeated(s *server, up *upstream, sch session.Schedule, text string) {
	o.t.Helper()
	e := o.await("retry", func(e *session.Event) bool { return e.Run != nil && e.Run.Trigger == session.TriggerRetry })
	run := o.end(e.Run.ID)
	if run.State != session.Succeeded || run.Token != sch.Token || run.Attempt != 2 || run.MessageID != sch.Anchor {
		o.t.Errorf("%+v", run)
	}
	if shown := o.shown(run.ID, 0); shown != text {
		o.t.Errorf("an observer saw %q", shown)
	}
	if rows := replies(s.messages(o.id), run.ID); len(rows) != 1 || textOf(rows[0].Parts) != text {
		o.t.Errorf("%+v", rows)
	}
	var refusal *client.Error
	if left, err := s.Retry(within(o.t), o.id); !errors.As(err, &refusal) || refusal.Status != http.StatusNotFound {
		o.t.Errorf("the schedule is still there: %+v, %v", left, err)
	}
	if n := up.quiet(o.t).ByModel["outlives"]; n != 3 {
		o.t.Errorf("%d requests", n)
	}
	if runs := o.retries(); len(runs) != 1 {
		o.t.Errorf("%d runs were started: %+v", len(runs), runs)
	}
	o.check()
}

// A failure that outlives the first tier waits where everybody can see it, and its run is
// repeated once, at its time, by the server alone.
func TestScheduledRetry(t *testing.T) {
	text := tokens("late", 10)
	up := newUpstream(t, outlives(text))
	s := serve(t, up.config("outlives", retryAfter(time.Second)))
	o := watch(s, s.session(""))
	r, sch := o.waiting(s, "hi")
	if sch.RetryClass != failure.Overloaded || !sch.Retryable || !sch.ReplaySafe || sch.Verb != replay.Regenerate || sch.Attempt != 1 {
		t.Errorf("%+v", sch)
	}
	if failed := o.end(r.RunID); sch.NextAt != sch.Since+1000 || sch.Since < failed.EndedAt {
		t.Errorf("it starts at %d, %d after the end of the run", sch.NextAt, sch.NextAt-failed.EndedAt)
	}
	o.repeated(s, up, sch, text)
	if run := o.retries()[0]; run.QueuedAt < sch.NextAt {
		t.Errorf("started %d ms early", sch.NextAt-run.QueuedAt)
	}
}

// held waits until the retry of a session waits for somebody to look. A server that has just begun
// gives them ten seconds to come back.
func (s *server) held(which func(session.ID) bool) {
	s.t.Helper()
	list := watch(s, "")
	defer list.stop()
	list.await("held schedule", func(e *session.Event) bool {
		held := func(s session.Session) bool {
			return which(s.ID) && s.Schedule != nil && s.Schedule.State == session.ScheduleHeld
		}
		return e.Session != nil && held(*e.Session) || e.Snapshot != nil && slices.ContainsFunc(e.Snapshot.Sessions, held)
	})
}

// The API and the waiting list say what waits. Where nobody looks when it is due, it waits on,
// through a restart as well; a cancel ends it for ever.
func TestCancelRetry(t *testing.T) {
	const wait = time.Second
	up := newUpstream(t, outlives("never"),
		script("sentinel", 0, rehearsal.Take{{Do: rehearsal.Wait, For: rehearsal.Duration(2 * wait)}, say("over")}))
	s := serve(t, up.config("outlives", retryAfter(wait)))

	// A command that has told its run's end looks no longer.
	if code, _, stderr := reprise(t, s.home, "run", "hi"); code != 6 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	cancelled := watch(s, s.session(""))
	_, sch := cancelled.waiting(s, "hello")
	out, err := s.CancelRetry(within(t), cancelled.id, sch.Token)
	if err != nil || out.Schedule == nil || out.Schedule.State != session.ScheduleCancelled {
		t.Fatalf("%+v, %v", out, err)
	}

	// Something that takes longer than both waits shows that they are over.
	over := func() {
		t.Helper()
		o := watch(s, s.session("responses/sentinel"))
		if run := o.end(s.post(o.id, "and then").RunID); run.State != session.Succeeded || run.EndedAt < sch.NextAt {
			t.Fatalf("%+v", run)
		}
	}
	over()
	s.held(func(id session.ID) bool { return id != cancelled.id })
	for _, when := range []string{"before", "after"} {
		list, err := s.Waiting(within(t))
		if err != nil || len(list.Waiting) != 1 || list.Waiting[0].SessionID == cancelled.id || list.Waiting[0].State != session.ScheduleHeld ||
			list.Waiting[0].HoldReason != session.HoldNobody || list.Now == 0 {
			t.Errorf("%s the restart %+v waits, %v", when, list, err)
		}
		if now, err := s.Retry(within(t), cancelled.id); err != nil || now.State != session.ScheduleCancelled || now.Token != out.Schedule.Token {
			t.Errorf("%s the restart: %+v, %v", when, now, err)
		}
		if when == "before" {
			cancelled.stop()
			s.restart()
			cancelled.follow(s)
		}
	}
	over()
	if n := up.quiet(t).ByModel["outlives"]; n != 4 {
		t.Errorf("%d requests", n)
	}
	if runs := cancelled.retries(); len(runs) != 0 {
		t.Errorf("started all the same: %+v", runs)
	}
	cancelled.check()
}

// kill -9 while a retry counts down changes neither its token nor its time, and it is started
// once.
func TestKillDuringCountdown(t *testing.T) {
	text := tokens("later", 10)
	up := newUpstream(t, outlives(text))
	s := serve(t, up.config("outlives", retryAfter(4*time.Second)))
	o := watch(s, s.session(""))
	_, sch := o.waiting(s, "hi")
	for range 2 {
		o.stop()
		s.restart()
		o.follow(s)
		if now, err := s.Retry(within(t), o.id); err != nil || now.Token != sch.Token || now.NextAt != sch.NextAt || now.State != session.ScheduleArmed {
			t.Errorf("after a kill %+v, %v; was %+v", now, err, sch)
		}
	}
	o.repeated(s, up, sch, text)
	if run := o.retries()[0]; run.QueuedAt < sch.NextAt {
		t.Errorf("started %d ms early", sch.NextAt-run.QueuedAt)
	}
	o.stop()
	s.restart()
	if sys, err := s.System(within(t)); err != nil || sys.Running != 0 || sys.Queued != 0 {
		t.Errorf("%+v, %v", sys, err)
	}
	if n := up.quiet(t).ByModel["outlives"]; n != 3 {
		t.Errorf("%d requests in the end", n)
	}
}

// Try now, from several clients at once, is one run, and each is told of it.
func TestTryNowTwice(t *testing.T) {
	text := tokens("now", 10)
	up := newUpstream(t, outlives(text))
	s := serve(t, up.config("outlives", retryAfter(time.Minute)))
	o := watch(s, s.session(""))
	_, sch := o.waiting(s, "hi")
	var clicks sync.WaitGroup
	var receipts [4]session.Receipt
	for i := range receipts {
		clicks.Go(func() {
			c := *s.Client
			r, err := c.RetryNow(within(t), o.id, sch.Token, false)
			if err != nil {
				t.Errorf("click %d: %v", i, err)
			}
			receipts[i] = r
		})
	}
	clicks.Wait()
	for _, r := range receipts[1:] {
		if r.RunID != receipts[0].RunID {
			t.Errorf("one was told %+v, another %+v", receipts[0], r)
		}
	}
	o.repeated(s, up, sch, text)
}

// A run without a server ends when it has failed: what is due, of it or of another session, is
// left to the next server, which starts it once.
func TestRunLeavesRetries(t *testing.T) {
	up := newUpstream(t, outlives(tokens("served", 10)))
	s := serve(t, up.config("outlives", "recovery: {tier1: {attempts: 2, base: 5ms}, tier2: {mode: unattended, base: 1ms, max_elapsed: 12h}}"))
	s.stop()
	for i, prompt := range []string{"hi", "hello"} {
		if code, stdout, stderr := reprise(t, s.home, "run", prompt); code != 6 || stdout != "" {
			t.Errorf("exit %d: %q, %s", code, stdout, stderr)
		}
		if n := up.quiet(t).Total; n != 2*(i+1) {
			t.Errorf("%d requests after %d runs", n, i+1)
		}
	}
	s.start()
	up.await(t, "both retries", func(r rehearsal.Report) bool { return r.Total == 6 })
	list, err := s.Sessions(within(t), false)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, made := range list {
		o := watch(s, made.ID)
		o.await("end of the retry", func(e *session.Event) bool {
			r := e.Run
			if e.Snapshot != nil {
				r = e.Snapshot.Session.LastRun
			}
			return r != nil && r.Trigger == session.TriggerRetry && r.State == session.Succeeded
		})
	}
	if n := up.quiet(t).Total; n != 6 {
		t.Errorf("%d requests", n)
	}
}
