package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/internal/hooks"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// metrics are the counters, by the conventions of Prometheus for names and units
// (https://prometheus.io/docs/practices/naming/).
type metrics struct {
	registry    *prometheus.Registry
	runsEnded   *prometheus.CounterVec   // trigger, state
	duration    *prometheus.HistogramVec // state
	attempts    *prometheus.CounterVec   // provider, model, outcome
	refused     *prometheus.CounterVec   // reason
	recoveries  *prometheus.CounterVec   // kind
	waits       *prometheus.HistogramVec // kind
	compactions *prometheus.CounterVec   // cause
	firstDelta  *prometheus.HistogramVec // provider
	appends     prometheus.Histogram
	tokens      *prometheus.CounterVec // provider, model, kind
	cost        *prometheus.CounterVec // provider, model, kind
	unpriced    prometheus.Counter
	dropped     prometheus.Counter
	hooks       *prometheus.CounterVec // hook, outcome

	labels [2]map[string]bool // the values that providers and models have as labels
}

// The labels whose values are of others' making: a session may name any model.
const (
	providers = iota
	models
)

// maxLabels bounds the values of one of these; the rest is "other".
const maxLabels = 100

const other = "other"

func (m *metrics) init(version string) {
	m.registry = prometheus.NewRegistry()
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "reprise_" + name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "reprise_" + name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.runsEnded = counter("runs_total", "Runs that have ended, by what started them and how they ended.", "trigger", "state")
	m.duration = histogram("run_duration_seconds", "Time from a run's queueing to its end.",
		[]float64{.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800}, "state")
	m.attempts = counter("attempts_total", "Attempts that have ended: ok, or the class of their failure.", "provider", "model", "outcome")
	m.refused = counter("replays_refused_total", "Failures that could pass and are not repeated, as something was or may have been observable.", "reason")
	m.recoveries = counter("recoveries_total", "Automatic recoveries that were begun, by kind.", "kind")
	m.compactions = counter("compactions_total", "Conversations that were made shorter, as a model refused them (overflow) or before (threshold).", "cause")
	m.waits = histogram("wait_seconds", "Time lost in waits: between attempts (tier1), between runs (tier2), for a free slot (queue), for a model that cools off (cooling).",
		[]float64{.1, .5, 1, 2, 5, 10, 30, 60, 300, 900, 3600}, "kind")
	m.firstDelta = histogram("first_delta_seconds", "Time from a run's queueing to its first output.",
		[]float64{.05, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60, 120, 300}, "provider")
	m.tokens = counter("tokens_total", "Tokens by the providers' count; input includes what their caches read and wrote, output includes thinking.",
		"provider", "model", "kind")
	m.cost = counter("cost_dollars_total", "What attempts cost in US dollars, known or estimated.", "provider", "model", "kind")
	m.hooks = counter("hook_deliveries_total", "Events for hooks: delivered, failed, timeout, or dropped as the queue was full or the server stopped.", "hook", "outcome")
	m.unpriced = prometheus.NewCounter(prometheus.CounterOpts{Name: "reprise_cost_unknown_total", Help: "Attempts of which no price is known."})
	m.appends = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "reprise_event_log_append_seconds",
		Help: "Time of an append of output to the event log, measured on one in sixteen.", Buckets: prometheus.ExponentialBuckets(25e-6, 2.5, 12)})
	m.dropped = prometheus.NewCounter(prometheus.CounterOpts{Name: "reprise_log_lines_dropped_total",
		Help: "Log lines about runs that were dropped because the log is too slow."})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "reprise_build_info", Help: "1, with the version."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.unpriced, m.appends, m.dropped, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.zero()
}

// zero makes every series of a closed set be there from the start, so that its first increase
// is seen as one.
func (m *metrics) zero() {
	for _, state := range []session.RunState{session.Succeeded, session.Failed, session.Cancelled} {
		m.duration.WithLabelValues(string(state))
		for _, trigger := range []session.Trigger{session.TriggerMessage, session.TriggerRegenerate, session.TriggerResume, session.TriggerRetry} {
			m.runsEnded.WithLabelValues(string(trigger), string(state))
		}
	}
	for v := recovery.Stop + 1; v.String() != recovery.Stop.String(); v++ {
		m.recoveries.WithLabelValues(v.String())
	}
	m.recoveries.WithLabelValues("tier2")
	m.recoveries.WithLabelValues("restart")
	m.compactions.WithLabelValues(agent.CauseOverflow)
	m.compactions.WithLabelValues(agent.CauseThreshold)
	for _, kind := range []string{"tier1", "tier2", "queue", "cooling"} {
		m.waits.WithLabelValues(kind)
	}
	for _, reason := range (^replay.Reasons(0)).List() {
		m.refused.WithLabelValues(reason)
	}
	m.labels = [2]map[string]bool{{}, {}}
}

// label is a value for the label, or other where there are too many. The caller holds the
// lock.
func (m *metrics) label(which int, value string) string {
	known := m.labels[which]
	if !known[value] {
		if len(known) >= maxLabels {
			return other
		}
		known[value] = true
	}
	return value
}

func (m *metrics) waited(kind string, d time.Duration) {
	m.waits.WithLabelValues(kind).Observe(max(d, 0).Seconds())
}

// refusals counts a replay that is refused under each of its reasons.
func (m *metrics) refusals(why replay.Reasons) {
	for _, reason := range why.List() {
		m.refused.WithLabelValues(reason).Inc()
	}
}

// dollar is one in billionths, in which costs are counted.
const dollar = 1e9

func (m *metrics) paid(provider, model string, c *llm.Cost) {
	switch {
	case c == nil:
	case c.Kind == llm.CostUnknown:
		m.unpriced.Inc()
	default:
		m.cost.WithLabelValues(provider, model, string(c.Kind)).Add(float64(c.Amount) / dollar)
	}
}

func (m *metrics) used(provider, model string, u *llm.Usage) {
	if u == nil {
		return
	}
	for _, k := range []struct {
		kind string
		n    int64
	}{{"input", u.Input}, {"output", u.Output}, {"cache_read", u.CacheRead}, {"cache_write", u.CacheWrite}, {"thinking", u.Thinking}} {
		if k.n > 0 {
			m.tokens.WithLabelValues(provider, model, k.kind).Add(float64(k.n))
		}
	}
}

// Handler answers a scrape. It does not compress.
func (m *metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true, MaxRequestsInFlight: 4})
}

// Watch adds what there is at the moment of a scrape, as f counts it.
func (t *Telemetry) Watch(f func(context.Context) (session.Standing, error)) {
	t.registry.MustRegister(&gauges{count: f, log: t.log})
}

// gauges asks for what there is at each scrape.
type gauges struct {
	count func(context.Context) (session.Standing, error)
	log   *slog.Logger
}

var (
	activeRuns = prometheus.NewDesc("reprise_runs_active", "Runs that are queued or running.", []string{"state"}, nil)
	schedules  = prometheus.NewDesc("reprise_schedules", "Schedules of the second tier, by state.", []string{"state"}, nil)
	coolingOff = prometheus.NewDesc("reprise_cooling_off", "Models and keys that are not asked for a while.", nil, nil)
	viewers    = prometheus.NewDesc("reprise_viewers", "Streams and leases that watch a session.", nil, nil)
	streams    = prometheus.NewDesc("reprise_event_streams", "Open event streams.", nil, nil)
	unstored   = prometheus.NewDesc("reprise_runs_unstored", "Runs whose rows or end the store does not take; it is tried again.", nil, nil)
)

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{activeRuns, schedules, coolingOff, viewers, streams, unstored} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Where the store does not answer, the gauges that count
// in it are missing from the scrape, and the rest is there.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := g.count(ctx)
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(viewers, s.Viewers)
	gauge(streams, s.Streams)
	gauge(unstored, s.Unstored)
	if err != nil {
		g.log.Warn("count for the metrics", "error", err)
		return
	}
	gauge(activeRuns, s.Running, string(session.Running))
	gauge(activeRuns, s.Queued, string(session.Queued))
	for _, state := range session.ScheduleStates {
		gauge(schedules, s.Schedules[state], string(state))
	}
	gauge(coolingOff, s.CoolingOff)
}

// Told counts an event for a hook.
func (m *metrics) Told(hook string, o hooks.Outcome) { m.hooks.WithLabelValues(hook, string(o)).Inc() }

// Hooks makes the series of the hooks be there from the start.
func (m *metrics) Hooks(names []string) {
	for _, hook := range names {
		for _, o := range hooks.Outcomes {
			m.hooks.WithLabelValues(hook, string(o))
		}
	}
}
