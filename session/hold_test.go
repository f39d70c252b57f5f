package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// cable is a network that can be unplugged.
type cable struct {
	out    atomic.Bool
	local  bool
	looked atomic.Int32
}

func (c *cable) Remote(string) bool { return !c.local }
func (c *cable) Reach(context.Context) bool {
	c.looked.Add(1)
	return !c.out.Load()
}

var unreachable = []llmtest.Step{llmtest.Fail(&failure.Failure{Class: failure.Network, Retryable: true, Provider: "script",
	Message: "dial tcp: network is unreachable", Transport: "dial", Delivered: llm.NeverSent})}

// The page's "held: offline": without a network nothing is sent; Try now goes out all the same.
func TestHeldOffline(t *testing.T) {
	w := tier2(t, time.Millisecond, unreachable, unreachable, say("back"))
	net := &cable{}
	net.out.Store(true)
	w.cfg.Network = net
	w.start()
	o := w.watch("")
	defer o.stop()
	w.post("hi")
	held := o.schedule(session.ScheduleHeld)
	if held.HoldReason != session.HoldOffline || held.RetryClass != failure.Network {
		t.Errorf("%+v", held)
	}
	w.sent(1)
	if _, err := w.m.RetryNow(t.Context(), session.Act{Actor: "ann"}, w.id, held.Token, false); err != nil {
		t.Fatal(err)
	}
	again := o.schedule(session.ScheduleHeld)
	if again.HoldReason != session.HoldOffline || again.Attempt != 2 || again.Token == held.Token {
		t.Errorf("%+v", again)
	}
	if _, err := w.m.CancelRetry(t.Context(), "ann", w.id, again.Token); err != nil {
		t.Error(err)
	}
	w.sent(2)
}

// What is on this machine needs no network, and a provider that is down is not a network that
// is: both go on as ever.
func TestNotOffline(t *testing.T) {
	for name, net := range map[string]*cable{"a provider on this machine": {local: true}, "another provider answers": {}} {
		t.Run(name, func(t *testing.T) {
			net.out.Store(net.local)
			w := tier2(t, time.Millisecond, unreachable, say("there"))
			w.cfg.Network = net
			w.start()
			o := w.watch("")
			defer o.stop()
			w.post("hi")
			o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.State == session.Succeeded })
			w.sent(2)
			if looked := net.looked.Load() > 0; looked == net.local {
				t.Errorf("looked at the network: %v", looked)
			}
		})
	}
}

// The page's settings: a change counts at once and outlives the server; one that is refused
// changes nothing; each leaves an audit entry (K-180).
func TestOverride(t *testing.T) {
	w := tier2(t, time.Millisecond, overloaded, overloaded)
	w.cfg.Override = func(set map[string]string) session.Live {
		return session.Live{Policy: w.cfg.Policy, Ask: set["ask"] == "true"}
	}
	w.start()
	no := errors.New("no")
	set := func(change map[string]string, reset []string, answer error) map[string]string {
		t.Helper()
		all, err := w.m.Override(t.Context(), "ann", change, reset, func(map[string]string) error { return answer })
		if !errors.Is(err, answer) {
			t.Fatal(err)
		}
		return all
	}
	set(map[string]string{"ask": "true"}, nil, no)
	if all := set(map[string]string{"ask": "true", "other": "1"}, nil, nil); len(all) != 2 {
		t.Errorf("%v", all)
	}
	o := w.watch("")
	w.post("hi")
	held := o.schedule(session.ScheduleHeld)
	if held.HoldReason != session.HoldAsks {
		t.Errorf("%+v", held)
	}
	o.stop()
	w.m.Close()
	w.startOn(w.store, w.log)
	defer w.m.Close()
	o = w.watch("")
	defer o.stop()
	if all, err := w.m.Overrides(t.Context()); err != nil || all["ask"] != "true" {
		t.Errorf("after a restart %v, %v", all, err)
	}
	if all := set(nil, []string{"ask", "never set"}, nil); len(all) != 1 || all["other"] != "1" {
		t.Errorf("%v", all)
	}
	if s := o.schedule(session.ScheduleArmed); s.Token != held.Token || s.NextAt.Std().Sub(s.UpdatedAt.Std()) != 10*time.Second {
		t.Errorf("%+v", s)
	}
	if acts := w.audit(""); !slices.Equal(acts, []string{"ann: change settings (reset ask)", "ann: change settings (ask=true, other=1)"}) {
		t.Errorf("%q", acts)
	}
	w.sent(1)
}

// audit lists what was done, the latest first; without a session what belongs to none.
func (w *world) audit(id session.ID) (acts []string) {
	w.t.Helper()
	var list []session.Audit
	if err := w.store.View(w.t.Context(), func(tx session.ReadTx) (err error) { list, err = tx.Audit(id, 0); return err }); err != nil {
		w.t.Fatal(err)
	}
	for _, a := range list {
		if a.SessionID == id {
			acts = append(acts, a.Actor+": "+a.Act+" ("+a.Detail+")")
		}
	}
	return acts
}

// K-034, K-035: a session is renamed, archived and restored, each act with its actor; not
// while a run goes on.
func TestRenameAndArchive(t *testing.T) {
	w := newWorld(t, []llmtest.Step{{Stall: true}}).start()
	patch := func(p session.SessionPatch) (session.Session, error) {
		return w.m.PatchSession(t.Context(), "ben", w.id, p)
	}
	name, long, yes, not := "  A better\n name ", strings.Repeat("ä", 201), true, false
	s, err := patch(session.SessionPatch{Title: &name})
	if err != nil || s.Title != "A better name" {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = patch(session.SessionPatch{Title: &long})
	refused(t, err, session.CodeValidation)
	r := w.post("hi")
	_, err = patch(session.SessionPatch{Archived: &yes})
	refused(t, err, session.CodeRunActive)
	if _, err := w.m.Cancel(t.Context(), "ben", w.id, r.RunID); err != nil {
		t.Fatal(err)
	}
	w.ended(r.RunID)
	listed := func(archived bool) int {
		list, err := w.m.Sessions(t.Context(), archived, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for _, archived := range []*bool{&yes, &yes, &not} { // twice is harmless, and told once
		if s, err := patch(session.SessionPatch{Archived: archived}); err != nil || s.Archived != *archived {
			t.Errorf("%+v, %v", s, err)
		}
		if listed(*archived) != 1 || listed(!*archived) != 0 {
			t.Errorf("archived %v: %d, others %d", *archived, listed(true), listed(false))
		}
	}
	if acts := w.audit(w.id); !slices.Equal(acts[:2], []string{"ben: restore ()", "ben: archive ()"}) ||
		!slices.Contains(acts, "ben: change session (title)") {
		t.Errorf("%q", acts)
	}
}

// A hidden tab asks for what has changed since it looked.
func TestSessionsAfter(t *testing.T) {
	w := newWorld(t, say("fine")).start()
	all, err := w.m.Sessions(t.Context(), false, 0)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if none, err := w.m.Sessions(t.Context(), false, all[0].UpdatedAt); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	w.ask("hi")
	if some, err := w.m.Sessions(t.Context(), false, all[0].UpdatedAt-1); err != nil || len(some) != 1 || some[0].LastRun.State != session.Succeeded {
		t.Errorf("%+v, %v", some, err)
	}
}

// F82: Try now from inside the event that tells of the schedule: one run, and the timer, due at
// the same moment, starts no second one.
func TestTryNowInsideTheEvent(t *testing.T) {
	w := tier2(t, time.Millisecond, overloaded, say("fine")).start()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := 0
	done := errors.New("done")
	w.post("hi")
	err := w.m.Watch(ctx, session.Watch{Session: w.id}, func(frames []*session.Frame) error {
		s := w.session()
		if s.Schedule != nil {
			_, err := w.m.RetryNow(ctx, session.Act{Actor: "ann"}, w.id, s.Schedule.Token, false)
			var no *session.Refusal
			switch {
			case err == nil:
				started++
			case !errors.As(err, &no) && !errors.Is(err, session.ErrNotFound):
				return err
			}
		}
		if s.LastRun != nil && s.LastRun.State == session.Succeeded {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	w.sent(2)
	w.expect("operator: hi", "reply: fine")
}

// F86, N69, K-191: a server that stops while a retry counts down sends nothing more (Close waits
// for the timer to end), and leaves the schedule as it is.
func TestCloseDuringCountdown(t *testing.T) {
	w := tier2(t, time.Hour, overloaded, say("never"))
	w.cfg.Policy.Tier2.Cap = time.Hour
	w.start()
	o := w.watch("")
	w.post("hi")
	s := o.schedule(session.ScheduleArmed)
	o.stop()
	w.m.Close()
	w.sent(1)
	var now session.Session
	if err := w.store.View(t.Context(), func(tx session.ReadTx) (err error) { now, err = tx.Session(w.id); return err }); err != nil {
		t.Fatal(err)
	}
	if now.Schedule == nil || now.Schedule.Token != s.Token || now.Schedule.NextAt != s.NextAt || now.LastRun.State != session.Failed {
		t.Errorf("%+v", now.Schedule)
	}
}

// F87, N79: a message that is posted while a retry waits retires it: one run, which answers
// both in order.
func TestPostDuringCountdown(t *testing.T) {
	w := tier2(t, time.Hour, overloaded, say("both"))
	w.cfg.Policy.Tier2.Cap = time.Hour
	w.start()
	o := w.watch("")
	defer o.stop()
	w.post("hi")
	s := o.schedule(session.ScheduleArmed)
	w.ask("and more")
	if got := w.session(); got.Schedule != nil || got.LastRun.Trigger != session.TriggerMessage {
		t.Errorf("%+v", got)
	}
	_, err := w.m.RetryNow(t.Context(), session.Act{Actor: "ann"}, w.id, s.Token, false)
	if !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the old schedule still starts: %v", err)
	}
	if said := len(w.provider.Requests()[1].Messages); said != 2 {
		t.Errorf("%d messages in the request", said)
	}
	w.sent(2)
}

// failing is a store that cannot store the first run that a retry starts.
type failing struct {
	session.Store
	failed atomic.Bool
}

type failingTx struct {
	session.Tx
	failed *atomic.Bool
}

func (f *failing) Update(ctx context.Context, d session.Durability, do func(session.Tx) error) error {
	return f.Store.Update(ctx, d, func(tx session.Tx) error { return do(failingTx{tx, &f.failed}) })
}

func (f failingTx) InsertRun(r session.Run) error {
	if r.Trigger == session.TriggerRetry && f.failed.CompareAndSwap(false, true) {
		return errors.New("the disk is full")
	}
	return f.Tx.InsertRun(r)
}

// F84, N62, N63: a start that cannot be stored leaves the schedule as it is, and the next look
// at it starts the run, once.
func TestStartThatFails(t *testing.T) {
	w := tier2(t, time.Millisecond, overloaded, say("after all"))
	st := &failing{Store: w.store}
	w.startOn(st, w.log)
	defer w.m.Close()
	o := w.watch("")
	defer o.stop()
	w.post("hi")
	s := o.schedule(session.ScheduleArmed)
	e := o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.Trigger == session.TriggerRetry })
	if !st.failed.Load() || e.Run.Token != s.Token {
		t.Errorf("failed %v, then %+v", st.failed.Load(), e.Run)
	}
	o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.State == session.Succeeded })
	w.sent(2)
	w.expect("operator: hi", "reply: after all")
}

// N64: a retry that ends by an early return, here a tool that the model's last step asks for
// being the last one allowed, settles like any other: the schedule is that of the new run.
func TestRetryThatEndsEarly(t *testing.T) {
	write := &tool{name: "write"}
	w := tier2(t, time.Millisecond, overloaded, call("first", "write", "c"))
	w.cfg.Tools, w.cfg.MaxSteps = toolbox(write), 1
	w.start()
	o := w.watch("")
	defer o.stop()
	w.post("hi")
	o.until(func(e session.Event) bool {
		return e.Type == session.EventRun && e.Run.Trigger == session.TriggerRetry && e.Run.State.Terminal()
	})
	s := w.session()
	if s.State != session.Idle || s.LastRun.State != session.Failed || s.Schedule == nil || s.Schedule.RunID != s.LastRun.ID || s.Schedule.State.Waiting() {
		t.Errorf("run %+v, schedule %+v", s.LastRun, s.Schedule)
	}
	w.sent(2)
	if write.times() != 1 {
		t.Errorf("the tool ran %d times", write.times())
	}
}

// F81, N61: a cancel during the look-up of a key, of a first run and of a retry, ends it as
// cancelled, and nothing is sent.
func TestCancelDuringLookup(t *testing.T) {
	w := tier2(t, time.Hour, overloaded, say("never"))
	w.cfg.Policy.Tier2.Cap = time.Hour
	asked, answer := make(chan struct{}), make(chan struct{})
	var slow atomic.Bool
	w.lookup = func() {
		if slow.Load() {
			asked <- struct{}{}
			<-answer
		}
	}
	w.start()
	o := w.watch("")
	defer o.stop()
	cancel := func(run session.RunID) {
		t.Helper()
		<-asked
		slow.Store(false)
		if r, err := w.m.Cancel(t.Context(), "ann", w.id, run); err != nil || r.State == session.Failed {
			t.Errorf("%+v, %v", r, err)
		}
		close(answer)
		if r := w.ended(run); r.State != session.Cancelled {
			t.Errorf("it ended as %s", r.State)
		}
	}
	slow.Store(true)
	cancel(w.post("hi").RunID)
	w.sent(0)

	w.post("hi again")
	s := o.schedule(session.ScheduleArmed)
	answer = make(chan struct{})
	slow.Store(true)
	r, err := w.m.RetryNow(t.Context(), session.Act{Actor: "ann"}, w.id, s.Token, false)
	if err != nil {
		t.Fatal(err)
	}
	cancel(r.RunID)
	if s := w.session(); s.Schedule != nil || s.State != session.Idle {
		t.Errorf("%+v", s)
	}
	w.sent(1)
}

// A limit that is set while the server works holds from the next run on, and observers see it.
func TestOverrideOfLimits(t *testing.T) {
	w := newWorld(t, used("one", 1, 1), used("two", 1, 1))
	w.facts = priced()
	w.cfg.Override = func(set map[string]string) session.Live {
		live := session.Live{Policy: w.cfg.Policy}
		if set["day"] != "" {
			live.Spend.Day = 1
		}
		return live
	}
	w.start()
	change := func(set map[string]string, reset ...string) {
		t.Helper()
		if _, err := w.m.Override(t.Context(), "ann", set, reset, func(map[string]string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	change(map[string]string{"day": "1"})
	limited(t, w, w.ask("hi"), "day_limit", "The day has a limit of")
	if sys, err := w.m.System(t.Context()); err != nil || sys.Spend.DayLimit != 1 {
		t.Errorf("%+v, %v", sys.Spend, err)
	}
	w.sent(0)
	change(nil, "day")
	if run := w.ask("hi again"); run.State != session.Succeeded {
		t.Errorf("%s: %+v", run.State, run.Failure)
	}
	w.sent(1)
}
