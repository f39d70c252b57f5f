package session_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// witness writes down what it is told, and panics where it should.
type witness struct {
	panics bool

	mu    sync.Mutex
	heard []string
	left  chan struct{}
}

func (w *witness) hear(what ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, strings.Join(what, " "))
	if w.panics {
		panic("the observer is broken")
	}
}

func (w *witness) Committed(_ context.Context, began time.Time, events []session.Event) {
	if began.IsZero() || time.Since(began) < 0 {
		w.hear("began at", began.String())
	}
	for _, e := range events {
		switch e.Type {
		case session.EventRun:
			w.hear("run", string(e.Run.State))
		case session.EventAttempt:
			w.hear("decided", e.Attempt.Decision.Verdict.String())
		case session.EventToolCall:
			w.hear("call", string(e.ToolCall.State))
		case session.EventMessage:
			w.hear("message", string(e.Message.Role))
		}
	}
}
func (w *witness) Opened(session.Attempt, time.Duration)      { w.hear("opened") }
func (w *witness) Marked(_ session.Attempt, r replay.Reasons) { w.hear("marked", r.String()) }
func (w *witness) Sealed(_ session.Attempt, s replay.Seal) {
	w.hear("sealed", map[bool]string{true: "ok", false: "broken"}[s.OK])
}
func (w *witness) Left(session.Run) {
	defer close(w.left)
	w.hear("left")
}

// restarting runs every transaction twice, as a store may that has lost to another: what the first
// try did is undone.
type restarting struct{ session.Store }

func (r restarting) Update(ctx context.Context, d session.Durability, f func(session.Tx) error) error {
	first := errors.New("again")
	if err := r.Store.Update(ctx, d, func(tx session.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return first
	}); err != first {
		return err
	}
	return r.Store.Update(ctx, d, f)
}

// F90, F22: an observer is told of a run from its queueing to its end, in order, with each
// attempt opened and sealed and each decision.
func TestObserver(t *testing.T) {
	o := &witness{left: make(chan struct{})}
	w := newWorld(t, overloaded, call("", "write", "c"), say("done"))
	w.cfg.Observer, w.cfg.Tools = o, toolbox(&tool{name: "write"})
	w.store = restarting{w.store}
	w.start()
	w.ask("hi")
	<-o.left
	want := []string{"message operator", "run queued", "run running", "opened", "sealed broken", "decided retry",
		"opened", "marked call_shown", "sealed ok", "message reply", "call started", "call ended", "message tool",
		"opened", "marked text_shown", "sealed ok", "message reply", "run succeeded", "left"}
	if !slices.Equal(o.heard, want) {
		t.Errorf("heard\n%s\nwant\n%s", strings.Join(o.heard, "\n"), strings.Join(want, "\n"))
	}
}

// What was not stored is not told.
func TestObserverHearsWhatIsStored(t *testing.T) {
	o := &witness{left: make(chan struct{})}
	w := newWorld(t, say("never"))
	w.cfg.Observer = o
	w.start()
	archived, model := true, "nobody/knows"
	if _, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Archived: &archived}); err != nil {
		t.Fatal(err)
	}
	_, err := w.m.Post(t.Context(), session.Act{Actor: "ann"}, w.id, nil, session.Routing{})
	refused(t, err, session.CodeValidation)
	_, err = w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Model: &model})
	refused(t, err, session.CodeValidation)
	if len(o.heard) != 0 {
		t.Errorf("heard %q", o.heard)
	}
}

// An observer that panics changes nothing for those it observes, and is in the log.
func TestObserverPanics(t *testing.T) {
	var log lockedBuffer
	o := &witness{left: make(chan struct{}), panics: true}
	w := newWorld(t, overloaded, say("done"))
	w.cfg.Observer, w.cfg.Log = o, slog.New(slog.NewTextHandler(&log, nil))
	w.start()
	if run := w.ask("hi"); run.State != session.Succeeded {
		t.Errorf("%+v", run)
	}
	<-o.left
	w.expect("operator: hi", "reply: done")
	if !strings.Contains(log.String(), "the observer is broken") {
		t.Errorf("the log says %q", log.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// What there is, counted.
func TestStanding(t *testing.T) {
	w := tier2(t, time.Hour, overloaded)
	w.cfg.Policy.Tier2.Cap = time.Hour
	w.start()
	o := w.watch("")
	defer o.stop()
	w.post("hi")
	o.schedule(session.ScheduleArmed)
	if err := w.m.AddViewer(t.Context(), w.id, "tab"); err != nil {
		t.Fatal(err)
	}
	before, err := w.m.Standing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := w.store.Update(t.Context(), session.Soft, func(tx session.Tx) error {
		for model, until := range map[string]time.Time{"script/a": now.Add(time.Hour), "script/b": now.Add(-time.Hour)} {
			if err := tx.PutCoolOff(recovery.CoolOff{Lane: recovery.Lane{Model: model}, Until: until}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s, err := w.m.Standing(t.Context())
	if err != nil || s.CoolingOff != before.CoolingOff+1 || s.Running+s.Queued != 0 || s.Schedules[session.ScheduleArmed] != 1 || s.Viewers != 2 || s.Streams != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := w.m.RemoveViewer(t.Context(), w.id, "tab"); err != nil {
		t.Fatal(err)
	}
	if s, err := w.m.Standing(t.Context()); err != nil || s.Viewers != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}
