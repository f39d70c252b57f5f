package session_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

func (w *world) regenerate(m session.MessageID, req session.RegenerateRequest) (session.Receipt, error) {
	return w.m.Regenerate(w.t.Context(), session.Act{Actor: "ann"}, w.id, m, req)
}

// K-066, K-067, K-070–K-077: everything after the message is superseded and answered anew;
// the message itself is untouched.
func TestRegenerate(t *testing.T) {
	w := newWorld(t, say("one"), say("two"), say("one again"), say("one, third")).start()
	first := w.post("first")
	w.ended(first.RunID)
	w.ask("second")
	before, _ := json.Marshal(w.messages(false)[0])
	rows := len(w.messages(true))
	r, err := w.regenerate(first.MessageID, session.RegenerateRequest{})
	if err != nil || r.MessageID != first.MessageID || r.RunID == first.RunID || r.State != "queued" || r.Superseded != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	runs, err := w.m.Runs(t.Context(), w.id)
	if err != nil || len(runs) != 3 || runs[0].ID != first.RunID || runs[2].ID != r.RunID {
		t.Errorf("runs %+v, %v", runs, err)
	}
	if one, err := w.m.FindRun(t.Context(), first.RunID); err != nil || *one.Spend != *runs[0].Spend || !one.Spend.AtLeast {
		t.Errorf("the run cost %+v, in the list %+v, %v", one.Spend, runs[0].Spend, err)
	}
	if n := len(w.messages(true)); n != rows { // K-073; the new reply may be there already
		if n != rows+1 {
			t.Errorf("%d rows after the call, %d before", n, rows)
		}
	}
	w.ended(r.RunID)
	w.expect("operator: first", "reply: one again")
	if got := w.story(true); got != "operator: first\n~reply: one\n~operator: second\n~reply: two\nreply: one again" {
		t.Errorf("all of it:\n%s", got)
	}
	after, _ := json.Marshal(w.messages(false)[0])
	if string(before) != string(after) {
		t.Errorf("the operator's message was\n%s and is\n%s", before, after)
	}
	if last := w.provider.Requests()[2]; len(last.Messages) != 1 {
		t.Errorf("superseded messages were sent: %+v", last.Messages)
	}
	again, err := w.regenerate(first.MessageID, session.RegenerateRequest{}) // K-076
	if err != nil || again.MessageID != first.MessageID || again.RunID == r.RunID {
		t.Errorf("%+v, %v", again, err)
	}
	w.ended(again.RunID)
	w.expect("operator: first", "reply: one, third")
}

// K-078, K-079 and the named conflicts.
func TestRegenerateRefused(t *testing.T) {
	write := &tool{name: "write"}
	w := newWorld(t, say("one"), call("", "write", "c"), say("two"), []llmtest.Step{llmtest.Text("x"), {Stall: true}})
	w.cfg.Tools = toolbox(write)
	w.start()
	first := w.post("first")
	w.ended(first.RunID)
	if _, err := w.regenerate("msg_none", session.RegenerateRequest{}); err != session.ErrNotFound {
		t.Errorf("unknown message: %v", err)
	}
	_, err := w.regenerate(w.messages(false)[1].ID, session.RegenerateRequest{})
	refused(t, err, session.CodeValidation)
	_, err = w.regenerate(first.MessageID, session.RegenerateRequest{Revision: 1})
	refused(t, err, session.CodeStaleRevision)

	w.ask("second")
	_, err = w.regenerate(first.MessageID, session.RegenerateRequest{})
	no := refused(t, err, session.CodeEffectsNotConfirmed)
	if list := no.Details.(map[string]any)["effects"].([]session.EffectInfo); len(list) != 1 || list[0].Name != "write" {
		t.Errorf("effects %+v", list)
	}
	// f27 of the page: what the question counts is what the answer supersedes.
	p, err := w.m.PreviewRegenerate(t.Context(), w.id, first.MessageID)
	if err != nil || p.Revision != w.session().Revision || p.Superseded != 5 || p.Replies != 2 || p.Later != 1 || p.Pending != 0 || len(p.Effects) != 1 || p.Effects[0].State != session.CallEnded {
		t.Errorf("preview %+v, %v", p, err)
	}
	w.sent(3)
	o := w.watch("")
	defer o.stop()
	r, err := w.regenerate(first.MessageID, session.RegenerateRequest{ConfirmEffects: true})
	if err != nil {
		t.Fatal(err)
	}
	o.shows("x")
	_, err = w.regenerate(first.MessageID, session.RegenerateRequest{ConfirmEffects: true})
	refused(t, err, session.CodeRunActive)
	_, err = w.m.PreviewRegenerate(t.Context(), w.id, first.MessageID)
	refused(t, err, session.CodeRunActive)
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); err != nil {
		t.Fatal(err)
	}
	w.ended(r.RunID)
	w.sent(4)
}

// K-075: at the cap the regenerated run is queued; a queued run is replaced, not doubled.
func TestRegenerateQueued(t *testing.T) {
	w := newWorld(t, say("never"))
	w.cfg.ConcurrentRuns = 0
	w.start()
	first := w.post("first")
	r, err := w.regenerate(first.MessageID, session.RegenerateRequest{})
	if err != nil || r.State != "queued" {
		t.Fatalf("%+v, %v", r, err)
	}
	if old := w.ended(first.RunID); old.State != session.Cancelled {
		t.Errorf("the replaced run is %v", old.State)
	}
	if run, err := w.m.FindRun(t.Context(), r.RunID); err != nil || run.State != session.Queued {
		t.Errorf("%+v, %v", run, err)
	}
	w.sent(0)
}

// K-194, F28 of the page: a repeated request makes one run and gets the same answer.
func TestIdempotency(t *testing.T) {
	w := newWorld(t, say("one"), say("two"), say("three")).start()
	act := session.Act{Actor: "ann", Route: "post", Key: "k1", Hash: "h"}
	var wg sync.WaitGroup
	receipts := make([]session.Receipt, 8)
	for i := range receipts {
		wg.Go(func() {
			r, err := w.m.Post(t.Context(), act, w.id, []llm.Part{llm.Text("hi")}, session.Routing{})
			if err != nil {
				t.Error(err)
			}
			receipts[i] = r
		})
	}
	wg.Wait()
	for _, r := range receipts {
		if r != receipts[0] {
			t.Errorf("answers differ: %+v, %+v", r, receipts[0])
		}
	}
	w.ended(receipts[0].RunID)
	w.sent(1)
	act.Hash = "other"
	_, err := w.m.Post(t.Context(), act, w.id, []llm.Part{llm.Text("other")}, session.Routing{})
	refused(t, err, session.CodeIdempotency)

	act = session.Act{Actor: "ann", Route: "regenerate", Key: "k1", Hash: "h"} // another route
	a, err := w.m.Regenerate(t.Context(), act, w.id, receipts[0].MessageID, session.RegenerateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.m.Regenerate(t.Context(), act, w.id, receipts[0].MessageID, session.RegenerateRequest{})
	if err != nil || a != b {
		t.Errorf("%+v, %+v, %v", a, b, err)
	}
	w.ended(a.RunID)
	w.sent(2)
}

// K-031: an observer that comes back sees every event once; one that comes late, or with a
// position from elsewhere, starts from a snapshot that holds the running output.
func TestWatchResumes(t *testing.T) {
	w := newWorld(t, []llmtest.Step{llmtest.Text("abc"), llmtest.Text("def"), {Stall: true}}).start()
	o := w.watch("")
	if e := o.next(); e.Type != session.EventSnapshot || e.Snapshot.Session.ID != w.id || len(e.Snapshot.Sessions) != 1 {
		t.Fatalf("first frame %+v", e)
	}
	if strings.HasSuffix(o.last, ".0") {
		o.next() // the session's creation is on its way
	}
	middle := o.last
	r := w.post("hi")
	o.until(func(e session.Event) bool { return o.fold(r.RunID) == "abcdef" })
	o.stop()

	back := w.watch(middle)
	defer back.stop()
	back.until(func(e session.Event) bool { return back.fold(r.RunID) == "abcdef" })
	if back.seen[0].Type == session.EventSnapshot {
		t.Error("a known position got a snapshot")
	}
	for _, from := range []string{"", "elsewhere.3", "garbage", middle + "99999"} {
		late := w.watch(from)
		if e := late.next(); e.Type != session.EventSnapshot || e.Snapshot.Output == nil || late.fold(r.RunID) != "abcdef" {
			t.Errorf("from %q: %+v", from, e)
		}
		late.stop()
	}
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, r.RunID); err != nil {
		t.Fatal(err)
	}
	back.until(func(e session.Event) bool {
		return e.Type == session.EventMessage && e.Message.Role == session.RoleReply
	})
	w.ended(r.RunID)
	w.m.Close()
	w.start()
	again := w.watch(middle) // the ring is filled from the log again
	defer again.stop()
	again.next()
}

// Revisions of one session only grow, over every kind of event.
func TestRevisionsGrow(t *testing.T) {
	w := newWorld(t, []llmtest.Step{fail(failure.Overloaded)}, say("one")).start()
	o := w.watch("")
	defer o.stop()
	last := o.next().Revision // of the snapshot, which has all that was before the post
	r := w.post("hi")
	o.until(func(e session.Event) bool {
		if e.Revision > 1 { // the session's creation may come again after the snapshot
			if e.Revision <= last {
				t.Errorf("%s has revision %d after %d", e.Type, e.Revision, last)
			}
			last = e.Revision
		}
		return e.Type == session.EventSession && e.Session.LastRun != nil && e.Session.LastRun.ID == r.RunID && e.Session.LastRun.State.Terminal()
	})
}
