package explore

import (
	"context"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// choice is one thing that may happen next.
type choice struct {
	label string
	do    func()
}

func labels(list []choice) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].label
	}
	return names
}

func find(list []choice, label string) *choice {
	if i := slices.IndexFunc(list, func(c choice) bool { return c.label == label }); i >= 0 {
		return &list[i]
	}
	return nil
}

// choices lists what may happen next. The first is the default: what was asked for first, else
// the next timer, else what an end needs. None: the schedule is over.
func (w *world) choices() []choice {
	var ready []*call
	stalled := false
	for _, c := range w.waiting() {
		switch {
		case c.n.paused:
		case c.kind == kindStall && c.ctx.Err() == nil:
			stalled = true
		default:
			ready = append(ready, c)
		}
	}
	var list []choice
	for i, c := range ready {
		list = append(list, w.outcomes(c, ready[0], i == 0)...)
	}
	waits := len(ready) == 0
	if waits {
		c, ok := w.idle(stalled)
		if !ok {
			return nil
		}
		list = append(list, c)
		effects, _ := w.facts.since()
		if w.waited == effects { // a moment of the same wait
			return list
		}
		w.waited = effects
	}
	return append(list, w.injections()...)
}

// idle is what happens where no node asks for anything.
func (w *world) idle(stalled bool) (choice, bool) {
	paused := w.pausedNode()
	_, changed := w.facts.since()
	quiet := time.Since(changed) >= patience
	switch settled := w.facts.settled(); {
	case paused != nil && (settled || quiet):
		return choice{"resume " + paused.name, func() { w.resume(paused) }}, true
	case settled:
		return choice{}, false
	case stalled && paused == nil && w.facts.active():
		return choice{"cancel", func() { w.begin("cancel") }}, true
	case quiet:
		w.facts.report(Progress, "nothing has happened for %v, and %s", patience, w.facts.unsettled())
		return choice{}, false
	}
	return choice{"time passes", w.pass}, true
}

// outcomes are the ways in which a call may go on. Before its turn a call has one, where its
// order with the call whose turn it is makes a difference.
func (w *world) outcomes(c, first *call, turn bool) []choice {
	to := func(o outcome, how string) choice { return choice{c.label + how, func() { w.release(c, o) }} }
	if c.ctx.Err() != nil {
		list := []choice{to(ended, ": its context has ended")}
		switch c.kind {
		case kindWrite:
			list = append(list, to(plain, " although its context has ended"))
		case kindAppend:
			list = append(list, to(unheard, " unheard: its context has ended"))
		}
		return list
	}
	list := []choice{to(plain, "")}
	switch {
	case !turn && c.kind == kindRead && first.kind == kindRead:
		return nil
	case !turn:
	case c.kind == kindAnswer && w.sc.may("fail") && !strings.HasSuffix(c.label, "tool ends"):
		list = append(list, to(broken, " breaks"))
	case c.kind == kindWrite && w.sc.may("conflict"):
		list = append(list, to(twice, " runs twice"))
	}
	return list
}

// injections are what operator and fate may do at any time.
func (w *world) injections() []choice {
	var list []choice
	effects, _ := w.facts.since()
	for _, n := range w.nodes {
		if n.dead {
			continue
		}
		if n.paused {
			list = append(list, choice{"resume " + n.name, func() { w.resume(n) }})
			continue
		}
		if w.sc.may("crash") && w.offered != effects {
			list = append(list, choice{"crash " + n.name, func() { w.crash(n) }})
		}
		if w.sc.may("pause") && n.name == "A" && !w.used["pause"] && n.up() {
			list = append(list, choice{"pause " + n.name, func() { w.freeze(n) }})
		}
	}
	if len(list) > 0 {
		w.offered = effects
	}
	if w.reachable() == nil {
		return list
	}
	if w.page != nil && w.sc.may("reload") && !w.used["reload"] && w.reachable() != nil {
		list = append(list, choice{"reload", func() { w.used["reload"] = true; w.page.reload(w.reachable()) }})
	}
	for _, a := range w.sc.acts {
		if act, ok := acts[a]; ok && !w.used[a] && w.facts.allow(act) {
			list = append(list, choice{a, func() { w.begin(a) }})
		}
	}
	return list
}

// crash ends a process and starts it again.
func (w *world) crash(n *node) {
	w.kill(n)
	next := w.start(n.name)
	if w.page != nil {
		w.page.leave() // its connection is gone
		w.page.come(next)
	}
}

// freeze pauses a node, and another one starts beside it.
func (w *world) freeze(n *node) {
	w.used["pause"] = true
	w.pause(n)
	if w.living("B") == nil {
		w.start("B")
	}
}

func (w *world) pausedNode() *node {
	for _, n := range w.nodes {
		if n.paused {
			return n
		}
	}
	return nil
}

// begin lets the operator act. What they ask for happens before anything else does.
func (w *world) begin(name string) {
	n := w.reachable()
	w.used[name] = true
	do := acts[name].do
	f := w.facts.seen()
	if name == staleTab {
		f.schedule = f.first
	}
	ctx := context.WithValue(context.Background(), actor{}, acting{name, f.schedule.Token})
	go func() {
		err := do(ctx, n.m, w.id, f)
		w.facts.answered(name, err)
	}()
	synctest.Wait()
	for _, c := range w.waiting() {
		if c.label == n.name+" "+name {
			w.release(c, plain)
		}
	}
}

// staleTab is an act in a tab that has heard of nothing since the session's first schedule.
const staleTab = "retry now in another tab"

// act is something that an operator does.
type act struct {
	possible func(f *facts) bool
	do       func(ctx context.Context, m *session.Manager, id session.ID, f seen) error
}

var acts = map[string]act{
	"post": {
		func(f *facts) bool { return true },
		func(ctx context.Context, m *session.Manager, id session.ID, _ seen) error {
			_, err := m.Post(ctx, session.Act{Actor: "ann"}, id, []llm.Part{llm.Text("hello")}, session.Routing{})
			return err
		},
	},
	"post another": {
		func(f *facts) bool { return f.last != nil },
		func(ctx context.Context, m *session.Manager, id session.ID, _ seen) error {
			_, err := m.Post(ctx, session.Act{Actor: "ann"}, id, []llm.Part{llm.Text("and now?")}, session.Routing{})
			return err
		},
	},
	"cancel": {
		func(f *facts) bool { return f.last != nil && !f.last.run.State.Terminal() },
		func(ctx context.Context, m *session.Manager, id session.ID, f seen) error {
			_, err := m.Cancel(ctx, "ann", id, f.run.ID)
			return err
		},
	},
	"regenerate": {
		func(f *facts) bool { return f.last != nil && f.last.run.State != session.Running },
		func(ctx context.Context, m *session.Manager, id session.ID, f seen) error {
			_, err := m.Regenerate(ctx, session.Act{Actor: "ann"}, id, f.run.MessageID, session.RegenerateRequest{ConfirmEffects: true})
			return err
		},
	},
	"resume": {
		func(f *facts) bool {
			return f.last != nil && f.last.run.State.Terminal() && f.last.run.State != session.Succeeded
		},
		func(ctx context.Context, m *session.Manager, id session.ID, f seen) error {
			_, err := m.Resume(ctx, session.Act{Actor: "ann"}, id, f.run.ID)
			return err
		},
	},
	"retry now": {hasToken, retryNow},
	staleTab:    {hasToken, retryNow},
	"cancel the retry": {
		hasToken,
		func(ctx context.Context, m *session.Manager, id session.ID, f seen) error {
			_, err := m.CancelRetry(ctx, "ann", id, f.schedule.Token)
			return err
		},
	},
}

func hasToken(f *facts) bool { return f.shown.Token != 0 }

func retryNow(ctx context.Context, m *session.Manager, id session.ID, f seen) error {
	_, err := m.RetryNow(ctx, session.Act{Actor: "ann"}, id, f.schedule.Token, true)
	return err
}
