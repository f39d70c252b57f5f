package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/session"
)

// Whatever the order in which acknowledgements come, and whenever the follower is there, it gets
// each record once and in order.
func TestTailOrders(t *testing.T) {
	const n = 5
	var permute func(left, order []uint64)
	permute = func(left, order []uint64) {
		if len(left) > 0 {
			for i, seq := range left {
				permute(slices.Delete(slices.Clone(left), i, i+1), append(order, seq))
			}
			return
		}
		for turns := range 1 << n { // after which records it comes, or goes
			tail, there := newTail(), false
			var got []uint64
			turn := func() {
				if there = !there; there {
					tail.follow(uint64(len(got))+1, func(r session.Record) error { got = append(got, r.Seq); return nil })
				} else {
					tail.stop()
				}
			}
			for i, seq := range order {
				tail.add(session.Record{Seq: seq})
				if turns&(1<<i) != 0 {
					turn()
				}
			}
			if !there {
				turn()
			}
			if !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) || tail.bytes != 0 {
				t.Fatalf("order %v, turns %b: got %v, %d bytes left", order, turns, got, tail.bytes)
			}
		}
	}
	permute([]uint64{1, 2, 3, 4, 5}, nil)
}

// Those who append together deliver one at a time, and none waits for another's delivery.
func TestTailTogether(t *testing.T) {
	const n, by = 4000, 8
	tail := newTail()
	last, inside := uint64(0), atomic.Bool{}
	all := make(chan struct{})
	tail.follow(1, func(r session.Record) error {
		if !inside.CompareAndSwap(false, true) || r.Seq != last+1 {
			t.Errorf("record %d after %d, or beside it", r.Seq, last)
		}
		if last = r.Seq; last == n {
			close(all)
		}
		inside.Store(false)
		return nil
	})
	var seq atomic.Uint64
	for range by {
		go func() {
			for i := seq.Add(1); i <= n; i = seq.Add(1) {
				tail.add(session.Record{Seq: i})
			}
		}()
	}
	<-all
	tail.stop()
}

// What f refuses ends the delivery.
func TestTailFails(t *testing.T) {
	tail, refused := newTail(), errors.New("refused")
	calls := 0
	tail.follow(7, func(session.Record) error { calls++; return refused })
	for _, seq := range []uint64{8, 6, 7, 9} {
		tail.add(session.Record{Seq: seq})
	}
	if err := <-tail.failed; err != refused || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// A tail that holds too much lets everything go, until it is opened again.
func TestTailIsBounded(t *testing.T) {
	for what, fill := range map[string]func(*tail){
		"records": func(tail *tail) {
			for seq := range uint64(tailRecords + 1) {
				tail.add(session.Record{Seq: seq + 1})
			}
		},
		"bytes": func(tail *tail) { tail.add(session.Record{Seq: 1, Data: make([]byte, tailBytes+1)}) },
	} {
		tail, got := newTail(), []uint64(nil)
		fill(tail)
		tail.follow(1, func(r session.Record) error { got = append(got, r.Seq); return nil })
		tail.add(session.Record{Seq: 1})
		tail.open()
		tail.add(session.Record{Seq: 1})
		if !slices.Equal(got, []uint64{1}) {
			t.Errorf("%s: got %v", what, got)
		}
	}
}

// aloneJournal is a journal whose follower relies on its tail, at the end of a cable.
func aloneJournal(t *testing.T) (*journal, *cable, func() *journal) {
	j, c, more := joined(t)
	j.alone = true
	return j, c, more
}

// What the tail does not bring comes from the log: an append that was given up and is there all
// the same, and what somebody else has appended.
func TestTailMisses(t *testing.T) {
	j, c, more := aloneJournal(t)
	fo := logtest.Follow(t, j)
	<-fo.CaughtUp
	w := logtest.Claim(t, j, "run_a", 1)
	logtest.Append(t, w, "1")
	logtest.Want(t, "followed", fo.Take(t, 1), "run_a 1")

	giveUp := func(text string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		c.filter(nil, func(line, payload string) bool {
			if isAck(line, payload) {
				cancel()
				return false
			}
			return true
		})
		if err := w.Append(ctx, []byte(text)); !errors.Is(err, context.Canceled) {
			t.Fatalf("Append: %v", err)
		}
		c.filter(nil, nil)
	}
	giveUp("2") // nothing follows it: only a look at the log can tell
	logtest.Want(t, "followed", fo.Take(t, 1), "run_a 2")
	giveUp("3")
	logtest.Append(t, logtest.Claim(t, j, "run_b", 1), "1")
	logtest.Append(t, w, "4")
	logtest.Want(t, "followed", fo.Take(t, 3), "run_a 3", "run_b 1", "run_a 4")

	other := logtest.Claim(t, more(), "run_c", 1)
	logtest.Append(t, other, "1")
	logtest.Append(t, w, "5")
	logtest.Append(t, other, "2")
	logtest.Want(t, "followed", fo.Take(t, 3), "run_c 1", "run_a 5", "run_c 2")
}

// A publication that is repeated with other data shows what the log has.
func TestTailAndRepeatedPublication(t *testing.T) {
	j, c, _ := aloneJournal(t)
	fo := logtest.Follow(t, j)
	<-fo.CaughtUp
	ctx, cancel := context.WithCancel(t.Context())
	c.filter(nil, func(line, payload string) bool {
		if isAck(line, payload) {
			cancel()
			return false
		}
		return true
	})
	if err := j.Publish(ctx, "ses_a", "e1", []byte("first")); !errors.Is(err, context.Canceled) {
		t.Fatalf("Publish: %v", err)
	}
	c.filter(nil, nil)
	for _, id := range []string{"e1", "e2"} {
		if err := j.Publish(t.Context(), "ses_a", id, []byte("second")); err != nil {
			t.Fatal(err)
		}
	}
	logtest.Want(t, "followed", fo.Take(t, 2), "ses_a first", "ses_a second")
}

// What was purged before its follower saw it is not waited for.
func TestTailAndPurge(t *testing.T) {
	j, c, _ := aloneJournal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan string, 10)
	followed := make(chan error, 1)
	go func() {
		followed <- j.Follow(ctx, func(r session.Record) error {
			seen <- fmt.Sprintf("%s %s", r.Run, r.Data)
			return nil
		}, func() {})
	}()
	a, b := logtest.Claim(t, j, "run_a", 1), logtest.Claim(t, j, "run_b", 1)
	logtest.Append(t, a, "1")
	if got := <-seen; got != "run_a 1" {
		t.Fatal(got)
	}
	// The acknowledgement is lost, so the tail will not have it, and the follower's look at the log
	// until it is gone.
	c.filter(func(line, _ string) bool { return !strings.Contains(line, "STREAM.INFO") }, lose(1, isAck))
	logtest.Append(t, b, "1")
	if err := j.Purge(t.Context(), "ses_a", "run_b"); err != nil {
		t.Fatal(err)
	}
	logtest.Append(t, a, "2")
	c.filter(nil, nil)
	if got := <-seen; got != "run_a 2" {
		t.Fatal(got)
	}
	cancel()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
