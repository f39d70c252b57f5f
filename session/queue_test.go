package session_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// line is a session.Queue of one process. Its nodes take turns.
type line struct {
	runs chan session.RunID
	lost bool // what is announced reaches nobody

	mu    sync.Mutex
	heard []session.RunID
}

func newLine() *line { return &line{runs: make(chan session.RunID, 1000)} }

func (l *line) Announce(_ context.Context, run session.RunID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, run)
	if !l.lost {
		l.runs <- run
	}
	return nil
}

func (l *line) announced() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.heard)
}

func (l *line) Serve(ctx context.Context, room int, f func(context.Context, session.RunID)) error {
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, room)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case run := <-l.runs:
			all.Go(func() {
				f(ctx, run)
				<-slots
			})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// owners counts the running runs by the node that has them.
func (w *world) owners() map[string]int {
	w.t.Helper()
	owners := map[string]int{}
	err := w.store.View(w.t.Context(), func(tx session.ReadTx) error {
		runs, err := tx.RunningRuns()
		for _, r := range runs {
			owners[r.Owner]++
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return owners
}

// postAll posts a message to each of n new sessions, at one node.
func (w *world) postAll(m *session.Manager, n int) (runs []session.RunID) {
	w.t.Helper()
	for range n {
		pass(time.Millisecond) // so that their order is known
		r, err := m.Post(w.t.Context(), session.Act{Actor: "ann"}, w.another(), []llm.Part{llm.Text("hi")}, session.Routing{})
		if err != nil {
			w.t.Fatal(err)
		}
		runs = append(runs, r.RunID)
	}
	return runs
}

// stalls are answers that never come.
func stalls(n int) [][]llmtest.Step { return slices.Repeat([][]llmtest.Step{{{Stall: true}}}, n) }

// answers come after a while.
func answers(n int, after time.Duration) [][]llmtest.Step {
	return slices.Repeat([][]llmtest.Step{{{Wait: after, Event: llm.Event{Kind: llm.EventPing}}, llmtest.Text("fine"), llmtest.Done(llm.StopEnd)}}, n)
}

// What one node accepts beyond its share runs at the others, and starts at once.
func TestLoadSpreads(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		queue := newLine()
		w.cfg.Queue, w.cfg.ConcurrentRuns = queue, 20
		for range 3 {
			w.start()
		}
		pass(time.Second) // they have seen each other
		began := time.Now()
		w.postAll(w.m, 12)
		synctest.Wait()
		owners := w.owners()
		if total := 0; time.Since(began) != 12*time.Millisecond || len(owners) != 3 {
			t.Errorf("after %v: %v", time.Since(began), owners)
		} else {
			for _, n := range owners {
				total += n
				if n < 3 {
					t.Errorf("%v", owners)
				}
			}
			if total != 12 {
				t.Errorf("%v", owners)
			}
		}
		if n := queue.announced(); n > 11 {
			t.Errorf("%d announcements", n)
		}
	}, stalls(12)...)
}

// Where the load comes evenly, nobody has to be told.
func TestAcceptedWhereItRuns(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		queue := newLine()
		w.cfg.Queue, w.cfg.ConcurrentRuns = queue, 20
		var all []*session.Manager
		for range 3 {
			all = append(all, w.start().m)
		}
		pass(time.Second)
		for i := range 12 {
			w.postAll(all[i%3], 1)
		}
		if n := queue.announced(); n != 0 {
			t.Errorf("%d announcements", n)
		}
	}, stalls(12)...)
}

// With a queue the nodes keep the cap together too: what finds no slot is let go, and whoever frees
// one fills it with the oldest.
func TestCapWithQueue(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		queue := newLine()
		w.cfg.Queue, w.cfg.ConcurrentRuns = queue, 3
		w.start()
		w.start()
		pass(time.Second)
		began := time.Now()
		runs := w.postAll(w.m, 9)
		for _, id := range runs { // whatever is announced
			queue.runs <- id
		}
		for range 29 {
			pass(100 * time.Millisecond)
			if sys, err := w.m.System(t.Context()); err != nil || sys.Running != 3 {
				t.Fatalf("after %v: %+v, %v", time.Since(began), sys, err)
			}
		}
		var last time.Time
		for _, id := range runs {
			run := w.ended(id)
			if run.StartedAt.Std().Before(last) {
				t.Error("a younger run has started first")
			}
			last = run.StartedAt.Std()
		}
		if took := time.Since(began); took > 3100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	}, answers(9, time.Second)...)
}

// What was announced and heard by nobody starts with the next sweep.
func TestLostAnnouncement(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		queue := newLine()
		queue.lost = true
		w.cfg.Queue, w.cfg.ConcurrentRuns = queue, 20
		w.start()
		w.start()
		pass(time.Second)
		w.postAll(w.m, 4)
		pass(2 * time.Second)
		total := 0
		for _, n := range w.owners() {
			total += n
		}
		if total != 4 {
			t.Errorf("%d run", total)
		}
	}, stalls(4)...)
}

// A node that stops lets go of what has shown nothing, and another one goes on at once.
func TestDrain(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		w.cfg.Queue = newLine()
		a := w.start().m
		w.start()
		pass(time.Second)
		r := w.postOn(a, "hi")
		synctest.Wait()
		began := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		run := w.ended(r.RunID)
		if took := time.Since(began); run.State != session.Succeeded || run.Claims != 2 || took > w.cfg.Grace {
			t.Errorf("after %v: %+v", took, run)
		}
		w.expect("operator: hi", "reply: fine")
	}, append(stalls(1), say("fine"))...)
}

// Before it stops, a node answers everything and begins nothing: another one does.
func TestNodeThatLeaves(t *testing.T) {
	nodes(t, func(t *testing.T, w *world) {
		w.cfg.Queue = newLine()
		a := w.start().m
		w.start()
		pass(time.Second)
		own := w.postOn(a, "hi")
		a.Drain()
		others := w.postAll(a, 3)
		synctest.Wait()
		counts := slices.Sorted(maps.Values(w.owners()))
		if !slices.Equal(counts, []int{1, 3}) {
			t.Errorf("the nodes run %v", counts)
		}
		for _, id := range append(others, own.RunID) {
			if run := w.ended(id); run.State != session.Succeeded || run.Claims != 1 {
				t.Errorf("%+v", run)
			}
		}
		w.closes(a)
	}, answers(4, time.Second)...)
}
