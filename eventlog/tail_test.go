package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/session"
)

// Whatever the order in which acknowledgements come, and whenever the follower looks, a tail
// gives each record once and in order.
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
		for looks := range 1 << n { // after which records the follower looks
			tail := newTail()
			var taken []session.Record
			for i, seq := range order {
				tail.add(session.Record{Seq: seq})
				if looks&(1<<i) != 0 {
					taken = tail.take(taken, uint64(len(taken))+1)
				}
			}
			taken = tail.take(taken, uint64(len(taken))+1)
			for i, r := range taken {
				if r.Seq != uint64(i+1) {
					t.Fatalf("order %v, looks %b: took %v", order, looks, taken)
				}
			}
			if len(taken) != n || tail.bytes != 0 {
				t.Fatalf("order %v, looks %b: took %d, %d bytes left", order, looks, len(taken), tail.bytes)
			}
		}
	}
	permute([]uint64{1, 2, 3, 4, 5}, nil)
}

// A tail wakes its follower for the record that is next, and for no other.
func TestTailWakes(t *testing.T) {
	tail := newTail()
	tail.take(nil, 7)
	for _, c := range []struct {
		seq  uint64
		want bool
	}{{8, false}, {6, false}, {7, true}, {9, false}} {
		tail.add(session.Record{Seq: c.seq})
		if woken := len(tail.ready) > 0; woken != c.want {
			t.Errorf("record %d: woken %v", c.seq, woken)
		} else if woken {
			<-tail.ready
		}
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
		tail := newTail()
		fill(tail)
		if got := tail.take(nil, 1); len(got) > 0 {
			t.Errorf("%s: took %d", what, len(got))
		}
		tail.add(session.Record{Seq: 1})
		tail.open()
		tail.add(session.Record{Seq: 2})
		if got := tail.take(nil, 2); len(got) != 1 {
			t.Errorf("%s: took %d after it was opened again", what, len(got))
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
	seen, release := make(chan string, 10), make(chan struct{})
	followed := make(chan error, 1)
	go func() {
		followed <- j.Follow(ctx, func(r session.Record) error {
			seen <- fmt.Sprintf("%s %s", r.Run, r.Data)
			<-release
			return nil
		}, func() {})
	}()
	a, b := logtest.Claim(t, j, "run_a", 1), logtest.Claim(t, j, "run_b", 1)
	logtest.Append(t, a, "1")
	if got := <-seen; got != "run_a 1" {
		t.Fatal(got)
	}
	c.filter(nil, lose(1, isAck)) // the acknowledgement alone: the tail will not have it
	logtest.Append(t, b, "1")
	if err := j.Purge(t.Context(), "ses_a", "run_b"); err != nil {
		t.Fatal(err)
	}
	logtest.Append(t, a, "2")
	close(release)
	if got := <-seen; got != "run_a 2" {
		t.Fatal(got)
	}
	cancel()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
