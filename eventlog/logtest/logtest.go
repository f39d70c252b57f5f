// Package logtest is the suite that every session.Log passes. It needs nothing but the interface
// and a fresh, empty log for each test. It promises no order among its tests; each closes its log.
package logtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-run/reprise/session"
)

// Run runs the suite. open returns a new, empty log.
func Run(t *testing.T, open func(t *testing.T) session.Log) {
	for _, test := range []struct {
		name string
		f    func(t *testing.T, log session.Log)
	}{
		{"one order of everything", oneOrder},
		{"a claim fences older writers", fences},
		{"a generation is claimed once", claimedOnce},
		{"of racing claims the newest stays", racingClaims},
		{"a claim against a busy writer", busyWriter},
		{"a lifecycle event is appended once", publishedOnce},
		{"output of many records", longOutput},
		{"a record of 16 MiB", largeRecord},
		{"a buffer is the caller's again", bufferReused},
		{"purge takes one run", purge},
		{"caught up at once on an empty log", emptyCatchUp},
		{"the follower's error ends it", followerFails},
		{"a slow follower loses nothing", slowFollower},
		{"a done context appends nothing", doneContext},
		{"ids that are no subject tokens", foreignIDs},
		{"closed", closed},
		{"close under load", closeUnderLoad},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := open(t)
			test.f(t, log)
			if err := log.Close(); err != nil {
				t.Error("close:", err)
			}
		})
	}
}

// Follower follows a log in the background.
type Follower struct {
	CaughtUp chan struct{} // closed by caughtUp; a second call panics
	records  chan session.Record
	cancel   context.CancelFunc
	done     chan struct{}
	err      error
}

// Follow starts a follower that the test's end stops.
func Follow(t *testing.T, log session.Log) *Follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	fo := &Follower{
		CaughtUp: make(chan struct{}),
		records:  make(chan session.Record, 1<<20),
		cancel:   cancel,
		done:     make(chan struct{}),
	}
	go func() {
		defer close(fo.done)
		fo.err = log.Follow(ctx, func(r session.Record) error {
			fo.records <- r
			return nil
		}, func() { close(fo.CaughtUp) })
	}()
	t.Cleanup(func() { _ = fo.Stop() })
	return fo
}

// Take returns the next n records, each as "<run or session> <data>", and checks that their
// sequence grows.
func (fo *Follower) Take(t *testing.T, n int) []string {
	t.Helper()
	var got []string
	last := uint64(0)
	for len(got) < n {
		select {
		case r := <-fo.records:
			if r.Seq <= last {
				t.Fatalf("record %d follows record %d", r.Seq, last)
			}
			last = r.Seq
			got = append(got, text(r))
		case <-fo.done:
			t.Fatalf("Follow ended with %v after %q", fo.err, got)
		}
	}
	return got
}

// Rest returns what has been delivered and not taken.
func (fo *Follower) Rest() int { return len(fo.records) }

// Stop ends the follower and returns what Follow returned.
func (fo *Follower) Stop() error {
	fo.cancel()
	<-fo.done
	return fo.err
}

func text(r session.Record) string {
	name := string(r.Run)
	if name == "" {
		name = string(r.Session)
	}
	return name + " " + string(r.Data)
}

// Claim claims a run of session ses_a, or fails the test.
func Claim(t *testing.T, log session.Log, run session.RunID, generation int64) session.Writer {
	t.Helper()
	w, err := log.Claim(t.Context(), "ses_a", run, generation)
	if err != nil {
		t.Fatalf("claim %s in generation %d: %v", run, generation, err)
	}
	return w
}

// Append appends each text, or fails the test.
func Append(t *testing.T, w session.Writer, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if err := w.Append(t.Context(), []byte(s)); err != nil {
			t.Fatalf("append %q: %v", s, err)
		}
	}
}

// Output returns a run's output in the log as texts, and checks session, run and order.
func Output(t *testing.T, log session.Log, run session.RunID) []string {
	t.Helper()
	var got []string
	last := uint64(0)
	for r, err := range log.Output(t.Context(), "ses_a", run) {
		if err != nil {
			t.Fatalf("output of %s: %v", run, err)
		}
		if r.Session != "ses_a" || r.Run != run || r.Seq <= last {
			t.Fatalf("output of %s has %+v after record %d", run, r, last)
		}
		last = r.Seq
		got = append(got, string(r.Data))
	}
	return got
}

// Want compares texts.
func Want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: got error %v, want %v", what, got, want)
	}
}

func publish(t *testing.T, log session.Log, s session.ID, id, data string) {
	t.Helper()
	if err := log.Publish(t.Context(), s, id, []byte(data)); err != nil {
		t.Fatalf("publish %s: %v", id, err)
	}
}

func oneOrder(t *testing.T, log session.Log) {
	wantError(t, "Ready", log.Ready(t.Context()), nil)
	a, b := Claim(t, log, "run_a", 1), Claim(t, log, "run_b", 1)
	Append(t, a, "1")
	publish(t, log, "ses_x", "e1", "life")
	Append(t, b, "1")
	fo := Follow(t, log)
	<-fo.CaughtUp
	if fo.Rest() != 3 {
		t.Fatalf("caught up after %d records", fo.Rest())
	}
	Append(t, a, "2", "3")
	b = Claim(t, log, "run_b", 2)
	Append(t, b, "2")
	publish(t, log, "ses_y", "e2", "life")
	want := []string{"run_a 1", "ses_x life", "run_b 1", "run_a 2", "run_a 3", "run_b 2", "ses_y life"}
	Want(t, "followed", fo.Take(t, 7), want...)
	late := Follow(t, log)
	<-late.CaughtUp
	Want(t, "followed later", late.Take(t, 7), want...)
	Want(t, "output", Output(t, log, "run_a"), "1", "2", "3")
	Want(t, "output", Output(t, log, "run_b"), "1", "2")
	Want(t, "output", Output(t, log, "run_c"))
	wantError(t, "a stopped follower", fo.Stop(), context.Canceled)
}

func fences(t *testing.T, log session.Log) {
	first := Claim(t, log, "run_a", 1)
	Append(t, first, "first")
	third := Claim(t, log, "run_a", 3)
	wantError(t, "the older writer", first.Append(t.Context(), []byte("late")), session.ErrFenced)
	Append(t, third, "third")
	wantError(t, "the older writer", first.Append(t.Context(), []byte("late")), session.ErrFenced)
	_, err := log.Claim(t.Context(), "ses_a", "run_a", 2)
	wantError(t, "an older claim", err, session.ErrFenced)
	Append(t, third, "goes on")
	Want(t, "output", Output(t, log, "run_a"), "first", "third", "goes on")
}

// A claim may be repeated by its owner, which did not hear of its success, until it has written.
func claimedOnce(t *testing.T, log session.Log) {
	unheard := Claim(t, log, "run_a", 1)
	w := Claim(t, log, "run_a", 1)
	wantError(t, "the writer of a repeated claim", unheard.Append(t.Context(), []byte("x")), session.ErrFenced)
	Append(t, w, "1")
	_, err := log.Claim(t.Context(), "ses_a", "run_a", 1)
	wantError(t, "a claim of a generation that has written", err, session.ErrFenced)
	Append(t, w, "2")
	Want(t, "output", Output(t, log, "run_a"), "1", "2")
}

func racingClaims(t *testing.T, log session.Log) {
	const n = 20
	var wg sync.WaitGroup
	writers := make([]session.Writer, n+1)
	for _, g := range rand.Perm(n) {
		wg.Go(func() {
			w, err := log.Claim(t.Context(), "ses_a", "run_a", int64(g+1))
			if err != nil && !errors.Is(err, session.ErrFenced) {
				t.Error(err)
			}
			writers[g+1] = w
		})
	}
	wg.Wait()
	for g, w := range writers[:n] {
		if w != nil {
			wantError(t, fmt.Sprint("generation ", g), w.Append(t.Context(), []byte("x")), session.ErrFenced)
		}
	}
	Append(t, writers[n], "newest")
	Want(t, "output", Output(t, log, "run_a"), "newest")
}

func busyWriter(t *testing.T, log session.Log) {
	old := Claim(t, log, "run_a", 1)
	Append(t, old, "old")
	fenced := make(chan int)
	go func() {
		n := 1
		for {
			err := old.Append(t.Context(), []byte("old"))
			if err != nil {
				if !errors.Is(err, session.ErrFenced) {
					t.Error(err)
				}
				fenced <- n
				return
			}
			n++
		}
	}()
	w := Claim(t, log, "run_a", 2)
	Append(t, w, "new")
	n := <-fenced
	Append(t, w, "new")
	want := append(slices.Repeat([]string{"old"}, n), "new", "new")
	Want(t, "output", Output(t, log, "run_a"), want...)
}

func publishedOnce(t *testing.T, log session.Log) {
	fo := Follow(t, log)
	for range 3 {
		publish(t, log, "ses_a", "e1", "one")
		publish(t, log, "ses_a", "e2", "two")
	}
	publish(t, log, "ses_b", "e3", "three")
	Want(t, "followed", fo.Take(t, 3), "ses_a one", "ses_a two", "ses_b three")
}

func longOutput(t *testing.T, log session.Log) {
	a, b := Claim(t, log, "run_a", 1), Claim(t, log, "run_b", 1)
	fill := strings.Repeat("x", 20<<10) // more in all than one reading takes, by bytes and by number
	var want []string
	for i := range 1000 {
		s := fmt.Sprint(i, fill[:i%3/2*len(fill)])
		want = append(want, s)
		Append(t, a, s)
		Append(t, b, "b")
	}
	Want(t, "output", Output(t, log, "run_a"), want...)
	seen := 0
	for range log.Output(t.Context(), "ses_a", "run_b") {
		if seen++; seen == 300 {
			break
		}
	}
}

func largeRecord(t *testing.T, log session.Log) {
	fo := Follow(t, log)
	w := Claim(t, log, "run_a", 1)
	big := strings.Repeat("0123456789abcdef", 1<<20)
	Append(t, w, "before", big, "after")
	if got := Output(t, log, "run_a"); len(got) != 3 || got[1] != big || got[2] != "after" {
		t.Fatalf("output has %d records", len(got))
	}
	if got := fo.Take(t, 3); got[1] != "run_a "+big || got[2] != "run_a after" {
		t.Fatal("the follower got another record")
	}
}

func bufferReused(t *testing.T, log session.Log) {
	fo := Follow(t, log)
	w := Claim(t, log, "run_a", 1)
	var want []string
	buffer := make([]byte, 1)
	for c := byte('a'); c < 'z'; c++ {
		buffer[0] = c
		if err := w.Append(t.Context(), buffer); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("run_a %c", c))
	}
	buffer[0] = 'z'
	Want(t, "followed", fo.Take(t, len(want)), want...)
}

func purge(t *testing.T, log session.Log) {
	a, b := Claim(t, log, "run_a", 4), Claim(t, log, "run_b", 1)
	Append(t, a, "a")
	Append(t, b, "b")
	if err := log.Purge(t.Context(), "ses_a", "run_a"); err != nil {
		t.Fatal(err)
	}
	Want(t, "output", Output(t, log, "run_a"))
	Want(t, "output", Output(t, log, "run_b"), "b")
	if err := a.Append(t.Context(), []byte("late")); err == nil {
		t.Fatal("a writer went on after the purge")
	}
	Append(t, Claim(t, log, "run_a", 5), "again")
	Want(t, "output", Output(t, log, "run_a"), "again")
	fo := Follow(t, log)
	Want(t, "followed", fo.Take(t, 2), "run_b b", "run_a again")
}

func emptyCatchUp(t *testing.T, log session.Log) {
	fo := Follow(t, log)
	<-fo.CaughtUp
	Append(t, Claim(t, log, "run_a", 1), "1")
	Want(t, "followed", fo.Take(t, 1), "run_a 1")
	marker := Follow(t, log)
	Claim(t, log, "run_b", 1)
	<-marker.CaughtUp
}

func followerFails(t *testing.T, log session.Log) {
	Append(t, Claim(t, log, "run_a", 1), "1", "2", "3")
	failure := errors.New("enough")
	calls := 0
	err := log.Follow(t.Context(), func(session.Record) error {
		if calls++; calls == 2 {
			return failure
		}
		return nil
	}, func() { t.Error("caught up") })
	wantError(t, "Follow", err, failure)
	if calls != 2 {
		t.Fatalf("called %d times", calls)
	}
}

func slowFollower(t *testing.T, log session.Log) {
	const n = 20_000
	w := Claim(t, log, "run_a", 1)
	Append(t, w, "0")
	ctx, cancel := context.WithCancel(t.Context())
	blocked, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	next := 0
	go func() {
		defer close(done)
		err := log.Follow(ctx, func(r session.Record) error {
			if string(r.Data) != fmt.Sprint(next) {
				return fmt.Errorf("record %s in place of %d", r.Data, next)
			}
			switch next++; next {
			case 1:
				close(blocked)
				<-release
			case n:
				cancel()
			}
			return nil
		}, func() {})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Follow: %v", err)
		}
	}()
	<-blocked
	for i := 1; i < n; i++ {
		Append(t, w, fmt.Sprint(i))
	}
	close(release)
	<-done
	cancel()
}

func doneContext(t *testing.T, log session.Log) {
	w := Claim(t, log, "run_a", 1)
	reason := errors.New("stopped by the operator")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	wantError(t, "Ready", log.Ready(ctx), reason)
	wantError(t, "Append", w.Append(ctx, []byte("x")), reason)
	wantError(t, "Publish", log.Publish(ctx, "ses_a", "e", []byte("x")), reason)
	wantError(t, "Follow", log.Follow(ctx, func(session.Record) error { return nil }, func() {}), reason)
	_, err := log.Claim(ctx, "ses_a", "run_b", 1)
	wantError(t, "Claim", err, reason)
	wantError(t, "Purge", log.Purge(ctx, "ses_a", "run_a"), reason)
	for _, err := range log.Output(ctx, "ses_a", "run_a") {
		wantError(t, "Output", err, reason)
	}
	Append(t, w, "1")
	Want(t, "output", Output(t, log, "run_a"), "1")
}

func foreignIDs(t *testing.T, log session.Log) {
	for _, id := range []string{"", "a.b", "*", ">", "a b", "A", "é"} {
		if _, err := log.Claim(t.Context(), "ses_a", session.RunID(id), 1); err == nil {
			t.Errorf("claimed run %q", id)
		}
		if err := log.Publish(t.Context(), session.ID(id), "e", nil); err == nil {
			t.Errorf("published for session %q", id)
		}
		if err := log.Purge(t.Context(), session.ID(id), "run_a"); err == nil {
			t.Errorf("purged session %q", id)
		}
		for _, err := range log.Output(t.Context(), session.ID(id), "run_a") {
			if err == nil {
				t.Errorf("output of session %q", id)
			}
		}
	}
}

func closed(t *testing.T, log session.Log) {
	w := Claim(t, log, "run_a", 1)
	fo := Follow(t, log)
	<-fo.CaughtUp
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	<-fo.done
	wantError(t, "the follower", fo.err, session.ErrClosed)
	wantError(t, "Ready", log.Ready(t.Context()), session.ErrClosed)
	wantError(t, "Append", w.Append(t.Context(), []byte("x")), session.ErrClosed)
	_, err := log.Claim(t.Context(), "ses_a", "run_b", 1)
	wantError(t, "Claim", err, session.ErrClosed)
	wantError(t, "Publish", log.Publish(t.Context(), "ses_a", "e", nil), session.ErrClosed)
	wantError(t, "Purge", log.Purge(t.Context(), "ses_a", "run_a"), session.ErrClosed)
	wantError(t, "Follow", log.Follow(t.Context(), nil, nil), session.ErrClosed)
	for _, err := range log.Output(t.Context(), "ses_a", "run_a") {
		wantError(t, "Output", err, session.ErrClosed)
	}
}

func closeUnderLoad(t *testing.T, log session.Log) {
	var wg sync.WaitGroup
	for i := range 8 {
		w := Claim(t, log, session.RunID(fmt.Sprint("run_", i)), 1)
		Append(t, w, "x")
		wg.Go(func() {
			for {
				if err := w.Append(context.Background(), []byte("x")); err != nil {
					if !errors.Is(err, session.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
