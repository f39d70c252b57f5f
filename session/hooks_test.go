package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// staff are hooks that note what they are told.
type staff struct {
	effect  []session.HookEvent // the hook "notify" is told of these, and has an effect
	observe []session.HookEvent // the hook "look" is told of these
	tell    func(session.Notice)

	mu   sync.Mutex
	told []session.Notice
}

func (s *staff) Asks(e session.HookEvent) (any bool, effects []string) {
	if slices.Contains(s.effect, e) {
		return true, []string{"notify"}
	}
	return slices.Contains(s.observe, e), nil
}

func (s *staff) Tell(n session.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, n)
	if s.tell != nil {
		s.tell(n)
	}
}

// heard lists the events so far.
func (s *staff) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, n := range s.told {
		list = append(list, string(n.Event))
	}
	return strings.Join(list, " ")
}

// everyEvent is each that may be told to a hook with an effect.
func everyEvent() (list []session.HookEvent) {
	for _, h := range session.HookEvents {
		if !h.Foretells {
			list = append(list, h.Event)
		}
	}
	return list
}

var tooMany = []llmtest.Step{llmtest.Fail(&failure.Failure{Class: failure.RateLimited, Retryable: true, Status: 429, Provider: "script", Message: "the provider's words"})}

// F10, N22, N38, N39: a hook with an effect that runs for an attempt, as it opens, as a retry
// opens, or as its failure is told, vetoes the repetition of that attempt and of no other. The
// same hook declared to observe vetoes nothing, nor does one that was only registered.
func TestHookVetoes(t *testing.T) {
	for name, c := range map[string]struct {
		staff *staff
		sent  int
		state session.RunState
	}{
		"N22 as the attempt opens":                      {&staff{effect: []session.HookEvent{session.HookAttemptOpened}}, 1, session.Failed},
		"N38 as the retry opens, then a second failure": {&staff{effect: []session.HookEvent{session.HookRetryStarted}}, 2, session.Failed},
		"N39 as the failure is told":                    {&staff{effect: []session.HookEvent{session.HookAttemptFailed}}, 1, session.Failed},
		"F10 registered, and not told":                  {&staff{effect: []session.HookEvent{session.HookToolStarted, session.HookRunCancelled}}, 3, session.Succeeded},
		"F10 declared to observe":                       {&staff{observe: append(everyEvent(), session.HookRetryWaiting)}, 3, session.Succeeded},
		"nobody":                                        {nil, 3, session.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tooMany, tooMany, say("there"))
			if c.staff != nil {
				w.cfg.Hooks = c.staff
			}
			w.start()
			run := w.ask("hi")
			w.sent(c.sent)
			if run.State != c.state {
				t.Errorf("the run is %s: %s", run.State, run.Reason)
			}
			attempts := w.attempts(run.ID)
			if c.state == session.Succeeded {
				for _, a := range attempts {
					if a.Evidence.Marks&replay.HookRan != 0 || len(a.Hooks) != 0 {
						t.Errorf("attempt %d is marked: %+v", a.Number, a.Evidence)
					}
				}
				return
			}
			last := attempts[len(attempts)-1]
			if d := last.Decision; d.Verdict.String() != "stop" || d.Rule != "not_safe" || !d.Eligible || d.Evidence != replay.HookRan {
				t.Errorf("decided %+v", d)
			}
			if len(last.Hooks) != 1 || last.Hooks[0].Hook != "notify" || last.Hooks[0].Event != c.staff.effect[0] {
				t.Errorf("hooks %+v", last.Hooks)
			}
			if r := run.Recovery; r.ReplaySafe || r.Auto || r.Reason != "not_safe" || r.Evidence != replay.HookRan || !slices.Equal(r.Hooks, []string{"notify"}) {
				t.Errorf("recovery %+v", r)
			}
			if s := w.session().Schedule; s == nil || s.State != session.ScheduleNever {
				t.Errorf("schedule %+v", s)
			}
		})
	}
}

// A hook that is told of a run's failure, or start, is evidence of the run: the second tier does
// not repeat it by itself, while the first tier, whose attempts it was not told of, goes on. One
// that observes lets both.
func TestHookOfARun(t *testing.T) {
	for _, e := range []session.HookEvent{session.HookRunStarted, session.HookRunFailed} {
		for _, observes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s observes %v", e, observes), func(t *testing.T) {
				w := tier2(t, time.Millisecond, tooMany, tooMany, say("there"))
				w.cfg.Policy.Tier1.Attempts = 2
				s := &staff{effect: []session.HookEvent{e}}
				if observes {
					s.effect, s.observe = nil, s.effect
				}
				w.cfg.Hooks, w.cfg.Unattended = s, true
				w.start()
				o := w.watch("")
				defer o.stop()
				run := w.ended(w.post("hi").RunID)
				if observes {
					o.until(func(e session.Event) bool { return e.Type == session.EventRun && e.Run.State == session.Succeeded })
					w.sent(3)
					return
				}
				never := o.schedule(session.ScheduleNever)
				w.sent(2)
				if never.ReplaySafe || never.Evidence != replay.HookRan || never.Reason != "not_safe" || !slices.Equal(run.Recovery.Hooks, []string{"notify"}) {
					t.Errorf("%+v, %+v", never, run.Recovery)
				}
				if n := s.told[0]; s.heard() != string(e) || n.Scope.Run != string(run.ID) || n.Run.State != run.State && e == session.HookRunFailed {
					t.Errorf("told %s, %+v", s.heard(), n)
				}
			})
		}
	}
}

// N37's neighbour: what hooks did in a step that is committed forbids to repeat the run, and does
// not forbid to go on after that step.
func TestHookOfACommittedStep(t *testing.T) {
	w := tier2(t, time.Hour, call("", "write", "c"), overloaded)
	w.cfg.Tools = toolbox(&tool{name: "write"})
	w.cfg.Hooks = &staff{effect: []session.HookEvent{session.HookRunStarted, session.HookToolStarted, session.HookToolEnded, session.HookMessageCommitted}}
	w.start()
	run := w.ask("hi")
	if r := run.Recovery; !r.Auto || r.Verb != replay.Resume {
		t.Errorf("%+v", r)
	}
	w.sent(2)
}

// Hooks are told in the order in which things happened, of a session's runs too, each with its
// scope; of what was undone they are not told.
func TestHookOrder(t *testing.T) {
	s := &staff{observe: append(everyEvent(), session.HookRetryWaiting, session.HookScheduleArmed)}
	w := newWorld(t, overloaded, call("", "write", "c"), say("done"), say("two"), []llmtest.Step{fail(failure.InvalidRequest)})
	w.cfg.Tools, w.cfg.Hooks = toolbox(&tool{name: "write"}), s
	w.store = restarting{w.store}
	w.start()
	first, second := w.post("one"), w.post("two")
	w.ended(first.RunID)
	w.ended(second.RunID)
	third := w.ask("three")
	want := "run.started attempt.opened attempt.failed retry.waiting attempt.opened retry.started message.committed tool.started tool.ended " +
		"message.committed attempt.opened message.committed run.succeeded " +
		"run.started attempt.opened message.committed run.succeeded " +
		"run.started attempt.opened attempt.failed run.failed"
	w.m.Close()
	if got := s.heard(); got != want {
		t.Errorf("heard\n%s\nwant\n%s", got, want)
	}
	ids := map[string]bool{}
	for _, n := range s.told {
		if ids[n.ID] {
			t.Errorf("%s was told twice", n.ID)
		}
		ids[n.ID] = true
		if n.Scope.Session != string(w.id) || n.Scope.Run == "" || n.Scope.Generation == 0 || n.Scope.Lineage != "main" || n.At == 0 {
			t.Errorf("%s has the scope %+v", n.Event, n.Scope)
		}
		of := strings.HasPrefix(string(n.Event), "attempt.") || strings.HasPrefix(string(n.Event), "retry.")
		if of != (n.Tried != nil) || of && n.Attempt != n.Tried.ID {
			t.Errorf("%s of the attempt %q, %+v", n.Event, n.Attempt, n.Tried)
		}
		switch n.Event {
		case session.HookAttemptFailed, session.HookRetryWaiting:
			if n.Tried.Failure == nil || n.Tried.Decision == nil {
				t.Errorf("%s without its failure: %+v", n.Event, n.Tried)
			}
		case session.HookToolEnded:
			if n.ToolCall.Name != "write" || n.ToolCall.Result == nil {
				t.Errorf("%+v", n.ToolCall)
			}
		case session.HookRunFailed:
			if n.Run.ID != third.ID || n.Run.Failure == nil || n.Run.Recovery == nil || n.Run.State != session.Failed {
				t.Errorf("%+v", n.Run)
			}
		}
	}
}

// The second tier tells what it will do.
func TestHookOfASchedule(t *testing.T) {
	s := &staff{observe: []session.HookEvent{session.HookScheduleArmed, session.HookScheduleHeld}}
	w := tier2(t, time.Millisecond, overloaded)
	w.cfg.Hooks, w.cfg.Ask = s, true
	w.start()
	o := w.watch("")
	defer o.stop()
	run := w.post("hi")
	held := o.schedule(session.ScheduleHeld)
	w.m.Close()
	if s.heard() != "schedule.armed schedule.held" || s.told[1].Scope.Run != string(run.RunID) || s.told[1].Schedule.HoldReason != held.HoldReason {
		t.Errorf("heard %s: %+v", s.heard(), s.told)
	}
}

// A cancelled run is told of once, whether it had begun or not.
func TestHookOfACancel(t *testing.T) {
	s := &staff{observe: []session.HookEvent{session.HookRunCancelled}}
	w := newWorld(t, []llmtest.Step{llmtest.Text("shown"), {Stall: true}})
	w.cfg.Hooks = s
	w.start()
	o := w.watch("")
	defer o.stop()
	r := w.post("hi")
	o.shows("shown")
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); err != nil {
		t.Fatal(err)
	}
	w.ended(r.RunID)
	w.m.Close()
	if s.heard() != "run.cancelled" || s.told[0].Run.CancelledBy != "ann" {
		t.Errorf("%+v", s.told)
	}

	queued := newWorld(t)
	queued.cfg.Hooks, queued.cfg.ConcurrentRuns = s, 0
	queued.start()
	r = queued.post("hi")
	if _, err := queued.m.Cancel(t.Context(), "ann", queued.id, r.RunID); err != nil {
		t.Fatal(err)
	}
	if s.heard() != "run.cancelled run.cancelled" || s.told[1].Scope.Run != string(r.RunID) {
		t.Errorf("%+v", s.told)
	}
}

// N34: a hook that is still at work, and has its effect during what follows, has made its own
// attempt unsafe from the start, and taints no later one.
func TestLateHook(t *testing.T) {
	s := &staff{effect: []session.HookEvent{session.HookAttemptFailed}}
	w := newWorld(t, tooMany, say("again"))
	w.cfg.Hooks = s
	w.start()
	r := w.post("hi")
	run := w.ended(r.RunID)
	w.sent(1)
	if run.State != session.Failed || w.attempts(run.ID)[0].Evidence.Marks != replay.HookRan {
		t.Fatalf("%+v", run)
	}
	again, err := w.regenerate(r.MessageID, session.RegenerateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := w.ended(again.RunID)
	late := s.told[0] // whose effect comes only now
	err = w.store.Update(t.Context(), session.Full, func(tx session.Tx) error {
		return tx.MarkAttempt(late.Attempt, late.Scope, replay.HookRan, session.At(time.Now()))
	})
	if err != nil {
		t.Error(err)
	}
	if a := w.attempts(next.ID); next.State != session.Succeeded || len(a) != 1 || a[0].Evidence.Marks&replay.HookRan != 0 || late.Attempt == a[0].ID {
		t.Errorf("%+v, %+v", next, a)
	}
}

// F20, N36: who has lost the run marks nothing any more: its hooks are not told, and the
// attempts of who has it stay clean.
func TestHookOfAStaleAttempt(t *testing.T) {
	s := &staff{effect: []session.HookEvent{session.HookAttemptFailed}}
	nodes(t, func(t *testing.T, w *world) {
		w.cfg.Hooks = s
		a := w.gated("")
		w.start()
		r := w.postOn(a.m, "hi")
		synctest.Wait() // it waits for the answer
		a.pause()
		run := w.ended(r.RunID)
		a.resume()
		a.m.Close() // its attempt ends now
		list := w.attempts(r.RunID)
		if run.State != session.Succeeded || len(list) != 2 || (list[0].Evidence.Marks|list[1].Evidence.Marks)&replay.HookRan != 0 || s.heard() != "" {
			t.Errorf("run %+v, attempts %+v, told %q", run, list, s.heard())
		}
	}, []llmtest.Step{{Stall: true}}, say("taken over"))
}

// A mark outlives the process, also where it dies before the hook is called: what was marked is
// not repeated by itself, and the hook is not told again.
func TestHookMarkOutlivesTheProcess(t *testing.T) {
	s := &staff{effect: []session.HookEvent{session.HookAttemptOpened}}
	w := newWorld(t, say("never"), say("never"))
	w.cfg.Hooks = s
	r := w.dies("open attempt", 1)
	run := w.ended(r.RunID)
	if run.State != session.Failed || run.Recovery.Evidence&replay.HookRan == 0 || run.Recovery.Auto {
		t.Errorf("%+v %+v", run, run.Recovery)
	}
	w.sent(0)
	if s.heard() != "" {
		t.Errorf("told %q", s.heard())
	}
}

// F11, N40: what is done while a retry waits, of a hook that had its say late or a command of the
// operator's, is read from the ledger when the retry is due: nothing is sent.
func TestEffectWhileARetryWaits(t *testing.T) {
	for _, mark := range []replay.Reasons{replay.CommandRan, replay.HookRan} {
		t.Run(mark.String(), func(t *testing.T) {
			s := &staff{observe: []session.HookEvent{session.HookScheduleArmed}}
			w := tier2(t, 300*time.Millisecond, overloaded)
			w.cfg.Unattended, w.cfg.Hooks = true, s
			s.tell = func(n session.Notice) {
				if !n.Schedule.ReplaySafe {
					t.Errorf("armed %+v", n.Schedule)
				}
				a := w.attempts(n.Schedule.RunID)[0]
				err := w.store.Update(t.Context(), session.Full, func(tx session.Tx) error {
					return tx.MarkAttempt(a.ID, a.Evidence.Scope, mark, session.At(time.Now()))
				})
				if err != nil {
					t.Error(err)
				}
			}
			w.start()
			o := w.watch("")
			defer o.stop()
			w.post("hi")
			if never := o.schedule(session.ScheduleNever); never.Reason != "not_safe" || never.ReplaySafe || never.Evidence != mark {
				t.Errorf("%+v", never)
			}
			w.sent(1)
		})
	}
}

// sworn notes how durable the transactions are that mark hooks.
type sworn struct {
	session.Store
	soft *atomic.Bool // a mark was stored that a power loss may cost
}

func (s sworn) Update(ctx context.Context, d session.Durability, f func(session.Tx) error) error {
	return s.Store.Update(ctx, d, func(tx session.Tx) error {
		return f(swornTx{tx, func() { s.soft.Store(s.soft.Load() || d != session.Full) }})
	})
}

type swornTx struct {
	session.Tx
	marked func()
}

func (t swornTx) InsertHookMark(h session.HookMark) error {
	t.marked()
	return t.Tx.InsertHookMark(h)
}

// Whatever a hook with an effect is told of, its mark survives a power loss.
func TestHookMarksAreDurable(t *testing.T) {
	var soft atomic.Bool
	for _, e := range everyEvent() {
		w := newWorld(t, overloaded, call("", "write", "c"), say("done"))
		s := &staff{effect: []session.HookEvent{e}}
		w.cfg.Hooks, w.cfg.Tools = s, toolbox(&tool{name: "write"})
		w.store = sworn{w.store, &soft}
		w.start()
		w.ask("hi")
		w.m.Close()
		if soft.Swap(false) {
			t.Errorf("%s: a mark was not durable", e)
		}
	}
}

// A tool call that waits for the operator is told of once, before it starts.
func TestHookOfAnAskedCall(t *testing.T) {
	s := &staff{effect: []session.HookEvent{session.HookToolAsked}, observe: []session.HookEvent{session.HookToolStarted, session.HookToolEnded}}
	w := newWorld(t, call("", "write", "c"), overloaded, say("done"))
	w.cfg.Tools, w.cfg.Hooks = toolbox(asking(&tool{name: "write"})), s
	w.start()
	r := w.post("hi")
	w.until("c asked")
	w.approve("c")
	if run := w.ended(r.RunID); run.State != session.Succeeded {
		t.Errorf("%+v", run)
	}
	w.sent(3) // the step after it is repeated all the same
	w.m.Close()
	if s.heard() != "tool.asked tool.started tool.ended" || s.told[0].ToolCall.Approval == nil || s.told[0].ToolCall.State != session.CallAsked {
		t.Errorf("heard %s: %+v", s.heard(), s.told[0].ToolCall)
	}
}
