package provider

import (
	"sync"
	"time"
)

// watch bounds the waits of one call. Between pause and resume nothing counts. One goroutine
// calls its methods. The timer is not stopped at every pause, which would cost more than the
// frame between two: it looks whether it is still wanted when it fires.
type watch struct {
	limits Timeouts
	expire func(expired)

	// What the frames have shown. It changes between two waits, when the timer looks away.
	event, content bool

	mu        sync.Mutex
	connected bool
	running   bool
	since     time.Time     // the beginning of the wait that runs
	waited    time.Duration // before it, since there is a connection
	quiet     time.Duration // before it, since the last progress
	timer     *time.Timer
	due       time.Time // of the timer; zero: it does not run
}

// resume begins a wait.
func (w *watch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.since = true, time.Now()
	w.arm()
}

// connect ends the wait for a connection; the one for an answer begins.
func (w *watch) connect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connected, w.since, w.waited, w.quiet = true, time.Now(), 0, 0
	w.arm()
}

// pause ends a wait.
func (w *watch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := time.Since(w.since)
	w.waited += d
	w.quiet += d
	w.running = false
}

// progress records, between two waits, what a frame meant.
func (w *watch) progress(event, content, sound bool) {
	w.event = w.event || event
	w.content = w.content || content
	if sound {
		w.quiet = 0
	}
}

// stop ends the watch.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = false
	if w.timer != nil {
		w.timer.Stop()
	}
}

// first returns the limit that runs out first if the wait goes on, and when.
func (w *watch) first() (bound expired, at time.Time) {
	limit := func(kind string, after, used time.Duration) {
		if t := w.since.Add(after - used); after > 0 && (bound.kind == "" || t.Before(at)) {
			bound, at = expired{kind, after}, t
		}
	}
	switch l := &w.limits; {
	case !w.connected:
		limit("connect_timeout", l.Connect, 0)
	case w.content || w.event && l.FirstContent == 0:
		limit("idle_timeout", l.Idle, w.quiet)
	default:
		limit("first_content_timeout", l.FirstContent, w.waited)
		if !w.event {
			limit("first_event_timeout", l.FirstEvent, w.waited)
		}
	}
	return bound, at
}

// arm sees to it that the timer fires no later than the first limit runs out.
func (w *watch) arm() {
	bound, at := w.first()
	if bound.kind == "" || !w.due.IsZero() && !at.Before(w.due) {
		return
	}
	if w.due = at; w.timer == nil {
		w.timer = time.AfterFunc(time.Until(at), w.fire)
	} else {
		w.timer.Reset(time.Until(at))
	}
}

func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
	if !w.running {
		return
	}
	if bound, at := w.first(); bound.kind != "" && !time.Now().Before(at) {
		w.expire(bound)
	} else {
		w.arm()
	}
}
