package session_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// K-180: each act leaves one entry with its actor, in the transaction that does it; one that is
// refused, or changes nothing, leaves none.
func TestAudit(t *testing.T) {
	w := tier2(t, time.Hour, say("fine"), say("anew"), overloaded, overloaded, []llmtest.Step{llmtest.Text("part"), {Stall: true}})
	w.cfg.Policy.Tier2.Cap = 2 * time.Hour
	w.start()
	ctx := t.Context()
	want := []string{"ann create session script/model"}
	did := func(err error, acts ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, acts...)
		list, err := w.m.Audit(ctx, w.id, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range slices.Backward(list) {
			if a.SessionID != w.id || a.At == 0 {
				t.Errorf("%+v", a)
			}
			got = append(got, strings.TrimSpace(strings.Join([]string{a.Actor, a.Act, a.Detail}, " ")))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the entries are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}

	first := w.post("hi")
	w.ended(first.RunID)
	did(nil, "ann post")
	r, err := w.m.Regenerate(ctx, session.Act{Actor: "bob"}, w.id, first.MessageID, session.RegenerateRequest{})
	did(err, "bob regenerate regenerate: superseded 1 messages")
	w.ended(r.RunID)

	w.ask("and this?")
	did(nil, "ann post")
	at := time.Now().Add(30 * time.Minute).UTC()
	_, err = w.m.Snooze(ctx, "eve", w.id, 0, at)
	did(err, "eve snooze retry "+at.Truncate(time.Millisecond).Format(time.RFC3339))
	r, err = w.m.RetryNow(ctx, session.Act{Actor: "eve"}, w.id, 0, false)
	did(err, "eve retry regenerate: superseded 1 messages")
	w.ended(r.RunID)
	_, err = w.m.CancelRetry(ctx, "bob", w.id, 0)
	did(err, "bob cancel retry")
	_, err = w.m.CancelRetry(ctx, "bob", w.id, 0)
	did(err, "bob dismiss retry")
	_, err = w.m.CancelRetry(ctx, "bob", w.id, 0) // there is nothing left
	did(err)

	o := w.watch("")
	defer o.stop()
	r = w.post("long")
	o.shows("part")
	did(nil, "ann post")
	archived := true
	_, err = w.m.PatchSession(ctx, "ann", w.id, session.SessionPatch{Archived: &archived})
	refused(t, err, session.CodeRunActive)
	_, err = w.m.Cancel(ctx, "bob", w.id, r.RunID)
	did(err, "bob cancel")
	w.ended(r.RunID)
	_, err = w.m.Cancel(ctx, "bob", w.id, r.RunID) // it has ended
	did(err)

	title, model := "a secret title", "script/other"
	_, err = w.m.PatchSession(ctx, "ann", w.id, session.SessionPatch{Title: &title, Model: &model, Settings: &session.Settings{MaxSteps: 3}})
	did(err, "ann change session title, model script/other, settings")
	_, err = w.m.PatchSession(ctx, "ann", w.id, session.SessionPatch{Title: &title})
	did(err)
	_, err = w.m.PatchSession(ctx, "ann", w.id, session.SessionPatch{Archived: &archived})
	did(err, "ann archive")

	if err := w.m.Record(ctx, "operator", "log in", ""); err != nil {
		t.Fatal(err)
	}
	did(nil) // it belongs to no session
	if all, err := w.m.Audit(ctx, "", 1); err != nil || len(all) != 1 || all[0].Act != "log in" || all[0].SessionID != "" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := w.m.Audit(ctx, "ses_none", 1); err == nil {
		t.Error("the acts on a session that is not there")
	}
}
