package explore

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// call is an operation that a node has asked for and the scheduler has not granted yet.
type call struct {
	n     *node
	label string // the same in every run of a schedule
	kind  kind
	ctx   context.Context
	round int // of the scheduler, in which it came
	grant chan outcome
}

type kind uint8

const (
	kindRead   kind = iota // shows nothing to anybody and changes nothing
	kindWrite              // a transaction
	kindAppend             // to the log, a marker included
	kindAnswer             // of the provider, or of a tool
	kindStall              // the provider says nothing more
	kindUpkeep             // what keeps a node going: leases, the outbox, counts for observers
)

// outcome is what the scheduler lets a call come to.
type outcome uint8

const (
	plain   outcome = iota
	ended           // its context has ended: nothing was done
	unheard         // it was done, and the caller is told that its context has ended
	broken          // the provider fails
	twice           // the transaction is run, undone, and run again
	dead            // the process is
)

// enter waits until the scheduler grants a call.
func (n *node) enter(ctx context.Context, k kind, what string) (outcome, error) {
	if ctx.Err() != nil {
		return ended, context.Cause(ctx)
	}
	c := &call{n: n, label: n.name + " " + what, kind: k, ctx: ctx, grant: make(chan outcome, 1)}
	if !n.w.park(c) {
		return plain, nil
	}
	switch o := <-c.grant; o {
	case ended:
		return o, context.Cause(ctx)
	case dead:
		return o, errDead
	default:
		return o, nil
	}
}

// callers are the names that caller has found, by the stack.
var callers sync.Map

// caller names the method of package session that asks, in the words of a transcript: its
// name, and nothing that depends on how the package is built inside.
func caller() string {
	var stack [8]uintptr
	n := runtime.Callers(3, stack[:])
	if name, ok := callers.Load(stack); ok {
		return name.(string)
	}
	name := nameOf(stack[:n])
	callers.Store(stack, name)
	return name
}

func nameOf(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	name := "?"
	for {
		f, more := frames.Next()
		if s, ok := strings.CutPrefix(f.Function, "github.com/reprise-run/reprise/session."); ok {
			s, _, _ = strings.Cut(strings.TrimPrefix(s, "(*"), ".func")
			if _, method, ok := strings.Cut(s, ")."); ok {
				s = method
			}
			if !slices.Contains(inner, s) {
				return s
			}
			name = s
		}
		if !more {
			return name
		}
	}
}

// inner are methods that carry out what others ask; a label names those. upkeep are the ones
// whose order with others is not explored. A name that is here and no longer there costs
// schedules, nothing else.
var (
	inner  = []string{"update", "commit", "ask", "retime", "settle", "releaseOrphans"}
	upkeep = []string{"drainOutbox", "emptyOutbox", "sweep", "purge", "beat", "takeOver", "tellPresence", "leave", "System", "announceLoop", "snapshot", "overview"}
)

func (n *node) kindOf(who string, k kind) kind {
	if slices.Contains(upkeep, who) {
		return kindUpkeep
	}
	return k
}

// actor is the key of the context under which an operator's act runs; its value is an acting.
type actor struct{}

type acting struct {
	name  string
	token int64 // of the schedule that they see
}

// spending is the key of the context under which a permit is spent: the check that follows it
// is the last act before the request is written, and that is the one that is explored.
type spending struct{}

func what(ctx context.Context) string {
	if act, ok := ctx.Value(actor{}).(acting); ok {
		return act.name
	}
	return caller()
}

// parked are the calls that wait for the scheduler.
type parked struct {
	mu      sync.Mutex
	calls   []*call
	round   int
	arrived chan struct{} // holds a token when a call has come
}

// park takes a call in. It reports false where the call goes on at once.
func (w *world) park(c *call) bool {
	p := &w.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.n.dead {
		c.grant <- dead
		return true
	}
	if c.kind == kindUpkeep && !c.n.paused && (!w.sc.loops || strings.HasSuffix(c.label, " System")) {
		return false
	}
	c.round = p.round
	p.calls = append(p.calls, c)
	select {
	case p.arrived <- struct{}{}:
	default:
	}
	return true
}

// release lets a call go on.
func (w *world) release(c *call, o outcome) {
	w.parked.mu.Lock()
	i := slices.Index(w.parked.calls, c)
	w.parked.calls = slices.Delete(w.parked.calls, i, i+1)
	w.parked.mu.Unlock()
	c.grant <- o
}

// waiting returns the calls that wait, in the order of the default: those that came first, and
// of those that came together by name.
func (w *world) waiting() []*call {
	p := &w.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	select {
	case <-p.arrived:
	default:
	}
	list := slices.Clone(p.calls)
	slices.SortStableFunc(list, func(a, b *call) int {
		if a.round != b.round {
			return a.round - b.round
		}
		return strings.Compare(a.label, b.label)
	})
	return list
}
