package explore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// world is one schedule: nodes over one store and one log, an operator, a provider, and the
// scheduler between all of them.
type world struct {
	sc      *scenario
	store   session.Store
	log     *logtest.Memory
	out     io.Writer // the transcript; nil: none
	telling sync.Mutex
	began   time.Time
	step    int
	parked  parked
	one     sync.Mutex // held by whoever uses the store: a database in memory lets nobody wait
	nodes   []*node
	id      session.ID
	used    map[string]bool // acts
	facts   facts
	page    *observer // nil: nobody watches

	offered int // effects when a crash was last offered
	waited  int // effects when a wait was last a choice
}

// node is one life of one process.
type node struct {
	w      *world
	name   string
	dead   bool // guarded by the parked calls' lock, like paused
	paused bool // what it asks for has to wait, and what it waits for passes
	stop   context.CancelFunc
	m      *session.Manager
	ready  chan struct{} // m is there
	gone   chan struct{} // of a dead one, all of it
}

// lease is how long a node may be silent before another takes its runs.
const lease = 3 * time.Second

// patience is how long the scheduler lets time pass with nothing happening until it calls a run
// stuck; more than any wait that a scenario has.
const patience = 2 * time.Minute

func (w *world) start(name string) *node {
	n := &node{w: w, name: name, ready: make(chan struct{}), gone: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	policy := recovery.Policy{
		Tier1:      recovery.Tier1{Attempts: 2, Base: time.Second, Cap: 10 * time.Second},
		HandOver:   true,
		Tier2:      recovery.Tier2{Base: 1500 * time.Millisecond, Cap: 4 * time.Second, MaxAttempts: 3},
		AutoWithin: time.Hour, MaxRequests: w.sc.requests(),
	}
	if w.sc.policy != nil {
		w.sc.policy(&policy)
	}
	cfg := session.Config{
		Model: "script/model", ConcurrentRuns: 4, Policy: policy, Hold: w.sc.hold, Unattended: true,
		Sole: w.sc.nodes == 1, Lease: lease, Grace: -1, Jitter: func() float64 { return 0.5 },
		Tools: func(context.Context, session.Settings) []agent.Tool { return []agent.Tool{tool{n}} }, Log: slog.New(slog.DiscardHandler),
	}
	w.nodes = append(w.nodes, n)
	go func() {
		defer close(n.ready)
		var err error
		n.m, err = session.New(ctx, storePort{n, w.store}, logPort{n, w.log}, models{n}, cfg)
		if err != nil && !w.isDead(n) {
			w.facts.report(Progress, "node %s does not start: %v", name, err)
		}
	}()
	return n
}

// models is what a node is configured with: the scenario's providers, in their order.
type models struct{ n *node }

func (m models) About(string, string) llm.ModelFacts { return llm.ModelFacts{} }

func (m models) Entries(string) ([]recovery.Entry, error) {
	var chain []recovery.Entry
	for _, name := range m.n.w.sc.chain() {
		key := recovery.Key{Label: "key", Provider: provider{m.n, name}}
		if m.n.w.sc.models != nil {
			key.Hash = name // what can cool off
		}
		chain = append(chain, recovery.Entry{Provider: name, Model: "model", Keys: []recovery.Key{key}})
	}
	return chain, nil
}

func (w *world) isDead(n *node) bool {
	w.parked.mu.Lock()
	defer w.parked.mu.Unlock()
	return n.dead
}

// kill ends a process: nothing that it does reaches anything any more, and it hears nothing.
func (w *world) kill(n *node) {
	w.parked.mu.Lock()
	n.dead, n.paused = true, false
	kept := w.parked.calls[:0]
	for _, c := range w.parked.calls {
		if c.n == n {
			c.grant <- dead
		} else {
			kept = append(kept, c)
		}
	}
	w.parked.calls = kept
	w.parked.mu.Unlock()
	n.stop()
	go func() {
		defer close(n.gone)
		<-n.ready
		if n.m != nil {
			_ = n.m.Close() // it can tell nobody
		}
	}()
}

// living returns the node of that name that is not dead.
func (w *world) living(name string) *node {
	for _, n := range w.nodes {
		if n.name == name && !n.dead {
			return n
		}
	}
	return nil
}

// reachable is the node that an operator reaches: one that is up and answers.
func (w *world) reachable() (found *node) {
	for _, n := range w.nodes {
		if n.dead || n.paused || !n.up() {
			continue
		}
		if found = n; !w.sc.beside || !w.used["post"] {
			break
		}
	}
	return found
}

func (n *node) up() bool {
	select {
	case <-n.ready:
		return true
	default:
		return false
	}
}

// pause lets nothing that a node asks for happen.
func (w *world) pause(n *node) {
	w.parked.mu.Lock()
	defer w.parked.mu.Unlock()
	n.paused = true
}

// resume lets it happen again: its own loops at once, the rest by choice.
func (w *world) resume(n *node) {
	w.facts.touch()
	w.parked.mu.Lock()
	defer w.parked.mu.Unlock()
	n.paused = false
	w.parked.calls = slices.DeleteFunc(w.parked.calls, func(c *call) bool {
		if c.n != n || c.kind != kindUpkeep {
			return false
		}
		c.grant <- plain
		return true
	})
}

// play carries a schedule out: the deviations where they say so, and the default elsewhere. It
// returns the choices that there were after the last deviation.
func (w *world) play(s schedule) (open []point) {
	w.began = time.Now()
	w.boot()
	if w.sc.watched {
		w.observe()
	}
	w.begin("post")
	for !w.facts.violated() {
		synctest.Wait()
		list := w.choices()
		if len(list) == 0 {
			break
		}
		pick := &list[0]
		if len(s) > 0 && s[0].step == w.step {
			if pick = find(list, s[0].label); pick == nil {
				w.facts.report(Replay, "step %d has no choice %q, only %q", w.step, s[0].label, labels(list))
				break
			}
			s = s[1:]
		} else if len(s) == 0 && len(list) > 1 {
			open = append(open, point{w.step, labels(list[1:])})
		}
		w.say("%4d  %s", w.step, pick.label)
		pick.do()
		if w.step++; w.step > 3000 {
			w.facts.report(Progress, "no end after %d steps", w.step)
		}
	}
	if len(s) > 0 {
		w.facts.report(Replay, "the schedule ended before step %d", s[0].step)
	}
	if !w.facts.violated() {
		w.facts.audit(w)
	}
	w.close()
	return open
}

// boot starts the first node, and one beside it, by default and with no choices.
func (w *world) boot() {
	now := time.Now()
	w.id = session.NewID[session.ID]("ses_", now)
	err := w.store.Update(context.Background(), session.Soft, func(tx session.Tx) error {
		return tx.InsertSession(session.Session{ID: w.id, Title: "explored", Model: "script/model", CreatedAt: session.At(now), UpdatedAt: session.At(now)})
	})
	if err != nil {
		panic(err)
	}
	w.comeUp(w.start("A"))
	if w.sc.beside {
		w.comeUp(w.start("B"))
	}
}

// comeUp lets a node start.
func (w *world) comeUp(n *node) {
	for {
		synctest.Wait()
		list := w.waiting()
		if len(list) == 0 && n.up() {
			return
		}
		w.release(list[0], plain)
	}
}

// close ends every process, and returns when nothing of them is left.
func (w *world) close() {
	if w.page != nil {
		w.page.leave()
	}
	for _, n := range w.nodes {
		if !n.dead {
			w.kill(n)
		}
	}
	for _, n := range w.nodes {
		<-n.gone
	}
	synctest.Wait() // acts of the operator that have heard nothing
}

func (w *world) say(format string, a ...any) {
	if w.out != nil {
		w.telling.Lock()
		defer w.telling.Unlock()
		fmt.Fprintf(w.out, "%9s  %s\n", time.Since(w.began).Round(time.Millisecond), fmt.Sprintf(format, a...))
	}
}

// pass lets time pass until a node asks for something.
func (w *world) pass() {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-w.parked.arrived:
	case <-limit.C:
	}
}
