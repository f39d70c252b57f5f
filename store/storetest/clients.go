package storetest

import (
	"errors"
	"fmt"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

func newKey(id session.ClientKeyID, label string) session.ClientKey {
	return session.ClientKey{ID: id, Label: label, Hash: "hash of " + string(id), CreatedAt: t0, CreatedBy: "ann",
		ClientTerms: session.ClientTerms{Models: []string{"openai/*"}, SpendDay: 5, SpendTotal: 9, Rate: 3, Hold: "whole", Chain: "fast", MaxAttempts: 2, NoFallback: true}}
}

// clientKeys: of the keys that hold no two have the same label, and one that was revoked stays so.
func clientKeys(w *world) {
	insert := func(k session.ClientKey) error {
		return w.update(func(tx session.Tx) error { return tx.InsertClientKey(k) })
	}
	first := newKey("key_1", "laptop")
	w.ok(insert(first))
	w.is(insert(newKey("key_2", "laptop")), session.ErrLost)
	same := newKey("key_3", "other")
	same.Hash = first.Hash
	w.is(insert(same), session.ErrLost)

	first.Rate, first.Models = 0, nil
	w.do(func(tx session.Tx) error { return tx.PutClientKey(first) })
	first.RevokedAt, first.RevokedBy = t0+1, "bob"
	w.do(func(tx session.Tx) error { return tx.PutClientKey(first) })
	w.lost(func(tx session.Tx) error { return tx.PutClientKey(newKey("key_1", "laptop")) })
	w.lost(func(tx session.Tx) error { return tx.PutClientKey(newKey("key_9", "none")) })
	second := newKey("key_2", "laptop")
	second.CreatedAt++
	w.ok(insert(second))

	list := read(w, func(tx session.ReadTx) ([]session.ClientKey, error) { return tx.ClientKeys() })
	w.same("keys", list, []session.ClientKey{second, first})
	if list[1].Hash != first.Hash {
		w.Fatalf("the hash is %q", list[1].Hash)
	}
	w.same("key", read(w, func(tx session.ReadTx) (session.ClientKey, error) { return tx.ClientKey("key_1") }), first)
	w.is(w.s.View(w.Context(), func(tx session.ReadTx) error {
		_, err := tx.ClientKey("key_none")
		return err
	}), session.ErrNotFound)
}

const anHour session.Time = 3_600_000

// clientUsage: what was asked adds up by key and hour, counts against the day beside the sessions,
// and outlives the calls.
func clientUsage(w *world) {
	start := session.HourOf(t0)
	use := func(key session.ClientKeyID, hour session.Time, amount, reserved llm.Money, inexact, unpriced int64) {
		w.Helper()
		w.do(func(tx session.Tx) error {
			return tx.AddClientUse(session.ClientUse{Key: key, Hour: hour, Inexact: inexact, Unpriced: unpriced,
				ClientUsage: session.ClientUsage{Calls: 1, Refused: 2, Requests: 3, Input: 4, Output: 5, CacheRead: 6, CacheWrite: 7, Lost: 8,
					Spend: session.Spend{Amount: amount, Reserved: reserved}}})
		})
	}
	use("key_1", start, 0, 90, 0, 0)
	use("key_1", start, 10, -90, 0, 0)
	use("key_1", start+anHour, 20, 5, 1, 0)
	use("key_2", start+anHour, 0, 0, 1, 1)
	use("", start+anHour, 100, 0, 0, 0)

	w.same("key 1", w.spent(session.Spending{Key: "key_1"}), session.Spend{Amount: 30, AtLeast: true, Reserved: 5})
	w.same("key 1, of the second hour", w.spent(session.Spending{Key: "key_1", Since: start + anHour + 7}), session.Spend{Amount: 20, AtLeast: true, Reserved: 5})
	w.same("key 1, of both", w.spent(session.Spending{Key: "key_1", Since: start + anHour - 1}), session.Spend{Amount: 30, AtLeast: true, Reserved: 5})
	w.same("key 2", w.spent(session.Spending{Key: "key_2"}), session.Spend{AtLeast: true, Unpriced: true})

	w.session("ses_1")
	w.reserved("att_1", w.running("run_1", "ses_1"), 0, start+anHour+2, llm.Cost{Amount: 1, Kind: llm.CostEstimated}, 4)
	w.same("all", w.spent(session.Spending{Since: start + anHour + 1}), session.Spend{Amount: 121, AtLeast: true, Unpriced: true, Reserved: 9})
	w.same("session", w.spent(session.Spending{Session: "ses_1"}), session.Spend{Amount: 1, AtLeast: true, Reserved: 4})

	all := func(since session.Time) map[session.ClientKeyID]session.ClientUsage {
		return read(w, func(tx session.ReadTx) (map[session.ClientKeyID]session.ClientUsage, error) {
			return tx.ClientUsage(since)
		})
	}
	before := all(0)
	w.same("usage", before["key_1"], session.ClientUsage{Calls: 3, Refused: 6, Requests: 9, Input: 12, Output: 15, CacheRead: 18, CacheWrite: 21, Lost: 24,
		Spend: session.Spend{Amount: 30, AtLeast: true, Reserved: 5}})
	if got := all(start + anHour)[""]; got.Calls != 1 || got.Spend.Amount != 100 || len(before) != 3 {
		w.Fatalf("with tokens %+v, of %d", got, len(before))
	}
	for range 2 {
		w.do(func(tx session.Tx) error {
			_, err := tx.PruneGateway(start+2*anHour, 0)
			return err
		})
		w.same("folded", all(0), before)
		w.same("since then", all(start+anHour+1), map[session.ClientKeyID]session.ClientUsage{"": before[""], "key_1": all(start + anHour + 1)["key_1"], "key_2": before["key_2"]})
	}
	w.do(func(tx session.Tx) error {
		_, err := tx.PruneGateway(start+9*anHour, 0)
		return err
	})
	w.same("all folded", all(0), before)
	if got := all(start + anHour); len(got) != 0 {
		w.Fatalf("left of the hours: %+v", got)
	}
}

// clientSpendRace_K155: of calls that each look at what their key has left and then reserve, no
// more go through than there is room for.
func clientSpendRace(w *world) {
	key := session.ClientKey{ID: "key_1", Label: "laptop", ClientTerms: session.ClientTerms{SpendTotal: 50}}
	facts := llm.ModelFacts{Price: &llm.Price{Rates: llm.Rates{Output: 1_000_000}}}
	full := errors.New("nothing is left")
	won := w.race(func(s session.Store, i int) error {
		err := s.Update(w.Context(), session.Soft, func(tx session.Tx) error {
			use := session.ClientUse{Key: key.ID, Hour: session.HourOf(t0)}
			use.Spend.Reserved = 10
			return session.ReserveClient(tx, key, 0, use, session.Attempt{Provider: "p", Model: "m", OpenedAt: t0}, facts, llm.Needs{Output: 10})
		})
		var f *failure.Failure
		if errors.As(err, &f) && f.Class == failure.SpendLimitExceeded && f.Code == "key_limit" {
			return full
		}
		return err
	}, full)
	if got := w.spent(session.Spending{Key: "key_1"}); won != 5 || got.Reserved != 50 {
		w.Fatalf("%d calls, %+v", won, got)
	}
}

// gatewayCalls: the newest come first, a page at a time; the oldest go first.
func gatewayCalls(w *world) {
	put := func(c session.GatewayCall) {
		w.Helper()
		w.do(func(tx session.Tx) error { return tx.PutGatewayCall(c) })
	}
	var all []session.GatewayCall
	for i := range 6 {
		c := session.GatewayCall{ID: fmt.Sprintf("gw_%d", i), KeyID: "key_1", Client: "laptop", Dialect: "chat", Model: "gpt", Stream: true,
			BeganAt: t0 + session.Time(i/2), EndedAt: t0 + 9, Outcome: session.GatewayWhole, Status: 200, Requests: 2,
			Answered: &recovery.Candidate{Provider: "openai", Model: "gpt", Key: "env:A"}, Usage: &llm.Usage{Input: 3, Output: 4},
			Cost: llm.Cost{Amount: 7, Kind: llm.CostKnown}, Lost: 2}
		if i%2 == 1 {
			c.KeyID, c.Client, c.Outcome = "", "operator", session.GatewayInterrupted
		}
		put(c)
		all = append([]session.GatewayCall{c}, all...)
	}
	query := func(q session.GatewayQuery) []session.GatewayCall {
		w.Helper()
		return read(w, func(tx session.ReadTx) ([]session.GatewayCall, error) { return tx.GatewayCalls(q) })
	}
	w.same("all", query(session.GatewayQuery{}), all)
	w.same("two", query(session.GatewayQuery{Limit: 2}), all[:2])
	w.same("two more", query(session.GatewayQuery{Limit: 2, Before: all[1].ID, Began: all[1].BeganAt}), all[2:4])
	w.same("the rest", query(session.GatewayQuery{Before: all[4].ID, Began: all[4].BeganAt}), all[5:])
	w.same("of a key", query(session.GatewayQuery{Key: "key_1", Limit: 1}), all[1:2])
	w.same("of a client", query(session.GatewayQuery{Client: "operator", Outcome: session.GatewayInterrupted, Before: all[0].ID, Began: all[0].BeganAt, Limit: 1}), all[2:3])

	// A call that is put again is replaced; one that is open when its process has ended is lost.
	c := all[0]
	c.Outcome = session.GatewayOpen
	c.Attempts = []session.Attempt{{ID: "1", RunID: session.RunID(c.ID), Number: 1, Provider: "openai", Model: "gpt", OpenedAt: t0}}
	put(c)
	one := func(id string) session.GatewayCall {
		w.Helper()
		return read(w, func(tx session.ReadTx) (session.GatewayCall, error) { return tx.GatewayCall(id) })
	}
	w.same("one", one(c.ID), c)
	if list := query(session.GatewayQuery{Limit: 1}); list[0].Attempts != nil {
		w.Fatalf("listed with attempts: %+v", list)
	}
	w.do(func(tx session.Tx) error { return tx.LoseGatewayCalls() })
	c.Outcome = session.GatewayLost
	w.same("lost", one(c.ID), c)
	w.same("not lost", one(all[1].ID), all[1])
	c.Outcome = "odd"
	if w.update(func(tx session.Tx) error { return tx.PutGatewayCall(c) }) == nil {
		w.Fatal("an outcome that nobody knows was stored")
	}

	prune := func(before session.Time, keep int) {
		w.Helper()
		w.do(func(tx session.Tx) error {
			more, err := tx.PruneGateway(before, keep)
			if more {
				w.Error("more is left than was there")
			}
			return err
		})
	}
	prune(0, 0)
	prune(t0, 6)
	if n := len(query(session.GatewayQuery{})); n != 6 {
		w.Fatalf("%d calls are left", n)
	}
	prune(0, 4)
	if left := query(session.GatewayQuery{}); len(left) != 4 || left[3].ID != "gw_2" {
		w.Fatalf("left %+v", left)
	}
	prune(t0+2, 0)
	if left := query(session.GatewayQuery{}); len(left) != 2 || left[1].ID != "gw_4" {
		w.Fatalf("left %+v", left)
	}
}
