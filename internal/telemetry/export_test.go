package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/reprise-run/reprise/session"
)

// No exporter is built unless the configuration or a standard variable asks for it.
func TestReceiver(t *testing.T) {
	type env = map[string]string
	for _, c := range []struct {
		traces string
		env    env
		want   string // "!" and a part of the error
	}{
		{"", nil, ""},
		{"", env{"OTEL_SERVICE_NAME": "x"}, ""},
		{"http://a:4318", nil, "http://a:4318/v1/traces"},
		{"https://a/otlp/", env{"OTEL_SDK_DISABLED": "true"}, "https://a/otlp/v1/traces"},
		{"a:4318", nil, "!a:4318"},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318"}, "http://b:4318/v1/traces"},
		{"http://a:4318", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318"}, "http://a:4318/v1/traces"},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/in"}, "http://c/in"},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318", "OTEL_TRACES_EXPORTER": "none"}, ""},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318", "OTEL_SDK_DISABLED": "TRUE"}, ""},
		{"", env{"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces"},
		{"", env{"OTEL_TRACES_EXPORTER": "zipkin"}, "!zipkin"},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "!HTTP alone"},
		{"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, "http://b:4318/v1/traces"},
	} {
		got, err := receiver(Options{Traces: c.traces, Env: c.env})
		if part, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q, %v: %v", c.traces, c.env, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%q, %v: %q, %v; want %q", c.traces, c.env, got, err, c.want)
		}
	}
}

// What is configured and wrong is refused; a variable that was set for others is not ours to
// stop for.
func TestOpen(t *testing.T) {
	log := new(safeBuffer)
	o := Options{Log: slog.New(slog.NewTextHandler(log, nil)), Env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}}
	tel, err := Open(t.Context(), o)
	if err != nil || tel.tracer.exports || !strings.Contains(log.String(), "zipkin") {
		t.Fatalf("%v; the log says %q", err, log)
	}
	tel.Close()
	o.Traces, o.Env = "nowhere", nil
	if _, err := Open(t.Context(), o); err == nil {
		t.Error("an address that is none")
	}
}

// Every process decides by the run alone whether its trace is kept, and alike.
func TestSampler(t *testing.T) {
	for name, want := range map[string]string{"": "", "always_off": "", "parentbased_always_on": "", "traceidratio": "OTEL_TRACES_SAMPLER_ARG", "xray": "xray"} {
		_, err := sampler(map[string]string{"OTEL_TRACES_SAMPLER": name})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	kept := 0
	for i := range 200 {
		run := session.NewID[session.RunID]("run_", time.UnixMilli(int64(i)))
		var sampled [2]bool
		for p := range sampled { // the one that is asked, and the one that runs it
			tr, err := tracerOf(t.Context(), nothing{}, Options{Env: map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}})
			if err != nil {
				t.Fatal(err)
			}
			if p == 0 {
				_, span := tr.Start(context.WithValue(t.Context(), runKey{}, run), "post")
				if id, _ := idsOf(run); span.SpanContext().TraceID() != id {
					t.Fatalf("the trace of %s is %s", run, span.SpanContext().TraceID())
				}
				sampled[p] = span.IsRecording()
				continue
			}
			r := newRun(run)
			tr.claimed(r, time.Now())
			sampled[p] = r.spans.run.IsRecording()
			if id, _ := idsOf(run); r.spans.run.SpanContext().TraceID() != id {
				t.Fatalf("the trace of %s is %s", run, r.spans.run.SpanContext().TraceID())
			}
		}
		if sampled[0] != sampled[1] {
			t.Fatalf("%s: %v", run, sampled)
		}
		if sampled[0] {
			kept++
		}
	}
	if kept < 60 || kept > 140 {
		t.Errorf("%d of 200 are kept, with a ratio of a half", kept)
	}
}

func newRun(id session.RunID) *run { return &run{Run: session.Run{ID: id}} }

// The caller's trace is linked to the operation that it asked for.
func TestIncoming(t *testing.T) {
	w := watching(t)
	var seen context.Context
	h := w.Incoming(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Context() }))
	req := httptest.NewRequest("POST", "/", nil)
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	h.ServeHTTP(httptest.NewRecorder(), req)
	r := session.Run{ID: "run_1", State: session.Queued, Trigger: session.TriggerMessage, QueuedAt: session.At(time.Now())}
	w.Committed(seen, time.Now().Add(-time.Second), []session.Event{{Type: session.EventRun, Run: &r}})
	if s := w.spans.Ended(); len(s) != 1 || len(s[0].Links()) != 1 || s[0].Links()[0].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("%v", s)
	}
}

// A receiver that is gone is one complaint a minute, not one a batch.
func TestComplaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(safeBuffer)
		c := &complaints{log: slog.New(slog.NewTextHandler(log, nil))}
		for range 100 {
			c.Handle(errors.New("gone"))
			<-time.After(time.Second)
		}
		if n := strings.Count(log.String(), "export traces"); n != 2 {
			t.Errorf("%d complaints in 100 seconds", n)
		}
	})
}

// A receiver that never answers costs two seconds at the end, and no error.
func TestReceiverHangs(t *testing.T) {
	end := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer hangs.Close()
	defer close(end)
	log := new(safeBuffer)
	tel, err := Open(t.Context(), Options{Traces: hangs.URL, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	tel.tracer.asked(t.Context(), began, began, &session.Run{ID: "run_1"}, "")
	asked := time.Since(began)
	tel.Close()
	if took := time.Since(began); asked > time.Second || took > 2*closeTime {
		t.Errorf("a span took %s, the end %s", asked, took)
	}
	if !strings.Contains(log.String(), "the last traces are lost") {
		t.Errorf("the log says %q", log)
	}
}

// nothing is a processor that keeps nothing.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }
