package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

func (p *program) approve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve session call",
		Short: "Let a tool call start that is asked about",
		Args:  cobra.ExactArgs(2),
	}
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.ToolCall, error) {
		return c.ApproveCall(ctx, session.ID(args[0]), args[1])
	}, tellCall)
}

func (p *program) deny() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deny session call [reason]",
		Short: "Let a tool call that is asked about never start; the model is told the reason",
		Args:  cobra.RangeArgs(2, 3),
	}
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.ToolCall, error) {
		return c.DenyCall(ctx, session.ID(args[0]), args[1], strings.Join(args[2:], ""))
	}, tellCall)
}

func (p *program) resolve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resolve session call use_as_is|mark_done|run_again",
		Short: "Settle a tool call of which nobody knows how it ended, so that its run can be resumed",
		Long: "Settle a tool call of which nobody knows how it ended, so that its run can be resumed. Look first\n" +
			"whether it was done: use_as_is tells the model that this is not known, mark_done that it was done,\n" +
			"and run_again lets the tool start once more.",
		Args:      cobra.ExactArgs(3),
		ValidArgs: []string{string(session.UseAsIs), string(session.MarkDone), string(session.RunAgain)},
	}
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.ToolCall, error) {
		return c.ResolveCall(ctx, session.ID(args[0]), args[1], session.Resolution(args[2]))
	}, tellCall)
}

func tellCall(w io.Writer, c session.ToolCall) { fmt.Fprintln(w, callLine(&c)) }

// callLine says in one line where a tool call stands.
func callLine(c *session.ToolCall) string {
	line := fmt.Sprintf("tool  %s  %s", plain(c.Name), c.State)
	switch a := c.Approval; {
	case c.State == session.CallAsked:
		return fmt.Sprintf("asks  %s  %s  reprise approve %s %s", plain(c.Name), brief(c.Arguments), c.SessionID, c.CallID)
	case a != nil && c.State == session.CallApproved, a != nil && c.State == session.CallDenied:
		line += " by " + a.AnsweredBy
		if a.Reason != "" {
			line += ": " + plain(a.Reason)
		}
	case c.Resolved != nil:
		line += fmt.Sprintf("  %s by %s", c.Resolved.How, c.Resolved.By)
	}
	return line
}

const briefly = 120 // characters of arguments in a line

// brief is the arguments of a call in one line, or their beginning.
func brief(arguments string) string {
	r := []rune(plain(strings.Join(strings.Fields(arguments), " ")))
	if len(r) > briefly {
		return string(r[:briefly-1]) + "…"
	}
	return string(r)
}

// full is the arguments of a call as a person reads them who decides about it: all of them.
func full(arguments string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &fields) != nil {
		return plain(arguments)
	}
	out, err := json.MarshalIndent(json.RawMessage(arguments), "  ", "  ")
	if err != nil {
		return plain(arguments)
	}
	return plain(string(out))
}

// plain shows what a model wrote so that a terminal takes none of it for a command, and nothing of
// it is invisible.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || r == '\n' {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// explainTool tells the story of a tool call: whether it was asked about and what was answered, its
// start and its end.
func explainTool(w io.Writer, c *session.ToolCall) {
	fmt.Fprintf(w, "\nTool call %s  step %d  %s  %s\n", c.CallID, c.Step+1, plain(c.Name), brief(c.Arguments))
	if a := c.Approval; a != nil {
		fmt.Fprintf(w, "  asked %s, to be answered until %s\n", clock(a.AskedAt.Std()), clock(a.ExpiresAt.Std()))
		verb := "approved"
		if c.State == session.CallDenied {
			verb = "denied"
		}
		after := a.AnsweredAt.Std().Sub(a.AskedAt.Std())
		switch {
		case a.AnsweredAt == 0 && c.State == session.CallAsked:
			fmt.Fprintln(w, "  it waits for an answer")
		case a.AnsweredAt == 0:
			fmt.Fprintln(w, "  nobody had answered when the run ended")
		case a.Reason != "":
			fmt.Fprintf(w, "  %s by %s after %s: %s\n", verb, a.AnsweredBy, after, plain(a.Reason))
		default:
			fmt.Fprintf(w, "  %s by %s after %s\n", verb, a.AnsweredBy, after)
		}
	}
	switch {
	case c.State == session.CallRefused && c.Result != nil:
		fmt.Fprintf(w, "  not run: %s\n", plain(textOf(c.Result.Content)))
	case c.StartedAt == 0:
		fmt.Fprintln(w, "  not run")
	default:
		fmt.Fprintf(w, "  started %s%s\n", clock(c.StartedAt.Std()), endOf(c))
	}
	if r := c.Resolved; r != nil {
		fmt.Fprintf(w, "  settled %s by %s: %s\n", clock(r.At.Std()), r.By, r.How)
	}
}

// endOf says how a call ended that was started.
func endOf(c *session.ToolCall) string {
	took := c.EndedAt.Std().Sub(c.StartedAt.Std()).Round(time.Millisecond)
	switch {
	case c.State == session.CallStarted:
		return ", it is running"
	case c.State == session.CallUnknown || c.Resolved != nil:
		return ", and nobody saw its end"
	case c.State == session.CallCancelled:
		return fmt.Sprintf(", stopped after %s", took)
	case c.Result != nil && c.Result.IsError:
		return fmt.Sprintf(", failed after %s", took)
	}
	return fmt.Sprintf(", ended after %s", took)
}
