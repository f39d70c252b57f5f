package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// The server is killed with kill -9 around the moment at which several retries are due: as
// they are dispatched, claimed, sent and answered. None is lost and none is started twice: one
// run each, whose text nobody sees twice. f25, N70.
func TestKillDuringDispatch(t *testing.T) {
	const rounds, width = 8, 6
	t.Logf("go test ./e2e -run TestKillDuringDispatch -seed %d repeats these moments", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	text := tokens("late", 40)
	refused := rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}}
	up := newUpstream(t, script("late", 2*time.Millisecond, refused, rehearsal.Take{say(text)}))
	s := serve(t, up.config("late", "recovery: {tier1: {attempts: 1}, tier2: {mode: unattended, max_elapsed: 1h, base: 700ms}}"))
	ends := map[string]int{}
	for n := range rounds {
		list := make([]*dispatched, width)
		var all sync.WaitGroup
		for i := range list {
			d := &dispatched{observer: watch(s, s.session("")), question: fmt.Sprintf("round %d, %d", n, i)}
			list[i] = d
			all.Go(func() { _, d.sch = d.waiting(s, d.question) })
		}
		all.Wait()
		first := slices.MinFunc(list, func(a, b *dispatched) int { return int(a.sch.NextAt - b.sch.NextAt) })
		// The moment is not waited for, it is what is tested.
		moment := time.Duration(random.Int64N(int64(150*time.Millisecond))) - 30*time.Millisecond
		<-s.killAfter(max(time.Until(first.sch.NextAt.Std())+moment, 0))
		for _, d := range list {
			d.stop()
		}
		s.start()
		for _, d := range list {
			d.follow(s)
		}
		for _, d := range list {
			ends[d.judge(s, up, text)]++
		}
		if t.Failed() {
			t.Fatalf("this was round %d, killed %s after the first retry was due", n, moment)
		}
	}
	t.Log(ends)
}

// dispatched is a session whose retry is about to start.
type dispatched struct {
	*observer
	question string
	sch      session.Schedule
}

// judge waits for the retry's end, checks it by the session's log and by the upstream, and
// says how it ended.
func (d *dispatched) judge(s *server, up *upstream, text string) string {
	t := s.t
	t.Helper()
	d.await("end of the retry", func(e *session.Event) bool {
		r := e.Run
		if e.Snapshot != nil {
			r = e.Snapshot.Session.LastRun
		}
		return r != nil && r.Trigger == session.TriggerRetry && r.State.Terminal()
	})
	now, err := s.Session(within(t), d.id)
	if err != nil {
		t.Fatal(err)
	}
	run, rows := *now.LastRun, s.messages(d.id)
	if runs := d.retries(); len(runs) > 1 || len(runs) == 1 && runs[0].ID != run.ID || run.Token != d.sch.Token || run.Attempt != 2 || run.MessageID != d.sch.Anchor {
		t.Errorf("%s: %+v, and seen: %+v", d.question, run, runs)
	}
	own := replies(rows, run.ID)
	if len(own) != 1 || len(rows) != 3 {
		t.Errorf("%s: %+v", d.question, rows)
	}
	end := string(run.State)
	switch shown := d.shown(run.ID, 0); {
	case run.State == session.Succeeded:
		if textOf(own[0].Parts) != text {
			t.Errorf("%s: %q", d.question, textOf(own[0].Parts))
		}
	case run.State == session.Failed && run.Failure.RetryClass == failure.Interrupted && !run.Recovery.Auto:
		end = "interrupted"
		if len(textOf(own[0].Parts)) < len(shown) {
			t.Errorf("%s: %q was shown, %q is kept", d.question, shown, textOf(own[0].Parts))
		}
	default:
		t.Errorf("%s: %+v", d.question, run)
	}
	// Whoever was killed between its request and the first sign of an answer may ask again.
	if sent := up.quiet(t).ByKey[keyOf("late", d.question)]; sent < 2 || sent > 1+run.Claims {
		t.Errorf("%s: %d requests and %d claims", d.question, sent, run.Claims)
	}
	d.stop()
	d.check()
	if run.Claims > 1 {
		end += " under another claim"
	}
	return end
}

// kill -9 while a retry waits for a provider's far time changes neither its token nor its time,
// and it is started once, not before that time. f25, N70.
func TestKillDuringScheduledWait(t *testing.T) {
	t.Parallel() // it mostly waits
	const far = 94 * time.Second
	text := tokens("far", 10)
	limited := rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.RateLimited, Wait: rehearsal.Duration(far)}}}
	up := newUpstream(t, script("outlives", time.Millisecond, limited, rehearsal.Take{say(text)}))
	s := serve(t, up.config("outlives", retryAfter(time.Second)))
	o := watch(s, s.session(""))
	r := s.post(o.id, "hi")
	o.end(r.RunID)
	sch := *o.await("schedule", func(e *session.Event) bool { return e.Schedule != nil }).Schedule
	if sch.State != session.ScheduleScheduled || sch.ChosenBy != session.ChosenByProvider || sch.NextAt < sch.NotBefore || sch.NotBefore.Std().Sub(sch.UpdatedAt.Std()) < 90*time.Second {
		t.Fatalf("%+v", sch)
	}
	for range 5 {
		o.stop()
		s.restart()
		o.follow(s)
		if now, err := s.Retry(within(t), o.id); err != nil || now.Token != sch.Token || now.NextAt != sch.NextAt || now.State != session.ScheduleScheduled {
			t.Errorf("after a kill %+v, %v; was %+v", now, err, sch)
		}
	}
	if n := up.quiet(t).Total; n != 1 {
		t.Errorf("%d requests before the time", n)
	}
	var armed, begun session.Event
	o.within(far+patience, "last seconds", func(e *session.Event) bool {
		armed = *e
		return e.Schedule != nil && e.Schedule.State == session.ScheduleArmed
	})
	begun = o.await("retry", func(e *session.Event) bool { return e.Run != nil && e.Run.Trigger == session.TriggerRetry })
	if armed.Schedule.Token != sch.Token || armed.Schedule.NextAt != sch.NextAt || begun.Run.QueuedAt < sch.NextAt {
		t.Errorf("%+v, then %+v; was %+v", armed.Schedule, begun.Run, sch)
	}
	if run := o.end(begun.Run.ID); run.State != session.Succeeded || run.Token != sch.Token {
		t.Errorf("%+v", run)
	}
	if runs := o.retries(); len(runs) != 1 || up.quiet(t).Total != 2 {
		t.Errorf("%d runs, %d requests", len(runs), up.quiet(t).Total)
	}
	o.check()
}
