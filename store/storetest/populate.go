package storetest

import (
	"fmt"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// Populate stores something of every kind in an empty store, of messages and outbox more than a move
// copies at once, and a title that Postgres cannot hold.
func Populate(t testing.TB, s session.Store) {
	t.Helper()
	w := &world{TB: t, s: s}
	w.conversation()
	odd := session.Session{ID: "ses_2", Title: "a zero \x00 and \xff, no UTF-8", Model: "m", Archived: true}
	w.do(func(tx session.Tx) error {
		if err := tx.InsertSession(odd); err != nil {
			return err
		}
		for i := range 1300 {
			m := session.Message{ID: session.MessageID(fmt.Sprintf("msg_%d_%d", i%7, i)), SessionID: "ses_2", Role: session.RoleReply,
				Parts: []llm.Part{llm.Text(fmt.Sprint("words ", i, " \x00 'quoted' ü"))}}
			if _, err := tx.InsertMessage(m); err != nil {
				return err
			}
			if err := tx.AppendOutbox("ses_2", []byte{byte(i), 0, 0xff}); err != nil {
				return err
			}
		}
		return nil
	})
	r := w.running("run_1", "ses_1")
	w.queued("run_2", "ses_2")
	w.supersede(4, 1, "", "run_1")
	w.reserved("att_1", r, 0, t0, llm.Cost{Amount: 10, Kind: llm.CostEstimated}, 90)
	w.ok(w.mark("att_1", scope(r), replay.TextShown, t0))
	w.do(func(tx session.Tx) error {
		if _, err := tx.Beat("node_1"); err != nil {
			return err
		}
		for _, err := range []error{
			tx.InsertPending(session.Pending{MessageID: "msg_p", RunID: "run_p", SessionID: "ses_1", Rank: -3, CreatedAt: t0}),
			tx.PutSchedule(session.Schedule{SessionID: "ses_1", Anchor: "msg_1", RunID: "run_1", State: session.ScheduleArmed, Verb: replay.Resume, Token: 1}, 0, ""),
			tx.InsertToolCall(session.ToolCall{SessionID: "ses_1", RunID: "run_1", Step: 1, CallID: "c", Name: "ls", Arguments: "{}", State: session.CallStarted}),
			tx.InsertToolCall(session.ToolCall{SessionID: "ses_1", RunID: "run_1", Step: -1, CallID: "c", Name: "ls", Arguments: "{}", State: session.CallStarted}),
			tx.InsertHookMark(session.HookMark{Notice: "ntc_1", Hook: "notify", Event: session.HookRunStarted, RunID: "run_1", At: t0}),
			tx.PutIdempotent(session.Idempotent{Scope: "a", Key: "k", Hash: "h", Status: 202, Answer: []byte("{\x00\xff}"), At: t0}),
			tx.PutIdempotent(session.Idempotent{Scope: "a", Key: "empty", Hash: "h", Answer: []byte{}, At: t0}),
			tx.PutIdempotent(session.Idempotent{Scope: "a", Key: "none", Hash: "h", At: t0}),
			tx.InsertAudit(session.Audit{At: t0, Actor: "ann", Act: "look"}),
			tx.PutMeta("setting", "value"),
			tx.PutViewer(session.Viewer{SessionID: "ses_1", Viewer: "tab", Until: t0}),
			tx.PutCoolOff(coolOff(500)),
			tx.PutFence(fence("1", "laptop", "a", 0), 9),
			tx.InsertClientKey(newKey("key_1", "laptop")),
			tx.AddClientUse(session.ClientUse{Key: "key_1", Hour: session.HourOf(t0), ClientUsage: session.ClientUsage{Calls: 1}}),
			tx.PutGatewayCall(session.GatewayCall{ID: "gw_1", KeyID: "key_1", Client: "laptop", BeganAt: t0, Outcome: session.GatewayWhole}),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
}
