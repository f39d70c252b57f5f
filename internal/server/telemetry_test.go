package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// incident is a server in which failures were rehearsed, until nothing went on any more.
type incident struct {
	*client.Client
	sessions []session.Session
	attempts []session.Attempt
	runs     []session.Run
	samples  map[string]float64 // of the last scrape, by name and labels
	stop     func() error
	log      *text
	received *text // what the receiver of traces got
}

// said is what nobody but the model may be told.
const said = "The password is hunter2."

// text is written and read by several goroutines.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// rehearse serves, plays a failure that is retried, one that must not be, one that the second
// tier repeats, and a tool, and scrapes when all of it is counted.
func rehearse(t *testing.T) *incident {
	t.Helper()
	in := &incident{log: new(text), received: new(text)}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("traces go to %s as %s", r.URL.Path, r.Header.Get("Content-Type"))
		}
		_, _ = io.Copy(in.received, r.Body)
	}))
	t.Cleanup(receiver.Close)
	src := sourcesOf(t, "recovery: {tier1: {attempts: 2, base: 1ms}, tier2: {mode: unattended, base: 1ms, max_attempts: 2, max_elapsed: 1h}}\n"+
		"hooks: {look: {on: [run.*], observe: true, command: [true]}}",
		Env{"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL})
	src.Flags = []string{"listen=127.0.0.1:0"}
	cfg := load(t, src)
	in.serve(t, cfg)
	for _, script := range []string{"overloaded-then-ok-fast", "failed-inside-text-fast", "overloaded-fast", "tool-fast"} {
		s, err := in.CreateSession(t.Context(), session.NewSession{Model: "rehearsal/" + script})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Post(t.Context(), s.ID, []llm.Part{llm.Text(said)}, session.Routing{}, ""); err != nil {
			t.Fatal(err)
		}
	}
	settled := func() bool {
		in.scrape(t)
		var err error
		if in.sessions, err = in.Sessions(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		for _, s := range in.sessions {
			if s.State != session.Idle || s.Schedule != nil && s.Schedule.State.Waiting() {
				return false
			}
		}
		return in.sum("reprise_runs_total", "") == 5
	}
	for deadline := time.Now().Add(20 * time.Second); !settled(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v of 5 runs have ended", in.sum("reprise_runs_total", ""))
		}
	}
	in.scrape(t) // what a scrape counts, and what it finds standing, are of moments that differ
	in.read(t)
	return in
}

func (in *incident) serve(t *testing.T, cfg Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	log := slog.New(slog.NewJSONHandler(in.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	go func() { ended <- Serve(ctx, cfg, Options{Version: "test", Log: log}, func(l string) { ready <- l }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	in.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := in.stop(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if in.Client, err = Running(cfg); err != nil {
		t.Fatal(err)
	}
}

// read collects the runs of every session, and their attempts.
func (in *incident) read(t *testing.T) {
	t.Helper()
	seen := map[session.RunID]bool{}
	for _, s := range in.sessions {
		messages, err := in.Messages(t.Context(), s.ID, true, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if seen[m.RunID] {
				continue
			}
			seen[m.RunID] = true
			run, err := in.FindRun(t.Context(), m.RunID)
			if err != nil {
				t.Fatal(err)
			}
			attempts, err := in.Attempts(t.Context(), s.ID, m.RunID)
			if err != nil {
				t.Fatal(err)
			}
			in.runs, in.attempts = append(in.runs, run), append(in.attempts, attempts...)
		}
	}
}

func (in *incident) scrape(t *testing.T) {
	t.Helper()
	resp, err := http.Get(in.Base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s, %v", resp.StatusCode, body, err)
	}
	in.samples = map[string]float64{}
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && name != "#" {
			in.samples[name] = v
		}
	}
}

// sum adds up the series of a metric whose labels have the given one, written as label="value".
func (in *incident) sum(metric, label string) (total float64) {
	for name, v := range in.samples {
		if family, labels, _ := strings.Cut(name, "{"); family == metric && strings.Contains(labels, label) {
			total += v
		}
	}
	return total
}

// f22: after an incident the metrics say what the records say.
func TestMetricsAfterAnIncident(t *testing.T) {
	in := rehearse(t)
	want := map[[2]string]int{}
	add := func(n int, metric, label, value string) {
		want[[2]string{metric, fmt.Sprintf("%s=%q", label, value)}] += n
	}
	for _, r := range in.runs {
		add(1, "reprise_runs_total", "state", string(r.State))
		add(1, "reprise_runs_total", "trigger", string(r.Trigger))
		add(1, "reprise_wait_seconds_count", "kind", "queue")
		if r.Trigger == session.TriggerRetry {
			add(1, "reprise_recoveries_total", "kind", "tier2")
			add(1, "reprise_wait_seconds_count", "kind", "tier2")
		}
	}
	shown := map[session.RunID]bool{}
	var cost llm.Money
	for i, a := range in.attempts {
		outcome := "ok"
		if a.Failure != nil {
			outcome = a.Failure.Class.String()
		}
		add(1, "reprise_attempts_total", "outcome", outcome)
		add(1, "reprise_attempts_total", "model", a.Model)
		if d := a.Decision; d != nil {
			if d.Verdict != recovery.Stop {
				add(1, "reprise_recoveries_total", "kind", d.Verdict.String())
			}
			if d.Eligible && !d.Safe {
				for _, reason := range d.Evidence.List() {
					add(1, "reprise_replays_refused_total", "reason", reason)
				}
			}
		}
		if a.After != "" && in.attempts[i-1].Decision.Verdict == recovery.Retry {
			add(1, "reprise_wait_seconds_count", "kind", "tier1")
		}
		if a.MarkedAt != 0 && !shown[a.RunID] {
			shown[a.RunID] = true
			add(1, "reprise_first_delta_seconds_count", "provider", a.Provider)
		}
		if a.Cost != nil {
			cost += a.Cost.Amount
		}
		if a.Usage != nil {
			add(int(a.Usage.Output), "reprise_tokens_total", "kind", "output")
			add(int(a.Usage.Input), "reprise_tokens_total", "kind", "input")
		}
	}
	for _, s := range in.sessions {
		if s.Schedule != nil {
			add(1, "reprise_schedules", "state", string(s.Schedule.State))
		}
	}
	for _, must := range [][2]string{
		{"reprise_runs_total", `trigger="retry"`}, {"reprise_recoveries_total", `kind="retry"`}, {"reprise_recoveries_total", `kind="hand_over"`},
		{"reprise_replays_refused_total", `reason="text_shown"`}, {"reprise_attempts_total", `outcome="overloaded"`},
		{"reprise_schedules", `state="exhausted"`}, {"reprise_tokens_total", `kind="output"`},
	} {
		if want[must] == 0 {
			t.Errorf("the incident has nothing of %v", must)
		}
	}
	for at, n := range want {
		if got := in.sum(at[0], at[1]); got != float64(n) {
			t.Errorf("%s with %s is %v, the records say %d", at[0], at[1], got, n)
		}
	}
	for _, metric := range []string{"reprise_recoveries_total", "reprise_replays_refused_total", "reprise_wait_seconds_count", "reprise_schedules"} {
		var total float64
		for at, n := range want {
			if at[0] == metric {
				total += float64(n)
			}
		}
		if got := in.sum(metric, ""); got != total {
			t.Errorf("all of %s is %v, the records say %v", metric, got, total)
		}
	}
	if got := in.sum("reprise_cost_dollars_total", ""); math.Abs(got-float64(cost)/1e9) > 1e-9 || in.sum("reprise_cost_unknown_total", "") != 0 {
		t.Errorf("it has cost %v, the records say %s", got, cost)
	}
	if n := in.sum("reprise_event_log_append_seconds_count", ""); n == 0 {
		t.Error("no append was timed")
	}
	for name := range in.samples {
		if strings.Contains(name, "ses_") || strings.Contains(name, "run_0") || strings.Contains(name, "att_") {
			t.Errorf("an id is a label: %s", name)
		}
	}
}

// K-181, f22: every line about a run says which, and neither lines nor traces tell what was said,
// or hold the server's own secrets.
func TestLinesAndTracesAfterAnIncident(t *testing.T) {
	in := rehearse(t)
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	ended, decided := map[string]bool{}, 0
	for line := range strings.Lines(in.log.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch l["msg"] {
		case "run ended":
			ended[l["run"].(string)] = true
		case "attempt decided":
			decided++
			if l["rule"] == "" || l["evidence"] == nil || l["verdict"] == "" {
				t.Errorf("no reason: %s", line)
			}
		case "attempt ended":
		default:
			if l["level"] == "DEBUG" || l["msg"] == "listening" || l["msg"] == "stopping" {
				continue
			}
			t.Errorf("a line of what? %s", line)
		}
		if (l["msg"] == "run ended" || strings.HasPrefix(l["msg"].(string), "attempt")) && (l["session"] == nil || l["run"] == nil || l["trace_id"] == nil) {
			t.Errorf("a line about no run: %s", line)
		}
	}
	if len(ended) != len(in.runs) || decided == 0 {
		t.Errorf("%d of %d runs have a line, %d decisions", len(ended), len(in.runs), decided)
	}
	for _, want := range []string{"post", "dispatch retry", "run", "step", "chat overloaded-then-ok-fast", "execute_tool clock", "wait",
		"gen_ai.usage.output_tokens", "reprise.decision.rule", "text_shown", string(in.runs[0].ID)} {
		if !strings.Contains(in.received.String(), want) {
			t.Errorf("the receiver has no %q", want)
		}
	}
	reply := "You asked" // how the rehearsal begins
	for where, all := range map[string]string{"log": in.log.String(), "traces": in.received.String()} {
		for _, secret := range []string{"hunter2", reply, in.Token} {
			if strings.Contains(all, secret) {
				t.Errorf("the %s have %q", where, secret)
			}
		}
	}
}

// The dashboard shows every metric of ours, and none that is not there.
func TestDashboard(t *testing.T) {
	file, err := os.ReadFile("../../deploy/grafana/reprise.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(file, &dashboard); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for name := range rehearse(t).samples {
		name, _, _ = strings.Cut(name, "{")
		there[name] = true
	}
	shown, ids := map[string]bool{}, map[int]bool{}
	names := regexp.MustCompile(`\b(?:reprise|go|process)_\w+`)
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			for _, name := range names.FindAllString(target.Expr, -1) {
				shown[name] = true
				if !there[name] {
					t.Errorf("%s shows %s, which is not there", p.Title, name)
				}
			}
		}
	}
	series := regexp.MustCompile(`_(?:bucket|sum|count)$`)
	families := map[string]bool{}
	for name := range shown {
		families[series.ReplaceAllString(name, "")] = true
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if strings.HasPrefix(name, "reprise_") && !families[series.ReplaceAllString(name, "")] {
			t.Errorf("%s is nowhere on the dashboard", name)
		}
	}
}
