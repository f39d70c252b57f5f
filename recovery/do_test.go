package recovery_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// TestTranscripts plays testdata/*.txt. A file begins with comments, then a script:
//
//	hold POLICY            hold policy
//	remote                 the request lets the provider act
//	unknown                failures of class unknown may be retried
//	sent N                 requests that earlier claims sent
//	cancel AFTER           the operator cancels
//	entry P/M WORD …       one more model of the chain: keys=a,b (b=c: the same secret as c),
//	                       context=N, no_tools, no_images, unreadable
//	pin KEY, no_fallback   the request's own limits
//	auto                   nobody asks now
//	tools, image, say N    the request has a tool, an image, N characters
//	then WORD [AFTER]      after that long: the run's next "step", a new "run" of a person, or
//	                       one that is "auto"
//	replace KEY            the key's file changes during the first request
//	cool AFTER D [stated]  another session lets the first model cool off for that long
//	attempt: STEP; STEP …  what the provider does at the next attempt
//
// Steps are: text WORD, think WORD, redacted, call, args WORD, callend, tool (executed by the
// provider), usage N, wait D, stall, done, cut, and fail CLASS [hint=D] [delivery=…]. After
// a line of dashes follows what happened, with the time since the start.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(data), "----\n")
			var got string
			synctest.Test(t, func(t *testing.T) { got = play(t, script) })
			if *update {
				if err := os.WriteFile(file, []byte(script+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// teller writes down what happens, with the time since it began.
type teller struct {
	bytes.Buffer
	began time.Time
	mu    sync.Mutex // timers tell, too
}

func (w *teller) say(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w, "%8s  %s\n", time.Since(w.began), fmt.Sprintf(format, a...))
}

func (w *teller) Append(_ context.Context, events []llm.Event) error {
	for _, e := range events {
		switch {
		case e.Kind == llm.EventUsage:
			w.say("published usage %d", e.Usage.Output)
		case e.Text != "":
			w.say("published %v %q", e.Kind, e.Text)
		default:
			w.say("published %v", e.Kind)
		}
	}
	return nil
}

func (w *teller) Chosen(recovery.Choice) {}

func (w *teller) Decided(_ context.Context, attempt string, f *failure.Failure, d recovery.Decision) error {
	next := ""
	if !d.NextAt.IsZero() {
		next = fmt.Sprintf(", next at %s", d.NextAt.Sub(w.began))
	}
	evidence := ""
	if !d.Safe {
		evidence = " (" + d.Evidence.String() + ")"
	}
	w.say("attempt %s failed: %s; worth retrying %v, safe to repeat %v%s: %v by %s%s",
		attempt, f.Class, d.Eligible, d.Safe, evidence, d.Verdict, d.Rule, next)
	return nil
}

// counting tells of each request that leaves.
type counting struct {
	llm.Provider
	world     *world
	name, key string
	grace     time.Duration
}

func (c *counting) Name() string     { return c.name }
func (c *counting) KeyLabel() string { return c.key }
func (c *counting) WithGrace(d time.Duration) llm.Provider {
	patient := *c
	patient.grace = d
	return &patient
}

func (c *counting) Stream(ctx context.Context, p llm.Permit, r *llm.Request) (llm.Stream, error) {
	c.world.n++
	line := fmt.Sprintf("request %d", c.world.n)
	if c.name != "script" {
		line += " to " + c.name + "/" + r.Model
	}
	if c.key != "" {
		line += " with " + c.key
	}
	if c.grace > 0 {
		line += ", waiting " + c.grace.String() + " longer"
	}
	c.world.say("%s", line)
	return c.Provider.Stream(ctx, p, r) // replay is the caller; this only counts
}

// world is what a transcript is played in.
type world struct {
	*teller
	t        *testing.T
	provider *llmtest.Provider
	n        int
	plan     recovery.Plan
	req      *llm.Request
	entries  []recovery.Entry
	secrets  map[string]string // of keys that were replaced
	last     string            // who answered last
	asked    string            // who is asked
	instead  *recovery.Former
}

// Chosen tells of switches and of who was passed over.
func (w *world) Chosen(c recovery.Choice) {
	w.asked, w.instead = c.Provider+"/"+c.Model, c.Instead
	for _, o := range c.Skipped {
		w.say("%s", w.outcome(o))
	}
	if s := c.Switched; s != nil {
		w.say("switched from %s to %s: %s", s.Candidate, c.Candidate, s.Reason)
	}
}

func (w *world) outcome(o recovery.Outcome) string {
	line := o.String()
	if !o.Until.IsZero() {
		line += fmt.Sprintf(" until %s", o.Until.Sub(w.began))
	}
	return line
}

// Entries reads the keys anew.
func (w *world) Entries() []recovery.Entry {
	for i := range w.entries {
		for k := range w.entries[i].Keys {
			key := &w.entries[i].Keys[k]
			if s := w.secrets[key.Label]; s != "" && w.n > 0 {
				key.Hash = s
			}
		}
	}
	return w.entries
}

// translate tells who is told the request in other words, and in the dialect "lossy" of what is
// lost.
func (w *world) translate(e *recovery.Entry, req *llm.Request) (*llm.Request, error) {
	switch e.Dialect {
	case "":
		return req, nil
	case "lossy":
		w.say("%s cannot be told", e.Name())
		return nil, errors.New("seed")
	}
	w.say("translated for %s", e.Name())
	c := *req
	return &c, nil
}

// entry reads a line of the chain.
func (w *world) entry(line string) {
	words := strings.Fields(line)
	provider, model, _ := strings.Cut(words[0], "/")
	e := recovery.Entry{Provider: provider, Model: model}
	labels := []string{""}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "keys":
			labels = strings.Split(value, ",")
		case "context":
			e.Facts.Context, _ = strconv.ParseInt(value, 10, 64)
		case "dialect":
			e.Dialect = value
			w.plan.Translate = w.translate
		case "no_tools":
			e.Facts.Tools = new(bool)
		case "no_images":
			e.Facts.Images = new(bool)
		case "unreadable":
			e.Keys = append(e.Keys, recovery.Key{Label: value, Err: &failure.Failure{Class: failure.CredentialsUnresolved, Message: "there is no such key"}})
		default:
			w.t.Fatalf("unknown word %q", word)
		}
	}
	for _, l := range labels {
		label, secret, same := strings.Cut(l, "=")
		k := recovery.Key{Label: label, Provider: &counting{Provider: w.provider, world: w, name: provider, key: label}}
		if k.Hash = "hash of " + label; same {
			k.Hash = "hash of " + secret
		}
		if label == "" {
			k.Hash = ""
		}
		if len(e.Keys) == 0 || label != "" {
			e.Keys = append(e.Keys, k)
		}
	}
	w.entries = append(w.entries, e)
}

func play(t *testing.T, script string) string {
	var attempts [][]llmtest.Step
	w := &world{teller: &teller{began: time.Now()}, t: t, req: &llm.Request{Model: "m"}, secrets: map[string]string{}}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w.plan = recovery.Plan{Policy: recovery.DefaultPolicy(), Trace: w, Jitter: func() float64 { return 0.5 },
		Bound: new(recovery.Bound), Route: &recovery.Route{Entries: w.Entries, State: &memory{}, Person: true}}
	for sc := bufio.NewScanner(strings.NewReader(script)); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "attempt:"); ok {
			var steps []llmtest.Step
			for _, s := range strings.Split(rest, ";") {
				steps = append(steps, parseStep(t, strings.TrimSpace(s), w.began))
			}
			attempts = append(attempts, steps)
		}
	}
	w.provider = llmtest.Script(attempts...)
	var then []string
	for sc := bufio.NewScanner(strings.NewReader(script)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		word, rest, _ := strings.Cut(line, " ")
		var err error
		switch word {
		case "", "#", "attempt:":
		case "hold":
			w.plan.Terms.Hold, err = replay.ParseHold(rest)
		case "remote":
			w.req.ProviderTools = []llm.ProviderTool{{Name: "code_execution"}}
		case "unknown":
			w.plan.Policy.Unknown = true
		case "sent":
			w.plan.Bound.Sent, err = strconv.Atoi(rest)
		case "max":
			w.plan.Policy.MaxRequests, err = strconv.Atoi(rest)
		case "entry":
			w.entry(rest)
		case "pin":
			w.plan.Route.Key = rest
		case "no_fallback":
			w.plan.Route.NoFallback = true
		case "auto":
			w.plan.Route.Person = false
		case "tools":
			w.req.Tools = []llm.Tool{{Name: "clock"}}
		case "image":
			w.req.Messages = append(w.req.Messages, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{Kind: llm.PartImage, URL: "http://127.0.0.1/x.png"}}})
		case "say":
			var n int
			n, err = strconv.Atoi(rest)
			w.req.System = strings.Repeat("x", n)
		case "then":
			then = append(then, rest)
		case "replace":
			w.secrets[rest] = "a new secret"
		case "cool":
			words := strings.Fields(rest)
			after, _ := time.ParseDuration(words[0])
			long, _ := time.ParseDuration(words[1])
			off := recovery.CoolOff{Lane: recovery.Lane{Model: "alpha/large"}, Reason: failure.Overloaded,
				Until: w.began.Add(after + long), Stated: len(words) > 2}
			cool := func() { w.plan.Route.State.CoolOff(ctx, off) }
			if after == 0 {
				cool()
			} else {
				time.AfterFunc(after, cool)
			}
		case "compact":
			w.plan.Compact = func(_ context.Context, c recovery.Compaction) (*llm.Request, error) {
				w.say("compacted for %s", c.Entry.Name())
				c.Bound.Sent++ // what a summary costs
				return &llm.Request{}, nil
			}
		case "cancel":
			var d time.Duration
			d, err = time.ParseDuration(rest)
			time.AfterFunc(d, func() { w.say("cancel"); cancel(errors.New("the operator said stop")) })
		default:
			t.Fatalf("unknown line %q", line)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if len(w.entries) == 0 {
		w.entries = []recovery.Entry{{Provider: "script", Model: "m", Keys: []recovery.Key{{
			Provider: &counting{Provider: w.provider, world: w, name: "script"}}}}}
	}
	w.do(ctx)
	for _, next := range then {
		word, after, _ := strings.Cut(next, " ")
		if d, err := time.ParseDuration(after); err == nil {
			<-time.After(d)
		}
		w.say("%s", word)
		w.plan.Bound = new(recovery.Bound)
		if word != "step" {
			old := w.plan.Route
			w.plan.Route = &recovery.Route{Entries: w.Entries, State: old.State, Key: old.Key, NoFallback: old.NoFallback, Person: word == "run", Last: w.last}
		}
		w.do(ctx)
	}
	before := w.n
	<-time.After(24 * time.Hour) // of the bubble's clock: nothing may start by itself later
	if w.n != before {
		t.Errorf("%d requests left after the end", w.n-before)
	}
	return w.String()
}

// do carries out one step, and tells how it ended.
func (w *world) do(ctx context.Context) {
	ledger := replay.NewMemory()
	scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: ledger.Claim("run")}
	gate := replay.New(scope, ledger, replay.Operator{Actor: "ann", Message: "msg"})
	reply, err := recovery.Do(ctx, w.plan, gate, w, w.req)
	var stopped *recovery.Stopped
	switch {
	case err == nil:
		w.last = w.asked
		instead := ""
		if s := w.instead; s != nil {
			instead = fmt.Sprintf(" by %s, because %s was %s", reply.Provider, s.Candidate, s.Reason)
		}
		w.say("reply of attempt %s%s: %s", reply.Attempt, instead, spell(reply.Output))
	case errors.As(err, &stopped):
		again := ""
		if len(stopped.Tried) > 0 && !stopped.Failure.NotBefore.IsZero() {
			again = fmt.Sprintf(", not before %s", stopped.Failure.NotBefore.Sub(w.began))
		}
		w.say("stopped: %s%s; left: %s", stopped.Failure.Class, again, spell(stopped.Output))
		for _, o := range stopped.Tried {
			w.say("  %s", w.outcome(o))
		}
	default:
		w.t.Errorf("error is no *Stopped: %v", err)
	}
}

func spell(out llm.Output) string {
	var b strings.Builder
	for _, p := range out.Parts() {
		switch {
		case p.Cut:
			b.WriteString("[call cut off, not run]")
		case p.Kind == llm.PartToolCall:
			fmt.Fprintf(&b, "[call %s]", p.Arguments)
		default:
			fmt.Fprintf(&b, "[%s %s]", p.Kind, p.Text)
		}
	}
	if out.Interrupted != "" {
		b.WriteString("[interrupted: " + out.Interrupted + "]")
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

func parseStep(t *testing.T, s string, now time.Time) llmtest.Step {
	word, rest, _ := strings.Cut(s, " ")
	event := func(k llm.EventKind, part int) llmtest.Step {
		return llmtest.Step{Event: llm.Event{Kind: k, Part: part, Text: rest}}
	}
	switch word {
	case "text":
		return event(llm.EventText, 0)
	case "space":
		return llmtest.Text(" ")
	case "empty":
		return event(llm.EventText, 0)
	case "think":
		return event(llm.EventThinking, 0)
	case "redacted":
		return llmtest.Step{Event: llm.Event{Kind: llm.EventRedacted, Text: "data"}}
	case "image":
		return llmtest.Step{Event: llm.Event{Kind: llm.EventOpaque, Name: "image", Text: "{}"}}
	case "start":
		return llmtest.Step{Event: llm.Event{Kind: llm.EventStart, ID: "resp"}}
	case "open":
		return llmtest.Step{Event: llm.Event{Kind: llm.EventPartStart}}
	case "call":
		return llmtest.Step{Event: llm.Event{Kind: llm.EventCallStart, Part: 1, ID: "call_1", Name: "write_file"}}
	case "args":
		return event(llm.EventCallDelta, 1)
	case "callend":
		return event(llm.EventCallEnd, 1)
	case "tool":
		return llmtest.Step{Event: llm.Event{Kind: llm.EventProviderTool, Name: "web_search"}}
	case "usage":
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return llmtest.Step{Event: llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{Output: n}}}
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			t.Fatal(err)
		}
		return llmtest.Step{Wait: d, Event: llm.Event{Kind: llm.EventPing}}
	case "stall":
		return llmtest.Step{Stall: true}
	case "done":
		return llmtest.Done(llm.StopEnd)
	case "cut":
		return llmtest.Fail(&failure.Failure{Class: failure.StreamInterrupted, Retryable: true, Phase: failure.PhaseStream})
	case "fail":
		words := strings.Fields(rest)
		f := &failure.Failure{Provider: "p", Message: "the provider's words"}
		if err := f.Class.UnmarshalText([]byte(words[0])); err != nil {
			t.Fatal(err)
		}
		f.Retryable = f.Class.Retryable()
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "hint":
				d, err := time.ParseDuration(value)
				if err != nil {
					t.Fatal(err)
				}
				f.NotBefore = now.Add(d)
			case "delivery":
				f.Delivered.UnmarshalText([]byte(value))
			case "status":
				f.Status, _ = strconv.Atoi(value)
			case "transport":
				f.Transport = value
			case "key_invalid":
				f.KeyInvalid = true
			}
		}
		return llmtest.Fail(f)
	}
	t.Fatalf("unknown step %q", s)
	return llmtest.Step{}
}

// amnesiac is a ledger that loses its marks.
type amnesiac struct{ *replay.Memory }

func (a amnesiac) Evidence(ctx context.Context, s llm.Scope, id string) (replay.Evidence, error) {
	e, err := a.Memory.Evidence(ctx, s, id)
	e.Marks = 0
	return e, err
}

// N29: what the transaction has published itself speaks against a repeat, whatever the ledger
// says.
func TestTheTransactionKnowsWhatItShowed(t *testing.T) {
	ledger := replay.NewMemory()
	scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: ledger.Claim("run")}
	p := llmtest.Script([]llmtest.Step{llmtest.Text("shown"), parseStep(t, "fail overloaded", time.Now())})
	w := &teller{began: time.Now()}
	one := []recovery.Entry{{Provider: "script", Model: "m", Keys: []recovery.Key{{Provider: p}}}}
	plan := recovery.Plan{Route: &recovery.Route{Entries: func() []recovery.Entry { return one }}, Policy: recovery.DefaultPolicy(),
		Trace: w, Jitter: func() float64 { return 0 }}
	gate := replay.New(scope, amnesiac{ledger}, replay.Operator{Actor: "ann", Message: "msg"})
	_, err := recovery.Do(t.Context(), plan, gate, w, &llm.Request{})
	var stopped *recovery.Stopped
	if !errors.As(err, &stopped) || stopped.Output.Interrupted == "" || len(p.Requests()) != 1 {
		t.Errorf("%v, %d requests\n%s", err, len(p.Requests()), w)
	}
}
