package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// soakSessions is how many conversations go on at a time.
const soakSessions = 50

// fault is one way in which a provider fails, and what must be left of it.
type fault struct {
	name   string
	scenes []rehearsal.Scene
	whole  bool // it is recovered from by itself; else half of the text is all there will ever be
	tools  int  // that may be run
}

// wholeText is each reply, halfText what is shown before the faults that come inside it.
var (
	wholeText = tokens("soak", 40)
	halfText  = wholeText[:len(wholeText)/2]
)

func faults() []fault {
	status := func(kind rehearsal.Kind, wait time.Duration) rehearsal.Take {
		f := &rehearsal.Fault{Kind: kind}
		if wait > 0 {
			f.Wait, f.Hint = rehearsal.Duration(wait), rehearsal.HintMillis
		}
		return rehearsal.Take{{Do: rehearsal.Status, Fault: f}}
	}
	var (
		reply   = rehearsal.Take{say(wholeText)}
		half    = say(halfText)
		call    = rehearsal.Take{{Do: rehearsal.Call}}
		refused = status(rehearsal.Overloaded, 0)
		cut     = rehearsal.Step{Do: rehearsal.Cut}
		failed  = rehearsal.Step{Do: rehearsal.Failed, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}
	)
	one := func(name string, whole bool, takes ...rehearsal.Take) fault {
		return fault{name: name, whole: whole, scenes: []rehearsal.Scene{takes}}
	}
	return []fault{
		one("good", true, reply),
		one("refused", true, refused, reply),
		one("limited", true, status(rehearsal.RateLimited, 50*time.Millisecond), reply),
		one("error", true, status(rehearsal.ServerError, 0), refused, reply),
		one("outlives", true, refused, refused, refused, refused, reply),
		one("reset", true, rehearsal.Take{{Do: rehearsal.Reset}}, reply),
		one("fails-before", true, rehearsal.Take{{Do: rehearsal.Start}, failed}, reply),
		one("cut-before", true, rehearsal.Take{{Do: rehearsal.Start}, cut}, reply),
		one("ends-before", true, rehearsal.Take{{Do: rehearsal.Start}, {Do: rehearsal.End}}, reply),
		one("cut-inside", false, rehearsal.Take{half, cut}),
		one("fails-inside", false, rehearsal.Take{half, broken}),
		one("ends-inside", false, rehearsal.Take{half, {Do: rehearsal.End}}),
		{name: "tool", whole: true, tools: 1, scenes: []rehearsal.Scene{{call}, {reply}}},
		{name: "tool-refused", whole: true, tools: 1, scenes: []rehearsal.Scene{{call}, {refused, refused, refused, reply}}},
		{name: "half-call", whole: true, tools: 1, scenes: []rehearsal.Scene{{rehearsal.Take{{Do: rehearsal.HalfCall}, cut}, call}, {reply}}},
		{name: "tool-cut", tools: 1, scenes: []rehearsal.Scene{{call}, {rehearsal.Take{half, cut}}}},
	}
}

// Fifty conversations at a time, with providers that fail in every way, while the server is
// killed with kill -9 at random and started again: what was shown is shown once and kept, no
// tool runs twice, no run is stuck, no message is lost, and no request is sent without its
// record. K-032, K-041, K-191, K-195, N70.
func TestSoak(t *testing.T) {
	t.Logf("go test ./e2e -run TestSoak -seed %d -soak %s", *seed, *soak)
	up := newUpstream(t, soakScripts()...)
	s := serve(t, up.config("good", soakConfig(soakSessions)))

	times := newCourses()
	defer times.log(t)
	over, stop := context.WithTimeout(t.Context(), *soak)
	defer stop()
	l := soakLoad(t, over, *s.Client, soakSessions, times)
	random := rand.New(rand.NewPCG(*seed, 0))
	killed := 0
	for over.Err() == nil && !t.Failed() {
		// The moment is not waited for, it is what is tested.
		select {
		case <-time.After(time.Second + time.Duration(random.Int64N(int64(2*time.Second)))):
			began := time.Now()
			s.restartThere()
			times.add("a restart", began)
			killed++
		case <-over.Done():
		}
	}
	l.workers.Wait()
	t.Logf("%d kills, %d conversations: %v", killed, len(l.all), l.ends)
	if t.Failed() {
		return
	}
	s.restartThere()
	l.judge(s, up)
}

func soakScripts() (scripts []rehearsal.Script) {
	for _, k := range faults() {
		scripts = append(scripts, rehearsal.Script{Name: k.name, Pause: rehearsal.Duration(4 * time.Millisecond), Scenes: k.scenes})
	}
	return scripts
}

// soakConfig lets recovery be quick, and as many runs at a time as there are conversations.
func soakConfig(sessions int) string {
	return fmt.Sprintf("recovery: {tier1: {attempts: 2, base: 10ms}, tier2: {base: 50ms, cap: 200ms}}\nlimits: {concurrent_runs: %d}", sessions)
}

// load is conversations that go on beside each other.
type load struct {
	workers sync.WaitGroup

	mu   sync.Mutex // guards the following until the workers are done
	all  []*soaked
	ends map[string]int
}

// soakLoad begins conversations, a number of them at a time, until over is done.
func soakLoad(t *testing.T, over context.Context, at client.Client, sessions int, times *courses) *load {
	l := &load{ends: map[string]int{}}
	kinds := faults()
	for w := range sessions {
		random := rand.New(rand.NewPCG(*seed, uint64(w)+1))
		l.workers.Go(func() {
			for n := 0; over.Err() == nil && !t.Failed(); n++ {
				k := kinds[random.IntN(len(kinds))]
				t.Run(fmt.Sprintf("%d-%d-%s", w, n, k.name), func(t *testing.T) {
					c := &soaked{fault: k, prompt: fmt.Sprintf("%s %d %d", k.name, w, n), times: times}
					began := time.Now()
					end := c.converse(&server{Client: &at, t: t}, random)
					times.add("a conversation", began)
					l.mu.Lock()
					defer l.mu.Unlock()
					l.all = append(l.all, c)
					l.ends[end]++
				})
			}
		})
	}
	return l
}

// judge holds what is left of all conversations against what each has seen, and against what the
// upstream was sent.
func (l *load) judge(s *server, up *upstream) {
	t := s.t
	t.Helper()
	if sys, err := s.System(within(t)); err != nil || sys.Running != 0 || sys.Queued != 0 {
		t.Errorf("the server is still busy: %+v, %v", sys, err)
	}
	recorded, total := map[string]int{}, 0
	for _, c := range l.all {
		if now := asJSON(t, s.messages(c.o.id)); now != c.stored {
			t.Errorf("%s: what was stored has changed: %s, was %s", c.prompt, now, c.stored)
		}
		for model, n := range c.attempts {
			recorded[model] += n
			total += n
		}
	}
	report := up.quiet(t)
	for model, n := range report.ByModel { // a kill in the middle of a request leaves one without a model
		if model != "" && n > recorded[model] {
			t.Errorf("%s: %d requests were sent and %d recorded", model, n, recorded[model])
		}
	}
	if report.Total > total {
		t.Errorf("%d requests were sent and %d recorded", report.Total, total)
	}
}

// soaked is one conversation of one message.
type soaked struct {
	fault
	prompt    string
	times     *courses
	o         *observer
	cancelled session.RunID  // while it went on
	attempts  map[string]int // recorded, by model
	stored    string         // its messages
}

// through repeats a call while the server is away.
func through(t testing.TB, what string, call func(context.Context) error) {
	t.Helper()
	ctx := within(t)
	for {
		err := call(ctx)
		var refusal *client.Error
		if err == nil {
			return
		}
		if errors.As(err, &refusal) && refusal.Status < 500 {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// converse posts the message, at times cancels its run, and checks all that is left when
// nothing goes on any more. It says how that was.
func (c *soaked) converse(s *server, random *rand.Rand) (end string) {
	t := s.t
	dialect := []string{"responses", "chat", "messages", "gemini"}[random.IntN(4)]
	var made session.Session
	through(t, "make a session", func(ctx context.Context) (err error) {
		made, err = s.CreateSession(ctx, session.NewSession{Model: dialect + "/" + c.name})
		return err
	})
	began := time.Now()
	c.o = watch(s, made.ID)
	c.times.add("the first event of a stream", began)
	defer c.o.stop()
	var r session.Receipt
	through(t, "post", func(ctx context.Context) (err error) {
		r, err = s.Post(ctx, made.ID, []llm.Part{llm.Text(c.prompt)}, session.Routing{}, c.prompt)
		return err
	})
	cancelled := random.IntN(8) == 0
	if cancelled {
		many := random.IntN(20) // events from now
		seen := 0
		c.o.await("enough events", func(e *session.Event) bool { seen++; return seen >= many || e.Run != nil && e.Run.State.Terminal() })
		through(t, "cancel", func(ctx context.Context) error {
			now, err := s.Session(ctx, made.ID)
			if err != nil {
				return err
			}
			c.cancelled = ""
			if sch := now.Schedule; sch != nil && sch.State.Waiting() {
				if _, err = s.CancelRetry(ctx, made.ID, sch.Token); err == nil {
					return nil
				}
			} else if now.LastRun != nil {
				var run session.Run
				if run, err = s.Cancel(ctx, made.ID, now.LastRun.ID); err == nil && !run.State.Terminal() {
					c.cancelled = run.ID
				}
			}
			var refusal *client.Error
			if errors.As(err, &refusal) && refusal.Code == session.CodeStaleToken {
				return nil // it went on meanwhile, uncancelled
			}
			return err
		})
	}
	run := c.o.rest()
	if c.cancelled == run.ID && run.State != session.Cancelled {
		t.Errorf("the cancel of %s was acknowledged, and it %s", run.ID, run.State)
	}
	c.o.check()
	c.check(s, run, r)
	switch {
	case run.State != session.Failed:
		end = string(run.State)
	default:
		end = "failed: " + run.Failure.RetryClass.String()
		if run.Failure.Code != "" && run.Failure.Provider == "" {
			end += " " + run.Failure.Code
		}
		if c := run.Failure.RetryClass; c == failure.Local || c == failure.Unknown {
			t.Logf("%s of %s: %s", end, run.ID, run.Failure.Message)
		}
	}
	if !cancelled && run.State == session.Cancelled {
		t.Errorf("nobody has cancelled %s", run.ID)
	}
	return end
}

func (c *soaked) check(s *server, run session.Run, r session.Receipt) {
	t := s.t
	t.Helper()
	var list []session.Message
	through(t, "read the messages", func(ctx context.Context) (err error) {
		list, err = s.Messages(ctx, c.o.id, true, 0, 0)
		return err
	})
	c.stored = asJSON(t, list)
	if len(list) == 0 || list[0].ID != r.MessageID || list[0].Role != session.RoleOperator || textOf(list[0].Parts) != c.prompt {
		t.Fatalf("the operator's message is not there: %s", c.stored)
	}
	text, results := "", 0
	runs := map[session.RunID]bool{run.ID: true}
	for _, m := range list[1:] {
		runs[m.RunID] = true
		if m.Role == session.RoleTool {
			results++
		}
		words := textOf(m.Parts)
		if m.SupersededBy != "" && words != "" {
			t.Errorf("what was shown was superseded, and nobody asked for it: %q", words)
		}
		text += words
	}
	shown := c.o.everything()
	if !strings.HasPrefix(text, shown) || !strings.HasPrefix(wholeText, text) {
		t.Errorf("shown was %q, stored is %q", shown, text)
	}
	if !c.whole && len(text) > len(halfText) {
		t.Errorf("more than was ever sent once: %q", text)
	}
	if run.State == session.Succeeded && text != wholeText {
		t.Errorf("succeeded with %q", text)
	}
	if started := c.o.started(); started > c.tools || results > c.tools {
		t.Errorf("%d tools were started, with %d results", started, results)
	}
	c.attempts = map[string]int{}
	for id := range runs {
		var attempts []session.Attempt
		through(t, "read the attempts", func(ctx context.Context) (err error) {
			attempts, err = s.Attempts(ctx, c.o.id, id)
			return err
		})
		for i, a := range attempts {
			c.attempts[a.Model]++
			if i > 0 && attempts[i-1].Evidence.Marks != 0 && attempts[i-1].Evidence.Scope.Step == a.Evidence.Scope.Step {
				t.Errorf("attempt %d of %s repeats one that had effects", a.Number, id)
			}
		}
	}
}

// rest waits until nothing goes on in the session and nothing will by itself, and returns its
// last run. A busy machine may be killed several times before it has come anywhere: what is stuck
// stays so for longer.
func (o *observer) rest() session.Run {
	o.t.Helper()
	var last *session.Run
	var wait *session.Schedule
	var revision int64
	began := time.Now()
	defer func() {
		if o.t.Failed() {
			o.t.Logf("after %s: run %+v, schedule %+v", time.Since(began), last, wait)
		}
	}()
	o.within(3*patience, "rest", func(e *session.Event) bool {
		if e.SessionID != o.id {
			return false
		}
		switch {
		case e.Snapshot != nil:
			last, wait = e.Snapshot.Session.LastRun, e.Snapshot.Session.Schedule
		case e.Revision <= revision:
			return false
		case e.Run != nil && (last == nil || e.Run.ID >= last.ID):
			last = e.Run
		case e.Type == session.EventSchedule:
			wait = e.Schedule
		}
		revision = max(revision, e.Revision)
		if last == nil || !last.State.Terminal() {
			return false
		}
		// Between a schedule's end and the start of its run there is neither.
		auto := last.State == session.Failed && last.Recovery != nil && last.Recovery.Auto
		return !auto || wait != nil && !wait.State.Waiting()
	})
	return *last
}

// everything is all the text that was streamed.
func (o *observer) everything() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := ""
	for _, s := range o.steps {
		all += s.text.String()
	}
	return all
}

// started counts the starts of tools.
func (o *observer) started() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := map[string]bool{}
	for _, e := range o.events {
		if c := e.ToolCall; c != nil && c.State == session.CallStarted {
			calls[fmt.Sprint(c.RunID, c.Step, c.CallID)] = true
		}
	}
	return len(calls)
}
