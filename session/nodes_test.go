package session_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// A node dies, and another one takes its runs over within five seconds. What becomes of each is decided
// by what the ledger and the log have of it: DESIGN section 4, over two nodes.
func TestTakeOver(t *testing.T) {
	for name, c := range map[string]struct {
		after   string // the dead node's last operation
		scripts [][]llmtest.Step
		want    []string
		state   session.RunState
		sent    int
	}{
		"clean": {"open attempt", [][]llmtest.Step{say("fine")},
			[]string{"operator: hi", "reply: fine"}, session.Succeeded, 1},
		"marked": {"mark", [][]llmtest.Step{say("shown?")},
			[]string{"operator: hi", "reply:"}, session.Failed, 1},
		"published": {"append", [][]llmtest.Step{{llmtest.Text("partial"), {Stall: true}}},
			[]string{"operator: hi", "reply: partial (interrupted)"}, session.Failed, 1},
		"whole": {"append done", [][]llmtest.Step{say("fine")},
			[]string{"operator: hi", "reply: fine"}, session.Succeeded, 1},
		"tool started": {"start tool", [][]llmtest.Step{call("first", "write", "c"), say("done")},
			[]string{"operator: hi", "reply: first [write]", "reply:"}, session.Failed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			nodes(t, func(t *testing.T, w *world) {
				write := &tool{name: "write"}
				w.cfg.Tools = toolbox(write)
				d := newMortal(w, c.after, 1)
				w.startOn(d, d)
				first := w.m
				w.start()
				r := w.postOn(first, "hi")
				<-d.died
				died := time.Now()
				run := w.ended(r.RunID)
				if took := time.Since(died); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				if run.State != c.state || run.Claims != 2 {
					t.Errorf("run %+v", run)
				}
				w.expect(c.want...)
				w.sent(c.sent)
				if c.state == session.Failed && (run.Failure.RetryClass != failure.Interrupted || run.Recovery.Auto) {
					t.Errorf("failure %+v, recovery %+v", run.Failure, run.Recovery)
				}
				if name == "tool started" {
					if got := w.states(); got != "c unknown" || write.times() != 0 {
						t.Errorf("calls: %s; the tool ran %d times", got, write.times())
					}
				}
				first.Close()
			}, c.scripts...)
		})
	}
}

// A node that was paused past its lease wakes up: it publishes nothing, asks nobody, starts no tool,
// decides nothing and complains of nothing, and what it had begun ends.
func TestPausedNodeWakesUp(t *testing.T) {
	for name, c := range map[string]struct {
		after   string // it is paused after this; empty: when the provider was asked
		scripts [][]llmtest.Step
		want    []string
		sent    int
	}{
		"before its request": {"open attempt", [][]llmtest.Step{say("fine"), say("never")},
			[]string{"operator: hi", "reply: fine"}, 1},
		"while it waits": {"", [][]llmtest.Step{{{Stall: true}}, say("fine")},
			[]string{"operator: hi", "reply: fine"}, 2},
		"before it publishes": {"mark", [][]llmtest.Step{say("never"), say("never")},
			[]string{"operator: hi", "reply:"}, 1},
		"before its tool": {"insert reply", [][]llmtest.Step{call("first", "write", "c"), say("done")},
			[]string{"operator: hi", "reply: first [write]", "tool: result of write", "reply: done"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			nodes(t, func(t *testing.T, w *world) {
				write := &tool{name: "write"}
				w.cfg.Tools, w.cfg.Grace = toolbox(write), time.Hour
				a := w.gated(c.after)
				w.start()
				r := w.postOn(a.m, "hi")
				if c.after != "" {
					<-a.shut
				} else {
					synctest.Wait()
					a.pause()
				}
				run := w.ended(r.RunID)
				before := len(w.log.(interface{ Records() []session.Record }).Records())
				a.resume()
				pass(2 * time.Second)
				w.closes(a.m)
				w.expect(c.want...)
				w.sent(c.sent)
				if after := len(w.log.(interface{ Records() []session.Record }).Records()); after != before {
					t.Errorf("it has published %d records", after-before)
				}
				if list := w.attempts(run.ID); list[0].Decision != nil {
					t.Errorf("it has decided %+v", list[0].Decision)
				}
				if name == "before its tool" && write.times() != 1 {
					t.Errorf("the tool ran %d times", write.times())
				}
			}, c.scripts...)
		})
	}
}

// Whoever was cut off from the store, or paused, judges nobody until it has been back for a whole
// lease: when the store comes back nobody takes runs from anybody, although one node is back first.
func TestStoreIsAway(t *testing.T) {
	for name, c := range map[string]struct{ gone, back func(g *gate) }{
		"it does not answer": {(*gate).pause, (*gate).resume},
		"it fails":           {func(g *gate) { g.set(func() { g.away = true }) }, func(g *gate) { g.set(func() { g.away = false }) }},
	} {
		t.Run(name, func(t *testing.T) {
			nodes(t, func(t *testing.T, w *world) {
				a, b := w.gated(""), w.gated("")
				r := w.postOn(a.m, "hi")
				w.m = b.m
				q := w.postAll(b.m, 1)[0]
				synctest.Wait()
				c.gone(b)
				pass(600 * time.Millisecond) // so that the last sign of it is seen
				c.gone(a)
				pass(time.Minute)
				c.back(a)
				pass(1900 * time.Millisecond)
				c.back(b)
				pass(20 * time.Second)
				w.m = a.m
				for _, id := range []session.RunID{r.RunID, q} {
					if run := w.ended(id); run.State != session.Succeeded || run.Claims != 1 {
						t.Errorf("run %+v", run)
					}
				}
			}, answers(2, 80*time.Second)...)
		})
	}
}

// late is a store that another node is quicker to reach, just as this one is about to bury it.
type late struct {
	session.Store
	before func() // is called once
}

func (l *late) Update(ctx context.Context, d session.Durability, f func(tx session.Tx) error) error {
	err := l.Store.Update(ctx, d, func(tx session.Tx) error {
		var ops []string
		if err := f(telltale{tx, &ops}); err != nil {
			return err
		}
		if l.before != nil && slices.Contains(ops, "bury") {
			return errDead
		}
		return nil
	})
	if errors.Is(err, errDead) {
		l.before()
		l.before = nil
		return l.Store.Update(ctx, d, f)
	}
	return err
}

// A node that gives a sign of life before it is taken for dead keeps its runs.
func TestLastMoment(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		a := w.gated("")
		came := false
		w.startOn(&late{w.store, func() { a.resume(); pass(600 * time.Millisecond); came = true }}, w.log)
		defer w.m.Close()
		r := w.postOn(a.m, "hi")
		synctest.Wait()
		a.pause()
		if run := w.ended(r.RunID); !came || run.State != session.Succeeded || run.Claims != 1 {
			t.Errorf("%v, run %+v", came, run)
		}
	}, answers(1, 10*time.Second)...)
}

// A cancel that is asked for at one node ends the run that another one carries out at once; where the
// log does not bring it, with the next look.
func TestCancelElsewhere(t *testing.T) {
	for name, within := range map[string]time.Duration{"by the log": 0, "by the next look": time.Second} {
		t.Run(name, func(t *testing.T) {
			nodes(t, func(t *testing.T, w *world) {
				a := w.gated("")
				w.start()
				o := w.watch("")
				r := w.postOn(a.m, "hi")
				o.shows("partial")
				o.stop()
				a.set(func() { a.deaf = within > 0 })
				asked := time.Now()
				if _, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); err != nil {
					t.Fatal(err)
				}
				run := w.ended(r.RunID)
				if took := time.Since(asked); run.State != session.Cancelled || run.Claims != 1 || took > within {
					t.Errorf("after %v: %+v", took, run)
				}
				w.expect("operator: hi", "reply: partial (cancelled)")
			}, []llmtest.Step{llmtest.Text("partial"), {Stall: true}})
		})
	}
}

// An answer about a tool call that is given at one node wakes the run at another.
func TestAnswerElsewhere(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		write := &tool{name: "write"}
		w.cfg.Tools = toolbox(asking(write))
		a := w.gated("")
		w.start()
		r := w.postOn(a.m, "hi")
		w.until("c asked")
		pass(time.Minute + 700*time.Millisecond)
		asked := time.Now()
		w.approve("c")
		if run := w.ended(r.RunID); run.State != session.Succeeded || run.Claims != 1 || time.Since(asked) > 0 || write.times() != 1 {
			t.Errorf("after %v: %+v", time.Since(asked), run)
		}
	}, call("first", "write", "c"), say("done"))
}

// What is done at one node holds at all: a message that waits is sent at the other, which edits and
// starts it, regenerates and resumes; the same counts are told everywhere.
func TestVerbsElsewhere(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		a := w.gated("")
		w.start()
		b := w.m
		first := w.postOn(a.m, "one")
		second := w.postOn(b, "two")
		if second.State != "pending" {
			t.Fatalf("%+v", second)
		}
		if _, err := b.SendNow(t.Context(), "ann", w.id, second.MessageID); err != nil {
			t.Fatal(err)
		}
		w.ended(first.RunID)
		w.ended(second.RunID)
		again, err := b.Regenerate(t.Context(), session.Act{Actor: "ann"}, w.id, second.MessageID, session.RegenerateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		failed := w.ended(again.RunID)
		w.m = a.m
		resumed, err := a.m.Resume(t.Context(), session.Act{Actor: "ann"}, w.id, failed.ID)
		if err != nil {
			t.Fatal(err)
		}
		w.ended(resumed.RunID)
		w.expect("operator: one", "reply: first", "operator: two", "reply: resumed")
	}, []llmtest.Step{{Wait: time.Second, Event: llm.Event{Kind: llm.EventPing}}, llmtest.Text("first"), llmtest.Done(llm.StopEnd)}, say("second"),
		[]llmtest.Step{llmtest.Text("broken"), fail(failure.StreamInterrupted)}, say("resumed"))
}

// All nodes together run no more than the cap allows, and whoever frees a slot fills it.
func TestCapOverNodes(t *testing.T) {
	steady := func(text string) []llmtest.Step {
		return []llmtest.Step{{Wait: time.Second, Event: llm.Event{Kind: llm.EventPing}}, llmtest.Text(text), llmtest.Done(llm.StopEnd)}
	}
	nodes(t, func(t *testing.T, w *world) {
		w.cfg.ConcurrentRuns = 2
		a := w.gated("")
		w.start()
		b := w.m
		var runs []session.RunID
		for i := range 6 {
			m := []*session.Manager{a.m, b}[i%2]
			r, err := m.Post(t.Context(), session.Act{Actor: "ann"}, w.another(), []llm.Part{llm.Text("hi")}, session.Routing{})
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, r.RunID)
		}
		began := time.Now()
		for range 29 {
			pass(100 * time.Millisecond)
			for _, m := range []*session.Manager{a.m, b} {
				if sys, err := m.System(t.Context()); err != nil || sys.Running != 2 {
					t.Fatalf("%+v, %v", sys, err)
				}
			}
		}
		for _, id := range runs {
			w.ended(id)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	}, steady("1"), steady("2"), steady("3"), steady("4"), steady("5"), steady("6"))
}

// K-124: a retry that is due starts while somebody watches at any node. Who leaves is gone at once; who
// watched at a node that died, with its lease.
func TestWatchedElsewhere(t *testing.T) {
	fails := []llmtest.Step{llmtest.Fail(fail(failure.Overloaded).Err)}
	nodes(t, func(t *testing.T, w *world) {
		w.cfg.Policy = recovery.DefaultPolicy()
		w.cfg.Policy.Tier1.Attempts = 1
		w.cfg.Policy.Tier2.Base = time.Minute
		w.cfg.Policy.Tier2.Cap = time.Minute
		a := w.gated("")
		b := w.gated("")
		there := func(want session.ScheduleState, reason string) {
			t.Helper()
			synctest.Wait()
			w.m = a.m
			if s := w.session().Schedule; s == nil || s.State != want || s.HoldReason != reason {
				t.Errorf("after %v: %+v, want %s %s", time.Now(), s, want, reason)
			}
		}
		w.m = b.m
		o := w.watch("")
		w.postOn(a.m, "hi")
		pass(59 * time.Second)
		there(session.ScheduleArmed, "")
		pass(2 * time.Second) // it has started, and failed
		w.sent(2)
		there(session.ScheduleArmed, "")
		o.stop()
		pass(time.Minute)
		there(session.ScheduleHeld, session.HoldNobody)
		w.m = b.m
		o = w.watch("")
		there(session.ScheduleArmed, "")
		pass(11 * time.Second)
		w.sent(3)
		b.pause() // it dies with its viewer
		pass(61 * time.Second)
		there(session.ScheduleHeld, session.HoldNobody)
		w.sent(3)
		b.resume() // it was only paused
		pass(time.Second)
		there(session.ScheduleArmed, "")
		if err := w.store.View(t.Context(), func(tx session.ReadTx) error {
			viewers, err := tx.Watched(session.At(time.Now()))
			if len(viewers) != 1 || viewers[0].SessionID != w.id {
				t.Errorf("watched by %+v", viewers)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		o.stop()
	}, fails, fails, fails, fails)
}

// K-155: runs at two nodes keep one cap on cost, and what is changed at one node holds at the other in
// the next transaction.
func TestLimitsOverNodes(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		w.facts = priced()
		w.cfg.Override = func(set map[string]string) session.Live {
			live := session.Live{Policy: w.cfg.Policy, Spend: session.Limits{Day: 2_000_000}}
			if set["spend.day"] == "more" {
				live.Spend.Day = 9_000_000
			}
			return live
		}
		a := w.gated("")
		w.start()
		b := w.m
		o := w.watch("")
		w.postOn(a.m, "hi")
		o.shows("first")
		o.stop()
		w.id = w.another()
		limited(t, w, w.ended(w.postOn(b, "hi").RunID), "day_limit", "The day has a limit of $0.002, of which $0.00097 is left.")
		w.sent(1)
		if _, err := a.m.Override(t.Context(), "ann", map[string]string{"spend.day": "more"}, nil, func(map[string]string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if run := w.ended(w.postOn(b, "again").RunID); run.State != session.Succeeded {
			t.Errorf("%s: %+v", run.State, run.Failure)
		}
	}, []llmtest.Step{llmtest.Text("first"), {Stall: true}}, used("later", 20, 3))
}

// A lane that rests because of what one node was told rests at all of them, and the counts say so
// everywhere within a sweep.
func TestCoolOffOverNodes(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		a := w.gated("")
		w.start()
		o := w.watch("")
		defer o.stop()
		until := time.Now().Add(time.Hour)
		lane := recovery.CoolOff{Candidate: recovery.Candidate{Provider: "script", Model: "model", Key: "key"},
			Lane: recovery.Lane{Key: "hash"}, Reason: failure.RateLimited, Until: until}
		if err := a.m.Credentials().CoolOff(t.Context(), lane); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		if offs, err := w.m.Credentials().CoolOffs(t.Context()); err != nil || len(offs) != 1 {
			t.Errorf("%+v, %v", offs, err)
		}
		o.until(func(e session.Event) bool { return e.System != nil && len(e.System.CoolOffs) == 1 })
		if took := time.Since(asked); took > 2200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}
