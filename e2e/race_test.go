package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

const (
	races    = 200 // of which
	realTabs = 10  // are run in browsers
)

// Two tabs and the command line race Try now, Cancel and the timer, each at a random moment
// around the one at which the retry is due. Whatever the order: at most one run starts, the
// timer starts none once the wait was cancelled, everybody is told of the same run, and no
// request is sent but that run's one. f22, f23.
func TestRace(t *testing.T) {
	t.Logf("go test ./e2e -run TestRace -seed %d repeats these moments", *seed)
	refused := rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}}
	up := newUpstream(t, script("race", time.Millisecond, refused, rehearsal.Take{say("over")}))
	config := func(base string) string {
		return up.config("race", "recovery: {tier1: {attempts: 1}, tier2: {base: "+base+"}}\nlimits: {concurrent_runs: 64}")
	}
	quick, slow := serve(t, config("1500ms")), serve(t, config("6s"))
	var all sync.WaitGroup
	ends := make(chan string, races)
	places := make(chan struct{}, 16) // at a time
	for n := range races - realTabs {
		places <- struct{}{}
		random := rand.New(rand.NewPCG(*seed, uint64(n)))
		all.Go(func() {
			defer func() { <-places }()
			r := newRound(quick, n)
			var acts sync.WaitGroup
			for range 2 {
				at := r.moment(random, 40*time.Millisecond)
				now := random.IntN(2) == 0
				acts.Go(func() { r.click(at, now) })
			}
			at, verb := r.moment(random, 40*time.Millisecond), []string{"now", "cancel"}[random.IntN(2)]
			acts.Go(func() { r.command(at.Add(-60*time.Millisecond), verb) }) // it takes a while to begin
			acts.Wait()
			ends <- r.judge(up)
		})
	}
	all.Wait()

	h := newHand(t)
	for n := races - realTabs; n < races; n++ {
		r := newRound(slow, n, func(r *round) {
			for i := range r.tabs {
				r.tabs[i] = h.open(slow, r.o.id)
			}
		})
		random := rand.New(rand.NewPCG(*seed, uint64(n)))
		var acts sync.WaitGroup
		for i, name := range []string{"Try now", "Cancel retry"} {
			at := r.moment(random, 100*time.Millisecond)
			acts.Go(func() {
				if problem := r.tabs[i].press(press{Button: name, At: at.UnixMilli()}); problem != "" {
					t.Errorf("round %d: %s", n, problem)
				}
			})
		}
		at, verb := r.moment(random, 100*time.Millisecond), []string{"now", "cancel"}[n%2]
		acts.Go(func() { r.command(at.Add(-60*time.Millisecond), verb) })
		all.Go(func() {
			acts.Wait()
			ends <- r.judge(up)
		})
	}
	all.Wait()

	close(ends)
	count := map[string]int{}
	for e := range ends {
		count[e]++
	}
	t.Log(count)
	for _, s := range []*server{quick, slow} {
		if sys, err := s.System(within(t)); err != nil || sys.Running != 0 || sys.Queued != 0 {
			t.Errorf("the server is still busy: %+v, %v", sys, err)
		}
	}
	if total := up.quiet(t).Total; total > 2*races {
		t.Errorf("%d requests", total)
	}
}

// round is one session whose retry is raced for.
type round struct {
	s        *server
	o        *observer
	question string
	sch      session.Schedule
	tabs     [2]tab

	mu   sync.Mutex
	told []session.RunID // the runs that somebody was told of
}

func newRound(s *server, n int, before ...func(*round)) *round {
	r := &round{s: s, question: fmt.Sprintf("round %d", n)}
	r.o = watch(s, s.session(""))
	for _, f := range before {
		f(r)
	}
	_, r.sch = r.o.waiting(s, r.question)
	return r
}

// moment is a random one, at most d from the one at which the retry is due.
func (r *round) moment(random *rand.Rand, d time.Duration) time.Time {
	return r.sch.NextAt.Std().Add(time.Duration(random.Int64N(int64(2*d))) - d)
}

func (r *round) hear(id session.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, id)
}

// click is what a tab sends when its button is pressed. What it names may be gone by then.
func (r *round) click(at time.Time, now bool) {
	t := r.s.t
	ctx := within(t)
	<-time.After(time.Until(at)) // the moment is what is tested
	var refusal *client.Error
	if now {
		receipt, err := r.s.RetryNow(ctx, r.o.id, r.sch.Token, false)
		switch {
		case err == nil:
			r.hear(receipt.RunID)
		case !errors.As(err, &refusal) || refusal.Status != 404 && refusal.Status != 409:
			t.Errorf("%s: try now: %v", r.question, err)
		}
		return
	}
	out, err := r.s.CancelRetry(ctx, r.o.id, r.sch.Token)
	switch {
	case err == nil && out.Run != nil:
		r.hear(out.Run.ID)
	case err != nil && (!errors.As(err, &refusal) || refusal.Status != 409):
		t.Errorf("%s: cancel: %v", r.question, err)
	}
}

// command is what the command line does. It reads the schedule first, which may be gone by
// then.
func (r *round) command(at time.Time, verb string) {
	t := r.s.t
	<-time.After(time.Until(at))
	code, stdout, stderr := reprise(t, r.s.home, "retry", verb, string(r.o.id), "--json")
	var out struct {
		RunID session.RunID `json:"run_id"`
		Run   *session.Run  `json:"run"`
	}
	switch {
	case code == 0:
		if err := json.Unmarshal([]byte(stdout), &out); err != nil {
			t.Errorf("%s: %v: %s", r.question, err, stdout)
		}
		if out.Run != nil {
			out.RunID = out.Run.ID
		}
		if out.RunID != "" {
			r.hear(out.RunID)
		}
	case !strings.Contains(stderr, "has no retry") && !strings.Contains(stderr, "there is no such thing here") && !strings.Contains(stderr, "has changed since you saw it"):
		t.Errorf("%s: retry %s: exit %d: %s", r.question, verb, code, stderr)
	}
}

// judge waits until the round is over, checks it by the session's log and by the upstream,
// and says how it ended.
func (r *round) judge(up *upstream) string {
	t, o := r.s.t, r.o
	t.Helper()
	// Events come in order: this one tells that all before it has come.
	title := r.question + " is over"
	if _, err := r.s.PatchSession(within(t), o.id, session.SessionPatch{Title: &title}); err != nil {
		t.Errorf("%s: %v", r.question, err)
	}
	o.await("last event", func(e *session.Event) bool { return e.Session != nil && e.Session.Title == title })
	runs := o.retries()
	if len(runs) > 1 {
		t.Errorf("%s: %d runs: %+v", r.question, len(runs), runs)
	}
	end, most := "cancelled", 1
	if len(runs) == 1 {
		run := o.end(runs[0].ID)
		most = 2
		end = fmt.Sprintf("started by %s, %s", run.Actor, run.State)
		if run.State != session.Succeeded && run.State != session.Cancelled || run.Failure != nil || run.Token != r.sch.Token && !r.wasCancelled(run.ID) {
			t.Errorf("%s: %+v", r.question, run)
		}
		if run.Actor == "timer" && r.wasCancelled(run.ID) {
			t.Errorf("%s: the timer has started %s after the wait was cancelled", r.question, run.ID)
		}
	} else if now, err := r.s.Retry(within(t), o.id); err == nil && now.State != session.ScheduleCancelled {
		t.Errorf("%s: nothing has started, and %+v", r.question, now)
	}
	for _, told := range r.told {
		if len(runs) != 1 || told != runs[0].ID {
			t.Errorf("%s: somebody was told of %s, and %+v has started", r.question, told, runs)
		}
	}
	sent := up.quiet(t).ByKey[keyOf("race", r.question)]
	if sent > most || strings.HasSuffix(end, string(session.Succeeded)) && sent != 2 {
		t.Errorf("%s: %s, and %d requests", r.question, end, sent)
	}
	o.stop()
	o.check()
	return end
}

// wasCancelled reports whether the wait was cancelled before the run began.
func (r *round) wasCancelled(run session.RunID) bool {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	for _, e := range r.o.events {
		switch {
		case e.Run != nil && e.Run.ID == run:
			return false
		case e.Schedule != nil && e.Schedule.State == session.ScheduleCancelled:
			return true
		}
	}
	return false
}
