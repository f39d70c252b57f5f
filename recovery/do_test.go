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
	w *teller
	n int
}

func (c *counting) Stream(ctx context.Context, p llm.Permit, r *llm.Request) (llm.Stream, error) {
	c.n++
	c.w.say("request %d", c.n)
	return c.Provider.Stream(ctx, p, r) // replay is the caller; this only counts
}

func play(t *testing.T, script string) string {
	w := &teller{began: time.Now()}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	plan := recovery.Plan{Policy: recovery.DefaultPolicy(), Trace: w, Jitter: func() float64 { return 0.5 }}
	req := &llm.Request{Model: "m"}
	var attempts [][]llmtest.Step
	for sc := bufio.NewScanner(strings.NewReader(script)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		word, rest, _ := strings.Cut(line, " ")
		var err error
		switch word {
		case "", "#":
		case "hold":
			plan.Terms.Hold, err = replay.ParseHold(rest)
		case "remote":
			req.ProviderTools = []llm.ProviderTool{{Name: "code_execution"}}
		case "unknown":
			plan.Policy.Unknown = true
		case "sent":
			plan.Requests, err = strconv.Atoi(rest)
		case "cancel":
			var d time.Duration
			d, err = time.ParseDuration(rest)
			time.AfterFunc(d, func() { w.say("cancel"); cancel(errors.New("the operator said stop")) })
		case "attempt:":
			var steps []llmtest.Step
			for _, s := range strings.Split(rest, ";") {
				steps = append(steps, parseStep(t, strings.TrimSpace(s), w.began))
			}
			attempts = append(attempts, steps)
		default:
			t.Fatalf("unknown line %q", line)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	provider := &counting{Provider: llmtest.Script(attempts...), w: w}
	plan.Provider = provider
	ledger := replay.NewMemory()
	scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: ledger.Claim("run")}
	gate := replay.New(scope, ledger, replay.Operator{Actor: "ann", Message: "msg"})
	reply, err := recovery.Do(ctx, plan, gate, w, req)
	var stopped *recovery.Stopped
	switch {
	case err == nil:
		w.say("reply of attempt %s: %s", reply.Attempt, spell(reply.Output))
	case errors.As(err, &stopped):
		w.say("stopped: %s; left: %s", stopped.Failure.Class, spell(stopped.Output))
	default:
		t.Errorf("error is no *Stopped: %v", err)
	}
	before := provider.n
	<-time.After(24 * time.Hour) // of the bubble's clock: nothing may start by itself later
	if provider.n != before {
		t.Errorf("%d requests left after the end", provider.n-before)
	}
	return w.String()
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
	plan := recovery.Plan{Provider: p, Policy: recovery.DefaultPolicy(), Trace: w, Jitter: func() float64 { return 0 }}
	gate := replay.New(scope, amnesiac{ledger}, replay.Operator{Actor: "ann", Message: "msg"})
	_, err := recovery.Do(t.Context(), plan, gate, w, &llm.Request{})
	var stopped *recovery.Stopped
	if !errors.As(err, &stopped) || stopped.Output.Interrupted == "" || len(p.Requests()) != 1 {
		t.Errorf("%v, %d requests\n%s", err, len(p.Requests()), w)
	}
}
