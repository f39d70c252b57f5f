package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/server"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

func (p *program) explain() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain run|call",
		Short: "Say why each attempt of a run, or of a gateway's call, was, or was not, repeated",
		Long: "Say why each attempt of a run was, or was not, repeated, and what became of its tool calls; or so of a\n" +
			"gateway's call, by the id that its answer has in the header X-Reprise-Id.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.HasPrefix(args[0], "gw_") {
				return p.explainCall(cmd.Context(), args[0], asJSON)
			}
			r, err := p.inspect(cmd.Context(), session.RunID(args[0]))
			if err != nil {
				return failed(err)
			}
			if asJSON {
				out := json.NewEncoder(p.stdout)
				out.SetIndent("", "  ")
				return failed(out.Encode(r))
			}
			explain(p.stdout, r)
			return nil
		},
	}
	p.settings(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the records as JSON")
	return cmd
}

// inspect reads a run's record, from the server that the environment names or else from the data
// folder or who has it.
func (p *program) inspect(ctx context.Context, id session.RunID) (server.Record, error) {
	c, err := p.named()
	if err != nil {
		return server.Record{}, err
	}
	if c == nil {
		cfg, err := p.load(server.Sources{})
		if err != nil {
			return server.Record{}, err
		}
		return server.Inspect(ctx, cfg, id)
	}
	r, err := server.InspectServer(ctx, c, id)
	if err != nil {
		err = fmt.Errorf("%s: %w", id, err)
	}
	return r, err
}

// explain prints the stored words of the gate; it decides nothing again.
func explain(w io.Writer, r server.Record) {
	run, attempts, calls := r.Run, r.Attempts, r.ToolCalls
	fmt.Fprintf(w, "%s  %s  of %s\n", run.ID, run.State, run.SessionID)
	fmt.Fprintf(w, "  model %s, queued %s by %s (%s), %d of its steps committed\n",
		run.Model, clock(run.QueuedAt.Std()), run.Actor, run.Trigger, run.Steps)
	if run.Continues != "" {
		fmt.Fprintf(w, "  continues %s\n", run.Continues)
	}
	if len(attempts) == 0 {
		fmt.Fprintln(w, "  no request was sent")
	}
	for i := range attempts {
		for ; len(calls) > 0 && calls[0].Step < attempts[i].Evidence.Scope.Step; calls = calls[1:] {
			explainTool(w, &calls[0])
			explainBelow(w, r.Children, &calls[0])
		}
		explainAttempt(w, &attempts[i])
	}
	for i := range calls {
		explainTool(w, &calls[i])
		explainBelow(w, r.Children, &calls[i])
	}
	if len(attempts) > 0 {
		fmt.Fprintf(w, "\nAll attempts cost %s\n", spent(sum(attempts)))
	}
	if run.Failure == nil {
		return
	}
	fmt.Fprintf(w, "\nThe run failed: %s: %s\n", run.Failure.RetryClass, run.Reason)
	explainOutcomes(w, run.Failure.Tried)
	if r := run.Recovery; r != nil {
		fmt.Fprintf(w, "  worth retrying: %s\n", yes(run.Failure.Retryable))
		fmt.Fprintf(w, "  safe to repeat: %s\n", because(r.ReplaySafe, r.Evidence.String()))
		if len(r.Hooks) > 0 {
			fmt.Fprintf(w, "  hooks:          %s\n", strings.Join(r.Hooks, ", "))
		}
		fmt.Fprintf(w, "  by itself:      %s\n", because(r.Auto, r.Reason))
		if r.NotBefore != 0 {
			fmt.Fprintf(w, "  not before:     %s\n", clock(r.NotBefore.Std()))
		}
		fmt.Fprintf(w, "  your choices:   %v\n", r.Choices)
	}
}

// explainBelow tells of the subagent that a call has begun, further in than its call.
func explainBelow(w io.Writer, below map[session.ID]server.Record, c *session.ToolCall) {
	r, ok := below[c.Child]
	if !ok {
		return
	}
	var b strings.Builder
	explain(&b, r)
	fmt.Fprintln(w)
	for line := range strings.Lines(b.String()) {
		if line != "\n" {
			line = "    " + line
		}
		io.WriteString(w, line) // into memory or a terminal, like the rest
	}
}

func explainAttempt(w io.Writer, a *session.Attempt) {
	by := "asked for"
	if a.Automatic {
		by = "automatic"
	}
	if l := a.Evidence.Scope.Lineage; l != llm.LineageMain {
		by += "  " + l
	}
	asked := recovery.Candidate{Provider: a.Provider, Model: a.Model, Key: a.Key}
	if a.SessionID != "" { // a gateway's call is one step, and told to no hook
		by = fmt.Sprintf("step %d  %s", a.Evidence.Scope.Step+1, by)
	}
	fmt.Fprintf(w, "\nAttempt %d  %s  %s\n", a.Number, by, asked)
	if s := a.SwitchedFrom; s != nil {
		fmt.Fprintf(w, "  switched from %s: %s\n", s.Candidate, s.Reason)
	}
	explainOutcomes(w, a.Skipped)
	fmt.Fprintf(w, "  opened %s", clock(a.OpenedAt.Std()))
	if a.EndedAt != 0 {
		fmt.Fprintf(w, ", ended after %s", a.EndedAt.Std().Sub(a.OpenedAt.Std()))
	}
	fmt.Fprintln(w)
	// A mark goes before what it allows, and the counts come at the end.
	const shown = replay.TextShown | replay.ThinkingShown | replay.ContentShown | replay.CallShown
	if p := a.Evidence.Published; p == (replay.Counts{}) && a.Evidence.Marks&shown != 0 {
		fmt.Fprintf(w, "  may have published something (%s); the server stopped before it was counted\n", a.Evidence.Marks&shown)
	} else {
		fmt.Fprintf(w, "  published %d characters of text, %d of thinking, %d tool calls, %d other parts\n", p.Text, p.Thinking, p.Calls, p.Other)
	}
	if a.SessionID != "" {
		fmt.Fprintf(w, "  hooks %d", len(a.Hooks))
		for _, h := range a.Hooks {
			fmt.Fprintf(w, "  %s was told of %s", h.Hook, h.Event)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  cost %s\n", cost(a.Cost))
	if u := a.Usage; u != nil {
		fmt.Fprintf(w, "    %d tokens in", u.Input)
		if u.CacheRead > 0 {
			fmt.Fprintf(w, ", %d of them from the cache", u.CacheRead)
		}
		fmt.Fprintf(w, ", %d out%s\n", u.Output, at(a.Price))
	}
	switch {
	case a.OK:
		fmt.Fprintln(w, "  it went through")
	case a.Failure == nil || a.Decision == nil:
		safe, why := a.Evidence.Safe()
		fmt.Fprintf(w, "  nothing was decided about it; safe to repeat: %s\n", because(safe, why.String()))
	default:
		explainDecision(w, a)
	}
}

// cost is what an attempt cost, and how well that is known.
func cost(c *llm.Cost) string {
	switch {
	case c == nil:
		return "not known yet"
	case c.Kind == llm.CostUnknown:
		return "not known: the model has no price"
	case c.Kind == llm.CostEstimated:
		return ">= " + c.Amount.String() + ", estimated: no usage was reported"
	}
	return c.Amount.String()
}

// at says at what price an attempt was opened.
func at(p *llm.Price) string {
	if p == nil || *p == (llm.Price{}) {
		return ""
	}
	return fmt.Sprintf(", at %s and %s for a million", p.Input, p.Output)
}

// spent is a sum of costs; ">=": there is more that nobody counted.
func spent(s session.Spend) string {
	if s.AtLeast {
		return ">= " + s.Amount.String()
	}
	return s.Amount.String()
}

// sum adds up what attempts cost, also those of a data folder that nobody serves.
func sum(attempts []session.Attempt) (s session.Spend) {
	for i := range attempts {
		c := attempts[i].Cost
		s.AtLeast = s.AtLeast || c == nil || c.Kind != llm.CostKnown
		if c != nil {
			s.Amount += c.Amount
		}
	}
	return s
}

// explainOutcomes says what became of those who might have answered.
func explainOutcomes(w io.Writer, list []recovery.Outcome) {
	for _, o := range list {
		fmt.Fprintf(w, "  %s", o)
		if !o.Until.IsZero() {
			fmt.Fprintf(w, ", not before %s", clock(o.Until))
		}
		fmt.Fprintln(w)
	}
}

func explainDecision(w io.Writer, a *session.Attempt) {
	f, d := a.Failure, a.Decision
	fmt.Fprintf(w, "  failed: %s", f.Class)
	for _, fact := range []struct{ name, value string }{
		{"status", status(f.Status)}, {"code", f.Code}, {"transport", f.Transport}, {"request", f.RequestID},
		{"delivery", f.Delivered.String()}, {"classified by", f.Rule},
	} {
		if fact.value != "" {
			fmt.Fprintf(w, ", %s %s", fact.name, fact.value)
		}
	}
	fmt.Fprintln(w)
	if f.Message != "" {
		fmt.Fprintf(w, "    %s\n", f.Message)
	}
	fmt.Fprintf(w, "  worth retrying: %s (%s)\n", yes(d.Eligible), d.Class)
	fmt.Fprintf(w, "  safe to repeat: %s\n", because(d.Safe, d.Evidence.String()))
	fmt.Fprintf(w, "  verdict:        %s, by the rule %s\n", d.Verdict, d.Rule)
	fmt.Fprintf(w, "    %s\n", recovery.Rules[d.Rule])
	if !d.NotBefore.IsZero() {
		fmt.Fprintf(w, "  not before:     %s (%s)\n", clock(d.NotBefore), f.Hint)
	}
	if !d.NextAt.IsZero() {
		fmt.Fprintf(w, "  next attempt:   %s, after %s\n", clock(d.NextAt), d.NextAt.Sub(a.EndedAt.Std()).Round(time.Millisecond))
	}
}

func status(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprint(code)
}

// clock writes a time in the local zone, with its name.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000 MST") }
