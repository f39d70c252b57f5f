package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// observer watches one session as a page does, through lost connections and restarts, and
// notes whatever an observer must never see: a gap, a repetition, something taken back.
type observer struct {
	t    testing.TB
	id   session.ID
	stop func() // ends the watch, and returns after it

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	after   string        // id of the last event
	events  []session.Event
	steps   map[stepOf]*streamed
	faults  []string
}

type stepOf struct {
	run  session.RunID
	step int
}

// streamed is what was seen of one step.
type streamed struct {
	text       strings.Builder
	attempt    session.AttemptID
	generation int64
	seq        int64
	done       bool // its terminal event came
	cut        bool // its interruption came
}

// watch starts to observe a session, and returns once it does.
func watch(s *server, id session.ID) *observer {
	s.t.Helper()
	o := &observer{t: s.t, id: id, changed: make(chan struct{}), steps: map[stepOf]*streamed{}}
	o.follow(s)
	o.await("snapshot", func(e *session.Event) bool { return e.Snapshot != nil })
	return o
}

// follow goes on watching, at a server that was started again.
func (o *observer) follow(s *server) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	o.stop = func() { cancel(); <-over }
	o.t.Cleanup(o.stop)
	w := session.Watch{Session: o.id, After: o.after}
	c := *s.Client
	go func() {
		defer close(over)
		if err := c.Watch(ctx, w, o.frame); ctx.Err() == nil {
			o.t.Errorf("watch: %v", err)
		}
	}()
}

func (o *observer) frame(f session.Frame) error {
	var e session.Event
	if err := json.Unmarshal(f.Data, &e); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.ID != "" {
		o.after = f.ID
	}
	o.events = append(o.events, e)
	switch {
	case e.Output != nil:
		o.output(e.Output)
	case e.Snapshot != nil:
		o.snapshot(e.Snapshot)
	case e.Message != nil:
		o.message(e.Message)
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return nil
}

func (o *observer) fault(format string, args ...any) {
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

func (o *observer) step(run session.RunID, step int) *streamed {
	at := stepOf{run, step}
	if o.steps[at] == nil {
		o.steps[at] = &streamed{}
	}
	return o.steps[at]
}

func (o *observer) output(out *session.Output) {
	s := o.step(out.RunID, out.Step)
	if s.attempt != "" && s.attempt != out.AttemptID && s.text.Len() > 0 {
		o.fault("attempt %s goes on with step %d, of which %s had shown text", out.AttemptID, out.Step, s.attempt)
	}
	if out.Generation == s.generation && s.seq != 0 && out.Seq != s.seq+1 {
		o.fault("output %d follows %d", out.Seq, s.seq)
	}
	s.attempt, s.generation, s.seq = out.AttemptID, out.Generation, out.Seq
	for i := range out.Events {
		e := &out.Events[i]
		if s.done || s.cut {
			o.fault("%s after the end of step %d", e.Kind, out.Step)
		}
		switch e.Kind {
		case llm.EventText:
			s.text.WriteString(e.Text)
		case llm.EventDone:
			s.done = true
		case llm.EventInterrupted:
			s.cut = true
		}
	}
}

// snapshot takes the place of all that was seen: it must hold it.
func (o *observer) snapshot(snap *session.Snapshot) {
	for i := range snap.Messages {
		o.message(&snap.Messages[i])
	}
	out := snap.Output
	if out == nil {
		return
	}
	var whole llm.Output
	fresh := &streamed{attempt: out.AttemptID, generation: out.Generation, seq: out.Seq}
	for i := range out.Events {
		whole.Add(&out.Events[i])
		fresh.done = fresh.done || out.Events[i].Kind == llm.EventDone
		fresh.cut = fresh.cut || out.Events[i].Kind == llm.EventInterrupted
	}
	fresh.text.WriteString(textOf(whole.Parts()))
	if seen := o.step(out.RunID, out.Step).text.String(); !strings.HasPrefix(fresh.text.String(), seen) {
		o.fault("the snapshot of step %d has lost what was shown: %q, then %q", out.Step, seen, fresh.text.String())
	}
	o.steps[stepOf{out.RunID, out.Step}] = fresh
}

// message replaces what was streamed of its step: it must extend it.
func (o *observer) message(m *session.Message) {
	if m.Role != session.RoleReply {
		return
	}
	seen := o.step(m.RunID, m.Step).text.String()
	if text := textOf(m.Parts); !strings.HasPrefix(text, seen) {
		o.fault("the message of step %d has lost what was shown: %q, then %q", m.Step, seen, text)
	}
}

// shown is the text of a run's step that was streamed so far.
func (o *observer) shown(run session.RunID, step int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.step(run, step).text.String()
}

// await returns the first event, also of the past, that satisfies the condition.
func (o *observer) await(what string, condition func(*session.Event) bool) session.Event {
	o.t.Helper()
	return o.within(patience, what, condition)
}

// within is await for what takes its time.
func (o *observer) within(d time.Duration, what string, condition func(*session.Event) bool) session.Event {
	o.t.Helper()
	late := time.After(d)
	for seen := 0; ; {
		o.mu.Lock()
		events, changed := o.events, o.changed
		o.mu.Unlock()
		for ; seen < len(events); seen++ {
			if condition(&events[seen]) {
				return events[seen]
			}
		}
		select {
		case <-changed:
		case <-late:
			o.t.Fatalf("no %s among %d events", what, seen)
		}
	}
}

// end waits for a run's end.
func (o *observer) end(run session.RunID) session.Run {
	o.t.Helper()
	var r session.Run
	o.await("end of the run", func(e *session.Event) bool {
		switch {
		case e.Run != nil && e.Run.ID == run && e.Run.State.Terminal():
			r = *e.Run
		case e.Snapshot != nil && e.Snapshot.Session.LastRun != nil && e.Snapshot.Session.LastRun.ID == run && e.Snapshot.Session.LastRun.State.Terminal():
			r = *e.Snapshot.Session.LastRun
		}
		return r.ID != ""
	})
	return r
}

// text waits until a step shows at least n bytes.
func (o *observer) text(run session.RunID, n int) {
	o.t.Helper()
	o.await("text", func(*session.Event) bool { return len(o.shown(run, 0)) >= n })
}

// check reports what no observer may see.
func (o *observer) check() {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.faults {
		o.t.Error(f)
	}
}
