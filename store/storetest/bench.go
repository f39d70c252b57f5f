package storetest

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// Bench measures the writes and reads that a reply waits for.
func Bench(b *testing.B, create Create) {
	updates := func(d session.Durability) func(b *testing.B, w *world) {
		return func(b *testing.B, w *world) {
			n := 0 // a write that changes no byte costs nothing
			for b.Loop() {
				n++
				w.ok(w.s.Update(b.Context(), d, put("a", fmt.Sprint(n))))
			}
		}
	}
	for _, bench := range []struct {
		name string
		run  func(b *testing.B, w *world)
	}{
		{"UpdateSoft", updates(session.Soft)},
		{"UpdateFull", updates(session.Full)},
		{"UpdateFullBy16", func(b *testing.B, w *world) {
			b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := w.s.Update(b.Context(), session.Full, put("a", fmt.Sprint(n.Add(1)))); err != nil {
						b.Error(err)
					}
				}
			})
		}},
		{"MarkAttempt", func(b *testing.B, w *world) {
			r := w.begin()
			n := 0
			for b.Loop() {
				b.StopTimer()
				n++
				id := session.AttemptID(fmt.Sprint("att_b", n))
				w.opened(id, r)
				b.StartTimer()
				w.ok(w.s.Update(b.Context(), session.Full, func(tx session.Tx) error {
					return tx.MarkAttempt(id, scope(r), replay.TextShown, t0)
				}))
			}
		}},
		{"OpenAttempt", func(b *testing.B, w *world) {
			r := w.begin()
			n := 0
			for b.Loop() {
				n++
				w.ok(w.update(func(tx session.Tx) error {
					_, err := tx.OpenAttempt(newAttempt(session.AttemptID(fmt.Sprint("att_b", n)), r))
					return err
				}))
			}
		}},
		{"Context200Of1000", func(b *testing.B, w *world) {
			w.session("ses_1")
			w.do(func(tx session.Tx) error {
				for i := range 1000 {
					m := session.Message{ID: session.MessageID(fmt.Sprint("msg_", i)), SessionID: "ses_1",
						Role: session.RoleReply, RunID: session.RunID(fmt.Sprint("run_", i/4)), CreatedAt: t0,
						Parts: []llm.Part{llm.Text("some words of a reply that is not very long")}}
					if _, err := tx.InsertMessage(m); err != nil {
						return err
					}
				}
				_, err := tx.Supersede("ses_1", "msg_0", 200, "", "run_x", t0)
				return err
			})
			for b.Loop() {
				if n := len(w.messages("ses_1", false)); n != 200 {
					b.Fatal(n)
				}
			}
		}},
		{"Session", func(b *testing.B, w *world) {
			w.begin()
			for b.Loop() {
				w.readSession("ses_1")
			}
		}},
	} {
		b.Run(bench.name, func(b *testing.B) { bench.run(b, newWorld(b, create)) })
	}
}
