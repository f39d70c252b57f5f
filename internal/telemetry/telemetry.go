// Package telemetry counts, traces and logs what sessions do. Prometheus metrics, OpenTelemetry
// spans and log lines are made of what session.Observer tells, and of nothing else.
//
// It promises: whoever is observed waits for nothing here, as spans and lines wait in bounded
// queues and are dropped when these are full; labels have a bounded number of values, and no id
// is one; every line about a run names its session and run, and its trace where there are
// traces; what starts as a span ends. No exporter is built unless somebody asks for it.
//
// It refuses content: no message, argument or result, no sentence of a provider, no key.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// closeTime bounds how long Close waits for what is still queued.
const closeTime = 2 * time.Second

// Options are what telemetry is made of. The zero value counts, and logs to slog.Default.
type Options struct {
	Version string
	Log     *slog.Logger // nil: slog.Default()
	// Traces is the address of an OTLP receiver over HTTP, as http://127.0.0.1:4318. Empty: what
	// the standard variables of Env say.
	Traces string
	Env    map[string]string
	// Dialects names the dialect of each provider, for the conventions' name of whose it is.
	Dialects map[string]string
}

// Telemetry observes sessions. It is safe for concurrent use.
type Telemetry struct {
	metrics
	lines  *lines
	log    *slog.Logger
	tracer *tracer

	mu      sync.Mutex
	runs    map[session.RunID]*run
	waiting map[session.ID]waiting
}

var _ session.Observer = (*Telemetry)(nil)

// run is a run that this node executes.
type run struct {
	session.Run // as it was claimed
	spans       spans

	attempt  session.Attempt // the last one
	opened   time.Time       // when it was
	requests int             // that this claim has sent
	shown    bool            // there was output
	refused  bool            // a decision has said why it is not repeated
	ended    bool

	waits    time.Time // since when the next attempt is waited for; zero: it is not
	waitsFor string    // the class of the failure before
}

// waiting is a schedule that will start something by itself.
type waiting struct {
	since time.Time
	run   session.RunID // the failed one
}

// Open builds what observes. It connects to nothing: an exporter that cannot reach its
// receiver says so in the log.
func Open(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	tracer, err := newTracer(ctx, o)
	switch {
	case err != nil && o.Traces != "":
		return nil, fmt.Errorf("traces: %w", err)
	case err != nil: // variables that were set for other programs stop no server
		o.Log.Warn("no traces are exported", "error", err)
		tracer = noTracer()
	}
	return build(o, tracer), nil
}

func build(o Options, tracer *tracer) *Telemetry {
	t := &Telemetry{tracer: tracer, runs: map[session.RunID]*run{}, waiting: map[session.ID]waiting{}}
	t.metrics.init(o.Version)
	t.lines = queueLines(t.dropped)
	t.log = slog.New(t.lines.handler(o.Log.Handler()))
	return t
}

// Close ends what is open and sends what is queued, within two seconds; what is left then is
// dropped, and the log says so where it takes that. A receiver that is gone is no reason for a
// program to fail. Nothing is observed after it. Closing twice is fine.
func (t *Telemetry) Close() {
	t.mu.Lock()
	for id, r := range t.runs {
		r.spans.end(time.Now())
		delete(t.runs, id)
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := t.tracer.close(ctx); err != nil {
		t.log.Warn("the last traces are lost", "error", err)
	}
	t.lines.close(closeTime)
}

// Committed implements session.Observer.
func (t *Telemetry) Committed(ctx context.Context, began time.Time, events []session.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for i := range events {
		switch e := &events[i]; e.Type {
		case session.EventRun:
			t.changed(ctx, began, now, e.Run)
		case session.EventAttempt:
			t.decided(now, e.Attempt)
		case session.EventMessage:
			if c := e.Message.Compaction; c != nil {
				t.compactions.WithLabelValues(c.Cause).Inc()
				if r := t.runs[e.Message.RunID]; r != nil {
					t.tracer.compacted(r, now, c)
				}
			}
		case session.EventToolCall:
			if r := t.runs[e.ToolCall.RunID]; r != nil {
				t.tracer.tool(r, now, e.ToolCall)
			}
		}
	}
	for i := range events { // after the runs that end a wait
		if e := &events[i]; e.Type == session.EventSchedule {
			t.scheduled(now, e.SessionID, e.Schedule)
		}
	}
}

// changed takes in a run's new state. A run may be told of again that was queued or has ended
// before: when it is parked, or when its record is completed. Only what this transaction did
// is new.
func (t *Telemetry) changed(ctx context.Context, began, now time.Time, r *session.Run) {
	was := t.runs[r.ID]
	switch {
	case r.State.Terminal():
		if r.EndedAt >= session.At(began) && (was == nil || !was.ended) {
			t.ended(now, was, r)
		}
	case r.State == session.Queued && r.Claims == 0 && r.QueuedAt >= session.At(began):
		if r.Trigger == session.TriggerRetry && !r.Origin.Operator {
			t.recoveries.WithLabelValues("tier2").Inc()
		}
		t.tracer.asked(ctx, began, now, r, t.waiting[r.SessionID].run)
	case r.State == session.Running && (was == nil || was.Generation != r.Generation):
		t.claimed(now, r)
	case r.State == session.Running && r.CancelRequested && was != nil:
		was.spans.run.AddEvent("cancel requested", trace.WithTimestamp(now))
	}
}

func (t *Telemetry) claimed(now time.Time, claim *session.Run) {
	r := &run{Run: *claim}
	t.runs[r.ID] = r
	t.tracer.claimed(r, now)
	if r.Claims == 1 {
		queued := r.StartedAt.Std().Sub(r.QueuedAt.Std())
		t.waited("queue", queued)
		t.tracer.waited(r.spans.run, now, "queue", "", queued)
	}
}

// Opened implements session.Observer.
func (t *Telemetry) Opened(a session.Attempt, waited time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[a.RunID]
	if r == nil {
		return
	}
	now := time.Now()
	if r.Claims > 1 && r.requests == 0 {
		t.recoveries.WithLabelValues("restart").Inc()
	}
	r.requests++
	r.attempt, r.opened = a, now
	t.tracer.opened(r, now)
	t.rested(r, now.Add(-waited))
	if waited > 0 {
		t.waited("cooling", waited)
		t.tracer.waited(r.spans.step, now, "cooling", "", waited)
	}
}

// rested ends a wait between two attempts.
func (t *Telemetry) rested(r *run, now time.Time) {
	if r.waits.IsZero() {
		return
	}
	d := now.Sub(r.waits)
	t.waited("tier1", d)
	t.tracer.waited(r.spans.step, now, "tier1", r.waitsFor, d)
	r.waits = time.Time{}
}

// Marked implements session.Observer.
func (t *Telemetry) Marked(a session.Attempt, _ replay.Reasons) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[a.RunID]
	if r == nil {
		return
	}
	now := time.Now()
	t.tracer.marked(r, now)
	if !r.shown && a.Evidence.Scope.Lineage == llm.LineageMain { // nobody sees what a side call says
		r.shown = true
		t.firstDelta.WithLabelValues(t.label(providers, a.Provider)).Observe(now.Sub(r.QueuedAt.Std()).Seconds())
	}
}

// Sealed implements session.Observer. An attempt that broke is told of again, with what was
// decided.
func (t *Telemetry) Sealed(a session.Attempt, s replay.Seal) {
	if !s.OK {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	a.Usage, a.Answered, a.Evidence.Published = s.Usage, s.Model, s.Published
	t.finished(now, &a, "ok")
	if r := t.runs[a.RunID]; r != nil {
		t.tracer.sealed(r, now, &a, s.ID)
	}
}

// decided takes in a failed attempt and what follows.
func (t *Telemetry) decided(now time.Time, a *session.Attempt) {
	f, d := a.Failure, a.Decision
	if f == nil || d == nil {
		return
	}
	t.finished(now, a, f.Class.String())
	if d.Verdict != recovery.Stop {
		t.recoveries.WithLabelValues(d.Verdict.String()).Inc()
	}
	r := t.runs[a.RunID]
	if d.Eligible && !d.Safe {
		t.refusals(d.Evidence)
		if r != nil {
			r.refused = true
		}
	}
	line := append(t.about(a.SessionID, a.RunID),
		slog.String("attempt", string(a.ID)), slog.Int("step", a.Evidence.Scope.Step),
		slog.String("class", f.Class.String()), slog.Int("status", f.Status), slog.String("code", f.Code),
		slog.Bool("eligible", d.Eligible), slog.Bool("safe", d.Safe), slog.Any("evidence", d.Evidence.List()),
		slog.String("verdict", d.Verdict.String()), slog.String("rule", string(d.Rule)))
	if !d.NotBefore.IsZero() {
		line = append(line, slog.Time("not_before", d.NotBefore))
	}
	if !d.NextAt.IsZero() {
		line = append(line, slog.Time("next_at", d.NextAt))
	}
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "attempt decided", line...)
	if r == nil {
		return
	}
	t.tracer.decided(r, now, a)
	if d.Verdict == recovery.Retry { // the others are carried out at once
		r.waits, r.waitsFor = now, f.Class.String()
	}
}

// finished counts an attempt that has ended.
func (t *Telemetry) finished(now time.Time, a *session.Attempt, outcome string) {
	provider, model := t.label(providers, a.Provider), t.label(models, a.Model)
	t.attempts.WithLabelValues(provider, model, outcome).Inc()
	t.used(provider, model, a.Usage)
	t.paid(provider, model, a.Cost)
	if !t.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	t.log.LogAttrs(context.Background(), slog.LevelDebug, "attempt ended", append(t.about(a.SessionID, a.RunID),
		slog.String("attempt", string(a.ID)), slog.Int("step", a.Evidence.Scope.Step), slog.Bool("automatic", a.Automatic),
		slog.String("provider", a.Provider), slog.String("model", a.Model), slog.String("outcome", outcome),
		slog.Duration("took", now.Sub(a.OpenedAt.Std())), slog.Int64("published", published(a.Evidence.Published)))...)
}

// published adds up characters and parts.
func published(c replay.Counts) int64 { return c.Text + c.Thinking + c.Calls + c.Other }

// ended takes in a run's end; r is nil where no node has executed it.
func (t *Telemetry) ended(now time.Time, r *run, end *session.Run) {
	t.runsEnded.WithLabelValues(string(end.Trigger), string(end.State)).Inc()
	t.duration.WithLabelValues(string(end.State)).Observe(end.EndedAt.Std().Sub(end.QueuedAt.Std()).Seconds())
	line := append(t.about(end.SessionID, end.ID),
		slog.String("state", string(end.State)), slog.String("trigger", string(end.Trigger)), slog.String("model", end.Model),
		slog.Int("attempt", end.Attempt), slog.Int("steps", end.Steps), slog.Int("claims", end.Claims),
		slog.Duration("took", end.EndedAt.Std().Sub(end.QueuedAt.Std())))
	if f, rec := end.Failure, end.Recovery; f != nil && rec != nil {
		if f.Retryable && !rec.ReplaySafe && (r == nil || !r.refused) {
			t.refusals(rec.Evidence)
		}
		line = append(line, slog.String("class", f.RetryClass.String()), slog.Int("status", f.Status), slog.String("code", f.Code),
			slog.Bool("retryable", f.Retryable), slog.Bool("replay_safe", rec.ReplaySafe), slog.Any("evidence", rec.Evidence.List()),
			slog.Bool("auto", rec.Auto), slog.String("verb", rec.Verb.String()))
	}
	if r != nil {
		r.ended = true
		line = append(line, slog.Int("requests", r.requests))
		t.rested(r, now)
		t.tracer.ended(r, end)
	}
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "run ended", line...)
}

// Left implements session.Observer.
func (t *Telemetry) Left(claim session.Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[claim.ID]
	if r == nil || r.Generation != claim.Generation {
		return // another claim's
	}
	r.spans.end(time.Now())
	delete(t.runs, claim.ID)
}

// scheduled times the waits of the second tier. Those that began before this process did are
// counted from its start on.
func (t *Telemetry) scheduled(now time.Time, id session.ID, s *session.Schedule) {
	was, there := t.waiting[id]
	if s != nil && s.State.Waiting() {
		if !there {
			t.waiting[id] = waiting{now, s.RunID}
		}
		return
	}
	if s != nil && s.State == session.ScheduleNever && there && !s.ReplaySafe {
		t.refusals(s.Evidence) // the timer asked, and the gate said no
	}
	if there {
		t.waited("tier2", now.Sub(was.since))
		delete(t.waiting, id)
	}
}

// about names a run in a line.
func (t *Telemetry) about(id session.ID, run session.RunID) []slog.Attr {
	list := append(make([]slog.Attr, 0, 16), slog.String("session", string(id)), slog.String("run", string(run)))
	if t.tracer.exports {
		trace, _ := idsOf(run)
		list = append(list, slog.String("trace_id", trace.String()))
	}
	return list
}
