package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// conversation is a session with its messages.
type conversation struct {
	Session  session.Session   `json:"session"`
	Messages []session.Message `json:"messages"`
	// Children are the sessions of its subagents.
	Children []branch `json:"children,omitempty"`
	// Asked are the tool calls that are asked about.
	Asked []session.ToolCall `json:"asked,omitempty"`
}

// branch is a subagent's session with those below it.
type branch struct {
	Session  session.Session `json:"session"`
	Children []branch        `json:"children,omitempty"`
}

func branches(ctx context.Context, c *client.Client, id session.ID) (out []branch, err error) {
	list, err := c.Children(ctx, id)
	for _, s := range list {
		b := branch{Session: s}
		if b.Children, err = branches(ctx, c, s.ID); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, err
}

func showTree(w io.Writer, list []branch, indent string) {
	for i := range list {
		s := &list[i].Session
		fmt.Fprintf(w, "%s%s  %s  %s  %s  %s\n", indent, s.ID, doing(s), s.Model, spent(s.Spend), s.Title)
		showTree(w, list[i].Children, indent+"  ")
	}
}

func (p *program) show() *cobra.Command {
	var superseded bool
	cmd := &cobra.Command{
		Use:   "show session",
		Short: "Print a session's conversation, and what waits in it",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&superseded, "superseded", false, "also the messages that have left the model's context")
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (v conversation, err error) {
		id := session.ID(args[0])
		if v.Session, err = c.Session(ctx, id); err == nil {
			v.Messages, err = c.Messages(ctx, id, superseded, 0, 0)
		}
		if err == nil {
			v.Children, err = branches(ctx, c, id)
		}
		if err == nil && v.Session.Asks > 0 {
			v.Asked, err = c.ToolCalls(ctx, id, v.Session.LastRun.ID)
			v.Asked = slices.DeleteFunc(v.Asked, func(c session.ToolCall) bool { return c.State != session.CallAsked })
		}
		return v, err
	}, func(w io.Writer, v conversation) {
		s := &v.Session
		fmt.Fprintf(w, "%s  %s  %s  %s  %s\n", s.ID, doing(s), s.Model, spent(s.Spend), s.Title)
		if s.Schedule != nil {
			fmt.Fprintln(w, waits(s.Schedule, time.Now()))
		}
		showTree(w, v.Children, "  ")
		for i := range v.Messages {
			showMessage(w, &v.Messages[i])
		}
		for i := range v.Asked {
			fmt.Fprintf(w, "\n%s\n", asks(&v.Asked[i], time.Now()))
		}
	})
}

func showMessage(w io.Writer, m *session.Message) {
	fmt.Fprintf(w, "\n%s  %s  %s", m.Role, m.ID, clock(m.CreatedAt.Std()))
	if m.Model != "" {
		fmt.Fprintf(w, "  %s/%s", m.Provider, m.Model)
	}
	if m.Spend != nil {
		fmt.Fprintf(w, "  %s", spent(*m.Spend))
	}
	if m.SupersededBy != "" {
		fmt.Fprintf(w, "  superseded by %s", m.SupersededBy)
	}
	fmt.Fprintln(w)
	for i := range m.Parts {
		if s := shownPart(&m.Parts[i]); s != "" {
			fmt.Fprintln(w, strings.TrimSuffix(s, "\n"))
		}
	}
	if c := m.Compaction; c != nil && c.Summary != "" {
		fmt.Fprintf(w, "[summary: %s]\n", c.Summary)
	}
	if m.Interrupted != "" {
		fmt.Fprintf(w, "[interrupted: %s]\n", m.Interrupted)
	}
	if m.Failure != nil {
		fmt.Fprintf(w, "[failed: %s: %s]\n", m.Failure.RetryClass, m.Failure.Message)
	}
}

// shownPart is a part as a terminal can show it.
func shownPart(part *llm.Part) string {
	switch part.Kind {
	case llm.PartText, llm.PartNotice:
		return part.Text
	case llm.PartThinking:
		return "[thinking: " + part.Text + "]"
	case llm.PartToolCall:
		return "[" + part.Name + " " + part.Arguments + "]"
	case llm.PartToolResult:
		return shownResult(part)
	}
	return "[" + string(part.Kind) + "]"
}

// shownResult is a tool's result: each of its parts from a new line on, where there are several.
func shownResult(part *llm.Part) string {
	head := part.Name
	if part.IsError {
		head += " (error)"
	}
	var said []string
	for i := range part.Content {
		switch c := &part.Content[i]; c.Kind {
		case llm.PartText:
			said = append(said, strings.TrimSuffix(c.Text, "\n"))
		default:
			said = append(said, "["+strings.TrimSpace(string(c.Kind)+" "+c.MediaType)+"]")
		}
	}
	text := strings.Join(said, "\n")
	if strings.Contains(text, "\n") {
		text = "\n" + text + "\n"
	} else {
		text = " " + text
	}
	return "[" + head + ":" + text + "]"
}
