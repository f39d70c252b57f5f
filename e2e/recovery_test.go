package e2e

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

var (
	broken  = rehearsal.Step{Do: rehearsal.Failed, Fault: &rehearsal.Fault{Kind: rehearsal.BrokenUpstream}}
	dialect = []string{"responses", "chat", "messages", "gemini"}
)

// say streams a text, one delta a word.
func say(text string) rehearsal.Step { return rehearsal.Step{Do: rehearsal.Say, Text: text} }

// N01: text, then response.failed with upstream_stream_error, with every retry setting on.
// Exactly one request is sent. The text stays, marked, for an observer, in the API, after a
// reload and after kill -9; both answers are told apart.
func TestFailureAfterText(t *testing.T) {
	partial := tokens("said", 20)
	up := newUpstream(t, script("broken", time.Millisecond,
		rehearsal.Take{say(partial), broken}, rehearsal.Take{say(tokens("again", 20))}))
	s := serve(t, up.config("broken", everyRetry))
	type scene struct {
		o    *observer
		r    session.Receipt
		rows []session.Message
	}
	var scenes []scene
	for i, d := range dialect {
		id := s.session(d + "/broken")
		o := watch(s, id)
		r := s.post(id, "from "+d)
		run := o.end(r.RunID)
		if run.State != session.Failed || run.Failure == nil || run.Recovery == nil {
			t.Fatalf("%s: %+v", d, run)
		}
		if f := run.Failure; !f.Retryable || f.Provider != d || f.Model != "broken" || f.Message == "" {
			t.Errorf("%s: %+v", d, f)
		}
		if rec := run.Recovery; rec.Auto || rec.ReplaySafe || rec.Evidence != replay.TextShown || !slices.Contains(rec.Choices, "regenerate") {
			t.Errorf("%s: %+v", d, rec)
		}
		if shown := o.shown(r.RunID, 0); shown != partial {
			t.Errorf("%s: an observer saw %q", d, shown)
		}
		rows := s.messages(id)
		if len(rows) != 2 || textOf(rows[1].Parts) != partial || rows[1].Interrupted == "" {
			t.Fatalf("%s: %+v", d, rows)
		}
		if !reflect.DeepEqual(rows[1].Failure, run.Failure) || !reflect.DeepEqual(rows[1].Recovery, run.Recovery) {
			t.Errorf("%s: the row does not say what the run says: %+v", d, rows[1])
		}
		attempts := s.attempts(id, r.RunID)
		if len(attempts) != 1 {
			t.Fatalf("%s: %d attempts", d, len(attempts))
		}
		if a := attempts[0].Decision; a == nil || !a.Eligible || a.Safe || a.Verdict != recovery.Stop {
			t.Errorf("%s: %+v", d, a)
		}
		if r := up.quiet(t); r.Total != i+1 {
			t.Errorf("%s: %d requests, want %d", d, r.Total, i+1)
		}
		o.check()
		scenes = append(scenes, scene{o, r, rows})
	}

	for _, again := range []string{"reload", "kill -9", "stop and start"} {
		switch again {
		case "kill -9":
			s.restart()
		case "stop and start":
			s.stop()
			s.start()
		}
		for i, c := range scenes {
			if rows := s.messages(c.o.id); !reflect.DeepEqual(rows, c.rows) {
				t.Errorf("%s after %s: %+v, was %+v", dialect[i], again, rows, c.rows)
			}
			o := watch(s, c.o.id)
			if run := o.end(c.r.RunID); run.State != session.Failed {
				t.Errorf("%s after %s: %+v", dialect[i], again, run)
			}
			o.check()
			told := s.explain(c.r.RunID)
			if n := strings.Count(told, "worth retrying: yes"); n != 2 {
				t.Errorf("%s after %s: explain says %s", dialect[i], again, told)
			}
			if n := strings.Count(told, "safe to repeat: no (text_shown)"); n != 2 {
				t.Errorf("%s after %s: explain says %s", dialect[i], again, told)
			}
			if !strings.Contains(told, "by the rule not_safe") {
				t.Errorf("%s after %s: explain names no rule: %s", dialect[i], again, told)
			}
		}
	}
	if r := up.quiet(t); r.Total != len(dialect) {
		t.Errorf("%d requests in the end, want %d", r.Total, len(dialect))
	}
}

// The same failure before any content: the reply recovers by itself, and nothing but the
// decision tells that there was a first attempt.
func TestFailureBeforeText(t *testing.T) {
	text := tokens("whole", 20)
	up := newUpstream(t, script("broken-first", time.Millisecond, rehearsal.Take{{Do: rehearsal.Start}, broken}, rehearsal.Take{say(text)}))
	s := serve(t, up.config("broken-first", everyRetry))
	for i, d := range dialect {
		id := s.session(d + "/broken-first")
		o := watch(s, id)
		r := s.post(id, "from "+d)
		if run := o.end(r.RunID); run.State != session.Succeeded || run.Failure != nil || run.Recovery != nil {
			t.Errorf("%s: %+v", d, run)
		}
		if shown := o.shown(r.RunID, 0); shown != text {
			t.Errorf("%s: an observer saw %q", d, shown)
		}
		attempts := s.attempts(id, r.RunID)
		if len(attempts) != 2 || attempts[0].OK || !attempts[1].OK || attempts[0].Evidence.Marks != 0 || attempts[1].After != attempts[0].ID {
			t.Fatalf("%s: %+v", d, attempts)
		}
		o.await("decision", func(e *session.Event) bool { return e.Attempt != nil && e.Attempt.ID == attempts[0].ID })
		o.mu.Lock()
		for _, e := range o.events {
			if e.Output != nil && e.Output.AttemptID != attempts[1].ID {
				t.Errorf("%s: something of the first attempt was published: %+v", d, e.Output)
			}
		}
		o.mu.Unlock()
		rows := s.messages(id)
		if len(rows) != 2 || textOf(rows[1].Parts) != text || rows[1].Interrupted != "" || rows[1].Failure != nil || rows[1].Recovery != nil {
			t.Errorf("%s: %+v", d, rows)
		}
		if r := up.quiet(t); r.Total != 2*(i+1) {
			t.Errorf("%s: %d requests, want %d", d, r.Total, 2*(i+1))
		}
		o.check()
	}
}

// K-131: 429 with Retry-After: 3000 ends the run at once, with the absolute time, and sends
// nothing more.
func TestFarRetryAfter(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, up.config("rate-limited-3000s", everyRetry))
	id := s.session("")
	o := watch(s, id)
	r := s.post(id, "hi")
	run := o.end(r.RunID)
	if run.State != session.Failed || run.Failure == nil || run.Recovery == nil {
		t.Fatalf("%+v", run)
	}
	if took := run.EndedAt - run.StartedAt; took > 1000 {
		t.Errorf("the run failed after %d ms", took)
	}
	attempts := s.attempts(id, r.RunID)
	if len(attempts) != 1 {
		t.Fatalf("%+v", attempts)
	}
	until := run.Failure.RetryAfterUntil
	if from, to := attempts[0].OpenedAt+3_000_000, run.EndedAt+3_000_000; until < from || until > to {
		t.Errorf("retry_after_until is %d, want %d to %d", until, from, to)
	}
	if f := run.Failure; f.RetryClass != failure.RateLimited || !f.Retryable || f.Status != 429 {
		t.Errorf("%+v", f)
	}
	if rec := run.Recovery; !rec.Auto || !rec.ReplaySafe || rec.Verb != replay.Regenerate || rec.NotBefore < until {
		t.Errorf("%+v", rec)
	}
	rows := s.messages(id)
	if len(rows) != 2 || len(rows[1].Parts) != 0 || !reflect.DeepEqual(rows[1].Failure, run.Failure) {
		t.Errorf("%+v", rows)
	}
	s.restart()
	if again := watch(s, id).end(r.RunID); again.Failure.RetryAfterUntil != until {
		t.Errorf("after a restart retry_after_until is %d, was %d", again.Failure.RetryAfterUntil, until)
	}
	if r := up.quiet(t); r.Total != 1 {
		t.Errorf("%d requests", r.Total)
	}
	o.check()
}

// K-144: a cancel ends a tier 1 wait at once, as cancelled and never as failed, and nothing
// is sent, then or when the wait would have been over.
func TestCancelDuringWait(t *testing.T) {
	const wait = 5 * time.Second // long enough for a busy machine to cancel in it
	busy := rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.RateLimited, Wait: rehearsal.Duration(wait), Hint: rehearsal.HintMillis}}}
	// A model for each: what limits one session's rate holds the others of its model back.
	var scripts []rehearsal.Script
	for i := range 5 {
		scripts = append(scripts, script(fmt.Sprintf("busy-%d", i), 0, busy, rehearsal.Take{say("never")}))
	}
	up := newUpstream(t, append(scripts, script("sentinel", 0, rehearsal.Take{{Do: rehearsal.Wait, For: rehearsal.Duration(wait + time.Second)}, say("over")}))...)
	s := serve(t, up.config("sentinel", everyRetry))
	var cancelled []*observer
	var runs []session.RunID
	var due time.Time
	best := session.Time(1 << 40)
	for i, busy := range scripts {
		id := s.session("responses/" + busy.Name)
		o := watch(s, id)
		r := s.post(id, fmt.Sprintf("hi %d", i))
		waiting := o.await("decision", func(e *session.Event) bool { return e.Attempt != nil })
		if d := waiting.Attempt.Decision; d == nil || d.Verdict != recovery.Retry {
			t.Fatalf("%+v", waiting.Attempt)
		}
		due = waiting.Attempt.Decision.NextAt
		if _, err := s.Cancel(within(t), id, r.RunID); err != nil {
			t.Fatal(err)
		}
		asked := o.await("request to cancel", func(e *session.Event) bool { return e.Run != nil && e.Run.CancelRequested })
		run := o.end(r.RunID)
		if run.State != session.Cancelled || run.Failure != nil || run.Recovery != nil || !due.After(run.EndedAt.Std()) {
			t.Errorf("%+v, the wait ended at %s", run, due)
		}
		best = min(best, run.EndedAt-asked.At)
		cancelled, runs = append(cancelled, o), append(runs, r.RunID)
	}
	// One of several: what the machine's other work delays is not ours.
	if best > 100 {
		t.Errorf("the fastest cancel was acknowledged after %d ms", best)
	}
	// Something that takes longer than every wait shows that all of them are over.
	id := s.session("responses/sentinel")
	o := watch(s, id)
	if run := o.end(s.post(id, "and then").RunID); run.State != session.Succeeded || run.EndedAt.Std().Before(due) {
		t.Fatalf("%+v: the last wait was over at %s", run, due)
	}
	if r := up.quiet(t); r.Total != len(runs)+1 || r.ByModel["sentinel"] != 1 {
		t.Errorf("%v", r.ByModel)
	}
	for i, o := range cancelled {
		if r := o.end(runs[i]); r.State != session.Cancelled {
			t.Errorf("%+v", r)
		}
		if rows := replies(s.messages(o.id), runs[i]); len(rows) != 0 {
			t.Errorf("a cancelled run that showed nothing has left rows: %+v", rows)
		}
		if told := s.explain(runs[i]); !strings.Contains(told, "  cancelled  ") || strings.Contains(told, "Attempt 2") {
			t.Errorf("explain says %s", told)
		}
		o.check()
	}
}

// A stop in the middle of a text keeps what was shown, closes the connection to the provider,
// and is the end of it.
func TestStopDuringText(t *testing.T) {
	text := tokens("shown", 10)
	up := newUpstream(t, script("hang", time.Millisecond, rehearsal.Take{say(text), {Do: rehearsal.Stall}}, rehearsal.Take{say("never")}))
	s := serve(t, up.config("hang", everyRetry))
	id := s.session("")
	o := watch(s, id)
	r := s.post(id, "hi")
	o.text(r.RunID, len(text))
	if _, err := s.Cancel(within(t), id, r.RunID); err != nil {
		t.Fatal(err)
	}
	if run := o.end(r.RunID); run.State != session.Cancelled || run.Failure != nil {
		t.Errorf("%+v", run)
	}
	rows := replies(s.messages(id), r.RunID)
	if len(rows) != 1 || textOf(rows[0].Parts) != text || rows[0].Interrupted != "cancelled" {
		t.Errorf("%+v", rows)
	}
	if r := up.quiet(t); r.Total != 1 || !r.Requests[0].ClosedEarly {
		t.Errorf("%+v", r.Requests)
	}
	s.restart()
	if again := replies(s.messages(id), r.RunID); !reflect.DeepEqual(again, rows) {
		t.Errorf("after a restart: %+v, was %+v", again, rows)
	}
	if r := up.quiet(t); r.Total != 1 {
		t.Errorf("%d requests", r.Total)
	}
	o.check()
}

// K-024, K-030, K-031: two observers see the same reply, one from the start and one that
// comes in the middle; nobody's leaving disturbs it.
func TestObservers(t *testing.T) {
	text := tokens("seen", 200)
	up := newUpstream(t, script("stream", 2*time.Millisecond, rehearsal.Take{say(text)}))
	s := serve(t, up.config("stream", ""))
	id := s.session("")
	first := watch(s, id)
	r := s.post(id, "hi")
	first.text(r.RunID, 100)
	late := watch(s, id)
	first.text(r.RunID, 600)
	first.stop()
	if run := late.end(r.RunID); run.State != session.Succeeded {
		t.Errorf("%+v", run)
	}
	first.follow(s) // it comes back to what it has missed
	first.end(r.RunID)
	rows := replies(s.messages(id), r.RunID)
	if len(rows) != 1 || textOf(rows[0].Parts) != text {
		t.Errorf("%+v", rows)
	}
	for i, o := range []*observer{first, late} {
		if shown := o.shown(r.RunID, 0); shown != text {
			t.Errorf("observer %d saw %q", i, shown)
		}
		o.check()
	}
	if r := up.quiet(t); r.Total != 1 {
		t.Errorf("%d requests", r.Total)
	}
}

// N09: the second attempt of a step shows text and breaks: it is not followed by a third.
func TestSecondAttemptBreaks(t *testing.T) {
	partial := tokens("second", 10)
	up := newUpstream(t, script("twice", time.Millisecond,
		rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}},
		rehearsal.Take{say(partial), broken}, rehearsal.Take{say("never")}))
	s := serve(t, up.config("twice", everyRetry))
	id := s.session("")
	o := watch(s, id)
	r := s.post(id, "hi")
	if run := o.end(r.RunID); run.State != session.Failed || run.Recovery.Auto {
		t.Errorf("%+v", run)
	}
	rows := replies(s.messages(id), r.RunID)
	if len(rows) != 1 || textOf(rows[0].Parts) != partial || rows[0].Failure == nil {
		t.Errorf("%+v", rows)
	}
	if r := up.quiet(t); r.Total != 2 {
		t.Errorf("%d requests", r.Total)
	}
	// An operator may: a regenerate is a request of its own, and keeps the old reply readable.
	again, err := s.Regenerate(within(t), id, r.MessageID, session.RegenerateRequest{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if run := o.end(again.RunID); run.State != session.Succeeded || again.Superseded != 1 {
		t.Errorf("%+v, %+v", run, again)
	}
	all := s.messages(id)
	if len(all) != 3 || all[1].SupersededBy != again.RunID || textOf(all[1].Parts) != partial || textOf(all[2].Parts) != "never" {
		t.Errorf("%+v", all)
	}
	if kinds := all[2].Parts; len(kinds) != 1 || kinds[0].Kind != llm.PartText {
		t.Errorf("%+v", kinds)
	}
	if r := up.quiet(t); r.Total != 3 {
		t.Errorf("%d requests", r.Total)
	}
	o.check()
}
