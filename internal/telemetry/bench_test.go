package telemetry

import (
	"log/slog"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// One run with one attempt, as it is told: all that a reply pays for being observed.
func BenchmarkRun(b *testing.B) {
	t := build(Options{Log: slog.New(slog.DiscardHandler)}, noTracer())
	usage := &llm.Usage{Input: 10, Output: 5}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		r := session.Run{ID: "run_1", SessionID: "ses_1", State: session.Running, Trigger: session.TriggerMessage, Claims: 1, Generation: 1,
			QueuedAt: session.At(now), StartedAt: session.At(now)}
		a := session.Attempt{ID: "att_1", RunID: "run_1", SessionID: "ses_1", Provider: "claude", Model: "m", OpenedAt: session.At(now)}
		t.Committed(b.Context(), now, []session.Event{{Type: session.EventRun, Run: &r}, {Type: session.EventSession}})
		t.Opened(a, 0)
		t.Marked(a, replay.TextShown)
		t.Sealed(a, replay.Seal{OK: true, Usage: usage})
		end := r
		end.State, end.EndedAt = session.Succeeded, session.At(now)
		t.Committed(b.Context(), now, []session.Event{{Type: session.EventMessage, Message: &session.Message{}}, {Type: session.EventRun, Run: &end}, {Type: session.EventSession}})
		t.Left(r)
	}
}
