package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/reprise-run/reprise/session"
)

// tracer makes spans. Where nothing is exported it makes none.
type tracer struct {
	trace.Tracer
	exports  bool
	dialects map[string]string
	provider *sdktrace.TracerProvider
}

// exporterOf is the exporter that somebody has asked for, or nil. What it reads beside the
// address (headers, certificates, time limits) are the standard variables of the process:
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
func exporterOf(ctx context.Context, o Options) (sdktrace.SpanExporter, error) {
	address, err := receiver(o)
	if err != nil || address == "" {
		return nil, err
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(address))
}

// receiver is where traces go: as configured, else as the variables say. Empty: nowhere.
func receiver(o Options) (string, error) {
	own, exact, base := o.Traces, o.Env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], o.Env["OTEL_EXPORTER_OTLP_ENDPOINT"]
	if own == "" {
		switch kind := o.Env["OTEL_TRACES_EXPORTER"]; {
		case strings.EqualFold(o.Env["OTEL_SDK_DISABLED"], "true"), kind == "none":
			return "", nil
		case kind != "" && kind != "otlp":
			return "", fmt.Errorf("OTEL_TRACES_EXPORTER is %q: there is otlp and none", kind)
		case exact == "" && base == "" && kind == "":
			return "", nil
		}
		for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
			if p := o.Env[name]; p != "" {
				if !strings.HasPrefix(p, "http/") {
					return "", fmt.Errorf("%s is %q: traces are sent over HTTP alone; set OTEL_TRACES_EXPORTER=none to send none", name, p)
				}
				break
			}
		}
		if exact != "" {
			return checked(exact)
		}
		if own = base; own == "" {
			own = "http://localhost:4318"
		}
	}
	address, err := checked(own)
	if err != nil {
		return "", err
	}
	return url.JoinPath(address, "v1/traces")
}

func checked(address string) (string, error) {
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is no address of a receiver; want http://host:port or https://host:port", address)
	}
	return address, nil
}

func noTracer() *tracer { return &tracer{Tracer: noop.NewTracerProvider().Tracer("")} }

func newTracer(ctx context.Context, o Options) (*tracer, error) {
	e, err := exporterOf(ctx, o)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return noTracer(), nil
	}
	return tracerOf(ctx, sdktrace.NewBatchSpanProcessor(e), o)
}

func tracerOf(ctx context.Context, to sdktrace.SpanProcessor, o Options) (*tracer, error) {
	who, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("reprise"), semconv.ServiceVersion(o.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	root, err := sampler(o.Env)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&complaints{log: o.Log})
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(to), sdktrace.WithResource(who), sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(sdktrace.ParentBased(root, sdktrace.WithRemoteParentSampled(root), sdktrace.WithRemoteParentNotSampled(root))))
	return &tracer{Tracer: p.Tracer("github.com/reprise-run/reprise"), exports: true, dialects: o.Dialects, provider: p}, nil
}

func (t *tracer) close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// sampler is that of the standard variables. A run's parent may be of another process, so that
// every process decides by the trace's id alone, and all alike.
func sampler(env map[string]string) (sdktrace.Sampler, error) {
	switch name := strings.TrimPrefix(env["OTEL_TRACES_SAMPLER"], "parentbased_"); name {
	case "", "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		part, err := strconv.ParseFloat(env["OTEL_TRACES_SAMPLER_ARG"], 64)
		if err != nil || part < 0 || part > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: want a number from 0 to 1", env["OTEL_TRACES_SAMPLER_ARG"])
		}
		return sdktrace.TraceIDRatioBased(part), nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q: want always_on, always_off or traceidratio", name)
	}
}

// ids makes the ids of a run's trace, and of the operation that began it, out of the run's: so
// that whoever knows the run finds its trace, in this process and in others.
type ids struct{}

type runKey struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	run, _ := ctx.Value(runKey{}).(session.RunID)
	return idsOf(run)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	rand.Read(id[:])
	return id
}

func idsOf(run session.RunID) (t trace.TraceID, s trace.SpanID) {
	sum := sha256.Sum256([]byte(run))
	copy(t[:], sum[:])
	copy(s[:], sum[len(t):])
	return t, s
}

// operationOf is the span that asked for a run.
func operationOf(run session.RunID) trace.SpanContext {
	t, s := idsOf(run)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.FlagsSampled, Remote: true})
}

// complaints logs what the library cannot do, at most once a minute: a receiver that is gone
// is a complaint for every batch.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	quiet := time.Since(c.last) < time.Minute
	if !quiet {
		c.last = time.Now()
	}
	c.mu.Unlock()
	if !quiet {
		c.log.Warn("export traces", "error", err)
	}
}
