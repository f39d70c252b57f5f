package session_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

var errAway = errors.New("the database is away")

// outage is a store that fails at the first update with a certain write, and for some updates
// after it.
type outage struct {
	session.Store
	at    string
	stays bool // that update is stored: only its answer is lost
	reads bool // nothing else fails than updates

	mu    sync.Mutex
	left  int // updates that fail from its beginning on
	began chan struct{}
}

func newOutage(w *world, at string, updates int) *outage {
	return &outage{Store: w.store, at: at, left: updates, began: make(chan struct{})}
}

func (o *outage) has(began bool) bool {
	select {
	case <-o.began:
		return began
	default:
		return !began
	}
}

func (o *outage) Update(ctx context.Context, d session.Durability, f func(tx session.Tx) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.has(true) && o.left > 0 {
		o.left--
		return errAway
	}
	hit := false
	err := o.Store.Update(ctx, d, func(tx session.Tx) error {
		var ops []string
		if err := f(telltale{tx, &ops}); err != nil {
			return err
		}
		if hit = o.has(false) && slices.Contains(ops, o.at); hit && !o.stays {
			return errAway
		}
		return nil
	})
	if hit {
		close(o.began)
		return errAway
	}
	return err
}

func (o *outage) View(ctx context.Context, f func(tx session.ReadTx) error) error {
	o.mu.Lock()
	gone := !o.reads && o.has(true) && o.left > 0
	o.mu.Unlock()
	if gone {
		return errAway
	}
	return o.Store.View(ctx, f)
}

// end waits for the end of a run.
func (o *observer) end(run session.RunID) session.Run {
	e := o.until(func(e session.Event) bool { return e.Run != nil && e.Run.ID == run && e.Run.State.Terminal() })
	return *e.Run
}

// A store that fails for a while when a row or the end of a run is stored, also where it has stored
// that and could not say so, delays the run and changes nothing else.
func TestOutage(t *testing.T) {
	for _, at := range []string{"insert reply", "insert tool", "end run"} {
		for _, stays := range []bool{false, true} {
			t.Run(at+map[bool]string{false: ", not stored", true: ", answer lost"}[stays], func(t *testing.T) {
				write := &tool{name: "write"}
				w := newWorld(t, call("first", "write", "c"), say("done"))
				w.cfg.Tools = toolbox(write)
				st := newOutage(w, at, 3)
				st.stays = stays
				w.startOn(st, w.log)
				t.Cleanup(func() { w.m.Close() })
				o := w.watch("")
				defer o.stop()
				run := o.end(w.post("hi").RunID)
				<-st.began
				if run.State != session.Succeeded || write.times() != 1 {
					t.Errorf("%+v, the tool ran %d times", run, write.times())
				}
				w.expect("operator: hi", "reply: first [write]", "tool: result of write", "reply: done")
				w.sent(2)
			})
		}
	}
}

// The failure of a run is stored, and its retry armed, when the store is back; meanwhile it is
// counted as what it is.
func TestOutageAtFailure(t *testing.T) {
	w := tier2(t, time.Hour, overloaded)
	w.cfg.Policy.Tier2.Cap = time.Hour
	st := newOutage(w, "end run", 4)
	w.startOn(st, w.log)
	t.Cleanup(func() { w.m.Close() })
	o := w.watch("")
	defer o.stop()
	r := w.post("hi")
	<-st.began
	if s, _ := w.m.Standing(t.Context()); s.Unstored > 1 {
		t.Errorf("%+v", s)
	}
	if run := o.end(r.RunID); run.State != session.Failed || run.Failure.RetryClass != failure.Overloaded {
		t.Errorf("%+v", run)
	}
	if s := w.session().Schedule; s == nil || s.State != session.ScheduleArmed {
		t.Errorf("%+v", s)
	}
	w.sent(1)
}

// The operator's stop ends a run whose reply cannot be stored, and a shutdown leaves it to the next
// process. What was shown is kept.
func TestStopInOutage(t *testing.T) {
	t.Run("stop", func(t *testing.T) {
		w := newWorld(t, say("shown"))
		st := newOutage(w, "insert reply", 0) // fails once: the stop is stored before the next try
		w.startOn(st, w.log)
		t.Cleanup(func() { w.m.Close() })
		o := w.watch("")
		defer o.stop()
		r := w.post("hi")
		<-st.began
		asked, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if run := o.end(r.RunID); asked.CancelRequested && run.State != session.Cancelled {
			t.Errorf("%+v", run)
		}
		if rows := w.messages(false); len(rows) != 2 || rows[1].Parts[0].Text != "shown" {
			t.Errorf("%+v", rows)
		}
	})
	t.Run("shutdown", func(t *testing.T) {
		w := newWorld(t, say("shown"))
		st := newOutage(w, "insert reply", 1<<30)
		w.startOn(st, w.log)
		r := w.post("hi")
		<-st.began
		w.m.Close()
		w.start()
		if run := w.ended(r.RunID); run.State != session.Succeeded {
			t.Errorf("%+v", run)
		}
		w.expect("operator: hi", "reply: shown")
		w.sent(1)
	})
}

// What an earlier process has shown is judged when the store is back, not lost.
func TestOutageAtJudgement(t *testing.T) {
	for after, want := range map[string][]string{
		"append":      {"operator: hi", "reply: partial (interrupted)"},
		"append done": {"operator: hi", "reply: partial"},
	} {
		t.Run(after, func(t *testing.T) {
			steps := []llmtest.Step{llmtest.Text("partial"), {Wait: time.Millisecond, Event: llm.Event{Kind: llm.EventPing}}, llmtest.Done(llm.StopEnd)}
			w := newWorld(t, steps)
			d := newMortal(w, after, 1)
			w.startOn(d, d)
			r := w.post("hi")
			<-d.died
			w.m.Close()
			st := newOutage(w, map[string]string{"append": "amend", "append done": "insert reply"}[after], 2)
			st.reads = true // an observer begins
			w.startOn(st, w.log)
			t.Cleanup(func() { w.m.Close() })
			o := w.watch("")
			defer o.stop()
			o.until(func(e session.Event) bool {
				run := e.Run
				if e.Snapshot != nil {
					run = e.Snapshot.Session.LastRun
				}
				return run != nil && run.ID == r.RunID && run.State.Terminal()
			})
			w.expect(want...)
			w.sent(1)
		})
	}
}

// Restarts do not add up over the steps of a run: each may be begun three times.
func TestClaimsBeginAnewWithEachStep(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, call("first", "write", "a"), call("second", "write", "b"), call("third", "write", "c"), say("done"))
	w.cfg.Tools = toolbox(write)
	var r session.Receipt
	for i := range 4 {
		d := newMortal(w, "insert tool", 1)
		if i == 3 {
			d = newMortal(w, "open attempt", 1)
		}
		w.startOn(d, d)
		if i == 0 {
			r = w.post("hi")
		}
		<-d.died
		w.m.Close()
	}
	w.start()
	if run := w.ended(r.RunID); run.State != session.Succeeded || write.times() != 3 {
		t.Errorf("%+v, the tool ran %d times", run, write.times())
	}
	w.expect("operator: hi", "reply: first [write]", "tool: result of write", "reply: second [write]",
		"tool: result of write", "reply: third [write]", "tool: result of write", "reply: done")
}
