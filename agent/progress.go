package agent

import (
	"math"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	tellEvery    = 250 * time.Millisecond
	progressText = 200 // bytes
)

// meter passes on what a tool says of how far it is: at once, or, where that was told of a moment
// ago, the newest when the moment is over. Nothing is passed on after it was stopped.
type meter struct {
	tell func(Progress)

	mu      sync.Mutex
	next    time.Time   // before which nothing is told
	newest  Progress    // that waits
	timer   *time.Timer // for newest; nil: nothing waits
	stopped bool
}

// report is what a tool calls. Safe for concurrent use.
func (m *meter) report(p Progress) {
	p.Done, p.Total = finite(p.Done), finite(p.Total)
	p.Text = head(p.Text, progressText)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest = p
	if m.stopped || m.timer != nil {
		return
	}
	if wait := time.Until(m.next); wait > 0 {
		m.timer = time.AfterFunc(wait, m.due)
		return
	}
	m.pass()
}

func (m *meter) due() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timer = nil
	if !m.stopped {
		m.pass()
	}
}

func (m *meter) pass() {
	m.next = time.Now().Add(tellEvery)
	m.tell(m.newest)
}

// stop returns when nothing is told any more.
func (m *meter) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	if m.timer != nil {
		m.timer.Stop()
	}
}

// finite makes a number one that JSON can say.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// head is the beginning of a text, of so many bytes at most.
func head(s string, size int) string {
	if len(s) <= size {
		return s
	}
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return s[:size]
}
