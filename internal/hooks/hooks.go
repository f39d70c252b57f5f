// Package hooks tells the operator's commands and webhooks of events.
//
// It promises: whoever tells waits for nothing; each hook is told of the events that it names, of
// one session in their order, each at most once; what a queue has no room for is counted and in
// the log; a call ends at its time limit, a command with everything it has started; a command sees
// none of the server's environment but what a program needs to run, and a webhook gets one request
// on a connection of its own, which no redirect leads elsewhere.
//
// It refuses to try again: an event whose call failed, or that waited in a process that died, is
// not told once more. It knows nothing of evidence: what has to be stored before a hook is called
// is stored before Tell.
package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-run/reprise/session"
)

// Hook is one hook of the operator's. It has a command, or a URL.
type Hook struct {
	Name string
	On   []string // events, or patterns as run.* and *
	// Observe: the operator declares that it changes nothing, so that being told is no effect.
	Observe bool
	Timeout time.Duration // of one call; 0: DefaultTimeout

	// Command is the program and its arguments. Env is what it has besides the base of every
	// program and the scope; it is read at each call.
	Command []string
	Env     func() (map[string]string, error)

	// URL is where a webhook is, and Secret signs its body, where it is set. They are read at each
	// call, and may be secrets: neither is in the log.
	URL    func() (string, error)
	Secret func() (string, error)
}

// DefaultTimeout bounds a call whose hook says nothing else.
const DefaultTimeout = 30 * time.Second

// Of each hook, lanes calls are under way at a time, of as many sessions, and queued events
// wait for each.
const (
	lanes  = 4
	queued = 256
)

// Outcome is how one telling has ended.
type Outcome string

const (
	Delivered Outcome = "delivered"
	Failed    Outcome = "failed"
	TimedOut  Outcome = "timeout"
	Dropped   Outcome = "dropped" // the queue was full, or the process ended first
)

// Outcomes are all of them.
var Outcomes = []Outcome{Delivered, Failed, TimedOut, Dropped}

// Options are what is not a hook. The zero value is usable.
type Options struct {
	Log *slog.Logger // default slog.Default()
	// Base is the environment of every command; its scope is added.
	Base map[string]string
	// Count is told of every outcome; nil: nobody is.
	Count func(hook string, o Outcome)
}

// Hooks is the hooks of one process. It implements session.Hooks.
type Hooks struct {
	o       Options
	hooks   []*hook
	asked   map[session.HookEvent]asked
	seed    maphash.Seed
	working sync.WaitGroup
	calls   context.Context // done when what is under way is cut off
	cut     context.CancelCauseFunc

	mu     sync.RWMutex // Tell reads, Close writes
	closed bool
}

var _ session.Hooks = (*Hooks)(nil)

type asked struct {
	hooks   []*hook
	effects []string
}

// hook is a hook at work.
type hook struct {
	Hook
	lanes [lanes]chan delivery

	mu   sync.Mutex
	lost int // dropped since the last that was not
}

// delivery is one event on its way to one hook.
type delivery struct {
	notice session.Notice // its scope: what it points to may have changed
	id     string
	body   []byte
}

// Match reports whether a pattern names an event.
func Match(pattern string, e session.HookEvent) bool {
	prefix, any := strings.CutSuffix(pattern, "*")
	if any && (prefix == "" || strings.HasSuffix(prefix, ".")) {
		return strings.HasPrefix(string(e), prefix)
	}
	return pattern == string(e)
}

// Events lists the events that a pattern names; none: there is no such event.
func Events(pattern string) (list []session.HookMeaning) {
	for _, e := range session.HookEvents {
		if Match(pattern, e.Event) {
			list = append(list, e)
		}
	}
	return list
}

// Open starts the hooks.
func Open(list []Hook, o Options) *Hooks {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Count == nil {
		o.Count = func(string, Outcome) {}
	}
	h := &Hooks{o: o, asked: map[session.HookEvent]asked{}, seed: maphash.MakeSeed()}
	h.calls, h.cut = context.WithCancelCause(context.Background())
	for _, given := range list {
		if given.Timeout == 0 {
			given.Timeout = DefaultTimeout
		}
		k := &hook{Hook: given}
		h.hooks = append(h.hooks, k)
		for i := range k.lanes {
			k.lanes[i] = make(chan delivery, queued)
			h.working.Go(func() { h.work(k, k.lanes[i]) })
		}
		for _, e := range session.HookEvents {
			if !slices.ContainsFunc(k.On, func(pattern string) bool { return Match(pattern, e.Event) }) {
				continue
			}
			a := h.asked[e.Event]
			a.hooks = append(a.hooks, k)
			if !k.Observe {
				a.effects = append(a.effects, k.Name)
			}
			h.asked[e.Event] = a
		}
	}
	return h
}

// Asks implements session.Hooks.
func (h *Hooks) Asks(e session.HookEvent) (any bool, effects []string) {
	a := h.asked[e]
	return len(a.hooks) > 0, a.effects
}

// Tell implements session.Hooks.
func (h *Hooks) Tell(n session.Notice) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, k := range h.asked[n.Event].hooks {
		d := delivery{notice: n, id: n.ID + "." + k.Name}
		var err error
		if d.body, err = json.Marshal(message{Delivery: d.id, Hook: k.Name, Observe: k.Observe, Notice: n}); err != nil {
			h.o.Log.Error("encode an event for a hook", "hook", k.Name, "event", n.Event, "error", err)
			h.o.Count(k.Name, Failed)
			continue
		}
		h.queue(k, d)
	}
}

// message is what a hook reads.
type message struct {
	Delivery string `json:"delivery"`
	Hook     string `json:"hook"`
	Observe  bool   `json:"observe"`
	session.Notice
}

// queue lets the delivery wait behind the others of its session, where there is room.
func (h *Hooks) queue(k *hook, d delivery) {
	lane := k.lanes[maphash.String(h.seed, d.notice.Scope.Session)%lanes]
	if !h.closed {
		select {
		case lane <- d:
			if lost := k.recovered(); lost > 0 {
				h.o.Log.Warn("the hook's queue has room again", "hook", k.Name, "dropped", lost)
			}
			return
		default:
		}
	}
	h.drop(k, d)
}

// drop counts a delivery that nobody is told of, and says so at the first of a series.
func (h *Hooks) drop(k *hook, d delivery) {
	h.o.Count(k.Name, Dropped)
	k.mu.Lock()
	k.lost++
	first := k.lost == 1
	k.mu.Unlock()
	if first {
		h.o.Log.Warn("an event is dropped: the hook's queue is full, or the server stops", about(k, d)...)
	}
}

// recovered ends a series of drops, and returns how many there were.
func (k *hook) recovered() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	lost := k.lost
	k.lost = 0
	return lost
}

// work calls the hook for one delivery after the other.
func (h *Hooks) work(k *hook, lane chan delivery) {
	for d := range lane {
		if h.calls.Err() != nil {
			h.drop(k, d)
			continue
		}
		ctx, cancel := context.WithTimeoutCause(h.calls, k.Timeout, errTime)
		err := h.call(ctx, k, d)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel()
		switch {
		case err == nil:
			h.o.Count(k.Name, Delivered)
			continue
		case errors.Is(err, errTime):
			h.o.Count(k.Name, TimedOut)
		default:
			h.o.Count(k.Name, Failed)
		}
		h.o.Log.Warn("a hook has failed; it is not told again", append(about(k, d), "error", err)...)
	}
}

var (
	errTime = errors.New("it took longer than its timeout")
	errStop = errors.New("the server has stopped")
)

func (h *Hooks) call(ctx context.Context, k *hook, d delivery) error {
	if k.URL != nil {
		return k.post(ctx, d)
	}
	return k.run(ctx, d, h.o.Base)
}

func about(k *hook, d delivery) []any {
	s := d.notice.Scope
	return []any{"hook", k.Name, "event", d.notice.Event, "delivery", d.id, "session", s.Session, "run", s.Run}
}

// Close takes no more events, gives those that wait the grace time, and then cuts off what is
// still under way; what is left is counted and in the log. Closing twice is fine.
func (h *Hooks) Close(grace time.Duration) {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if first {
		for _, k := range h.hooks {
			for _, lane := range k.lanes {
				close(lane)
			}
		}
	}
	timer := time.AfterFunc(grace, func() { h.cut(errStop) })
	defer timer.Stop()
	h.working.Wait()
	h.cut(errStop)
	for _, k := range h.hooks {
		if lost := k.recovered(); lost > 0 {
			h.o.Log.Warn("events were dropped", "hook", k.Name, "dropped", lost)
		}
	}
}

// variables are the scope of a delivery as a command's environment.
func (d *delivery) variables(k *hook) map[string]string {
	n, s := &d.notice, d.notice.Scope
	return map[string]string{
		"REPRISE_HOOK": k.Name, "REPRISE_EVENT": string(n.Event), "REPRISE_DELIVERY": d.id,
		"REPRISE_SESSION": s.Session, "REPRISE_RUN": s.Run, "REPRISE_STEP": fmt.Sprint(s.Step),
		"REPRISE_ATTEMPT": string(n.Attempt), "REPRISE_GENERATION": fmt.Sprint(s.Generation), "REPRISE_LINEAGE": s.Lineage,
	}
}

// Variables names what a command is told of its event by, as our own commands must not take it
// for settings.
var Variables = []string{"REPRISE_HOOK", "REPRISE_EVENT", "REPRISE_DELIVERY", "REPRISE_SESSION", "REPRISE_RUN",
	"REPRISE_STEP", "REPRISE_ATTEMPT", "REPRISE_GENERATION", "REPRISE_LINEAGE"}
