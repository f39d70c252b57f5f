package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// line is one of the conversations that a kill interrupts.
type line struct {
	model    string
	requests int // that it takes undisturbed
	rows     int
	step     int // of the text

	prompt string
	o      *observer
	r      session.Receipt // zero: the answer to the post was lost
}

// canaries is the text of each reply: a repetition or a gap shows.
var canaries = tokens("canary", 60)

func killScripts() []rehearsal.Script {
	const pause = 4 * time.Millisecond
	refusal := rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}}
	reply := rehearsal.Take{say(canaries)}
	return []rehearsal.Script{
		script("plain", pause, reply),
		script("refused", pause, refusal, reply),
		{Name: "clock", Pause: rehearsal.Duration(pause), Scenes: []rehearsal.Scene{{{{Do: rehearsal.Call}}}, {reply}}},
	}
}

// open makes the sessions, each observed.
func open(s *server, n int) []*line {
	all := []*line{{model: "plain", requests: 1, rows: 2}, {model: "refused", requests: 2, rows: 2}, {model: "clock", requests: 2, rows: 4, step: 1}}
	for _, l := range all {
		l.prompt = fmt.Sprintf("%s %d", l.model, n)
		l.o = watch(s, s.session("responses/"+l.model))
	}
	return all
}

// post posts to all of them at once. What is not answered was killed.
func post(s *server, all []*line) {
	var posts sync.WaitGroup
	for _, l := range all {
		posts.Go(func() {
			if r, err := s.Post(within(s.t), l.o.id, []llm.Part{llm.Text(l.prompt)}, session.Routing{}, l.prompt); err == nil {
				l.r = r
			}
		})
	}
	posts.Wait()
}

// The server is killed with kill -9 at random moments from before the requests to after the
// end, while it writes three replies, and is started again on what it left. After each:
// nothing that was shown is lost, doubled or asked for again, every run comes to an end, and
// what was stored before has not changed. K-032, K-036.
func TestKill(t *testing.T) {
	t.Logf("go test ./e2e -run TestKill -seed %d repeats these moments", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	up := newUpstream(t, killScripts()...)
	s := serve(t, up.config("plain", "recovery: {tier1: {base: 100ms}}"))

	// How long it takes undisturbed is the stretch of time over which the kills are spread.
	undisturbed := open(s, 0)
	began := time.Now()
	post(s, undisturbed)
	for _, l := range undisturbed {
		if run := l.o.end(l.r.RunID); run.State != session.Succeeded {
			t.Fatalf("undisturbed: %+v", run)
		}
	}
	stretch := time.Since(began) * 6 / 5
	t.Logf("spread over %s", stretch)

	ends := map[string]int{}
	stored := map[session.ID]string{}
	for n := 1; n <= *kills; n++ {
		up.Reset()
		all := open(s, n)
		// The one timer of these tests: the moment is not waited for, it is what is tested.
		moment := time.Duration(random.Int64N(int64(stretch)))
		dead := s.killAfter(moment)
		post(s, all)
		<-dead
		for _, l := range all {
			l.o.stop()
		}
		before := up.quiet(t)
		s.start()
		times := 1
		if random.IntN(3) == 0 { // once more, while it deals with what it found
			times = 2
			<-s.killAfter(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
			s.start()
		}
		for _, l := range all {
			ends[l.resume(s, up, before, times)]++
			stored[l.o.id] = asJSON(t, s.messages(l.o.id))
		}
		if sys, err := s.System(within(t)); err != nil || sys.Running != 0 || sys.Queued != 0 {
			t.Errorf("the server is still busy: %+v, %v", sys, err)
		}
		if t.Failed() {
			t.Fatalf("this was kill %d, %s after the posts", n, moment)
		}
	}
	t.Log(ends)
	for id, rows := range stored {
		if now := asJSON(t, s.messages(id)); now != rows {
			t.Errorf("what was stored has changed: %s, was %s", now, rows)
		}
	}
	// A session whose run was interrupted takes the next message.
	for _, l := range open(s, *kills+1) {
		if run := l.o.end(s.post(l.o.id, l.prompt).RunID); run.State != session.Succeeded {
			t.Errorf("%+v", run)
		}
	}
}

// killAfter kills the server after a while. The channel is closed when it is dead.
func (s *server) killAfter(d time.Duration) <-chan struct{} {
	dead := make(chan struct{})
	time.AfterFunc(d, func() { defer close(dead); s.proc.kill() })
	return dead
}

// resume repeats the post, as a client does that has lost the answer, follows the run to its
// end and checks everything about it. It says how it ended.
func (l *line) resume(s *server, up *upstream, before rehearsal.Report, kills int) string {
	t := s.t
	t.Helper()
	shown := ""
	if l.r.RunID != "" {
		shown = l.o.shown(l.r.RunID, l.step)
	}
	again, err := s.Post(within(t), l.o.id, []llm.Part{llm.Text(l.prompt)}, session.Routing{}, l.prompt)
	if err != nil {
		t.Fatal(err)
	}
	if l.r.RunID != "" && again != l.r {
		t.Errorf("the same post was answered with %+v, then %+v", l.r, again)
	}
	l.o.follow(s)
	run := l.o.end(again.RunID)
	l.o.stop()
	l.o.check()

	list := s.messages(l.o.id)
	if len(list) == 0 || list[0].ID != again.MessageID || list[0].Role != session.RoleOperator || textOf(list[0].Parts) != l.prompt {
		t.Fatalf("the operator's message is not there: %+v", list)
	}
	text, tools := "", 0
	for i, m := range list {
		if m.Position != int64(i+1) || m.RunID != again.RunID || m.SupersededBy != "" || i > 0 && m.Role == session.RoleOperator {
			t.Errorf("row %d: %+v", i, m)
		}
		switch {
		case m.Role == session.RoleTool:
			tools++
		case m.Role == session.RoleReply && m.Step == l.step:
			text += textOf(m.Parts)
		}
	}
	if !strings.HasPrefix(text, shown) || !strings.HasPrefix(canaries, text) || tools > 1 {
		t.Errorf("%s: shown was %q, stored is %q, with %d results of tools", l.model, shown, text, tools)
	}
	last := list[len(list)-1]
	end := string(run.State)
	switch run.State {
	case session.Succeeded:
		if text != canaries || len(list) != l.rows || last.Interrupted != "" || last.Failure != nil {
			t.Errorf("%s: succeeded with %+v", l.model, list)
		}
	case session.Failed:
		end = "interrupted"
		if run.Failure.RetryClass != failure.Interrupted || last.Failure == nil || last.Recovery == nil || last.Recovery.Auto || text != "" && last.Interrupted == "" {
			t.Errorf("%s: failed with %+v, %+v", l.model, run, last)
		}
	default:
		t.Errorf("%s: %+v", l.model, run)
	}
	if run.Claims > 1+kills {
		t.Errorf("%s: %d claims after %d kills", l.model, run.Claims, kills)
	}

	sent, now := before.ByModel[l.model], up.quiet(t).ByModel[l.model]
	if most := sent + kills*l.requests; now > most || sent > l.requests {
		t.Errorf("%s: %d requests before the kill and %d in all", l.model, sent, now)
	}
	if shown != "" && now != sent {
		t.Errorf("%s: a request was sent after %q had been shown", l.model, shown)
	}
	attempts := s.attempts(l.o.id, again.RunID)
	if len(attempts) < max(now, 1) {
		t.Fatalf("%s: %d requests and %d attempts", l.model, now, len(attempts))
	}
	for i, a := range attempts[1:] {
		// What had effects is repeated by nothing; the next step is no repetition.
		if before := attempts[i]; before.Evidence.Marks != 0 && before.Evidence.Scope.Step == a.Evidence.Scope.Step {
			t.Errorf("%s: attempt %d repeats one that had effects: %+v", l.model, a.Number, before)
		}
	}
	switch {
	case run.Claims > 1:
		end += fmt.Sprintf(" under claim %d", run.Claims)
	case now == sent && run.State == session.Succeeded:
		end += " before the kill"
	}
	return end
}

// What a killed server had shown is kept and is the end of it, and nobody is told that nothing
// was published.
func TestExplainKilled(t *testing.T) {
	text := tokens("shown", 10)
	up := newUpstream(t, script("hang", time.Millisecond, rehearsal.Take{say(text), {Do: rehearsal.Stall}}, rehearsal.Take{say("never")}))
	s := serve(t, up.config("hang", everyRetry))
	id := s.session("")
	o := watch(s, id)
	r := s.post(id, "hi")
	o.text(r.RunID, len(text))
	o.stop()
	s.restart()
	o.follow(s)
	if run := o.end(r.RunID); run.State != session.Failed || run.Failure.RetryClass != failure.Interrupted || run.Recovery.Auto {
		t.Errorf("%+v", run)
	}
	o.check()
	if rows := replies(s.messages(id), r.RunID); len(rows) != 1 || textOf(rows[0].Parts) != text || rows[0].Interrupted != failure.Interrupted.String() {
		t.Errorf("%+v", rows)
	}
	told := s.explain(r.RunID)
	for _, want := range []string{fmt.Sprintf("published %d characters of text", len(text)), "worth retrying: yes", "safe to repeat: no (text_shown)"} {
		if !strings.Contains(told, want) {
			t.Errorf("explain does not say %q: %s", want, told)
		}
	}
	if r := up.quiet(t); r.Total != 1 {
		t.Errorf("%d requests", r.Total)
	}
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
