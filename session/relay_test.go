package session_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// counting counts what is published, also what the log has already.
type counting struct {
	session.Log
	mu  sync.Mutex
	ids map[string]int
}

func (c *counting) Publish(ctx context.Context, s session.ID, id string, data []byte) error {
	c.mu.Lock()
	c.ids[id]++
	c.mu.Unlock()
	return c.Log.Publish(ctx, s, id, data)
}

// Each event is published by whoever has stored it: the others see it in the log, and need not.
func TestEachPublishesItsOwn(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		c := &counting{Log: w.log, ids: map[string]int{}}
		w.startOn(w.store, c)
		a := w.m
		defer a.Close()
		w.startOn(w.store, c)
		b := w.m
		defer b.Close()
		for range 5 {
			for _, m := range []*session.Manager{a, b} {
				r := w.postOn(m, "hi")
				w.ended(r.RunID)
				pass(10 * time.Millisecond)
			}
		}
		pass(3 * time.Second)
		twice := 0
		for _, n := range c.ids {
			if n > 1 {
				twice++
			}
		}
		if twice > len(c.ids)/10 {
			t.Errorf("%d of %d events were published twice", twice, len(c.ids))
		}
	}, answers(10, time.Millisecond)...)
}

// Two nodes change one session in turns, and each deletes what it has published: the session's order
// holds, and what a node has stored and not published, because it died, another one publishes.
func TestOrderOverNodes(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		d := newMortal(w, "", 0)
		w.startOn(d, d)
		a := w.m
		w.start()
		o := w.watch("")
		defer o.stop()
		rename := func(m *session.Manager, title string) {
			t.Helper()
			if _, err := m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Title: &title}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 40 {
			m := []*session.Manager{a, w.m}[i%2]
			rename(m, fmt.Sprint("title ", i))
			if i%7 == 0 {
				pass(time.Second)
			}
		}
		d.mute.Store(true) // it stores, and publishes nothing any more
		rename(a, "the last words")
		d.dead.Store(true)
		stored := time.Now()
		o.until(func(e session.Event) bool { return e.Session != nil && e.Session.Title == "the last words" })
		if took := time.Since(stored); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		rename(w.m, "and after them")
		o.until(func(e session.Event) bool { return e.Session != nil && e.Session.Title == "and after them" })
		a.Close()
	})
}

// slow takes its time with each event.
type slow struct{ session.Log }

func (s slow) Publish(ctx context.Context, id session.ID, event string, data []byte) error {
	select {
	case <-time.After(30 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Log.Publish(ctx, id, event, data)
}

// A node that stops does not go on for as long as others have something to tell.
func TestStopLeavesTheRest(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		w.startOn(w.store, slow{w.log})
		a := w.m
		w.startOn(w.store, slow{w.log}) // what it stores stays in the outbox for a while
		b := w.m
		defer b.Close()
		over := make(chan struct{})
		var others sync.WaitGroup
		defer others.Wait()
		defer close(over)
		others.Go(func() {
			for i := range 4000 {
				select {
				case <-time.After(5 * time.Millisecond):
				case <-over:
					return
				}
				title := fmt.Sprint("title ", i)
				if _, err := b.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Title: &title}); err != nil {
					t.Error(err)
				}
			}
		})
		pass(4 * time.Second)
		began := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it stopped after %v", took)
		}
	})
}

// A page goes on at another node after the last event that it has seen, without a snapshot, also where
// that node has not come so far yet.
func TestWatchGoesOnElsewhere(t *testing.T) {
	for name, behind := range map[string]bool{"as far": false, "behind": true} {
		t.Run(name, func(t *testing.T) {
			nodes(t, func(t *testing.T, w *world) {
				a, b := w.gated(""), w.gated("")
				if behind {
					synctest.Wait()
					b.pause()
				}
				w.m = a.m
				o := w.watch("")
				r := w.postOn(a.m, "hi")
				o.shows("one ")
				o.stop()
				w.m = b.m
				next := w.watch(o.last)
				defer next.stop()
				if behind {
					pass(100 * time.Millisecond)
					b.resume()
				}
				next.shows("three")
				for _, e := range next.seen {
					if e.Snapshot != nil {
						t.Error("it got a snapshot")
					}
				}
				if got := o.fold(r.RunID) + next.fold(r.RunID); got != "one two three" {
					t.Errorf("shown: %q", got)
				}
				w.ended(r.RunID)
			}, []llmtest.Step{llmtest.Text("one "), {Wait: 200 * time.Millisecond, Event: llm.Event{Kind: llm.EventPing}}, llmtest.Text("two "),
				{Wait: 200 * time.Millisecond, Event: llm.Event{Kind: llm.EventPing}}, llmtest.Text("three"), llmtest.Done(llm.StopEnd)})
		})
	}
}
