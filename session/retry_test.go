package session_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// tier2 makes a world whose first tier is off and whose second waits that long at first.
func tier2(t *testing.T, base time.Duration, scripts ...[]llmtest.Step) *world {
	w := newWorld(t, scripts...)
	w.cfg.Policy.Tier1.Attempts = 1
	w.cfg.Policy.Tier2.Base = base
	return w
}

func (w *world) session() session.Session {
	w.t.Helper()
	s, err := w.m.Session(w.t.Context(), w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// schedule waits for the session's schedule to have a state.
func (o *observer) schedule(state session.ScheduleState) session.Schedule {
	o.w.t.Helper()
	e := o.until(func(e session.Event) bool {
		return e.Type == session.EventSchedule && e.Schedule != nil && e.Schedule.State == state
	})
	return *e.Schedule
}

var overloaded = []llmtest.Step{fail(failure.Overloaded)}

// K-081, K-110, K-118, K-125, F84, N64, f2 of the page: failed runs are repeated by themselves while
// somebody watches, on the path of the click, until one succeeds.
func TestSecondTier(t *testing.T) {
	w := tier2(t, 2*time.Millisecond, overloaded, overloaded, overloaded, say("at last")).start()
	o := w.watch("")
	defer o.stop()
	first := w.post("hi")
	var tokens []int64
	var attempts []int
	o.until(func(e session.Event) bool {
		if e.Type == session.EventSchedule && e.Schedule != nil {
			tokens, attempts = append(tokens, e.Schedule.Token), append(attempts, e.Schedule.Attempt)
		}
		return e.Type == session.EventRun && e.Run.State == session.Succeeded
	})
	w.sent(4)
	w.expect("operator: hi", "reply: at last")
	if len(tokens) != 3 || tokens[0] != 1 || tokens[2] != 3 || attempts[2] != 3 {
		t.Errorf("tokens %v, attempts %v", tokens, attempts)
	}
	s := w.session()
	if s.Schedule != nil || s.LastRun.Attempt != 4 || s.LastRun.Trigger != session.TriggerRetry || s.LastRun.Origin.Operator {
		t.Errorf("schedule %+v, run %+v", s.Schedule, s.LastRun)
	}
	if msg := w.messages(false)[0]; msg.ID != first.MessageID {
		t.Errorf("the anchor is %+v", msg)
	}
}

// The second tier resumes a run whose tail is clean: nothing is run twice.
func TestSecondTierResumes(t *testing.T) {
	write := &tool{name: "write"}
	w := tier2(t, 2*time.Millisecond, call("first", "write", "c"), overloaded, overloaded, say("done"))
	w.cfg.Tools = toolbox(write)
	w.start()
	o := w.watch("")
	defer o.stop()
	w.post("hi")
	s := o.schedule(session.ScheduleArmed)
	if s.Verb != replay.Resume {
		t.Errorf("verb %v", s.Verb)
	}
	o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.State == session.Succeeded })
	w.expect("operator: hi", "reply: first [write]", "tool: result of write", "reply: done")
	w.sent(4)
	if write.times() != 1 {
		t.Errorf("the tool ran %d times", write.times())
	}
}

// K-110–K-117, N01, f14, f20 of the page: what is not eligible, or not safe, is never armed.
func TestNeverArmed(t *testing.T) {
	for name, script := range map[string][]llmtest.Step{
		"text was shown": {llmtest.Text("x"), fail(failure.Overloaded)},
		"auth":           {fail(failure.AuthFailed)},
		"overflow":       {fail(failure.ContextOverflow)},
		"quota":          {fail(failure.QuotaExhausted)},
	} {
		t.Run(name, func(t *testing.T) {
			w := tier2(t, time.Millisecond, script).start()
			w.cfg.Unattended = true
			run := w.ask("hi")
			s := w.session().Schedule
			if run.State != session.Failed || s == nil || s.State != session.ScheduleNever {
				t.Errorf("%+v", s)
			}
			w.sent(1)
		})
	}
}

// K-117, K-121, N58: a cancelled run arms nothing; a cancelled wait starts nothing, ever, and
// is gone with a dismissal.
func TestCancelWait(t *testing.T) {
	w := tier2(t, time.Hour, overloaded, say("never"))
	w.cfg.Policy.Tier2.Cap = time.Hour
	w.start()
	o := w.watch("")
	defer o.stop()
	w.post("hi")
	s := o.schedule(session.ScheduleArmed)
	out, err := w.m.CancelRetry(t.Context(), "ann", w.id, s.Token)
	if err != nil || out.Schedule.State != session.ScheduleCancelled || out.Schedule.Token != s.Token+1 || out.Schedule.Reason != session.EndedByOperator {
		t.Fatalf("%+v, %v", out, err)
	}
	_, err = w.m.Snooze(t.Context(), "ann", w.id, out.Schedule.Token, time.Now().Add(time.Minute))
	refused(t, err, session.CodeConflict)
	// The same cancel from another tab, or repeated, is no dismissal; a late Try now starts nothing.
	cancelled := *out.Schedule
	if out, err = w.m.CancelRetry(t.Context(), "bob", w.id, s.Token); err != nil || out.Schedule == nil || *out.Schedule != cancelled {
		t.Errorf("a second cancel: %+v, %v", out, err)
	}
	_, err = w.m.RetryNow(t.Context(), session.Act{Actor: "bob"}, w.id, s.Token, false)
	refused(t, err, session.CodeStaleToken)
	for range 2 {
		if out, err = w.m.CancelRetry(t.Context(), "ann", w.id, cancelled.Token); err != nil || out != (session.Retired{}) {
			t.Errorf("dismiss: %+v, %v", out, err)
		}
	}
	if w.session().Schedule != nil {
		t.Error("it is still there")
	}
	w.sent(1)
}

// K-126, N63, f37 of the page: a new message or a regenerate retires the schedule; one run starts.
// After another model or the archive it stays, cancelled. The failed run says what ended the wait.
func TestRetire(t *testing.T) {
	for name, act := range map[string]func(w *world, r session.Receipt) error{
		"a message": func(w *world, _ session.Receipt) error { w.ask("next"); return nil },
		"a regenerate": func(w *world, r session.Receipt) error {
			_, err := w.regenerate(r.MessageID, session.RegenerateRequest{})
			return err
		},
		"another model": func(w *world, _ session.Receipt) error {
			other := "script/other"
			_, err := w.m.PatchSession(w.t.Context(), "ann", w.id, session.SessionPatch{Model: &other})
			return err
		},
		"the archive": func(w *world, _ session.Receipt) error {
			yes := true
			_, err := w.m.PatchSession(w.t.Context(), "ann", w.id, session.SessionPatch{Archived: &yes})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := tier2(t, time.Hour, overloaded, say("fine"))
			w.cfg.Policy.Tier2.Cap = time.Hour
			w.start()
			o := w.watch("")
			defer o.stop()
			r := w.post("hi")
			o.schedule(session.ScheduleArmed)
			if err := act(w, r); err != nil {
				t.Fatal(err)
			}
			if name == "a message" {
				if s := o.schedule(session.ScheduleCancelled); s.Reason != "message" {
					t.Errorf("%+v", s)
				}
			}
			kept := map[string]string{"another model": "model", "the archive": "archived"}[name]
			o.until(func(e session.Event) bool {
				return e.Type == session.EventSchedule && (e.Schedule == nil) == (kept == "")
			})
			s := w.session().Schedule
			if (s != nil) != (kept != "") || s != nil && (s.State != session.ScheduleCancelled || s.Reason != kept) {
				t.Errorf("%+v", s)
			}
			failed, err := w.m.FindRun(t.Context(), r.RunID)
			if name == "a message" {
				kept = "message"
			}
			if err != nil || failed.State != session.Failed || failed.Recovery.Cancelled != kept {
				t.Errorf("%+v %+v, %v", failed, failed.Recovery, err)
			}
			if list, err := w.m.Waiting(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("%+v waits, %v", list, err)
			}
		})
	}
}

// K-122, K-123, K-192, N59, f6, f22, f23 of the page: the timer, two tabs and a cancel act on
// one schedule at once. At most one run starts, and a cancel leaves none running.
func TestRace(t *testing.T) {
	for range 30 {
		w := tier2(t, 3*time.Millisecond, overloaded, []llmtest.Step{{Stall: true}}).start()
		o := w.watch("")
		w.post("hi")
		s := o.schedule(session.ScheduleArmed)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				var no *session.Refusal
				if _, err := w.m.RetryNow(t.Context(), session.Act{Actor: "tab"}, w.id, s.Token, false); err != nil &&
					!errors.As(err, &no) && !errors.Is(err, session.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if _, err := w.m.CancelRetry(t.Context(), "ann", w.id, s.Token); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		// Whatever won, a cancel with the token ends what is going on.
		if _, err := w.m.CancelRetry(t.Context(), "ann", w.id, s.Token); err != nil {
			t.Error(err)
		}
		for last := w.session(); last.State != session.Idle; last = w.session() {
			o.next()
		}
		if n := len(w.provider.Requests()); n > 2 {
			t.Errorf("%d requests", n)
		}
		if last := w.session().LastRun; last.State == session.Failed && last.Trigger == session.TriggerRetry {
			t.Errorf("the cancelled run is %+v", last)
		}
		o.stop()
		w.m.Close()
	}
}

// K-190, N70, f25 of the page: a restart keeps the schedule with its token and time, and
// starts it once.
func TestScheduleSurvives(t *testing.T) {
	w := tier2(t, 300*time.Millisecond, overloaded, say("after"))
	w.cfg.Unattended = true
	w.start()
	o := w.watch("")
	r := w.post("hi")
	before := o.schedule(session.ScheduleArmed)
	o.stop()
	w.m.Close()
	w.startOn(w.store, w.log)
	defer w.m.Close()
	if s := w.session(); s.Schedule != nil && (s.Schedule.Token != before.Token || s.Schedule.NextAt != before.NextAt) {
		t.Errorf("before %+v, after %+v", before, s.Schedule)
	}
	o = w.watch("")
	defer o.stop()
	for s := w.session(); s.LastRun.ID == r.RunID || !s.LastRun.State.Terminal(); s = w.session() {
		o.next()
	}
	w.expect("operator: hi", "reply: after")
	w.sent(2)
	if times := w.provider.Times(); session.At(times[1]) < before.NextAt {
		t.Error("earlier than scheduled")
	}
}

// f4 of the page, N83: a far reset is scheduled by a click; its class is waived, its safety
// is not. K-120.
func TestScheduleByClick(t *testing.T) {
	far := llmtest.Fail(&failure.Failure{Class: failure.QuotaExhausted, Provider: "script", Message: "quota", NotBefore: time.Now().Add(5 * time.Hour)})
	w := tier2(t, time.Millisecond, []llmtest.Step{far}, []llmtest.Step{llmtest.Text("shown"), far}).start()
	w.ask("hi")
	s := w.session().Schedule
	if s == nil || s.State != session.ScheduleNever {
		t.Fatalf("%+v", s)
	}
	_, err := w.m.Schedule(t.Context(), "ann", w.id, s.Token+5)
	refused(t, err, session.CodeStaleToken)
	set, err := w.m.Schedule(t.Context(), "ann", w.id, s.Token)
	if err != nil || set.State != session.ScheduleScheduled || set.NextAt != set.NotBefore || set.AuthorisedBy != "ann" || set.Token <= s.Token {
		t.Fatalf("%+v, %v", set, err)
	}
	later := set.NotBefore.Std().Add(time.Hour)
	snoozed, err := w.m.Snooze(t.Context(), "ann", w.id, set.Token, later)
	if err != nil || snoozed.NextAt.Std() != later.UTC() || snoozed.Token <= set.Token {
		t.Errorf("%+v, %v", snoozed, err)
	}
	early, err := w.m.Snooze(t.Context(), "ann", w.id, snoozed.Token, time.Now().Add(time.Minute))
	if err != nil || early.NextAt != set.NotBefore {
		t.Errorf("earlier than asked: %+v, %v", early, err)
	}
	if list, err := w.m.Waiting(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	w.ask("again")
	_, err = w.m.Schedule(t.Context(), "ann", w.id, 0)
	refused(t, err, session.CodeNotSafe)
	w.sent(2)
}

// K-124: nobody watches: held; a lease counts.
func TestHeldUntilWatched(t *testing.T) {
	w := tier2(t, time.Millisecond, overloaded, say("fine")).start()
	s, err := w.m.CreateSession(t.Context(), "ann", session.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	other := w.watch("") // of the first session: it sees the list alone
	defer other.stop()
	if _, err := w.m.Post(t.Context(), session.Act{Actor: "ann"}, s.ID, []llm.Part{llm.Text("hi")}, session.Routing{}); err != nil {
		t.Fatal(err)
	}
	other.until(func(e session.Event) bool {
		return e.Type == session.EventSession && e.Session.ID == s.ID && e.Session.Schedule != nil && e.Session.Schedule.State == session.ScheduleHeld
	})
	if err := w.m.AddViewer(t.Context(), s.ID, "tab"); err != nil {
		t.Fatal(err)
	}
	e := other.until(func(e session.Event) bool {
		return e.Type == session.EventSession && e.Session.ID == s.ID && e.Session.Schedule != nil && e.Session.Schedule.State == session.ScheduleArmed
	})
	if wait := e.Session.Schedule.NextAt.Std().Sub(e.Session.Schedule.UpdatedAt.Std()); wait != 10*time.Second {
		t.Errorf("%v of warning", wait)
	}
	w.sent(1)
}

// K-124, f25: a restart cuts off whoever watches. The retry that becomes due before they are back
// neither starts without them nor makes them wait for another ten seconds of warning.
func TestViewerReturnsAfterRestart(t *testing.T) {
	w := tier2(t, 300*time.Millisecond, overloaded, say("at last")).start()
	o := w.watch("")
	w.post("hi")
	armed := o.schedule(session.ScheduleArmed)
	o.stop()
	w.m.Close()
	<-time.After(time.Until(armed.NextAt.Std()))
	w.start()
	list, err := w.m.Waiting(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	w.sent(1)
	back := w.watch("")
	defer back.stop()
	back.until(func(e session.Event) bool {
		sch := e.Schedule
		if e.Snapshot != nil {
			sch = e.Snapshot.Session.Schedule
		}
		if sch != nil && (sch.State != session.ScheduleArmed || sch.NextAt != armed.NextAt) {
			t.Errorf("it is %s until %v", sch.State, sch.NextAt)
		}
		return e.Run != nil && e.Run.State == session.Succeeded
	})
	w.sent(2)
}
