package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/session"
)

// patience bounds what a queue has to do. An announcement changes hands within about three seconds.
const patience = 20 * time.Second

// RunQueue runs the suite that every session.Queue passes. open returns two nodes of a new, empty one.
func RunQueue(t *testing.T, open func(t *testing.T) (a, b session.Queue)) {
	for _, test := range []struct {
		name string
		f    func(t *testing.T, a, b session.Queue)
	}{
		{"each to one node", eachToOne},
		{"no more than there is room for", roomFor},
		{"announced again and again", announcedAgain},
		{"in progress as long as it takes", longWork},
		{"what ends with its context goes to another", handedOn},
		{"announced before anybody serves", announcedFirst},
		{"a run that is no subject token", foreignRun},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := open(t)
			test.f(t, a, b)
		})
	}
}

// A Worker serves a queue in the background, and does nothing with a run until it is told to.
type Worker struct {
	t      *testing.T
	cancel context.CancelFunc
	Taken  chan session.RunID // in the order in which it was handed them
	mu     sync.Mutex
	hold   map[session.RunID]chan struct{}
	served chan error
}

// Work starts a worker, which the test's end stops.
func Work(t *testing.T, q session.Queue, room int) *Worker {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Worker{t: t, cancel: cancel, Taken: make(chan session.RunID, 1000), hold: map[session.RunID]chan struct{}{}, served: make(chan error, 1)}
	go func() {
		w.served <- q.Serve(ctx, room, func(ctx context.Context, run session.RunID) {
			held := make(chan struct{})
			w.mu.Lock()
			w.hold[run] = held
			w.mu.Unlock()
			w.Taken <- run
			select {
			case <-held:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { w.Stop() })
	return w
}

// Done lets the work on a run end.
func (w *Worker) Done(runs ...session.RunID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range runs {
		close(w.hold[run])
		delete(w.hold, run)
	}
}

// Finish lets all work end that is in progress.
func (w *Worker) Finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for run, held := range w.hold {
		close(held)
		delete(w.hold, run)
	}
}

func (w *Worker) busy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hold)
}

// Stop ends the worker, and what it works on with it.
func (w *Worker) Stop() {
	w.cancel()
	if err := <-w.served; !errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrClosed) {
		w.t.Errorf("Serve: %v", err)
	}
	w.served <- context.Canceled
}

// Take returns the next n runs that any of the workers was handed, sorted.
func Take(t *testing.T, n int, workers ...*Worker) (runs []session.RunID) {
	t.Helper()
	end := time.After(patience)
	for poll := time.NewTicker(5 * time.Millisecond); len(runs) < n; {
		for _, w := range workers {
			for len(w.Taken) > 0 {
				runs = append(runs, <-w.Taken)
			}
		}
		select {
		case <-poll.C:
		case <-end:
			t.Fatalf("only %v were handed out, want %d", runs, n)
		}
	}
	slices.Sort(runs)
	return runs
}

// Announce announces runs, or fails the test.
func Announce(t *testing.T, q session.Queue, runs ...session.RunID) {
	t.Helper()
	for _, run := range runs {
		if err := q.Announce(t.Context(), run); err != nil {
			t.Fatalf("announce %s: %v", run, err)
		}
	}
}

// AnnounceUntilTaken announces a run again and again, as a sweep does, until a worker has it.
func AnnounceUntilTaken(t *testing.T, q session.Queue, run session.RunID, workers ...*Worker) {
	t.Helper()
	end := time.After(patience)
	for poll := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-poll.C:
		case <-end:
			t.Fatalf("%s was announced and not handed out", run)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := q.Announce(ctx, run)
		cancel()
		if err != nil {
			t.Log(err)
		}
		for _, w := range workers {
			if len(w.Taken) > 0 {
				WantRuns(t, Take(t, 1, w), run)
				return
			}
		}
	}
}

// WantRuns compares what was handed out.
func WantRuns(t *testing.T, got []session.RunID, want ...session.RunID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("handed out %v, want %v", got, want)
	}
}

func numbered(n int) (runs []session.RunID) {
	for i := range n {
		runs = append(runs, session.RunID(fmt.Sprintf("run_%02d", i)))
	}
	return runs
}

func eachToOne(t *testing.T, a, b session.Queue) {
	wa, wb := Work(t, a, 100), Work(t, b, 100)
	runs := numbered(40)
	for i, run := range runs {
		Announce(t, []session.Queue{a, b}[i%2], run)
	}
	WantRuns(t, Take(t, len(runs), wa, wb), runs...)
	Announce(t, a, "run_last")
	WantRuns(t, Take(t, 1, wa, wb), "run_last")
}

func roomFor(t *testing.T, a, b session.Queue) {
	wa, wb := Work(t, a, 2), Work(t, b, 1)
	runs := numbered(5)
	Announce(t, a, runs...)
	WantRuns(t, Take(t, 3, wa, wb), runs[:3]...)
	if wa.busy() != 2 || wb.busy() != 1 {
		t.Fatalf("%d and %d at once", wa.busy(), wb.busy())
	}
	wb.Finish()
	WantRuns(t, Take(t, 1, wa, wb), runs[3])
	if wb.busy() != 1 {
		t.Fatal("a full node was handed a run")
	}
	wa.Finish()
	WantRuns(t, Take(t, 1, wa, wb), runs[4])
}

func announcedAgain(t *testing.T, a, b session.Queue) {
	for range 3 {
		Announce(t, a, "run_a")
		Announce(t, b, "run_a")
	}
	w := Work(t, a, 10)
	WantRuns(t, Take(t, 1, w), "run_a")
	Announce(t, b, "run_a", "run_b") // the one is in progress
	WantRuns(t, Take(t, 1, w), "run_b")
	w.Done("run_a", "run_b")
	AnnounceUntilTaken(t, b, "run_a", w) // the announcement ends soon after f
}

func longWork(t *testing.T, a, b session.Queue) {
	wa := Work(t, a, 1)
	Announce(t, a, "run_a")
	WantRuns(t, Take(t, 1, wa), "run_a")
	wb := Work(t, b, 1)
	quiet := time.NewTimer(5 * time.Second)
	defer quiet.Stop()
	select {
	case run := <-wb.Taken:
		t.Fatalf("%s was taken from a node that works on it", run)
	case <-quiet.C:
	}
	wa.Done("run_a")
	Announce(t, b, "run_b")
	if run := Take(t, 1, wa, wb); run[0] != "run_b" {
		t.Fatalf("%s was handed out after its end", run)
	}
}

func handedOn(t *testing.T, a, b session.Queue) {
	wa := Work(t, a, 1)
	Announce(t, a, "run_a")
	WantRuns(t, Take(t, 1, wa), "run_a")
	wb := Work(t, b, 1)
	wa.Stop()
	WantRuns(t, Take(t, 1, wb), "run_a")
}

func announcedFirst(t *testing.T, a, b session.Queue) {
	Announce(t, a, "run_a", "run_b")
	WantRuns(t, Take(t, 2, Work(t, b, 5)), "run_a", "run_b")
}

func foreignRun(t *testing.T, a, b session.Queue) {
	for _, run := range []session.RunID{"", "a.b", "*", ">"} {
		if err := a.Announce(t.Context(), run); err == nil {
			t.Errorf("announced run %q", run)
		}
	}
}
