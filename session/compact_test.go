package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// tooLong is a refusal whose words also speak of another status (N55).
var tooLong = []llmtest.Step{llmtest.Fail(&failure.Failure{Class: failure.ContextOverflow, Provider: "script", Status: 400, Delivered: llm.Refused,
	Message: "upstream 503: prompt is too long"})}

// long is a world whose session has three short turns, and then the scripts.
func long(t *testing.T, how agent.Compaction, scripts ...[]llmtest.Step) *world {
	t.Helper()
	w := newWorld(t, append([][]llmtest.Step{say("one"), say("two"), say("three")}, scripts...)...)
	w.cfg.Compaction, w.cfg.System = how, "be kind"
	w.start()
	for _, text := range []string{"first", "second", "third"} {
		w.ask(text)
	}
	return w
}

// told spells what the n-th request told the model.
func (w *world) told(n int) string {
	w.t.Helper()
	requests := w.provider.Requests()
	if n >= len(requests) {
		w.t.Fatalf("%d requests, want more than %d", len(requests), n)
	}
	var said []string
	for _, m := range requests[n].Messages {
		for _, p := range m.Parts {
			switch {
			case strings.HasPrefix(p.Text, "(Earlier messages"):
				_, summary, _ := strings.Cut(p.Text, "\n\n")
				said = append(said, "("+summary+")")
			case p.Kind == llm.PartToolCall:
				said = append(said, "["+p.Name+"]")
			case p.Kind == llm.PartToolResult:
				said = append(said, p.Content[0].Text)
			default:
				said = append(said, p.Text)
			}
		}
	}
	return strings.Join(said, ", ")
}

func (w *world) tells(n int, want string) {
	w.t.Helper()
	if got := w.told(n); got != want {
		w.t.Errorf("request %d tells %q, want %q", n, got, want)
	}
}

var (
	dropping    = agent.Compaction{Strategy: agent.Drop, Turns: 2}
	summarizing = agent.Compaction{Strategy: agent.Summarize, Turns: 2}
)

// K-154, K-152, K-153, N55: an overflow is compacted and sent once more. Everybody sees it, and
// no row is changed.
func TestOverflowIsCompacted(t *testing.T) {
	w := long(t, dropping, tooLong, say("four"), say("five"))
	run := w.ask("fourth")
	if run.State != session.Succeeded {
		t.Fatalf("%s: %+v", run.State, run.Failure)
	}
	w.sent(5)
	w.tells(3, "first, one, second, two, third, three, fourth")
	w.tells(4, "(), third, three, fourth")
	if got := w.provider.Requests()[4].System; got != "be kind" { // K-151
		t.Errorf("the system prompt is %q", got)
	}
	list := w.attempts(run.ID)
	if len(list) != 2 || list[0].Decision.Verdict.String() != "compact" || !list[1].OK {
		t.Errorf("attempts %+v", list)
	}
	all := w.messages(false)
	if len(all) != 9 || all[0].Parts[0].Text != "first" || all[0].SupersededBy != "" {
		t.Fatalf("the conversation is\n%s", w.story(false))
	}
	n := all[7]
	if n.Role != session.RoleNotice || n.Step != -1 || n.RunID != run.ID || n.Parts[0].Kind != llm.PartNotice ||
		!strings.HasPrefix(n.Parts[0].Text, "The conversation was too long for the model: what the model is told of its beginning was left out, about ") {
		t.Errorf("the notice is %+v", n)
	}
	if c := n.Compaction; c == nil || c.Cause != agent.CauseOverflow || c.UpTo != all[3].Position || c.Kept != "" || c.After >= c.Before {
		t.Errorf("the compaction is %+v", n.Compaction)
	}
	var acts []string
	err := w.store.View(t.Context(), func(tx session.ReadTx) error {
		trail, err := tx.Audit(w.id, 2)
		for _, a := range trail {
			acts = append(acts, a.Act+" by "+a.Actor)
		}
		return err
	})
	if err != nil || len(acts) == 0 || acts[0] != "compact by ann" {
		t.Errorf("audit %v, %v", acts, err)
	}
	w.m.Close()
	w.start() // it is still so after a restart
	w.ask("fifth")
	w.tells(5, "(), third, three, fourth, four, fifth")
}

// K-154, f20: a second overflow ends the step; nothing repeats it.
func TestOverflowTwice(t *testing.T) {
	w := long(t, dropping, tooLong, tooLong, say("never"))
	run := w.ask("fourth")
	w.sent(5)
	if run.State != session.Failed || run.Failure.RetryClass != failure.ContextOverflow || run.Failure.Retryable {
		t.Errorf("%s: %+v", run.State, run.Failure)
	}
	if s := w.session().Schedule; s.State != session.ScheduleNever {
		t.Errorf("schedule %+v", s)
	}
}

// Where nothing can be left out, or nobody wants that, the refusal stays the failure.
func TestOverflowOfOneMessage(t *testing.T) {
	for _, how := range []agent.Compaction{dropping, summarizing, {}} {
		w := newWorld(t, tooLong, say("never"))
		w.cfg.Compaction = how
		w.start()
		if run := w.ask("hi"); run.State != session.Failed || run.Failure.RetryClass != failure.ContextOverflow {
			t.Errorf("%s: %+v", run.State, run.Failure)
		}
		w.sent(1)
	}
}

// K-152, F18, F99: the summary comes from a side call behind the same gate. What that showed
// does not speak against the run, whose next failure may be repeated by itself.
func TestSummary(t *testing.T) {
	w := long(t, summarizing, tooLong, say("what they came to"), []llmtest.Step{fail(failure.Overloaded)})
	run := w.ask("fourth")
	w.sent(8) // three before, one refused, the summary, three tries
	w.tells(4, "User: first\n\nAssistant: one\n\nUser: second\n\nAssistant: two\n\n")
	side := w.provider.Requests()[4]
	if len(side.Tools) != 0 || !strings.Contains(side.System, "has become too long") {
		t.Errorf("the summary is asked for as %+v", side)
	}
	for n := 5; n < 8; n++ {
		w.tells(n, "(what they came to), third, three, fourth")
	}
	list := w.attempts(run.ID)
	if s := list[1].Evidence; s.Scope.Lineage != "compaction_overflow" || s.Marks&replay.TextShown == 0 || list[2].Evidence.Scope.Lineage != llm.LineageMain {
		t.Errorf("the side call is %+v", s)
	}
	if r := run.Recovery; run.State != session.Failed || !r.Auto || r.Verb != replay.Regenerate || !r.ReplaySafe {
		t.Errorf("%s: %+v", run.State, r)
	}
	for _, m := range w.messages(true) {
		if m.Role == session.RoleReply && strings.Contains(fmt.Sprint(m.Parts), "came to") {
			t.Error("the summary is shown as a reply")
		}
	}
	if c := w.messages(false)[7].Compaction; c == nil || c.Summary != "what they came to" {
		t.Errorf("the compaction is %+v", c)
	}
}

// A summary that cannot be had ends the step as its own failure does; what was left unsaid by
// it is not the reply's.
func TestSummaryFails(t *testing.T) {
	refused := []llmtest.Step{llmtest.Text("half a summ"), llmtest.Fail(&failure.Failure{Class: failure.ContentFiltered, Provider: "script"})}
	w := long(t, summarizing, tooLong, refused, say("never"))
	run := w.ask("fourth")
	w.sent(5)
	if run.State != session.Failed || run.Failure.RetryClass != failure.ContentFiltered {
		t.Errorf("%s: %+v", run.State, run.Failure)
	}
	if story := w.story(false); strings.Contains(story, "summ") || strings.Contains(story, "notice") {
		t.Errorf("the conversation is\n%s", story)
	}
}

// K-150, F99: at the threshold, equality counted, the conversation is made shorter before the
// call. Where that fails the request goes out as it is.
func TestThreshold(t *testing.T) {
	w := long(t, dropping, say("four"))
	w.ask("fourth")
	size := w.provider.Requests()[3].Needs().Input
	for _, c := range []struct {
		context int64 // half of it is the threshold
		scripts [][]llmtest.Step
		how     agent.Compaction
		want    []string // what the requests behind the third tell
	}{
		{2*size + 2, [][]llmtest.Step{say("four")}, dropping, []string{"first, one, second, two, third, three, fourth"}},
		{2 * size, [][]llmtest.Step{say("four")}, dropping, []string{"(), third, three, fourth"}},
		{2 * size, [][]llmtest.Step{say("sum"), say("four")}, summarizing, []string{"User: first\n\nAssistant: one\n\nUser: second\n\nAssistant: two\n\n", "(sum), third, three, fourth"}},
		{2 * size, [][]llmtest.Step{{llmtest.Fail(&failure.Failure{Class: failure.ContentFiltered})}, say("four")}, summarizing,
			[]string{"User: first\n\nAssistant: one\n\nUser: second\n\nAssistant: two\n\n", "first, one, second, two, third, three, fourth"}},
	} {
		w := newWorld(t, append([][]llmtest.Step{say("one"), say("two"), say("three")}, c.scripts...)...)
		w.cfg.Compaction, w.cfg.System, w.facts.Context = c.how, "be kind", c.context
		w.cfg.Compaction.Threshold = 0.5
		w.start()
		for _, text := range []string{"first", "second", "third", "fourth"} {
			if run := w.ask(text); run.State != session.Succeeded {
				t.Fatalf("%s: %+v", run.State, run.Failure)
			}
		}
		w.sent(3 + len(c.want))
		for i, want := range c.want {
			w.tells(3+i, want)
		}
	}
}

// A run of many steps loses its older ones; calls keep their results, and the message that is
// being answered stays.
func TestCompactionWithinATurn(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, call("", "write", "a"), call("", "write", "b"), call("", "write", "c"), tooLong, say("done"), say("more"))
	w.cfg.Tools, w.cfg.Compaction = toolbox(write), dropping
	w.start()
	run := w.ask("go")
	if run.State != session.Succeeded || write.times() != 3 {
		t.Fatalf("%s, %d calls: %+v", run.State, write.times(), run.Failure)
	}
	w.tells(4, "(), go, [write], result of write")
	w.ask("on")
	w.tells(5, "(), go, [write], result of write, done, on")
}

// Answering anew a message behind the compaction keeps it; one before it brings back what it
// left out.
func TestRegenerateAroundACompaction(t *testing.T) {
	w := long(t, dropping, tooLong, say("four"), say("five"), say("anew"))
	w.ask("fourth")
	w.ask("fifth")
	anchors := map[string]session.Message{}
	for _, m := range w.messages(false) {
		anchors[m.Parts[0].Text] = m
	}
	gone := 0
	regenerate := func(text string) {
		t.Helper()
		r, err := w.m.Regenerate(t.Context(), session.Act{Actor: "ann"}, w.id, anchors[text].ID, session.RegenerateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		w.ended(r.RunID)
		if want := len(w.messages(true)) - len(w.messages(false)) - gone; r.Superseded != want {
			t.Errorf("the receipt says %d, and %d were superseded", r.Superseded, want)
		}
		gone += r.Superseded
	}
	regenerate("fourth") // the compaction was made while it was answered, and is of what came before
	w.tells(6, "(), third, three, fourth")
	regenerate("third")
	w.tells(7, "(), third")
	regenerate("second")
	w.tells(8, "first, one, second")
	o := w.watch("")
	defer o.stop()
	if snap := o.next().Snapshot; len(snap.Messages) != 4 {
		t.Errorf("an observer sees %d messages", len(snap.Messages))
	}
}

// The bound of a step counts what a summary asks.
func TestSummaryCountsOnTheBound(t *testing.T) {
	w := long(t, summarizing, tooLong, []llmtest.Step{fail(failure.Overloaded)}, say("never"))
	w.cfg.Policy.MaxRequests = 3
	w.m.Close()
	w.start()
	w.ask("fourth")
	w.sent(3 + 3)
}

// F18: killed in the middle of the summary, or right after it was stored, the run goes on by
// itself: a side call leaves nothing that speaks against it.
func TestCrashWhileCompacting(t *testing.T) {
	for _, c := range []struct {
		after   string
		nth     int32
		scripts [][]llmtest.Step
		sent    int
	}{
		{"open attempt", 2, [][]llmtest.Step{tooLong, tooLong, say("sum"), say("four")}, 4}, // the summary's request never left
		{"mark", 1, [][]llmtest.Step{tooLong, say("lost"), tooLong, say("sum"), say("four")}, 5},
		{"insert notice", 1, [][]llmtest.Step{tooLong, say("sum"), say("four")}, 3},
	} {
		t.Run(c.after, func(t *testing.T) {
			w := long(t, summarizing, c.scripts...)
			w.m.Close()
			before := len(w.provider.Requests())
			r := w.dies(c.after, c.nth)
			if run := w.ended(r.RunID); run.State != session.Succeeded {
				t.Fatalf("%s: %+v", run.State, run.Failure)
			}
			w.sent(before + c.sent)
			w.tells(before+c.sent-1, "(sum), third, three, hi")
			if n := strings.Count(w.story(false), "notice:"); n != 1 {
				t.Errorf("%d compactions", n)
			}
		})
	}
}

// F99: what was shown is not sent again in a shorter form either.
func TestOverflowAfterContent(t *testing.T) {
	w := long(t, dropping, append([]llmtest.Step{llmtest.Text("so far")}, tooLong...), say("never"))
	run := w.ask("fourth")
	w.sent(4)
	d := w.attempts(run.ID)[0].Decision
	if run.State != session.Failed || !d.Eligible || d.Safe || d.Verdict.String() != "stop" {
		t.Errorf("%s: %+v", run.State, d)
	}
	if story := w.story(false); !strings.HasSuffix(story, "operator: fourth\nreply: so far (context_overflow)") {
		t.Errorf("the conversation is\n%s", story)
	}
}
