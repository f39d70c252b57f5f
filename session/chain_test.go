package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// named is a scripted provider under another name, with a key.
type named struct {
	*llmtest.Provider
	name, key string
}

func (n named) Name() string     { return n.name }
func (n named) KeyLabel() string { return n.key }
func (n named) Stream(ctx context.Context, p llm.Permit, r *llm.Request) (llm.Stream, error) {
	return n.Provider.Stream(ctx, p, r)
}

// link is one entry of a chain, with a script for each of its keys.
func link(name string, keys map[string]*llmtest.Provider) recovery.Entry {
	provider, model, _ := strings.Cut(name, "/")
	e := recovery.Entry{Provider: provider, Model: model}
	for label, p := range keys {
		k := recovery.Key{Label: label, Provider: named{p, provider, label}}
		if label != "" {
			k.Hash = "hash of " + label
		}
		e.Keys = append(e.Keys, k)
	}
	slices.SortFunc(e.Keys, func(a, b recovery.Key) int { return strings.Compare(a.Label, b.Label) })
	return e
}

// only is the script of a provider without keys.
func only(scripts ...[]llmtest.Step) map[string]*llmtest.Provider {
	return map[string]*llmtest.Provider{"": llmtest.Script(scripts...)}
}

func chained(t *testing.T, chain ...recovery.Entry) *world {
	w := newWorld(t)
	w.chain, w.cfg.Model = chain, "chain"
	return w
}

// count is how many requests a link has seen, over its keys.
func count(e recovery.Entry) (n int) {
	for _, k := range e.Keys {
		n += len(k.Provider.(named).Requests())
	}
	return n
}

func (w *world) counts(want ...int) {
	w.t.Helper()
	var got []int
	for _, e := range w.chain {
		got = append(got, count(e))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("requests %v, want %v", got, want)
	}
}

func fails(class failure.Class, hint time.Duration) []llmtest.Step {
	f := &failure.Failure{Class: class, Retryable: class.Retryable(), Message: "the provider's words"}
	if hint > 0 {
		f.NotBefore = time.Now().Add(hint)
	}
	if class == failure.RateLimited {
		f.Status = 429
	}
	return []llmtest.Step{llmtest.Fail(f)}
}

func says(text string) []llmtest.Step {
	return []llmtest.Step{llmtest.Text(text), llmtest.Done(llm.StopEnd)}
}

// K-161, F62, F64, F67: the next model answers; the reply says so for ever, one event tells of
// the switch, and the first model is left alone until its time, also after a restart.
func TestChain(t *testing.T) {
	alpha := link("alpha/large", only(fails(failure.Overloaded, time.Hour), says("too early")))
	beta := link("beta/mini", only(says("from beta")))
	w := chained(t, alpha, beta).start()
	o := w.watch("")
	run := w.ask("hi")
	if run.State != session.Succeeded {
		t.Fatalf("%+v", run)
	}
	w.counts(1, 1)
	reply := w.messages(false)[1]
	if reply.Provider != "beta" || reply.Model != "mini" || reply.SwitchedFrom == nil ||
		*reply.SwitchedFrom != (recovery.Former{Candidate: recovery.Candidate{Provider: "alpha", Model: "large"}, Reason: "overloaded"}) {
		t.Errorf("the reply does not say why beta wrote it: %+v", reply)
	}
	list := w.attempts(run.ID)
	if len(list) != 2 || list[0].Decision.Verdict != recovery.Advance || list[1].SwitchedFrom == nil || list[1].InsteadOf == nil {
		t.Errorf("attempts %+v", list)
	}
	again := w.ask("again")
	w.counts(1, 2)
	second := w.messages(false)[3]
	if second.SwitchedFrom == nil || second.SwitchedFrom.Reason != recovery.SkipCooling {
		t.Errorf("the second reply: %+v", second.SwitchedFrom)
	}
	sys, err := w.m.System(t.Context())
	if err != nil || len(sys.CoolOffs) != 1 || sys.CoolOffs[0].Model != "large" || time.Until(sys.CoolOffs[0].Until) < 59*time.Minute {
		t.Errorf("system %+v, %v", sys, err)
	}
	o.until(func(e session.Event) bool {
		return e.Type == session.EventRun && e.Run.ID == again.ID && e.Run.State.Terminal()
	})
	o.stop()
	switches := 0
	for _, e := range o.seen {
		if e.Type == session.EventSwitch {
			switches++
			if e.Switch.From.Reason != "overloaded" || e.Switch.To != (recovery.Candidate{Provider: "beta", Model: "mini"}) {
				t.Errorf("switch %+v", e.Switch)
			}
		}
	}
	if switches != 1 {
		t.Errorf("%d switches were told of, want 1", switches)
	}

	w.m.Close()
	w.start()
	after := w.ask("after the restart")
	w.counts(1, 3)
	if skipped := w.attempts(after.ID)[0].Skipped; len(skipped) != 1 || skipped[0].Skipped != recovery.SkipCooling || skipped[0].Provider != "alpha" {
		t.Errorf("skipped %+v", skipped)
	}
}

// What only one provider can read goes to no other, in the same run and in the next.
func TestChainStripsForeignThinking(t *testing.T) {
	thinks := []llmtest.Step{
		{Event: llm.Event{Kind: llm.EventThinking, Text: "hm"}},
		{Event: llm.Event{Kind: llm.EventSignature, Text: "alpha's seal"}},
		{Event: llm.Event{Kind: llm.EventCallStart, Part: 1, ID: "call_1", Name: "nothing"}},
		{Event: llm.Event{Kind: llm.EventCallEnd, Part: 1}},
		llmtest.Done(llm.StopToolCalls),
	}
	alpha := link("alpha/large", only(thinks, fails(failure.Overloaded, time.Hour)))
	beta := link("beta/mini", only(says("done")))
	w := chained(t, alpha, beta).start()
	if run := w.ask("hi"); run.State != session.Succeeded {
		t.Fatalf("%+v", run)
	}
	own := alpha.Keys[0].Provider.(named).Requests()[1].Messages[1].Parts
	if len(own) != 2 || own[0].Signature != "alpha's seal" {
		t.Errorf("alpha is not told its own thoughts: %+v", own)
	}
	w.ask("again")
	for i, req := range beta.Keys[0].Provider.(named).Requests() {
		parts := req.Messages[1].Parts
		if len(parts) != 1 || parts[0].Kind != llm.PartToolCall {
			t.Errorf("request %d tells beta %+v", i+1, parts)
		}
	}
}

// N70: a time that a provider has asked for is kept through a restart in the middle of the wait.
func TestAHintOutlivesARestart(t *testing.T) {
	const wait = 1500 * time.Millisecond
	begin := time.Now()
	alpha := link("alpha/large", only(fails(failure.Overloaded, wait), says("hello")))
	w := chained(t, alpha).start()
	o := w.watch("")
	r := w.post("hi")
	o.until(func(e session.Event) bool { return e.Type == session.EventAttempt })
	o.stop()
	w.m.Close()
	w.start()
	if run := w.ended(r.RunID); run.State != session.Succeeded {
		t.Errorf("%+v", run)
	}
	times := alpha.Keys[0].Provider.(named).Times()
	if len(times) != 2 || times[1].Sub(begin) < wait {
		t.Errorf("requests %v after the beginning", times[len(times)-1].Sub(begin))
	}
}

// F69, F71, F72, K-162: another key at once, the label in the record, never the key.
func TestKeysRotate(t *testing.T) {
	first, second := llmtest.Script(fails(failure.RateLimited, time.Hour)), llmtest.Script(says("hello"))
	w := chained(t, link("alpha/large", map[string]*llmtest.Provider{"env:A": first, "env:B": second})).start()
	run := w.ask("hi")
	list := w.attempts(run.ID)
	if run.State != session.Succeeded || len(list) != 2 || list[0].Key != "env:A" || list[1].Key != "env:B" ||
		list[0].Decision.Verdict != recovery.Rotate || list[1].SwitchedFrom == nil || list[1].InsteadOf != nil {
		t.Fatalf("%+v: %+v", run, list)
	}
	w.ask("again")
	if n := len(first.Requests()); n != 1 {
		t.Errorf("the limited key was asked %d times", n)
	}
}

// A caller's limits are absolute, whoever repeats the run: of the message, or of the session.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		message, session session.Routing
		want             []int
		auto             bool
	}{
		"none":                   {want: []int{2, 1}},
		"no fallback":            {message: session.Routing{NoFallback: true}, want: []int{2, 0}, auto: true},
		"no fallback, session":   {session: session.Routing{NoFallback: true}, want: []int{2, 0}, auto: true},
		"one attempt":            {message: session.Routing{OneAttempt: true}, want: []int{1, 0}},
		"one attempt, session":   {session: session.Routing{OneAttempt: true}, want: []int{1, 0}},
		"a pinned key":           {message: session.Routing{Key: "env:B"}, want: []int{1, 0}, auto: true},
		"the message's key wins": {message: session.Routing{Key: "env:B"}, session: session.Routing{Key: "env:A"}, want: []int{1, 0}, auto: true},
	} {
		t.Run(name, func(t *testing.T) {
			limited := func() *llmtest.Provider { return llmtest.Script(fails(failure.RateLimited, time.Hour)) }
			alpha := link("alpha/large", map[string]*llmtest.Provider{"env:A": limited(), "env:B": limited()})
			w := chained(t, alpha, link("beta/mini", only(says("hello"))))
			w.cfg.Policy.AutoWithin = 0
			w.start()
			if _, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Settings: &session.Settings{Routing: c.session}}); err != nil {
				t.Fatal(err)
			}
			r, err := w.m.Post(t.Context(), session.Act{Actor: "ann"}, w.id, []llm.Part{llm.Text("hi")}, c.message)
			if err != nil {
				t.Fatal(err)
			}
			run := w.ended(r.RunID)
			w.counts(c.want...)
			if (run.State == session.Succeeded) != (c.want[1] == 1) {
				t.Errorf("%+v", run)
			}
			if run.State == session.Failed && run.Recovery.Auto != c.auto {
				t.Errorf("recovery %+v", run.Recovery)
			}
			if run.Routing != c.message {
				t.Errorf("limits %+v", run.Routing)
			}
		})
	}
}

// A message that waits keeps its limits, and so does whatever repeats its run.
func TestLimitsOutliveTheirRun(t *testing.T) {
	alpha := link("alpha/large", only([]llmtest.Step{llmtest.Text("par"), {Stall: true}}, fails(failure.Overloaded, time.Hour)))
	w := chained(t, alpha, link("beta/mini", only(says("hello")))).start()
	o := w.watch("")
	first := w.post("wait")
	o.shows("par")
	o.stop()
	second, err := w.m.Post(t.Context(), session.Act{Actor: "ann"}, w.id, []llm.Part{llm.Text("hi")}, session.Routing{OneAttempt: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Cancel(t.Context(), "ann", w.id, first.RunID); err != nil {
		t.Fatal(err)
	}
	w.ended(first.RunID)
	if _, err := w.m.SendNow(t.Context(), "ann", w.id, second.MessageID); err != nil {
		t.Fatal(err)
	}
	if run := w.ended(second.RunID); run.State != session.Failed || !run.Routing.OneAttempt {
		t.Fatalf("%+v", run)
	}
	w.counts(2, 0)
	r, err := w.m.Regenerate(t.Context(), session.Act{Actor: "ann"}, w.id, second.MessageID, session.RegenerateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if run := w.ended(r.RunID); !run.Routing.OneAttempt {
		t.Errorf("the repeated run has the limits %+v", run.Routing)
	}
}

// F63, F65, F72: everybody failed. The run says who was asked, keeps the first error, and waits
// for the first time at which any of them may be asked; what starts by itself sends nothing
// before.
func TestExhausted(t *testing.T) {
	alpha := link("alpha/large", only(fails(failure.Overloaded, 40*time.Minute)))
	beta := link("beta/mini", only(fails(failure.RateLimited, 20*time.Minute)))
	w := chained(t, alpha, beta)
	w.cfg.Unattended = true
	w.start()
	run := w.ask("hi")
	f := run.Failure
	if run.State != session.Failed || f.RetryClass != failure.Overloaded || f.Provider != "" || len(f.Tried) != 2 {
		t.Fatalf("%+v", f)
	}
	if in := time.Until(f.RetryAfterUntil.Std()); in < 19*time.Minute || in > 20*time.Minute {
		t.Errorf("it may be tried again in %v", in)
	}
	w.counts(1, 1)
	s, err := w.m.Session(t.Context(), w.id)
	if err != nil || s.Schedule == nil || s.Schedule.NextAt < f.RetryAfterUntil {
		t.Errorf("schedule %+v, %v", s.Schedule, err)
	}
	evidence := session.Origin{Verb: run.Recovery.Verb, Run: replay.RunEvidence{Run: string(run.ID)}}
	r, err := w.m.RegenerateAs(t.Context(), session.Act{Actor: "ann"}, w.id, run.MessageID, evidence)
	if err != nil {
		t.Fatal(err)
	}
	again := w.ended(r.RunID)
	if again.Failure == nil || again.Failure.RetryAfterUntil != f.RetryAfterUntil || len(again.Failure.Tried) != 2 {
		t.Errorf("%+v", again.Failure)
	}
	w.counts(1, 1) // nothing was sent
	if run := w.ask("a person asks"); run.State != session.Failed {
		t.Errorf("%+v", run)
	}
	w.counts(1, 2)
}

// F74: a process that dies while it tries what cools off takes the one probe along with it; the
// next process gives it back at its start.
func TestProbeOutlivedByItsLane(t *testing.T) {
	w := chained(t, link("alpha/large", only(says("hello")))).start()
	lane := recovery.CoolOff{Lane: recovery.Lane{Model: "alpha/large"}, Reason: failure.RateLimited, Until: time.Now().Add(-time.Second)}
	if err := w.m.Credentials().CoolOff(t.Context(), lane); err != nil {
		t.Fatal(err)
	}
	offs, err := w.m.Credentials().CoolOffs(t.Context())
	if err != nil || len(offs) != 1 {
		t.Fatalf("%+v, %v", offs, err)
	}
	if taken, err := w.m.Credentials().Probe(t.Context(), offs, time.Now().Add(time.Hour)); err != nil || len(taken) != 1 {
		t.Fatalf("%+v, %v", taken, err)
	}
	w.m.Close()
	w.cfg.Sole = true
	w.start()
	if offs, err = w.m.Credentials().CoolOffs(t.Context()); err != nil || len(offs) != 1 || !offs[0].Probed.IsZero() {
		t.Errorf("%+v, %v", offs, err)
	}
}
