package provider

import (
	"sync"
	"time"
)

// watch bounds the waits of one call. Between pause and resume nothing counts.
type watch struct {
	limits Timeouts
	expire func(expired)

	mu      sync.Mutex
	timer   *time.Timer
	running bool
	since   time.Time     // of resume
	waited  time.Duration // since there is a connection
	quiet   time.Duration // since the last progress
	bound   expired       // the limit that runs

	connected, event, content bool
}

// resume begins a wait.
func (w *watch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.since = true, time.Now()
	w.arm()
}

// pause ends a wait.
func (w *watch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		return
	}
	d := time.Since(w.since)
	w.waited += d
	w.quiet += d
	w.running = false
	if w.timer != nil {
		w.timer.Stop()
	}
}

// connect ends the wait for a connection; the one for an answer begins.
func (w *watch) connect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connected, w.since, w.waited, w.quiet = true, time.Now(), 0, 0
	if w.running {
		w.arm()
	}
}

// progress records what a frame meant.
func (w *watch) progress(event, content, sound bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.event = w.event || event
	w.content = w.content || content
	if sound {
		w.quiet = 0
	}
}

// arm starts the timer for the limit that runs out first.
func (w *watch) arm() {
	left := time.Duration(0)
	w.bound = expired{}
	limit := func(kind string, after, used time.Duration) {
		if after > 0 && (w.bound.kind == "" || after-used < left) {
			w.bound, left = expired{kind, after}, after-used
		}
	}
	switch l := w.limits; {
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
	switch {
	case w.bound.kind == "":
		if w.timer != nil {
			w.timer.Stop()
		}
	case w.timer == nil:
		w.timer = time.AfterFunc(left, w.fire)
	default:
		w.timer.Reset(left)
	}
}

func (w *watch) fire() {
	w.mu.Lock()
	bound := w.bound
	w.mu.Unlock()
	w.expire(bound)
}
