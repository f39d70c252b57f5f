package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/eventlog"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/sqlite"
)

// world is a manager over a real store and a real log, with a scripted provider.
type world struct {
	t        *testing.T
	store    session.Store
	log      session.Log
	cfg      session.Config
	provider *llmtest.Provider
	lookup   func()                       // called when the keys are looked up; may be nil
	facts    llm.ModelFacts               // of every model
	large    recovery.Ceiling             // of the provider
	chain    []recovery.Entry             // of the model "chain"
	others   map[string]*llmtest.Provider // of models that have one of their own
	m        *session.Manager
	id       session.ID
}

func newWorld(t *testing.T, scripts ...[]llmtest.Step) *world {
	t.Helper()
	log, err := eventlog.Open(t.Context(), eventlog.Options{Dir: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return worldOn(t, log, scripts...)
}

func worldOn(t *testing.T, log session.Log, scripts ...[]llmtest.Step) *world {
	t.Helper()
	st, err := sqlite.Open(filepath.Join(t.TempDir(), "reprise.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	policy := recovery.DefaultPolicy()
	policy.Tier1.Base = 2 * time.Millisecond
	return &world{t: t, store: st, log: log, provider: llmtest.Script(scripts...), cfg: session.Config{
		Model: "script/model", ConcurrentRuns: 8, Policy: policy, Sole: true, Grace: 50 * time.Millisecond,
		Jitter: func() float64 { return 0.5 }, Log: slog.New(slog.DiscardHandler),
	}}
}

// Entries implements session.Models.
func (w *world) Entries(model string) ([]recovery.Entry, error) {
	if w.lookup != nil {
		w.lookup()
	}
	if model == "chain" && w.chain != nil {
		return w.chain, nil
	}
	name, upstream, ok := strings.Cut(model, "/")
	if !ok || name != "script" {
		return nil, &failure.Failure{Class: failure.ModelNotFound, Message: fmt.Sprintf("no provider serves %q; there is: script", model), Rule: "model_unknown"}
	}
	if p := w.others[upstream]; p != nil {
		return []recovery.Entry{entry(name, upstream, p)}, nil
	}
	return []recovery.Entry{{Provider: name, Model: upstream, Large: w.large, Keys: []recovery.Key{{Provider: w.provider}}}}, nil
}

func entry(provider, model string, p *llmtest.Provider) recovery.Entry {
	return recovery.Entry{Provider: provider, Model: model, Keys: []recovery.Key{{Provider: p}}}
}

// About implements session.Models.
func (w *world) About(provider, model string) llm.ModelFacts { return w.facts }

// start starts a manager, and a session the first time.
func (w *world) start() *world {
	w.t.Helper()
	w.startOn(w.store, w.log)
	m := w.m
	w.t.Cleanup(func() { m.Close() })
	return w
}

func (w *world) startOn(st session.Store, log session.Log) {
	w.t.Helper()
	m, err := session.New(w.t.Context(), st, log, w, w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.m = m
	if w.id == "" {
		s, err := m.CreateSession(w.t.Context(), "ann", session.NewSession{})
		if err != nil {
			w.t.Fatal(err)
		}
		w.id = s.ID
	}
}

func (w *world) post(text string) session.Receipt {
	w.t.Helper()
	r, err := w.m.Post(w.t.Context(), session.Act{Actor: "ann"}, w.id, []llm.Part{llm.Text(text)}, session.Routing{})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// ended waits for a run's end.
func (w *world) ended(id session.RunID) session.Run {
	w.t.Helper()
	o := w.watch("")
	defer o.stop()
	for {
		r, err := w.m.FindRun(w.t.Context(), id)
		if err != nil && !errors.Is(err, session.ErrNotFound) { // it may be pending yet
			w.t.Fatal(err)
		}
		if r.State.Terminal() {
			return r
		}
		o.next()
	}
}

// ask posts a message and waits for its run's end.
func (w *world) ask(text string) session.Run {
	w.t.Helper()
	return w.ended(w.post(text).RunID)
}

func (w *world) messages(superseded bool) []session.Message {
	w.t.Helper()
	list, err := w.m.Messages(w.t.Context(), w.id, superseded, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) attempts(run session.RunID) []session.Attempt {
	w.t.Helper()
	list, err := w.m.Attempts(w.t.Context(), w.id, run)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// story spells a session's messages: who, and what.
func (w *world) story(superseded bool) string {
	w.t.Helper()
	var lines []string
	for _, m := range w.messages(superseded) {
		line := string(m.Role) + ":"
		for _, p := range m.Parts {
			switch {
			case p.Cut:
				line += " [cut]"
			case p.Kind == llm.PartToolCall:
				line += " [" + p.Name + "]"
			case p.Kind == llm.PartToolResult:
				line += " " + p.Content[0].Text
			default:
				line += " " + p.Text
			}
		}
		if m.Interrupted != "" {
			line += " (" + m.Interrupted + ")"
		}
		if m.SupersededBy != "" {
			line = "~" + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	if got := w.story(false); got != strings.Join(want, "\n") {
		w.t.Errorf("the conversation is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func (w *world) sent(want int) {
	w.t.Helper()
	if got := len(w.provider.Requests()); got != want {
		w.t.Errorf("%d requests, want %d", got, want)
	}
}

// observer reads a session's events.
type observer struct {
	w      *world
	first  []session.Frame // the snapshot, until it is read
	frames chan session.Frame
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	last   string // the last id that it saw
	seen   []session.Event
}

func (w *world) watch(after string) *observer {
	ctx, cancel := context.WithCancel(w.t.Context())
	o := &observer{w: w, frames: make(chan session.Frame), cancel: cancel, done: make(chan struct{}), last: after}
	go func() {
		defer close(o.done)
		o.err = w.m.Watch(ctx, session.Watch{Session: w.id, After: after}, func(frames []*session.Frame) error {
			for _, f := range frames {
				select {
				case o.frames <- *f:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}()
	if after == "" { // it watches from here on
		select {
		case f := <-o.frames:
			o.first = []session.Frame{f}
		case <-o.done:
		}
	}
	return o
}

func (o *observer) stop() {
	o.cancel()
	<-o.done
}

func (o *observer) next() session.Event {
	o.w.t.Helper()
	if len(o.first) > 0 {
		f := o.first[0]
		o.first = nil
		return o.read(f)
	}
	select {
	case f := <-o.frames:
		return o.read(f)
	case <-o.done:
		o.w.t.Fatalf("the stream of events ended: %v", o.err)
	case <-time.After(20 * time.Second):
		for _, e := range o.seen {
			o.w.t.Logf("seen: %s, revision %d", e.Type, e.Revision)
		}
		o.w.t.Fatal("no event in 20 s")
	}
	panic("unreachable")
}

func (o *observer) read(f session.Frame) session.Event {
	o.w.t.Helper()
	var e session.Event
	if err := json.Unmarshal(f.Data, &e); err != nil {
		o.w.t.Fatal(err)
	}
	if f.ID != "" {
		o.last = f.ID
	}
	o.seen = append(o.seen, e)
	return e
}

// until reads events up to the first that f likes.
func (o *observer) until(f func(session.Event) bool) session.Event {
	o.w.t.Helper()
	for {
		if e := o.next(); f(e) {
			return e
		}
	}
}

// shows reads until the output has the text, anywhere in one event.
func (o *observer) shows(text string) {
	o.w.t.Helper()
	o.until(func(e session.Event) bool {
		out := e.Output
		if e.Snapshot != nil {
			out = e.Snapshot.Output
		}
		if out != nil {
			for _, ev := range out.Events {
				if strings.Contains(ev.Text, text) {
					return true
				}
			}
		}
		return false
	})
}

// fold is what an observer has on screen of a run, from the events it has seen.
func (o *observer) fold(run session.RunID) string {
	var b strings.Builder
	for _, e := range o.seen {
		out := e.Output
		if e.Snapshot != nil {
			b.Reset()
			out = e.Snapshot.Output
		}
		if out != nil && out.RunID == run {
			for _, ev := range out.Events {
				b.WriteString(ev.Text)
			}
		}
	}
	return b.String()
}

// fail is the step of a retryable failure.
func fail(c failure.Class) llmtest.Step {
	return llmtest.Fail(&failure.Failure{Class: c, Retryable: c.Retryable(), Provider: "script", Message: "the provider's words", Status: 503})
}

// say is a whole answer.
func say(text string) []llmtest.Step {
	return []llmtest.Step{llmtest.Text(text), llmtest.Done(llm.StopEnd)}
}

// call is an answer that asks for a tool.
func call(text, tool, id string) []llmtest.Step {
	var steps []llmtest.Step
	if text != "" {
		steps = append(steps, llmtest.Text(text))
	}
	return append(steps,
		llmtest.Step{Event: llm.Event{Kind: llm.EventCallStart, Part: 1, ID: id, Name: tool}},
		llmtest.Step{Event: llm.Event{Kind: llm.EventCallDelta, Part: 1, Text: "{}"}},
		llmtest.Step{Event: llm.Event{Kind: llm.EventCallEnd, Part: 1}},
		llmtest.Done(llm.StopToolCalls))
}

// tool is an effectful tool that counts how often it ran.
type tool struct {
	name string
	run  func(ctx context.Context) error // may be nil

	mu  sync.Mutex
	ran int
}

func (t *tool) Spec() llm.Tool       { return llm.Tool{Name: t.name} }
func (t *tool) Traits() agent.Traits { return agent.Traits{Effect: true} }
func (t *tool) Run(ctx context.Context, _ json.RawMessage, _ func(agent.Progress)) ([]llm.Part, error) {
	t.mu.Lock()
	t.ran++
	t.mu.Unlock()
	if t.run != nil {
		if err := t.run(ctx); err != nil {
			return nil, err
		}
	}
	return []llm.Part{llm.Text("result of " + t.name)}, nil
}
func (t *tool) times() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ran
}

var _ agent.Tool = (*tool)(nil)

// toolbox has these tools for every session.
func toolbox(tools ...agent.Tool) func(context.Context, session.Settings) []agent.Tool {
	return func(context.Context, session.Settings) []agent.Tool { return tools }
}
