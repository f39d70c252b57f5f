package session_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

var errDead = errors.New("the process is dead")

// mortal is a store and a log that die after a certain operation was carried out: from then
// on nothing of the old process reaches them.
type mortal struct {
	session.Store
	session.Log
	after string // the operation
	nth   int32  // of that name
	seen  atomic.Int32
	dead  atomic.Bool
	died  chan struct{}
	one   sync.Mutex  // held for an update: no other is carried out between one and the death after it
	mute  atomic.Bool // it publishes nothing
}

func newMortal(w *world, after string, nth int32) *mortal {
	return &mortal{Store: w.store, Log: w.log, after: after, nth: nth, died: make(chan struct{})}
}

func (d *mortal) passed(op string) {
	if op == d.after && d.seen.Add(1) == d.nth {
		d.dead.Store(true)
		close(d.died)
	}
}

func (d *mortal) Update(ctx context.Context, dur session.Durability, f func(tx session.Tx) error) error {
	d.one.Lock()
	defer d.one.Unlock()
	if d.dead.Load() {
		return errDead
	}
	var ops []string
	if err := d.Store.Update(ctx, dur, func(tx session.Tx) error {
		ops = nil
		if d.dead.Load() {
			return errDead
		}
		return f(telltale{tx, &ops})
	}); err != nil {
		return err
	}
	for _, op := range ops {
		d.passed(op)
	}
	if d.dead.Load() {
		return errDead
	}
	return nil
}

func (d *mortal) View(ctx context.Context, f func(tx session.ReadTx) error) error {
	if d.dead.Load() {
		return errDead
	}
	return d.Store.View(ctx, f)
}

func (d *mortal) Close() error { return nil }

func (d *mortal) Publish(ctx context.Context, id session.ID, key string, data []byte) error {
	if d.dead.Load() || d.mute.Load() {
		return errDead
	}
	return d.Log.Publish(ctx, id, key, data)
}

func (d *mortal) Claim(ctx context.Context, s session.ID, r session.RunID, g int64) (session.Writer, error) {
	if d.dead.Load() {
		return nil, errDead
	}
	w, err := d.Log.Claim(ctx, s, r, g)
	return mortalWriter{w, d}, err
}

type mortalWriter struct {
	session.Writer
	d *mortal
}

func (w mortalWriter) Append(ctx context.Context, data []byte) error {
	if w.d.dead.Load() {
		return errDead
	}
	if err := w.Writer.Append(ctx, data); err != nil {
		return err
	}
	w.d.passed("append")
	if strings.Contains(string(data), `"done"`) {
		w.d.passed("append done")
	}
	if w.d.dead.Load() {
		return errDead
	}
	return nil
}

// telltale notes the writes of a transaction.
type telltale struct {
	session.Tx
	ops *[]string
}

func (t telltale) note(op string) { *t.ops = append(*t.ops, op) }

func (t telltale) PutRun(r session.Run, expect session.RunState, generation int64) error {
	if r.CancelRequested {
		t.note("ask to cancel")
	}
	if r.State.Terminal() {
		t.note("end run")
	}
	return t.Tx.PutRun(r, expect, generation)
}
func (t telltale) Bury(node string) error {
	t.note("bury")
	return t.Tx.Bury(node)
}
func (t telltale) OpenAttempt(a session.Attempt) (int, error) {
	t.note("open attempt")
	return t.Tx.OpenAttempt(a)
}
func (t telltale) MarkAttempt(id session.AttemptID, s llm.Scope, r replay.Reasons, now session.Time) error {
	t.note("mark")
	return t.Tx.MarkAttempt(id, s, r, now)
}
func (t telltale) SealAttempt(id session.AttemptID, s llm.Scope, seal replay.Seal, now session.Time) error {
	t.note("seal")
	return t.Tx.SealAttempt(id, s, seal, now)
}
func (t telltale) AmendAttempt(id session.AttemptID, seal replay.Seal) error {
	t.note("amend")
	return t.Tx.AmendAttempt(id, seal)
}
func (t telltale) PutDecision(id session.AttemptID, f *failure.Failure, d recovery.Decision) error {
	t.note("decide")
	return t.Tx.PutDecision(id, f, d)
}
func (t telltale) InsertMessage(m session.Message) (int64, error) {
	t.note("insert " + string(m.Role))
	return t.Tx.InsertMessage(m)
}
func (t telltale) InsertToolCall(c session.ToolCall) error {
	t.note("start tool")
	return t.Tx.InsertToolCall(c)
}
func (t telltale) PutToolCall(c session.ToolCall, s session.CallState) error {
	t.note("end tool")
	return t.Tx.PutToolCall(c, s)
}

// dies runs the world until the n-th operation of that name, and then starts a new manager on
// what is left, as a new process would.
func (w *world) dies(after string, n int32) session.Receipt {
	w.t.Helper()
	d := newMortal(w, after, n)
	w.startOn(d, d)
	r, err := w.m.Post(w.t.Context(), session.Act{Actor: "ann"}, w.id, []llm.Part{llm.Text("hi")}, session.Routing{})
	if err != nil && !errors.Is(err, errDead) {
		w.t.Fatal(err)
	}
	select {
	case <-d.died:
	case <-time.After(20 * time.Second):
		w.t.Fatalf("the process outlived %q", after)
	}
	w.m.Close()
	w.start()
	if err != nil { // it was stored, but not answered
		s, err := w.m.Session(w.t.Context(), w.id)
		if err != nil {
			w.t.Fatal(err)
		}
		r = session.Receipt{RunID: s.LastRun.ID}
	}
	return r
}

// The crash windows: killed after each commit and each append, the run goes on, or ends as
// interrupted with what was shown. Nothing is sent twice that was shown, no tool starts
// twice. DESIGN section 4; N70, K-010.
func TestCrashWindows(t *testing.T) {
	two := [][]llmtest.Step{
		{llmtest.Text("partial "), {Wait: time.Millisecond, Event: llm.Event{Kind: llm.EventPing}}, llmtest.Text("answer"), llmtest.Done(llm.StopEnd)},
		say("second try"),
	}
	for _, c := range []struct {
		after   string
		nth     int32
		scripts [][]llmtest.Step
		remote  bool
		want    []string
		state   session.RunState
		sent    int
		ran     int
	}{
		{after: "insert operator", nth: 1, scripts: [][]llmtest.Step{say("fine")}, want: []string{"operator: hi", "reply: fine"}, state: session.Succeeded, sent: 1},
		{after: "open attempt", nth: 1, scripts: two, want: []string{"operator: hi", "reply: partial answer"}, state: session.Succeeded, sent: 1},
		{after: "mark", nth: 1, scripts: two, want: []string{"operator: hi", "reply:"}, state: session.Failed, sent: 1},
		{after: "append", nth: 1, scripts: [][]llmtest.Step{{llmtest.Text("partial "), {Stall: true}}}, want: []string{"operator: hi", "reply: partial  (interrupted)"}, state: session.Failed, sent: 1},
		{after: "append done", nth: 1, scripts: two, want: []string{"operator: hi", "reply: partial answer"}, state: session.Succeeded, sent: 1},
		{after: "seal", nth: 1, scripts: two, want: []string{"operator: hi", "reply: partial answer"}, state: session.Succeeded, sent: 1},
		{after: "insert reply", nth: 1, scripts: two, want: []string{"operator: hi", "reply: partial answer"}, state: session.Succeeded, sent: 1},
		// With a tool: shown and committed, then killed before, in, and after it.
		{after: "append done", nth: 1, scripts: [][]llmtest.Step{call("first", "write", "c"), say("done")},
			want: []string{"operator: hi", "reply: first [write]", "tool: result of write", "reply: done"}, state: session.Succeeded, sent: 2, ran: 1},
		{after: "insert reply", nth: 1, scripts: [][]llmtest.Step{call("first", "write", "c"), say("done")},
			want: []string{"operator: hi", "reply: first [write]", "tool: result of write", "reply: done"}, state: session.Succeeded, sent: 2, ran: 1},
		{after: "start tool", nth: 1, scripts: [][]llmtest.Step{call("first", "write", "c"), say("done")},
			want: []string{"operator: hi", "reply: first [write]", "reply:"}, state: session.Failed, sent: 1, ran: 0},
		{after: "end tool", nth: 1, scripts: [][]llmtest.Step{call("first", "write", "c"), say("done")},
			want: []string{"operator: hi", "reply: first [write]", "tool: result of write", "reply: done"}, state: session.Succeeded, sent: 2, ran: 1},
		{after: "insert tool", nth: 1, scripts: [][]llmtest.Step{call("first", "write", "c"), say("done")},
			want: []string{"operator: hi", "reply: first [write]", "tool: result of write", "reply: done"}, state: session.Succeeded, sent: 2, ran: 1},
	} {
		t.Run("killed after "+c.after, func(t *testing.T) {
			write := &tool{name: "write"}
			w := newWorld(t, c.scripts...)
			w.cfg.Tools = toolbox(write)
			r := w.dies(c.after, c.nth)
			run := w.ended(r.RunID)
			if run.State != c.state {
				t.Errorf("the run is %s: %s", run.State, run.Reason)
			}
			w.expect(c.want...)
			w.sent(c.sent)
			if write.times() != c.ran {
				t.Errorf("the tool ran %d times, want %d", write.times(), c.ran)
			}
			last := w.attempts(r.RunID)[len(w.attempts(r.RunID))-1]
			if shown := strings.Contains(w.story(false), "answer") || strings.Contains(w.story(false), "partial"); shown &&
				(last.Evidence.Published.Text == 0 || last.OK != (run.State == session.Succeeded)) {
				t.Errorf("the attempt's record is %+v", last)
			}
			if run.State == session.Failed {
				if run.Failure.RetryClass != failure.Interrupted || run.Recovery.Auto || run.Recovery.ReplaySafe {
					t.Errorf("failure %+v, recovery %+v", run.Failure, run.Recovery)
				}
			}
			// Nothing is left to do, or to do again, after another restart.
			w.m.Close()
			w.start()
			w.expect(c.want...)
			w.sent(c.sent)
		})
	}
}

// What was decided about an attempt holds for whoever goes on after a crash: a failure that stays
// is not asked again, one that was handed over is left to the second tier, and nothing is sent
// before the time that the provider asked for. F20, K-010.
func TestDecisionAcrossCrash(t *testing.T) {
	limited := &failure.Failure{Class: failure.RateLimited, Retryable: true, Provider: "script", Message: "slow down",
		NotBefore: time.Now().Add(400 * time.Millisecond)}
	for name, c := range map[string]struct {
		first    error
		attempts int
		want     failure.Class // of the failed run; unknown: it succeeds
		sent     int
	}{
		"stays":           {&failure.Failure{Class: failure.InvalidRequest, Provider: "script", Message: "no"}, 2, failure.InvalidRequest, 1},
		"handed over":     {fail(failure.Overloaded).Err, 1, failure.Overloaded, 1},
		"asks for a wait": {limited, 2, failure.Unknown, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []llmtest.Step{llmtest.Fail(c.first)}, say("fine"))
			w.cfg.Policy.Tier1.Attempts = c.attempts
			run := w.ended(w.dies("decide", 1).RunID)
			if c.want == failure.Unknown && run.State != session.Succeeded ||
				c.want != failure.Unknown && (run.State != session.Failed || run.Failure.RetryClass != c.want) {
				t.Errorf("the run is %s: %+v", run.State, run.Failure)
			}
			w.sent(c.sent)
			if times := w.provider.Times(); len(times) == 2 && times[1].Before(limited.NotBefore) {
				t.Errorf("asked again %v before the provider's time", limited.NotBefore.Sub(times[1]))
			}
			if s := w.session().Schedule; name == "handed over" && (s == nil || s.State != session.ScheduleHeld && s.State != session.ScheduleArmed) {
				t.Errorf("schedule %+v", s)
			}
		})
	}
}

// A run that never comes to its end is not started for ever. What the last start has shown is
// kept all the same.
func TestClaimsAreBounded(t *testing.T) {
	for last, want := range map[string]struct {
		class failure.Class
		rows  []string
	}{
		"open attempt": {failure.Local, []string{"operator: hi", "reply:"}},
		"append":       {failure.Interrupted, []string{"operator: hi", "reply: partial (interrupted)"}},
	} {
		t.Run(last, func(t *testing.T) {
			w := newWorld(t, []llmtest.Step{llmtest.Text("partial"), {Stall: true}})
			var r session.Receipt
			for i, after := range []string{"open attempt", "open attempt", last} {
				d := newMortal(w, after, 1)
				w.startOn(d, d)
				if i == 0 {
					r = w.post("hi")
				}
				<-d.died
				w.m.Close()
			}
			w.start()
			run := w.ended(r.RunID)
			if run.State != session.Failed || run.Failure.RetryClass != want.class {
				t.Errorf("run %+v", run)
			}
			w.expect(want.rows...)
		})
	}
}

// A cancel that was stored before a crash, or that comes before its run is claimed again, ends
// the run, and what it had shown is kept. K-043, K-191.
func TestCancelAcrossCrash(t *testing.T) {
	scripts := [][]llmtest.Step{{llmtest.Text("partial"), {Stall: true}}, say("never")}
	check := func(w *world, run session.RunID) {
		w.t.Helper()
		if r := w.ended(run); r.State != session.Cancelled || r.CancelledBy != "ann" {
			w.t.Errorf("run %+v", r)
		}
		w.expect("operator: hi", "reply: partial (cancelled)")
		w.sent(1)
	}
	t.Run("before", func(t *testing.T) {
		w := newWorld(t, scripts...)
		d := newMortal(w, "ask to cancel", 1)
		w.startOn(d, d)
		o := w.watch("")
		r := w.post("hi")
		o.shows("partial")
		o.stop()
		if _, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); !errors.Is(err, errDead) {
			t.Errorf("cancel: %v", err)
		}
		w.m.Close()
		w.start()
		check(w, r.RunID)
	})
	t.Run("behind", func(t *testing.T) {
		w := newWorld(t, scripts...)
		slots := w.cfg.ConcurrentRuns
		d := newMortal(w, "append", 1)
		w.startOn(d, d)
		r := w.post("hi")
		<-d.died
		w.m.Close()
		w.cfg.ConcurrentRuns = 0
		w.start()
		if got, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); err != nil || !got.CancelRequested {
			t.Errorf("cancel: %+v, %v", got, err)
		}
		check(w, r.RunID)
		w.cfg.ConcurrentRuns = slots
	})
}

// K-010, K-030: a graceful stop ends runs that have shown something as interrupted, and
// queues the others again.
func TestGracefulStop(t *testing.T) {
	t.Run("shown", func(t *testing.T) {
		w := newWorld(t, []llmtest.Step{llmtest.Text("partial"), {Stall: true}}).start()
		o := w.watch("")
		r := w.post("hi")
		o.shows("partial")
		o.stop()
		w.m.Close()
		w.start()
		if run := w.ended(r.RunID); run.State != session.Failed || run.Failure.RetryClass != failure.Interrupted {
			t.Errorf("run %+v", run)
		}
		w.expect("operator: hi", "reply: partial (interrupted)")
		w.sent(1)
	})
	t.Run("not shown", func(t *testing.T) {
		w := newWorld(t, []llmtest.Step{{Stall: true}}, say("after")).start()
		o := w.watch("")
		r := w.post("hi")
		o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.State == session.Running })
		o.stop()
		w.m.Close()
		w.start()
		if run := w.ended(r.RunID); run.State != session.Succeeded {
			t.Errorf("run %+v", run)
		}
		w.expect("operator: hi", "reply: after")
	})
}

// A tool that was started before a crash: its outcome is unknown, the operator decides, and
// the run goes on from there. It is run again only where they say so. N66, K-195.
func TestUnknownOutcome(t *testing.T) {
	for how, want := range map[session.Resolution]struct {
		told string
		ran  int
	}{
		session.UseAsIs:  {"The server stopped while this ran. Whether it was done is not known.", 0},
		session.MarkDone: {"The server stopped while this ran. The operator has checked: it was done.", 0},
		session.RunAgain: {"result of write", 1},
	} {
		t.Run(string(how), func(t *testing.T) {
			write := &tool{name: "write"}
			w := newWorld(t, call("first", "write", "c"), say("done"))
			w.cfg.Tools = toolbox(write)
			run := w.ended(w.dies("start tool", 1).RunID)
			_, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, run.ID)
			refused(t, err, session.CodeEffectsNotConfirmed)
			c, err := w.m.ResolveCall(t.Context(), "ann", w.id, "c", how)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.m.ResolveCall(t.Context(), "bob", w.id, "c", session.MarkDone)
			refused(t, err, session.CodeConflict)
			r, err := w.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, run.ID)
			if err != nil {
				t.Fatal(err)
			}
			if again := w.ended(r.RunID); again.State != session.Succeeded || write.times() != want.ran {
				t.Errorf("%s: %v, ran %d times, call %+v", how, again.State, write.times(), c)
			}
			w.expect("operator: hi", "reply: first [write]", "tool: "+want.told, "reply: done")
		})
	}
}

// The end of a run may be gone from the log before its output is, which is then over all the same.
func TestOutputOutlivesItsEnd(t *testing.T) {
	w := newWorld(t, say("hello"), say("world")).start()
	w.ask("hi")
	if run := w.ask("again"); run.State != session.Succeeded {
		t.Fatalf("%+v", run)
	}
	w.m.Close()
	w.startOn(w.store, endless{w.log})
	t.Cleanup(func() { w.m.Close() })
	if n := w.m.Unended(); n != 0 {
		t.Errorf("the output of %d runs is taken for that of runs that go on", n)
	}
}

// endless is a log that has lost its lifecycle events.
type endless struct{ session.Log }

func (l endless) Follow(ctx context.Context, f func(session.Record) error, caughtUp func()) error {
	return l.Log.Follow(ctx, func(r session.Record) error {
		if r.Run == "" {
			return nil
		}
		return f(r)
	}, caughtUp)
}
