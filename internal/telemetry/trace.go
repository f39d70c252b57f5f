package telemetry

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// The conventions for generative models are those of version 1.41, the last whose Go package
// has them (https://opentelemetry.io/docs/specs/semconv/gen-ai/). What is ours begins with
// reprise.
const (
	attrSession   = attribute.Key("reprise.session.id")
	attrRun       = attribute.Key("reprise.run.id")
	attrTrigger   = attribute.Key("reprise.run.trigger")
	attrState     = attribute.Key("reprise.run.state")
	attrClaims    = attribute.Key("reprise.run.claims")
	attrTry       = attribute.Key("reprise.run.attempt") // of the second tier, from 1
	attrStep      = attribute.Key("reprise.step")
	attrAttempt   = attribute.Key("reprise.attempt.id")
	attrAutomatic = attribute.Key("reprise.attempt.automatic")
	attrLineage   = attribute.Key("reprise.lineage") // main, or the side call that it is
	attrProvider  = attribute.Key("reprise.provider")
	attrKey       = attribute.Key("reprise.key.label")
	attrFrom      = attribute.Key("reprise.switch.from") // who was asked before
	attrFromWhy   = attribute.Key("reprise.switch.reason")
	attrCode      = attribute.Key("reprise.failure.code")
	attrCost      = attribute.Key("reprise.cost.dollars")
	attrCostKind  = attribute.Key("reprise.cost.kind") // known, estimated, unknown
	attrEligible  = attribute.Key("reprise.decision.eligible")
	attrSafe      = attribute.Key("reprise.decision.safe")
	attrEvidence  = attribute.Key("reprise.decision.evidence")
	attrVerdict   = attribute.Key("reprise.decision.verdict")
	attrRule      = attribute.Key("reprise.decision.rule")
	attrCause     = attribute.Key("reprise.compaction.cause")
	attrBefore    = attribute.Key("reprise.compaction.before") // tokens, estimated
	attrAfter     = attribute.Key("reprise.compaction.after")
	attrWait      = attribute.Key("reprise.wait.kind")
	attrReason    = attribute.Key("reprise.wait.reason")
	attrSeconds   = attribute.Key("reprise.wait.seconds")
)

// operations names the span of what asked for a run.
var operations = map[session.Trigger]string{
	session.TriggerMessage: "post", session.TriggerRegenerate: "regenerate",
	session.TriggerResume: "resume", session.TriggerRetry: "dispatch retry",
}

// makers are the conventions' names of those who made the dialects. Whoever else speaks one is
// named as the configuration does.
var makers = map[string]string{
	"responses": semconv.GenAIProviderNameOpenAI.Value.AsString(),
	"messages":  semconv.GenAIProviderNameAnthropic.Value.AsString(),
	"gemini":    semconv.GenAIProviderNameGCPGemini.Value.AsString(),
}

// spans are those of a run that are open: the run, its step, the step's attempt and tools.
type spans struct {
	ctx, stepCtx       context.Context
	run, step, attempt trace.Span
	number             int // of the step
	tools              map[string]trace.Span
}

func noSpans() spans {
	return spans{
		ctx: context.Background(), stepCtx: context.Background(), number: -1,
		run: noop.Span{}, step: noop.Span{}, attempt: noop.Span{}, tools: map[string]trace.Span{},
	}
}

// endStep ends the step and what is in it. A span that has ended stays as it is.
func (s *spans) endStep(now time.Time) {
	for id, tool := range s.tools {
		tool.End(trace.WithTimestamp(now))
		delete(s.tools, id)
	}
	s.attempt.End(trace.WithTimestamp(now))
	s.step.End(trace.WithTimestamp(now))
}

func (s *spans) end(now time.Time) {
	s.endStep(now)
	s.run.End(trace.WithTimestamp(now))
}

// asked is the span of the operation that has queued a run. It is the root of the run's trace;
// the run that it continues, or repeats, and the caller's own trace are linked.
func (t *tracer) asked(ctx context.Context, began, now time.Time, r *session.Run, failed session.RunID) {
	if !t.exports {
		return
	}
	var links []trace.Link
	if from := trace.SpanContextFromContext(ctx); from.IsValid() {
		links = append(links, trace.Link{SpanContext: from})
	}
	if r.Continues != "" {
		failed = r.Continues
	} else if r.Trigger != session.TriggerRetry {
		failed = ""
	}
	if failed != "" {
		links = append(links, trace.Link{SpanContext: operationOf(failed)})
	}
	_, span := t.Start(context.WithValue(context.Background(), runKey{}, r.ID), operations[r.Trigger],
		trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(links...),
		trace.WithAttributes(attrSession.String(string(r.SessionID)), attrRun.String(string(r.ID)), attrTrigger.String(string(r.Trigger))))
	span.End(trace.WithTimestamp(now))
}

// claimed begins the span of a run, below the operation that asked for it, whichever process
// that was in.
func (t *tracer) claimed(r *run, now time.Time) {
	r.spans = noSpans()
	if !t.exports {
		return
	}
	r.spans.ctx, r.spans.run = t.Start(trace.ContextWithRemoteSpanContext(context.Background(), operationOf(r.ID)), "run",
		trace.WithTimestamp(now), trace.WithAttributes(
			semconv.GenAIOperationNameInvokeAgent, semconv.GenAIConversationID(string(r.SessionID)),
			attrSession.String(string(r.SessionID)), attrRun.String(string(r.ID)), attrTrigger.String(string(r.Trigger)),
			attrClaims.Int(r.Claims), attrTry.Int(r.Attempt)))
}

// opened begins the span of an attempt, and that of its step where it is the step's first.
func (t *tracer) opened(r *run, now time.Time) {
	if !t.exports {
		return
	}
	s, a := &r.spans, &r.attempt
	s.attempt.End(trace.WithTimestamp(now))
	if n := a.Evidence.Scope.Step; n != s.number {
		s.endStep(now)
		s.number = n
		s.stepCtx, s.step = t.Start(s.ctx, "step", trace.WithTimestamp(now), trace.WithAttributes(
			attrSession.String(string(r.SessionID)), attrRun.String(string(r.ID)), attrStep.Int(n)))
	}
	provider := makers[t.dialects[a.Provider]]
	if provider == "" {
		provider = a.Provider
	}
	_, s.attempt = t.Start(s.stepCtx, "chat "+a.Model, trace.WithTimestamp(now), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(provider), semconv.GenAIRequestModel(a.Model),
			semconv.GenAIRequestStream(true), semconv.GenAIConversationID(string(r.SessionID)),
			attrSession.String(string(r.SessionID)), attrRun.String(string(r.ID)), attrStep.Int(s.number),
			attrAttempt.String(string(a.ID)), attrAutomatic.Bool(a.Automatic),
			attrLineage.String(a.Evidence.Scope.Lineage), attrProvider.String(a.Provider), attrKey.String(a.Key)))
	if from := a.SwitchedFrom; from != nil {
		s.attempt.SetAttributes(attrFrom.String(from.Candidate.String()), attrFromWhy.String(from.Reason))
	}
}

// marked notes when an attempt has become observable.
func (t *tracer) marked(r *run, now time.Time) {
	r.spans.attempt.SetAttributes(semconv.GenAIResponseTimeToFirstChunk(now.Sub(r.opened).Seconds()))
	r.spans.attempt.AddEvent("first output", trace.WithTimestamp(now))
}

// sealed ends the span of an attempt that went through.
func (t *tracer) sealed(r *run, now time.Time, a *session.Attempt, response string) {
	s := r.spans.attempt
	if response != "" {
		s.SetAttributes(semconv.GenAIResponseID(response))
	}
	answered(s, a)
	s.End(trace.WithTimestamp(now))
}

// decided ends the span of one that failed, with the gate's word on it.
func (t *tracer) decided(r *run, now time.Time, a *session.Attempt) {
	s, f, d := r.spans.attempt, a.Failure, a.Decision
	answered(s, a)
	s.SetAttributes(semconv.ErrorTypeKey.String(f.Class.String()),
		attrEligible.Bool(d.Eligible), attrSafe.Bool(d.Safe), attrEvidence.StringSlice(d.Evidence.List()),
		attrVerdict.String(d.Verdict.String()), attrRule.String(string(d.Rule)))
	if f.Status != 0 {
		s.SetAttributes(semconv.HTTPResponseStatusCode(f.Status))
	}
	if f.Code != "" {
		s.SetAttributes(attrCode.String(f.Code))
	}
	s.SetStatus(codes.Error, f.Class.String())
	s.End(trace.WithTimestamp(now))
}

// answered says who answered, and what it took.
func answered(s trace.Span, a *session.Attempt) {
	if a.Answered != "" {
		s.SetAttributes(semconv.GenAIResponseModel(a.Answered))
	}
	if u := a.Usage; u != nil {
		s.SetAttributes(usage(u)...)
	}
	if c := a.Cost; c != nil {
		s.SetAttributes(attrCost.Float64(float64(c.Amount)/dollar), attrCostKind.String(string(c.Kind)))
	}
}

func usage(u *llm.Usage) []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.GenAIUsageInputTokens(int(u.Input)), semconv.GenAIUsageOutputTokens(int(u.Output))}
	if u.CacheRead > 0 {
		list = append(list, semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)))
	}
	if u.CacheWrite > 0 {
		list = append(list, semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)))
	}
	if u.Thinking > 0 {
		list = append(list, semconv.GenAIUsageReasoningOutputTokens(int(u.Thinking)))
	}
	return list
}

// waited is the event of a wait that is over: what it was for, why, and how long it took.
func (t *tracer) waited(s trace.Span, now time.Time, kind, reason string, d time.Duration) {
	s.AddEvent("wait", trace.WithTimestamp(now), trace.WithAttributes(
		attrWait.String(kind), attrReason.String(reason), attrSeconds.Float64(max(d, 0).Seconds())))
}

// compacted notes that the conversation was made shorter, and by how many tokens.
func (t *tracer) compacted(r *run, now time.Time, c *session.Compaction) {
	r.spans.run.AddEvent("compacted", trace.WithTimestamp(now), trace.WithAttributes(
		attrCause.String(c.Cause), attrBefore.Int64(c.Before), attrAfter.Int64(c.After)))
}

// maxName bounds a tool's name in bytes: a model may invent one.
const maxName = 64

// tool begins or ends the span of a tool call.
func (t *tracer) tool(r *run, now time.Time, c *session.ToolCall) {
	s := &r.spans
	if open := s.tools[c.CallID]; open != nil && c.State != session.CallStarted {
		if c.Result != nil && c.Result.IsError {
			open.SetStatus(codes.Error, "")
		}
		open.End(trace.WithTimestamp(now))
		delete(s.tools, c.CallID)
		return
	}
	if !t.exports || c.State != session.CallStarted {
		return
	}
	name := c.Name[:min(len(c.Name), maxName)]
	_, s.tools[c.CallID] = t.Start(s.stepCtx, "execute_tool "+name, trace.WithTimestamp(now), trace.WithAttributes(
		semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(name), semconv.GenAIToolCallID(c.CallID),
		attrSession.String(string(r.SessionID)), attrRun.String(string(r.ID)), attrStep.Int(c.Step)))
}

// ended puts a run's end on its span.
func (t *tracer) ended(r *run, end *session.Run) {
	s := r.spans.run
	s.SetAttributes(attrState.String(string(end.State)))
	if end.Failure != nil {
		s.SetAttributes(semconv.ErrorTypeKey.String(end.Failure.RetryClass.String()))
		s.SetStatus(codes.Error, end.Failure.RetryClass.String())
	}
}

// Incoming lets requests carry their caller's trace, as W3C Trace Context has it
// (https://www.w3.org/TR/trace-context/), which is then linked.
func (t *Telemetry) Incoming(h http.Handler) http.Handler {
	if !t.tracer.exports {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
	})
}
