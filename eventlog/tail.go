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

// tail collects for one follower what its journal appends. An acknowledgement tells a record's
// sequence, and acknowledgements overtake each other: a record waits until all before it were
// taken. The tail may miss any record; the follower sees that by the sequence, and has the log.
type tail struct {
	ready chan struct{} // holds a token when the next record has come

	mu      sync.Mutex
	next    uint64           // the sequence that the follower waits for
	waiting []session.Record // by sequence; a marker has no session
	bytes   int
	over    bool // more came than it holds: it lets everything go until it is opened again
}

func newTail() *tail { return &tail{ready: make(chan struct{}, 1)} }

// open makes the tail collect again after too much.
func (t *tail) open() {
	t.mu.Lock()
	t.over = false
	t.mu.Unlock()
}

// add takes a record in. It never waits.
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
	at, _ := t.find(r.Seq)
	t.waiting = slices.Insert(t.waiting, at, r)
	if r.Seq == t.next {
		select {
		case t.ready <- struct{}{}:
		default:
		}
	}
}

// take appends to records those that follow each other from a sequence on.
func (t *tail) take(records []session.Record, from uint64) []session.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, _ := t.find(from)
	end := first
	for end < len(t.waiting) && t.waiting[end].Seq == from {
		end++
		from++
	}
	records = append(records, t.waiting[first:end]...)
	for _, r := range t.waiting[:end] {
		t.bytes -= len(r.Data)
	}
	t.waiting = slices.Delete(t.waiting, 0, end)
	t.next = from
	return records
}

func (t *tail) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(t.waiting, seq, func(r session.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
}
