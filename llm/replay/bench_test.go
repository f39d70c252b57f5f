package replay_test

import (
	"context"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// endless gives n deltas and the terminal event. The text is made beforehand: what is
// measured is what the transaction adds to a delta's own bytes.
type endless struct{ left int }

func (*endless) Name() string { return "endless" }
func (s *endless) Stream(ctx context.Context, p llm.Permit, _ *llm.Request) (llm.Stream, error) {
	return s, p.Spend(ctx)
}
func (s *endless) Next() (llm.Event, error) {
	if s.left == 0 {
		return llm.Event{Kind: llm.EventDone}, nil
	}
	s.left--
	return llm.Event{Kind: llm.EventText, Text: "twenty bytes of text"}, nil
}
func (s *endless) Ready() bool  { return true }
func (s *endless) Close() error { return nil }

func benchmarkDeltas(b *testing.B, hold replay.Hold) {
	ledger := replay.NewMemory()
	scope := llm.Scope{Run: "run", Generation: ledger.Claim("run")}
	gate := replay.New(scope, ledger, replay.Operator{Actor: "a", Message: "m"})
	n := min(b.N, replay.MaxStagedBytes/32)
	b.ReportAllocs()
	for left := b.N; left > 0; left -= n {
		g := gate
		if left < b.N {
			g = replay.New(scope, ledger, replay.Operator{Actor: "a", Message: "m"})
		}
		a, err := g.Open(b.Context(), nil, &endless{min(n, left)}, &llm.Request{})
		if err != nil {
			b.Fatal(err)
		}
		if _, broken := a.Run(discard{}, replay.Terms{Hold: hold}); broken != nil {
			b.Fatal(broken.Err)
		}
	}
}

func BenchmarkPublishDelta(b *testing.B) { benchmarkDeltas(b, replay.Hold{}) }
func BenchmarkStageDelta(b *testing.B)   { benchmarkDeltas(b, replay.Hold{Mode: replay.HoldWhole}) }
