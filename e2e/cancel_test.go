package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// untilDue is how long the waits of the cancel matrix are: long enough for a busy machine to
// cancel in them, and for the test to see them pass.
const untilDue = 15 * time.Second

// moment is a moment at which there is something to cancel.
type moment struct {
	name   string
	model  string
	config string
	// reach returns when the moment is there.
	reach func(c *cell)
	// retry: what is cancelled is a wait for a retry, not a run.
	retry bool
	sent  int // requests until then
}

// cell is a moment and who cancels.
type cell struct {
	*moment
	by    string
	model string // of its own: what limits one session's rate holds the others back

	s  *server
	up *upstream
	o  *observer
	id session.ID
	r  session.Receipt

	tab tab // where it is the page that cancels
}

func (c *cell) question() string { return c.name + " by " + c.by }

// requests is how often the upstream was asked.
func (c *cell) requests(r rehearsal.Report) int {
	return r.ByKey[keyOf(c.model, c.question())]
}

func (c *cell) await(what string, condition func(*session.Event) bool) {
	c.o.t.Helper()
	c.o.await(what, condition)
}

func cancelScripts(hands map[string]func(*cell)) (all []rehearsal.Script) {
	var (
		text    = say(tokens("shown", 10))
		think   = rehearsal.Step{Do: rehearsal.Think, Text: tokens("thought", 10)}
		stall   = rehearsal.Step{Do: rehearsal.Stall}
		refused = func(f rehearsal.Fault) rehearsal.Take { return rehearsal.Take{{Do: rehearsal.Status, Fault: &f}} }
		never   = rehearsal.Take{say("never")} // what any later attempt would get
	)
	const pause = time.Millisecond
	for _, s := range []rehearsal.Script{
		script("silent", pause, rehearsal.Take{stall}, never),
		script("busy", pause, refused(rehearsal.Fault{Kind: rehearsal.RateLimited, Wait: rehearsal.Duration(untilDue), Hint: rehearsal.HintMillis}), never),
		script("thinks", pause, rehearsal.Take{think, stall}, never),
		script("says", pause, rehearsal.Take{text, stall}, never),
		script("calls", pause, rehearsal.Take{{Do: rehearsal.HalfCall}, stall}, never),
		{Name: "called", Pause: rehearsal.Duration(pause), Scenes: []rehearsal.Scene{{{{Do: rehearsal.Call}}}, {{stall}, never}}},
		script("refused", pause, refused(rehearsal.Fault{Kind: rehearsal.Overloaded}), never),
		script("limited", pause, refused(rehearsal.Fault{Kind: rehearsal.RateLimited, Wait: rehearsal.Duration(50 * time.Minute)}), never),
		script("passes", 0, rehearsal.Take{{Do: rehearsal.Wait, For: rehearsal.Duration(untilDue + time.Second)}, say("over")}),
	} {
		all = append(all, s)
		name := s.Name
		for by := range hands {
			s.Name = modelOf(name, by)
			all = append(all, s)
		}
	}
	return all
}

// modelOf is the model that plays a script for one cell.
func modelOf(script, by string) string { return script + "-" + strings.ReplaceAll(by, " ", "-") }

// moments is the table: every state of a run, and of what follows a failed one.
func moments() []*moment {
	waits := "recovery: {tier1: {attempts: 1}, tier2: {base: " + untilDue.String() + "}}"
	soon := "recovery: {tier1: {attempts: 1}, tier2: {base: 1s}}"
	fast := "recovery: {tier1: {attempts: 3, base: 5ms}, tier2: {base: " + untilDue.String() + "}}"
	running := func(c *cell) {
		c.await("run", func(e *session.Event) bool { return e.Run != nil && e.Run.State == session.Running })
	}
	shows := func(kind llm.EventKind) func(*cell) {
		return func(c *cell) {
			c.await(kind.String(), func(e *session.Event) bool {
				return e.Output != nil && slices.ContainsFunc(e.Output.Events, func(l llm.Event) bool { return l.Kind == kind })
			})
		}
	}
	schedule := func(state session.ScheduleState) func(*cell) {
		return func(c *cell) {
			c.await("schedule", func(e *session.Event) bool { return e.Schedule != nil && e.Schedule.State == state })
		}
	}
	holds := func(call bool) func(*cell) {
		return func(c *cell) {
			c.await("progress", func(e *session.Event) bool { return e.Progress != nil && e.Progress.Call == call })
		}
	}
	return []*moment{
		{name: "queued", model: "says", config: "limits: {concurrent_runs: 0}", reach: func(c *cell) {
			c.await("run", func(e *session.Event) bool { return e.Run != nil && e.Run.State == session.Queued })
		}},
		{name: "connecting", model: "silent", config: fast, reach: func(c *cell) { running(c); c.asked(1) }, sent: 1},
		{name: "back-off", model: "busy", config: fast, sent: 1, reach: func(c *cell) {
			c.await("decision", func(e *session.Event) bool { return e.Attempt != nil && e.Attempt.Decision != nil })
		}},
		{name: "holding", model: "says", config: "recovery: {hold: whole}", reach: holds(false), sent: 1},
		{name: "preparing a call", model: "calls", config: fast, reach: holds(true), sent: 1},
		{name: "thinking", model: "thinks", config: fast, reach: shows(llm.EventThinking), sent: 1},
		{name: "text", model: "says", config: fast, reach: shows(llm.EventText), sent: 1},
		{name: "behind a tool", model: "called", config: fast, reach: func(c *cell) { c.asked(2) }, sent: 2},
		{name: "armed", model: "refused", config: waits, reach: schedule(session.ScheduleArmed), retry: true, sent: 1},
		{name: "scheduled", model: "limited", config: waits, reach: schedule(session.ScheduleScheduled), retry: true, sent: 1},
		{name: "held", model: "refused", config: soon, retry: true, sent: 1, reach: func(c *cell) {
			c.o.stop() // nobody watches
			c.s.held(func(id session.ID) bool { return id == c.id })
		}},
		{name: "dispatching", model: "refused", config: "limits: {concurrent_runs: 1}\n" + soon, sent: 1, reach: func(c *cell) {
			other := c.s.session("responses/silent") // takes the one place that there is
			c.s.post(other, c.question())
			c.await("retry", func(e *session.Event) bool { return e.Run != nil && e.Run.Trigger == session.TriggerRetry })
		}},
	}
}

// asked waits until the upstream has been asked n times.
func (c *cell) asked(n int) {
	c.s.t.Helper()
	c.up.await(c.s.t, "request", func(r rehearsal.Report) bool { return c.requests(r) == n })
}

// Whatever is going on and whoever ends it: a run ends as cancelled and a wait as cancelled,
// never as failed, nothing is armed again, and nothing is ever sent behind it. f5 to f13.
func TestCancelMatrix(t *testing.T) {
	h := newHand(t)
	hands := map[string]func(*cell){
		"the API": func(c *cell) {
			if c.retry {
				if _, err := c.s.CancelRetry(within(t), c.id, 0); err != nil {
					t.Errorf("%s: %v", c.question(), err)
				}
				return
			}
			s, err := c.s.Session(within(t), c.id)
			if err == nil {
				_, err = c.s.Cancel(within(t), c.id, s.LastRun.ID)
			}
			if err != nil {
				t.Errorf("%s: %v", c.question(), err)
			}
		},
		"the command line": func(c *cell) {
			args := []string{"cancel", string(c.id)}
			if c.retry {
				args = []string{"retry", "cancel", string(c.id)}
			}
			if code, stdout, stderr := reprise(t, c.s.home, args...); code != 0 {
				t.Errorf("%s: exit %d: %s %s", c.question(), code, stdout, stderr)
			}
		},
		"the page": func(c *cell) {
			if c.name == "held" { // until somebody looks
				c.tab = h.open(c.s, c.id)
			}
			p := press{Button: "Stop", Then: "you stopped it"}
			if c.retry {
				p = press{Button: "Cancel retry", Then: "Retry cancelled. Nothing will start by itself."}
			}
			if problem := c.tab.press(p); problem != "" {
				t.Errorf("%s: %s", c.question(), problem)
			}
		},
	}
	up := newUpstream(t, cancelScripts(hands)...)
	servers := map[string]*server{}
	var cells []*cell
	for _, m := range moments() {
		for by := range hands {
			config := m.config
			if m.name == "dispatching" {
				config += " # " + by // each has its one place
			}
			if servers[config] == nil {
				servers[config] = serve(t, up.config("says", config))
			}
			c := &cell{moment: m, by: by, model: modelOf(m.model, by), s: servers[config], up: up}
			c.id = c.s.session("responses/" + c.model)
			if by == "the page" && m.name != "held" {
				c.tab = h.open(c.s, c.id)
			}
			cells = append(cells, c)
		}
	}
	// At once: what they wait for passes once for all of them.
	var all sync.WaitGroup
	for _, c := range cells {
		all.Go(func() {
			c.o = watch(c.s, c.id)
			c.r = c.s.post(c.id, c.question())
			c.reach(c)
			hands[c.by](c)
			if c.name == "held" {
				c.o.follow(c.s)
			}
			c.cancelled()
		})
	}
	all.Wait()

	last := servers[moments()[1].config]
	o := watch(last, last.session("responses/passes"))
	if run := o.end(last.post(o.id, "and then").RunID); run.State != session.Succeeded {
		t.Fatalf("%+v", run)
	}
	report := up.Requests()
	for _, c := range cells {
		if n := c.requests(report); n != c.sent {
			t.Errorf("%s: %d requests, want %d", c.question(), n, c.sent)
		}
		c.cancelled()
		c.o.check()
	}
}

// cancelled waits for the end in the session's log and checks all that it says.
func (c *cell) cancelled() {
	t := c.o.t
	t.Helper()
	c.await("end", func(e *session.Event) bool {
		sch, run := e.Schedule, e.Run
		if e.Snapshot != nil {
			sch, run = e.Snapshot.Session.Schedule, e.Snapshot.Session.LastRun
		}
		if c.retry {
			return sch != nil && sch.State == session.ScheduleCancelled
		}
		return run != nil && run.State == session.Cancelled
	})
	s, err := c.s.Session(within(t), c.id)
	if err != nil {
		t.Errorf("%s: %v", c.question(), err)
		return
	}
	last, want := s.LastRun, session.Cancelled
	if c.retry {
		want = session.Failed
	}
	if last.State != want || s.State != session.Idle || !c.retry && (last.Failure != nil || last.Recovery != nil || s.Schedule != nil) {
		t.Errorf("%s: %+v of %+v", c.question(), last, s)
	}
	if c.retry && (s.Schedule == nil || s.Schedule.State != session.ScheduleCancelled || len(c.o.retries()) != 0) {
		t.Errorf("%s: %+v, then %+v", c.question(), s.Schedule, c.o.retries())
	}
	if n := len(c.o.retries()); c.name == "dispatching" && n != 1 {
		t.Errorf("%s: %d retries", c.question(), n)
	}
	rows := replies(c.s.messages(c.id), c.r.RunID)
	if c.name == "text" && (len(rows) != 1 || textOf(rows[0].Parts) == "" || rows[0].Interrupted != "cancelled") {
		t.Errorf("%s: what was shown is not kept: %+v", c.question(), rows)
	}
}

// f13: a provider's error and a cancel that meet: a run that was asked to stop ends as
// cancelled, with no failure, no retry and nothing sent behind it, whichever was first at the
// provider.
func TestCancelMeetsFailure(t *testing.T) {
	t.Logf("go test ./e2e -run TestCancelMeetsFailure -seed %d repeats these moments", *seed)
	random := rand.New(rand.NewPCG(*seed, 2))
	const pause = 150 * time.Millisecond
	up := newUpstream(t, script("breaks", time.Millisecond,
		rehearsal.Take{{Do: rehearsal.Start}, {Do: rehearsal.Wait, For: rehearsal.Duration(pause)}, broken}, rehearsal.Take{say("never")}))
	s := serve(t, up.config("breaks", "recovery: {tier1: {attempts: 1}, tier2: {mode: unattended, max_elapsed: 1h, base: 5s}}"))
	ends := map[string]int{}
	for n := range 20 {
		o := watch(s, s.session(""))
		r := s.post(o.id, fmt.Sprintf("round %d", n))
		up.await(t, "request", func(u rehearsal.Report) bool { return u.Total > n })
		<-time.After(pause - 15*time.Millisecond + time.Duration(random.Int64N(int64(30*time.Millisecond)))) // the moment is what is tested
		answer, err := s.Cancel(within(t), o.id, r.RunID)
		if err != nil {
			t.Fatal(err)
		}
		run := o.end(r.RunID)
		now, err := s.Session(within(t), o.id)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case answer.State == session.Failed: // the failure was in the log first
			if run.State != session.Failed || now.Schedule == nil {
				t.Errorf("round %d: %+v, %+v", n, run, now.Schedule)
			}
			if _, err := s.CancelRetry(within(t), o.id, now.Schedule.Token); err != nil {
				t.Errorf("round %d: %v", n, err)
			}
		case run.State != session.Cancelled || run.Failure != nil || run.Recovery != nil || now.Schedule != nil:
			t.Errorf("round %d: %+v, %+v", n, run, now.Schedule)
		}
		ends[string(run.State)]++
		o.check()
	}
	t.Log(ends)
	if total := up.quiet(t).Total; total != 20 {
		t.Errorf("%d requests", total)
	}
}
