package eventlog

import (
	"cmp"
	"slices"
	"sync"

	"github.com/reprise-run/reprise/session"
)

// Bounds of a tail. A follower that is further behind reads from the log.
const (
	tailRecords = 8192
	tailBytes   = 8 << 20
)

// tail brings to one follower what its journal appends. An acknowledgement tells a record's
// sequence, and acknowledgements overtake each other: a record waits until all before it were
// handed on. Whoever brings the one that is missing hands it on, and those behind it, so that no
// goroutine has to wake for it. The tail may miss any record; the follower sees that by the
// sequence, and has the log.
type tail struct {
	mu      sync.Mutex
	next    uint64           // the sequence that the follower is at
	waiting []session.Record // by sequence; a marker has no session
	bytes   int
	over    bool // more came than it holds: it lets everything go until it is opened again

	f       func(session.Record) error // nil: what comes waits
	passing bool                       // somebody hands on
	passed  sync.Cond                  // nobody does any more
	failed  chan error                 // what f returned
}

func newTail() *tail {
	t := &tail{failed: make(chan error, 1)}
	t.passed.L = &t.mu
	return t
}

// open makes the tail collect again after too much.
func (t *tail) open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = false
}

// add takes a record in, and hands it on where it is the next and somebody follows.
func (t *tail) add(r session.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || r.Seq < t.next {
		return
	}
	t.bytes += len(r.Data)
	if len(t.waiting) == tailRecords || t.bytes > tailBytes {
		t.over, t.waiting, t.bytes = true, nil, 0
		return
	}
	t.waiting = slices.Insert(t.waiting, t.find(r.Seq), r)
	t.pass()
}

// follow hands to f what comes from a sequence on, one record at a time and in order, until stop.
// An error of f goes to failed, and ends it.
func (t *tail) follow(from uint64, f func(session.Record) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.waiting[:t.find(from)] {
		t.bytes -= len(r.Data)
	}
	t.waiting = slices.Delete(t.waiting, 0, t.find(from))
	t.next, t.f = from, f
	t.pass()
}

// stop returns when f is not called any more.
func (t *tail) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.f = nil; t.passing; {
		t.passed.Wait()
	}
}

// at is the sequence that is waited for.
func (t *tail) at() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}

// pass hands on what is next, unless somebody is about it already. mu is locked, but not while f
// runs.
func (t *tail) pass() {
	if t.passing {
		return
	}
	t.passing = true
	for t.f != nil && len(t.waiting) > 0 && t.waiting[0].Seq == t.next {
		r, f := t.waiting[0], t.f
		t.waiting = slices.Delete(t.waiting, 0, 1)
		t.bytes -= len(r.Data)
		t.next++
		t.mu.Unlock()
		err := f(r)
		t.mu.Lock()
		if err != nil && t.f != nil {
			t.f = nil
			t.failed <- err
		}
	}
	t.passing = false
	t.passed.Broadcast()
}

func (t *tail) find(seq uint64) int {
	i, _ := slices.BinarySearchFunc(t.waiting, seq, func(r session.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	return i
}
