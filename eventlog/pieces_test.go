package eventlog

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/session"
)

// pieced is a journal whose records are stored in pieces of ten bytes, at the end of a cable.
func pieced(t *testing.T) (*journal, *cable, func() *journal) {
	j, c, more := joined(t)
	j.piece = 10
	return j, c, more
}

const (
	long  = "0123456789abcdefghij0123456789"
	short = "short"
)

// The suite holds where every record of more than ten bytes is in pieces, some of which are lost on the way.
func TestSuiteInPieces(t *testing.T) {
	logtest.Run(t, func(t *testing.T) session.Log {
		j, c, _ := joined(t)
		j.piece = 4 << 10
		every := func(match func(line, payload string) bool) func(line, payload string) bool {
			var seen atomic.Int64
			return func(line, payload string) bool { return !match(line, payload) || seen.Add(1)%1999 != 4 }
		}
		c.filter(every(isAppend), every(isAck))
		return j
	})
}

// Wherever an append in pieces is cut off, its record is there once, whole, and before the next one.
func TestCutOffInPieces(t *testing.T) {
	for _, reached := range []bool{true, false} {
		for at := range int64(3) {
			j, c, more := pieced(t)
			w := logtest.Claim(t, j, "run_a", 1)
			ctx, cancel := context.WithCancel(t.Context())
			var seen atomic.Int64
			cut := func(match func(line, payload string) bool) func(line, payload string) bool {
				return func(line, payload string) bool {
					if match(line, payload) && seen.Add(1) == at+1 {
						cancel()
						return false
					}
					return true
				}
			}
			if reached {
				c.filter(nil, cut(isAck))
			} else {
				c.filter(cut(isAppend), nil)
			}
			if err := w.Append(ctx, []byte(long)); !errors.Is(err, context.Canceled) {
				t.Fatalf("Append: %v", err)
			}
			c.filter(nil, nil)
			whole := 0
			if reached && at == 2 {
				whole = 1
			}
			if got := logtest.Output(t, more(), "run_a"); len(got) != whole {
				t.Errorf("cut off at piece %d, reached %v: a reader has %q", at, reached, got)
			}
			logtest.Append(t, w, short, long)
			logtest.Want(t, "output", logtest.Output(t, j, "run_a"), long, short, long)
			logtest.Want(t, "followed", logtest.Follow(t, more()).Take(t, 3), "run_a "+long, "run_a "+short, "run_a "+long)
		}
	}
}

// A record that was fenced in the middle is not there.
func TestFencedInPieces(t *testing.T) {
	j, c, more := pieced(t)
	other := more()
	fo := logtest.Follow(t, other)
	old := logtest.Claim(t, j, "run_a", 1)
	logtest.Append(t, old, short)
	var seen atomic.Int64
	c.filter(nil, func(line, payload string) bool {
		if isAck(line, payload) && seen.Add(1) == 2 {
			logtest.Append(t, logtest.Claim(t, other, "run_a", 2), "new")
		}
		return true
	})
	for range 2 {
		if err := old.Append(t.Context(), []byte(long)); !errors.Is(err, session.ErrFenced) {
			t.Fatalf("Append: %v", err)
		}
	}
	logtest.Want(t, "output", logtest.Output(t, j, "run_a"), short, "new")
	logtest.Want(t, "followed", fo.Take(t, 2), "run_a "+short, "run_a new")
}

// A lifecycle event in pieces is there once, however often it is published, and by whom.
func TestPublishedInPieces(t *testing.T) {
	j, _, more := pieced(t)
	other := more()
	other.piece = 10
	fo := logtest.Follow(t, other)
	for range 2 {
		for _, log := range []session.Log{j, other} {
			if err := log.Publish(t.Context(), "ses_a", "e1", []byte(long)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := j.Publish(t.Context(), "ses_a", "e2", []byte(short)); err != nil {
		t.Fatal(err)
	}
	logtest.Want(t, "followed", fo.Take(t, 2), "ses_a "+long, "ses_a "+short)
}

// A record that has lost a piece to the limits is gone as a whole.
func TestPieceDropped(t *testing.T) {
	j, _, more := pieced(t)
	logtest.Append(t, logtest.Claim(t, j, "run_a", 1), long, short)
	if err := j.stream.DeleteMsg(t.Context(), 3); err != nil { // the marker, a piece, and this one
		t.Fatal(err)
	}
	logtest.Want(t, "output", logtest.Output(t, j, "run_a"), short)
	logtest.Want(t, "followed", logtest.Follow(t, more()).Take(t, 1), "run_a "+short)
}

// Half a megabyte is in pieces where a server lets 64 KiB through.
func TestSmallestCluster(t *testing.T) {
	log := joinCluster(t, startWith(t, minPiece), freshStream())
	big := strings.Repeat("x", 500<<10)
	logtest.Append(t, logtest.Claim(t, log, "run_a", 1), "1", big, "2")
	logtest.Want(t, "output", logtest.Output(t, log, "run_a"), "1", big, "2")
}
