package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// secret stands for whatever must not leave: content, sentences and keys.
const secret = "hunter2"

// world is telemetry that keeps its spans and lines.
type world struct {
	t *testing.T
	*Telemetry
	spans *tracetest.SpanRecorder
	log   *safeBuffer
}

func watching(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, spans: tracetest.NewSpanRecorder(), log: new(safeBuffer)}
	o := Options{Version: "test", Log: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Dialects: map[string]string{"claude": "messages"}}
	tr, err := tracerOf(t.Context(), w.spans, o)
	if err != nil {
		t.Fatal(err)
	}
	w.Telemetry = build(o, tr)
	t.Cleanup(func() { w.Close() })
	return w
}

// safeBuffer is written by another goroutine.
type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// scrape reads every sample: name and labels, as they are written, to value.
func (w *world) scrape() map[string]string {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	samples := map[string]string{}
	for line := range strings.Lines(rec.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			samples[name] = value
		}
	}
	return samples
}

func (w *world) counts(want map[string]string) {
	w.t.Helper()
	got := w.scrape()
	for name, value := range want {
		if got[name] != value {
			w.t.Errorf("%s is %q, want %s", name, got[name], value)
		}
	}
}

// tree spells the spans: each with its events, below its parent.
func (w *world) tree() string {
	w.t.Helper()
	if open := len(w.spans.Started()) - len(w.spans.Ended()); open != 0 {
		w.t.Errorf("%d spans do not end", open)
	}
	children := map[string][]sdktrace.ReadOnlySpan{}
	for _, s := range w.spans.Started() {
		parent := ""
		if s.Parent().IsValid() {
			parent = s.Parent().SpanID().String()
		}
		children[parent] = append(children[parent], s.(sdktrace.ReadOnlySpan))
	}
	var b strings.Builder
	var write func(parent, indent string)
	write = func(parent, indent string) {
		for _, s := range children[parent] {
			fmt.Fprintf(&b, "%s%s", indent, s.Name())
			if s.Status().Description != "" {
				fmt.Fprintf(&b, " (%s)", s.Status().Description)
			}
			for _, e := range s.Events() {
				fmt.Fprintf(&b, ", %s", e.Name)
				for _, a := range e.Attributes {
					if a.Key == attrWait || a.Key == attrReason && a.Value.AsString() != "" {
						fmt.Fprintf(&b, " %s", a.Value.AsString())
					}
				}
			}
			b.WriteString("\n")
			write(s.SpanContext().SpanID().String(), indent+"  ")
		}
	}
	write("", "")
	return b.String()
}

func (w *world) span(name string, n int) map[string]any {
	w.t.Helper()
	for _, s := range w.spans.Ended() {
		if s.Name() != name {
			continue
		}
		if n--; n < 0 {
			all := map[string]any{}
			for _, a := range s.Attributes() {
				all[string(a.Key)] = a.Value.AsInterface()
			}
			return all
		}
	}
	w.t.Fatalf("there are not so many spans %q", name)
	return nil
}

// lines reads what was logged.
func (w *world) lines() (list []map[string]any) {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			w.t.Fatal(err)
		}
		list = append(list, l)
	}
	return list
}

// story is one run whose events are told as a session's manager does.
type story struct {
	*world
	run session.Run
	n   int
}

func (w *world) begin(r session.Run) *story {
	s := &story{world: w, run: r}
	s.run.State, s.run.SessionID, s.run.Attempt = session.Queued, "ses_1", max(r.Attempt, 1)
	if s.run.QueuedAt == 0 {
		s.run.QueuedAt = session.At(time.Now())
	}
	s.emit()
	return s
}

func (s *story) tell(e ...session.Event) {
	s.Committed(s.t.Context(), time.Now().Add(-time.Millisecond), e)
}

func (s *story) emit() {
	r := s.run
	s.tell(session.Event{Type: session.EventRun, SessionID: r.SessionID, Run: &r}, session.Event{Type: session.EventSession})
}

func (s *story) claim() {
	s.run.State, s.run.StartedAt = session.Running, session.At(time.Now())
	s.run.Generation++
	s.run.Claims++
	s.emit()
}

func (s *story) open(step int) session.Attempt {
	s.n++
	a := session.Attempt{ID: session.AttemptID(fmt.Sprintf("att_%d", s.n)), RunID: s.run.ID, SessionID: s.run.SessionID,
		Provider: "claude", Model: "m", Key: "env:KEY", OpenedAt: session.At(time.Now())}
	a.Evidence.Scope.Step, a.Evidence.Scope.Lineage = step, llm.LineageMain
	s.Opened(a, 0)
	return a
}

func (s *story) fail(a session.Attempt, c failure.Class, d recovery.Decision) {
	s.Sealed(a, replay.Seal{})
	d.Class = c
	a.Cost = &llm.Cost{Kind: llm.CostUnknown}
	a.Failure = &failure.Failure{Class: c, Retryable: c.Retryable(), Status: 503, Code: "busy", Message: secret}
	a.Decision = &d
	s.tell(session.Event{Type: session.EventAttempt, SessionID: a.SessionID, Attempt: &a})
}

func (s *story) succeed(a session.Attempt) {
	s.Marked(a, replay.TextShown)
	a.Cost = &llm.Cost{Amount: 1_500_000, Kind: llm.CostEstimated}
	s.Sealed(a, replay.Seal{OK: true, Usage: &llm.Usage{Input: 10, Output: 3, CacheRead: 4}, Model: "m-1", ID: "resp_1"})
	s.tell(session.Event{Type: session.EventMessage, SessionID: s.run.SessionID,
		Message: &session.Message{RunID: s.run.ID, Parts: []llm.Part{llm.Text(secret)}}})
}

func (s *story) end(state session.RunState) {
	claim := s.run
	s.run.State, s.run.EndedAt = state, session.At(time.Now())
	s.emit()
	s.Left(claim)
}

var again = recovery.Decision{Eligible: true, Safe: true, Verdict: recovery.Retry, Rule: recovery.RuleTier1, NextAt: time.Now()}

// f22, f90: one run that recovers, with a tool, as metrics, as a trace and as lines. Nothing of
// what was said, of the provider's sentence or of a key's value is among them.
func TestRun(t *testing.T) {
	w := watching(t)
	s := w.begin(session.Run{ID: "run_1", Trigger: session.TriggerMessage, MessageID: "msg_1", Model: "claude/m"})
	s.claim()
	s.fail(s.open(0), failure.Overloaded, again)
	s.succeed(s.open(0))
	call := session.ToolCall{RunID: "run_1", SessionID: "ses_1", CallID: "c", Name: "clock", Arguments: secret, State: session.CallStarted}
	s.tell(session.Event{Type: session.EventToolCall, ToolCall: &call})
	done := call
	done.State = session.CallEnded
	s.tell(session.Event{Type: session.EventToolCall, ToolCall: &done})
	s.succeed(s.open(1))
	s.run.Steps = 2
	s.end(session.Succeeded)
	w.Close()

	w.counts(map[string]string{
		`reprise_runs_total{state="succeeded",trigger="message"}`:                          "1",
		`reprise_runs_total{state="failed",trigger="message"}`:                             "0",
		`reprise_run_duration_seconds_count{state="succeeded"}`:                            "1",
		`reprise_attempts_total{model="m",outcome="overloaded",provider="claude"}`:         "1",
		`reprise_attempts_total{model="m",outcome="ok",provider="claude"}`:                 "2",
		`reprise_recoveries_total{kind="retry"}`:                                           "1",
		`reprise_recoveries_total{kind="advance"}`:                                         "0",
		`reprise_replays_refused_total{reason="text_shown"}`:                               "0",
		`reprise_wait_seconds_count{kind="tier1"}`:                                         "1",
		`reprise_wait_seconds_count{kind="queue"}`:                                         "1",
		`reprise_first_delta_seconds_count{provider="claude"}`:                             "1",
		`reprise_tokens_total{kind="input",model="m",provider="claude"}`:                   "20",
		`reprise_tokens_total{kind="cache_read",model="m",provider="claude"}`:              "8",
		`reprise_log_lines_dropped_total`:                                                  "0",
		`reprise_build_info{version="test"}`:                                               "1",
		`reprise_cost_dollars_total{kind="estimated",model="m",provider="claude"}`:         "0.003",
		`reprise_cost_unknown_total`:                                                       "1",
		`reprise_event_log_append_seconds_count`:                                           "0",
		`reprise_attempts_total{model="m",outcome="stream_interrupted",provider="claude"}`: "",
	})
	if got, want := w.tree(), `post
  run, wait queue
    step, wait tier1 overloaded
      chat m (overloaded)
      chat m, first output
      execute_tool clock
    step
      chat m, first output
`; got != want {
		t.Errorf("the trace is\n%s\nwant\n%s", got, want)
	}
	for k, want := range map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m",
		"gen_ai.conversation.id": "ses_1", "error.type": "overloaded", "http.response.status_code": int64(503),
		"reprise.decision.eligible": true, "reprise.decision.safe": true, "reprise.decision.verdict": "retry",
		"reprise.decision.rule": "tier1", "reprise.provider": "claude", "reprise.key.label": "env:KEY", "reprise.attempt.id": "att_1",
	} {
		if got := w.span("chat m", 0)[k]; got != want {
			t.Errorf("%s is %v, want %v", k, got, want)
		}
	}
	for k, want := range map[string]any{
		"gen_ai.response.model": "m-1", "gen_ai.response.id": "resp_1", "gen_ai.usage.input_tokens": int64(10),
		"gen_ai.usage.output_tokens": int64(3), "gen_ai.usage.cache_read.input_tokens": int64(4), "error.type": nil,
		"reprise.cost.dollars": 0.0015, "reprise.cost.kind": "estimated",
	} {
		if got := w.span("chat m", 1)[k]; got != want {
			t.Errorf("%s is %v, want %v", k, got, want)
		}
	}
	trace, _ := idsOf("run_1")
	var said []string
	for _, l := range w.lines() { // K-181
		said = append(said, fmt.Sprintln(l["level"], l["msg"], l["outcome"], l["verdict"], l["state"]))
		if l["session"] != "ses_1" || l["run"] != "run_1" || l["trace_id"] != trace.String() {
			t.Errorf("a line of what? %v", l)
		}
	}
	if want := []string{
		"DEBUG attempt ended overloaded <nil> <nil>\n", "INFO attempt decided <nil> retry <nil>\n",
		"DEBUG attempt ended ok <nil> <nil>\n", "DEBUG attempt ended ok <nil> <nil>\n", "INFO run ended <nil> <nil> succeeded\n",
	}; !slices.Equal(said, want) {
		t.Errorf("the lines are %q", said)
	}
	for _, span := range w.spans.Ended() {
		if all := fmt.Sprint(span.Name(), span.Attributes(), span.Events(), span.Status()); strings.Contains(all, secret) {
			t.Errorf("a span has content: %s", all)
		}
	}
	if strings.Contains(w.log.String(), secret) {
		t.Error("a line has content")
	}
	if len(w.runs) != 0 {
		t.Error("what has ended is kept")
	}
}

// Why a failure that could pass is not repeated is counted once for each reason, whoever asked:
// the loop, a restart or the timer.
func TestRefusals(t *testing.T) {
	w := watching(t)
	stop := recovery.Decision{Eligible: true, Evidence: replay.TextShown | replay.ThinkingShown, Rule: recovery.RuleNotSafe}
	s := w.begin(session.Run{ID: "run_1", Trigger: session.TriggerMessage})
	s.claim()
	s.fail(s.open(0), failure.StreamInterrupted, stop)
	s.run.Failure = &session.Failure{Retryable: true, RetryClass: failure.StreamInterrupted}
	s.run.Recovery = &session.Recovery{Evidence: replay.TextShown | replay.ThinkingShown}
	s.end(session.Failed)

	s = w.begin(session.Run{ID: "run_2", Trigger: session.TriggerResume, Continues: "run_1"})
	s.run.Claims = 1
	s.claim() // a restart that may not go on
	s.run.Failure = &session.Failure{Retryable: true, RetryClass: failure.Interrupted}
	s.run.Recovery = &session.Recovery{Evidence: replay.ToolStarted}
	s.end(session.Failed)

	armed := session.Schedule{SessionID: "ses_1", RunID: "run_2", State: session.ScheduleArmed, ReplaySafe: true}
	never := session.Schedule{SessionID: "ses_1", RunID: "run_2", State: session.ScheduleNever, Evidence: replay.CommandRan}
	for _, sch := range []session.Schedule{armed, never} {
		s.tell(session.Event{Type: session.EventSchedule, SessionID: "ses_1", Schedule: &sch})
	}
	w.counts(map[string]string{
		`reprise_replays_refused_total{reason="text_shown"}`:        "1",
		`reprise_replays_refused_total{reason="thinking_shown"}`:    "1",
		`reprise_replays_refused_total{reason="tool_started"}`:      "1",
		`reprise_replays_refused_total{reason="command_ran"}`:       "1",
		`reprise_replays_refused_total{reason="nothing_committed"}`: "0",
		`reprise_recoveries_total{kind="restart"}`:                  "0",
		`reprise_wait_seconds_count{kind="tier2"}`:                  "1",
		`reprise_runs_total{state="failed",trigger="resume"}`:       "1",
	})
	// A resumed run names the one that it continues.
	var links int
	for _, span := range w.spans.Ended() {
		if span.Name() == "resume" && len(span.Links()) == 1 && span.Links()[0].SpanContext.TraceID() == operationOf("run_1").TraceID() {
			links++
		}
	}
	if links != 1 {
		t.Error("the resume is not linked")
	}
}

// The second tier and a restart: another process finds the trace of the run that it takes over.
func TestSecondTierAndRestart(t *testing.T) {
	w := watching(t)
	s := w.begin(session.Run{ID: "run_1", Trigger: session.TriggerMessage})
	s.claim()
	s.fail(s.open(0), failure.Overloaded, recovery.Decision{Eligible: true, Safe: true, Verdict: recovery.HandOver, Rule: recovery.RuleTier1Spent})
	s.end(session.Failed)
	armed := session.Schedule{SessionID: "ses_1", RunID: "run_1", State: session.ScheduleArmed}
	s.tell(session.Event{Type: session.EventSchedule, SessionID: "ses_1", Schedule: &armed})

	retry := session.Run{ID: "run_2", SessionID: "ses_1", State: session.Queued, Trigger: session.TriggerRetry, QueuedAt: session.At(time.Now())}
	w.Committed(t.Context(), time.Now().Add(-time.Second), []session.Event{
		{Type: session.EventSchedule, SessionID: "ses_1"}, {Type: session.EventRun, Run: &retry}})
	s = &story{world: w, run: retry}
	s.claim()
	s.open(0)
	s.run.State = session.Queued // its server stops
	s.emit()
	s.Left(s.run)
	s.claim()
	s.Left(session.Run{ID: "run_2", Generation: 1}) // late
	s.succeed(s.open(0))
	s.end(session.Succeeded)
	w.counts(map[string]string{
		`reprise_recoveries_total{kind="hand_over"}`:            "1",
		`reprise_recoveries_total{kind="tier2"}`:                "1",
		`reprise_recoveries_total{kind="restart"}`:              "1",
		`reprise_wait_seconds_count{kind="tier2"}`:              "1",
		`reprise_wait_seconds_count{kind="queue"}`:              "2",
		`reprise_runs_total{state="succeeded",trigger="retry"}`: "1",
	})
	traces := map[string]int{}
	for _, span := range w.spans.Ended() {
		traces[span.SpanContext().TraceID().String()]++
		if span.Name() == "dispatch retry" && (len(span.Links()) != 1 || span.Links()[0].SpanContext.TraceID() != operationOf("run_1").TraceID()) {
			t.Errorf("the retry is linked to %v", span.Links())
		}
	}
	if len(traces) != 2 {
		t.Errorf("two runs make %d traces", len(traces))
	}
	w.tree()
}

// A run that nobody claims, or that is parked and then started, is asked for once and ends once.
func TestQueuedOnly(t *testing.T) {
	w := watching(t)
	s := w.begin(session.Run{ID: "run_1", Trigger: session.TriggerRegenerate})
	for _, parked := range []bool{true, false} {
		r := s.run
		r.Parked = parked
		w.Committed(t.Context(), r.QueuedAt.Std().Add(time.Second), []session.Event{{Type: session.EventRun, Run: &r}})
	}
	s.end(session.Cancelled)
	w.counts(map[string]string{
		`reprise_runs_total{state="cancelled",trigger="regenerate"}`: "1",
		`reprise_wait_seconds_count{kind="queue"}`:                   "0",
	})
	if got := w.tree(); got != "regenerate\n" {
		t.Errorf("the trace is\n%s", got)
	}
}

// The record of a run that has ended may be completed: it has not ended twice.
func TestEndsOnce(t *testing.T) {
	w := watching(t)
	s := w.begin(session.Run{ID: "run_1", Trigger: session.TriggerMessage})
	s.claim()
	claim := s.run
	s.run.State, s.run.EndedAt = session.Failed, session.At(time.Now())
	s.emit()
	s.emit()
	s.Left(claim)
	r := s.run
	w.Committed(t.Context(), r.EndedAt.Std().Add(time.Second), []session.Event{{Type: session.EventRun, Run: &r}})
	w.counts(map[string]string{`reprise_runs_total{state="failed",trigger="message"}`: "1"})
}

// A switch is told on the attempt that follows it, and what it had to wait for apart.
func TestSwitch(t *testing.T) {
	w := watching(t)
	s := w.begin(session.Run{ID: "run_1", Trigger: session.TriggerMessage})
	s.claim()
	s.fail(s.open(0), failure.RateLimited, recovery.Decision{Eligible: true, Safe: true, Verdict: recovery.Advance, Rule: recovery.RuleNextModel})
	a := session.Attempt{ID: "att_2", RunID: "run_1", SessionID: "ses_1", Provider: "local", Model: "n",
		SwitchedFrom: &recovery.Former{Candidate: recovery.Candidate{Provider: "claude", Model: "m"}, Reason: "rate_limited"}}
	s.Opened(a, 5*time.Second)
	s.succeed(a)
	s.end(session.Succeeded)
	w.counts(map[string]string{
		`reprise_recoveries_total{kind="advance"}`:                        "1",
		`reprise_wait_seconds_count{kind="tier1"}`:                        "0",
		`reprise_wait_seconds_sum{kind="cooling"}`:                        "5",
		`reprise_wait_seconds_count{kind="queue"}`:                        "1",
		`reprise_attempts_total{model="n",outcome="ok",provider="local"}`: "1",
	})
	span := w.span("chat n", 0)
	if span["reprise.switch.from"] != "claude/m" || span["reprise.switch.reason"] != "rate_limited" || span["gen_ai.provider.name"] != "local" {
		t.Errorf("%v", span)
	}
	if got, want := w.tree(), `post
  run, wait queue
    step, wait cooling
      chat m (rate_limited)
      chat n, first output
`; got != want {
		t.Errorf("the trace is\n%s\nwant\n%s", got, want)
	}
}

// A summary is asked for in a side call: it is an attempt, and nobody's first output.
func TestCompaction(t *testing.T) {
	w := watching(t)
	s := w.begin(session.Run{ID: "run_1", Trigger: session.TriggerMessage})
	s.claim()
	s.fail(s.open(0), failure.ContextOverflow, recovery.Decision{Eligible: true, Safe: true, Verdict: recovery.Compact, Rule: recovery.RuleCompactOnce})
	side := session.Attempt{ID: "att_s", RunID: "run_1", SessionID: "ses_1", Provider: "claude", Model: "m"}
	side.Evidence.Scope.Lineage = "compaction_overflow"
	s.Opened(side, 0)
	s.succeed(side)
	w.counts(map[string]string{`reprise_first_delta_seconds_count{provider="claude"}`: ""})
	s.tell(session.Event{Type: session.EventMessage, Message: &session.Message{RunID: "run_1", Role: session.RoleNotice,
		Compaction: &session.Compaction{Cause: "overflow", Summary: secret, Before: 900, After: 100}}})
	s.succeed(s.open(0))
	s.end(session.Succeeded)
	w.counts(map[string]string{
		`reprise_first_delta_seconds_count{provider="claude"}`:             "1",
		`reprise_compactions_total{cause="overflow"}`:                      "1",
		`reprise_compactions_total{cause="threshold"}`:                     "0",
		`reprise_recoveries_total{kind="compact"}`:                         "1",
		`reprise_wait_seconds_count{kind="tier1"}`:                         "0",
		`reprise_attempts_total{model="m",outcome="ok",provider="claude"}`: "2",
	})
	if got, want := w.tree(), `post
  run, wait queue, compacted
    step
      chat m (context_overflow)
      chat m, first output
      chat m, first output
`; got != want {
		t.Errorf("the trace is\n%s\nwant\n%s", got, want)
	}
	if got := w.span("chat m", 1)["reprise.lineage"]; got != "compaction_overflow" {
		t.Errorf("the side call is of %v", got)
	}
}

// Whatever names sessions bring, the series stay few.
func TestLabelsAreBounded(t *testing.T) {
	w := watching(t)
	for i := range 10 * maxLabels {
		a := session.Attempt{Provider: "p", Model: fmt.Sprint("model-", i), RunID: "run_1"}
		w.Sealed(a, replay.Seal{OK: true})
	}
	series, rest := 0, ""
	for name, value := range w.scrape() {
		if strings.HasPrefix(name, "reprise_attempts_total{") {
			series++
			if strings.Contains(name, `model="other"`) {
				rest = value
			}
		}
	}
	if series != maxLabels+1 || rest != fmt.Sprint(9*maxLabels) {
		t.Errorf("%d series, %s of others", series, rest)
	}
}

// A log that takes nothing holds nobody up; what is lost is counted.
func TestBlockedLog(t *testing.T) {
	blocked := make(chan struct{})
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) { <-blocked; return len(p), nil }), nil))
	w := &world{t: t, Telemetry: build(Options{Log: log}, noTracer())}
	stop := recovery.Decision{Rule: recovery.RuleNotEligible}
	for range 3 * maxLines {
		a := session.Attempt{Failure: &failure.Failure{}, Decision: &stop}
		w.Committed(t.Context(), time.Now(), []session.Event{{Type: session.EventAttempt, Attempt: &a}})
	}
	if n := w.scrape()["reprise_log_lines_dropped_total"]; n != fmt.Sprint(2*maxLines-1) && n != fmt.Sprint(2*maxLines) {
		t.Errorf("%s lines were dropped", n)
	}
	close(blocked)
	w.Close()
	w.Close()
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// The gauges say what there is, and a store that does not answer costs those alone that count in it.
func TestGauges(t *testing.T) {
	w := watching(t)
	var err error
	w.Watch(func(context.Context) (session.Standing, error) {
		return session.Standing{Running: 2, Queued: 1, CoolingOff: 6, Viewers: 3, Streams: 4, Unstored: 7, Schedules: map[session.ScheduleState]int{session.ScheduleHeld: 5}}, err
	})
	w.counts(map[string]string{
		`reprise_runs_active{state="running"}`: "2", `reprise_runs_active{state="queued"}`: "1",
		`reprise_schedules{state="held"}`: "5", `reprise_schedules{state="armed"}`: "0",
		`reprise_cooling_off`: "6", `reprise_viewers`: "3", `reprise_event_streams`: "4", `reprise_runs_unstored`: "7",
	})
	err = context.DeadlineExceeded
	w.counts(map[string]string{`reprise_cooling_off`: "", `reprise_viewers`: "3", `reprise_runs_total{state="failed",trigger="message"}`: "0"})
	w.Close()
	if !strings.Contains(w.log.String(), "count for the metrics") {
		t.Error("nothing is said")
	}
}

// One append in sixteen is timed, the first of a run among them; all are passed on.
func TestAppends(t *testing.T) {
	w := watching(t)
	under := &countingLog{}
	out, err := w.EventLog(under).Claim(t.Context(), "ses_1", "run_1", 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 2*sampled + 1 {
		if err := out.Append(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.counts(map[string]string{`reprise_event_log_append_seconds_count`: "3"})
	if under.n != 2*sampled+1 {
		t.Errorf("%d appends", under.n)
	}
	under.err = session.ErrFenced
	if _, err := w.EventLog(under).Claim(t.Context(), "ses_1", "run_1", 1); err != session.ErrFenced {
		t.Error(err)
	}
}

type countingLog struct {
	session.Log
	n   int
	err error
}

func (l *countingLog) Claim(context.Context, session.ID, session.RunID, int64) (session.Writer, error) {
	return l, l.err
}
func (l *countingLog) Append(context.Context, []byte) error { l.n++; return nil }
