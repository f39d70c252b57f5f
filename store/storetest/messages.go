package storetest

import (
	"encoding/json"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

func messagePositions(w *world) {
	w.session("ses_1")
	w.session("ses_2")
	full := session.Message{ID: "msg_1", SessionID: "ses_1", Role: session.RoleReply,
		Parts: []llm.Part{
			{Kind: llm.PartThinking, Text: "hm\x00\u2028", Signature: "sig", Provider: "claude"},
			{Kind: llm.PartToolCall, CallID: "c1", Name: "ls", Arguments: `{"a":"<b>"}`, Cut: true},
			{Kind: llm.PartToolResult, CallID: "c1", IsError: true, Content: []llm.Part{llm.Text("no")}},
			{Kind: llm.PartImage, MediaType: "image/png", Data: []byte{0, 255, 7}},
			{Kind: "a kind of tomorrow", Raw: []byte("{}")},
		},
		Actor: "ann", CreatedAt: t0 + 3, RunID: "run_1", Step: 2, AttemptID: "att_1", Provider: "claude",
		Model: "opus", Usage: &llm.Usage{Input: 10, Output: 20, CacheRead: 1, CacheWrite: 2, Thinking: 3},
		SwitchedFrom: &recovery.Former{Candidate: recovery.Candidate{Provider: "openai", Model: "gpt"}, Reason: "overloaded"},
		Interrupted:  "stream_interrupted"}
	full = w.message(full)
	w.same("message", read(w, func(tx session.ReadTx) (session.Message, error) { return tx.Message("msg_1") }), full)

	empty := session.Message{ID: "msg_2", SessionID: "ses_1", Role: session.RoleReply, CreatedAt: t0, Parts: []llm.Part{}}
	empty = w.message(empty)
	other := w.message(session.Message{ID: "msg_3", SessionID: "ses_2", Role: session.RoleOperator})
	third := w.message(session.Message{ID: "msg_4", SessionID: "ses_1", Role: session.RoleTool})
	for _, p := range []struct{ got, want int64 }{
		{full.Position, 1}, {empty.Position, 2}, {third.Position, 3}, {other.Position, 1},
	} {
		if p.got != p.want {
			w.Fatalf("position %d, want %d", p.got, p.want)
		}
	}
	w.same("messages", w.messages("ses_1", true), []session.Message{full, empty, third})

	w.lost(func(tx session.Tx) error {
		_, err := tx.InsertMessage(third)
		return err
	})
	w.is(w.s.View(w.Context(), func(tx session.ReadTx) error {
		_, err := tx.Message("msg_none")
		return err
	}), session.ErrNotFound)
	if err := w.update(func(tx session.Tx) error {
		_, err := tx.InsertMessage(session.Message{ID: "msg_9", SessionID: "ses_none", Role: session.RoleReply})
		return err
	}); err == nil {
		w.Fatal("a message of no session was stored")
	}
}

// conversation stores five messages: an operator's, three of run_1, an operator's.
func (w *world) conversation() {
	w.session("ses_1")
	w.message(session.Message{ID: "msg_1", SessionID: "ses_1", Role: session.RoleOperator, RunID: "run_1", Actor: "ann"})
	w.message(session.Message{ID: "msg_2", SessionID: "ses_1", Role: session.RoleReply, RunID: "run_1"})
	w.message(session.Message{ID: "msg_3", SessionID: "ses_1", Role: session.RoleTool, RunID: "run_1"})
	w.message(session.Message{ID: "msg_4", SessionID: "ses_1", Role: session.RoleReply, RunID: "run_1", Step: 1})
	w.message(session.Message{ID: "msg_5", SessionID: "ses_1", Role: session.RoleOperator, RunID: "run_2"})
}

func (w *world) supersede(want int, after int64, only, by session.RunID) {
	w.Helper()
	var n int
	w.do(func(tx session.Tx) (err error) {
		n, err = tx.Supersede("ses_1", "msg_1", after, only, by, t0)
		return err
	})
	if n != want {
		w.Fatalf("superseded %d messages, want %d", n, want)
	}
}

func messagePages(w *world) {
	w.conversation()
	w.supersede(1, 0, "run_2", "run_3") // msg_5
	page := func(superseded bool, after int64, limit int, want ...session.MessageID) {
		w.Helper()
		w.same("page", ids(read(w, func(tx session.ReadTx) ([]session.Message, error) {
			return tx.Messages("ses_1", superseded, after, limit)
		})), want)
	}
	page(true, 0, 2, "msg_1", "msg_2")
	page(true, 2, 2, "msg_3", "msg_4")
	page(true, 4, 2, "msg_5")
	page(false, 2, 0, "msg_3", "msg_4")
	page(false, 2, 1, "msg_3")
	last := func(id session.ID, n int, want ...session.MessageID) {
		w.Helper()
		w.same("last", ids(read(w, func(tx session.ReadTx) ([]session.Message, error) { return tx.LastMessages(id, n) })), want)
	}
	last("ses_1", 1, "msg_4")
	last("ses_1", 2, "msg_3", "msg_4")
	last("ses_1", 9, "msg_1", "msg_2", "msg_3", "msg_4")
	last("ses_none", 1, []session.MessageID{}...)
}

func messagesImmutable(w *world) {
	w.conversation()
	encoded := func() map[session.MessageID]string {
		rows := map[session.MessageID]string{}
		for _, m := range w.messages("ses_1", true) {
			m.SupersededBy, m.SupersededAt, m.Failure, m.Recovery = "", 0, nil, nil
			b, err := json.Marshal(m)
			w.ok(err)
			rows[m.ID] = string(b)
		}
		return rows
	}
	operator := func() string {
		m := read(w, func(tx session.ReadTx) (session.Message, error) { return tx.Message("msg_1") })
		b, err := json.Marshal(m)
		w.ok(err)
		return string(b)
	}
	rows, mid := encoded(), operator()
	r := w.running("run_1", "ses_1")
	r.Failure = &session.Failure{Message: "gone", RetryClass: failure.Network}
	w.move(r, session.Failed)
	w.supersede(4, 1, "", "run_3") // a regenerate's transaction
	w.queued("run_3", "ses_1")
	w.do(func(tx session.Tx) error {
		s, err := tx.Session("ses_1")
		s.Title = "Other"
		if err == nil {
			err = tx.PutSession(s)
		}
		return err
	})
	w.same("rows", encoded(), rows)
	if got := operator(); got != mid {
		w.Fatalf("the operator's row changed:\n got %s\nwant %s", got, mid)
	}
}

func supersede(w *world) {
	w.conversation()
	w.supersede(0, 5, "", "run_3")
	w.supersede(2, 3, "", "run_3") // msg_4 and msg_5
	w.supersede(2, 1, "", "run_4") // msg_2 and msg_3: the others keep who superseded them
	w.supersede(0, 1, "", "run_5")
	var by []session.RunID
	for _, m := range w.messages("ses_1", true) {
		by = append(by, m.SupersededBy)
	}
	w.same("superseded by", by, []session.RunID{"", "run_4", "run_4", "run_3", "run_3"})
	w.same("context", ids(w.messages("ses_1", false)), []session.MessageID{"msg_1"})
	one := read(w, func(tx session.ReadTx) (session.Message, error) { return tx.Message("msg_4") })
	if one.SupersededBy != "run_3" || one.SupersededAt != t0 {
		w.Fatalf("msg_4 is superseded by %q at %d", one.SupersededBy, one.SupersededAt)
	}
	// What comes later is not superseded.
	w.message(session.Message{ID: "msg_6", SessionID: "ses_1", Role: session.RoleReply, RunID: "run_4"})
	w.same("context", ids(w.messages("ses_1", false)), []session.MessageID{"msg_1", "msg_6"})
	// Nor is another session.
	w.session("ses_2")
	w.message(session.Message{ID: "msg_7", SessionID: "ses_2", Role: session.RoleReply})
	w.supersede(1, 0, "run_4", "run_5")
	w.same("context", ids(w.messages("ses_2", false)), []session.MessageID{"msg_7"})
}

func supersedeOneRun(w *world) {
	w.conversation()
	w.supersede(2, 2, "run_1", "run_3") // what run_1 wrote after msg_2
	w.same("context", ids(w.messages("ses_1", false)), []session.MessageID{"msg_1", "msg_2", "msg_5"})
}

func failureOnLastRow(w *world) {
	w.conversation()
	r := w.running("run_1", "ses_1")
	r.Failure = &session.Failure{Retryable: true, RetryClass: failure.RateLimited, RetryAfterUntil: t0 + 60,
		Message: "Slow down", Provider: "openai", Model: "gpt", Status: 429, Code: "rate_limit", RequestID: "req_1"}
	r.Recovery = &session.Recovery{Auto: true, Verb: replay.Regenerate, NotBefore: t0 + 60,
		Evidence: replay.TextShown | replay.Stale, Reason: "why", Choices: []string{"regenerate", "keep"}}
	r = w.move(r, session.Failed)
	w.same("run", w.run("run_1"), r)
	check := func() {
		w.Helper()
		for _, m := range w.messages("ses_1", true) {
			if m.ID == "msg_4" {
				w.same("failure", m.Failure, r.Failure)
				w.same("recovery", m.Recovery, r.Recovery)
			} else if m.Failure != nil || m.Recovery != nil {
				w.Fatalf("%s shows the run's failure", m.ID)
			}
		}
	}
	check()
	w.supersede(2, 2, "run_1", "run_3") // it stays with the run, in the context or not
	check()
	// A run without rows of its own has none to show it on.
	other := w.running("run_2", "ses_1")
	other.Failure = &session.Failure{Message: "gone"}
	w.move(other, session.Failed)
	check()
}

func pending(w *world) {
	w.session("ses_1")
	w.session("ses_2")
	p1 := session.Pending{MessageID: "msg_1", RunID: "run_1", SessionID: "ses_1", Rank: 5,
		Parts: []llm.Part{llm.Text("one")}, Actor: "ann", CreatedAt: t0}
	p2 := session.Pending{MessageID: "msg_2", RunID: "run_2", SessionID: "ses_1", Rank: -3,
		Parts: []llm.Part{llm.Text("two")}, Actor: "bob", CreatedAt: t0 + 1, Routing: session.Routing{OneAttempt: true}}
	other := session.Pending{MessageID: "msg_3", RunID: "run_3", SessionID: "ses_2", Rank: 5}
	for _, p := range []session.Pending{p1, p2, other} {
		w.do(func(tx session.Tx) error { return tx.InsertPending(p) })
	}
	expect := func(want ...session.Pending) {
		w.Helper()
		w.same("pending", read(w, func(tx session.ReadTx) ([]session.Pending, error) { return tx.Pending("ses_1") }), want)
	}
	expect(p2, p1)
	for _, taken := range []session.Pending{
		{MessageID: "msg_4", RunID: "run_4", SessionID: "ses_1", Rank: 5},
		{MessageID: "msg_4", RunID: "run_1", SessionID: "ses_1", Rank: 6},
		{MessageID: "msg_1", RunID: "run_4", SessionID: "ses_1", Rank: 6},
	} {
		w.lost(func(tx session.Tx) error { return tx.InsertPending(taken) })
	}
	p2.Rank, p2.Parts = 9, []llm.Part{llm.Text("edited")}
	w.do(func(tx session.Tx) error { return tx.PutPending(p2) })
	expect(p1, p2)
	w.do(func(tx session.Tx) error { return tx.PutPending(p2) }) // its own rank is free
	w.lost(func(tx session.Tx) error {
		p := p2
		p.Rank = p1.Rank
		return tx.PutPending(p)
	})
	w.lost(func(tx session.Tx) error { return tx.DeletePending("ses_2", "msg_1") })
	w.do(func(tx session.Tx) error { return tx.DeletePending("ses_1", "msg_1") })
	w.lost(func(tx session.Tx) error { return tx.DeletePending("ses_1", "msg_1") })
	w.lost(func(tx session.Tx) error { return tx.PutPending(p1) })
	expect(p2)
}

// supersedeCompaction: a compaction stays in the context when only what it says nothing of is
// superseded, and goes with what it left out.
func supersedeCompaction(w *world) {
	w.session("ses_1")
	for i, id := range []session.MessageID{"msg_1", "msg_2", "msg_3"} {
		w.message(session.Message{ID: id, SessionID: "ses_1", Role: session.RoleOperator, RunID: "run_1", Step: i})
	}
	told := w.message(session.Message{ID: "msg_4", SessionID: "ses_1", Role: session.RoleNotice, RunID: "run_1", Step: -1,
		Compaction: &session.Compaction{Cause: "overflow", Strategy: "drop", UpTo: 2, Kept: "msg_1", Summary: "s", Before: 3, After: 1}})
	w.message(session.Message{ID: "msg_5", SessionID: "ses_1", Role: session.RoleReply, RunID: "run_1"})
	w.same("compaction", w.messages("ses_1", false)[3], told)
	for _, c := range []struct {
		after int64
		want  []session.MessageID
	}{{2, []session.MessageID{"msg_1", "msg_2", "msg_4"}}, {1, []session.MessageID{"msg_1"}}} {
		w.do(func(tx session.Tx) error {
			_, err := tx.Supersede("ses_1", "msg_1", c.after, "", "run_2", t0)
			return err
		})
		w.same("context", ids(w.messages("ses_1", false)), c.want)
	}
}
