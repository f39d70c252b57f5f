package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

// asker answers about the tool calls of a run and of its subagents: as the flag says, or as a person
// at the terminal does, one call after the other. Where there is no terminal, nobody can be asked.
type asker struct {
	client *client.Client
	flag   []string // names or patterns of tools, all, or none; empty: whoever is there is asked
	stderr io.Writer
	heard  chan session.ToolCall // of every change; nil: there is no terminal
	asking map[session.ID]bool   // subagents that had asked when they were last heard of
}

// newAsker begins to read answers where stdin and stderr are a terminal, until ctx is done. Its
// reader ends with stdin: nothing else ends a read of a terminal.
func (p *program) newAsker(ctx context.Context, c *client.Client, flag []string) *asker {
	a := &asker{client: c, flag: flag, stderr: p.stderr, asking: map[session.ID]bool{}}
	if !isTerminal(p.stdin) || !isTerminal(p.stderr) {
		return a
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(p.stdin); in.Scan(); {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	a.heard = make(chan session.ToolCall)
	go a.talk(ctx, lines)
	return a
}

// change takes in where a call stands.
func (a *asker) change(ctx context.Context, c *session.ToolCall) {
	if c.State == session.CallAsked {
		switch {
		case a.allows(c.Name):
			a.answer(ctx, c, true, "")
			return
		case slices.Equal(a.flag, []string{"none"}):
			a.answer(ctx, c, false, "it may not be used in this run")
			return
		case a.heard == nil:
			fmt.Fprintf(a.stderr, "denied  %s  nobody can be asked without a terminal: --approve %[1]s allows it\n", plain(c.Name))
			a.answer(ctx, c, false, "nobody is there who could be asked")
			return
		}
	}
	if a.heard != nil {
		select {
		case a.heard <- *c:
		case <-ctx.Done():
		}
	}
}

// subagent takes in what a subagent's session has become.
func (a *asker) subagent(ctx context.Context, s *session.Session) {
	if s.Asks == 0 && !a.asking[s.ID] {
		return
	}
	a.asking[s.ID] = s.Asks > 0
	calls, err := a.client.ToolCalls(ctx, s.ID, s.LastRun.ID)
	if err != nil {
		fmt.Fprintf(a.stderr, "what the subagent %s asks is not known: %v\n", s.ID, err)
	}
	for i := range calls {
		a.change(ctx, &calls[i])
	}
}

// allows reports whether the flag allows a tool; its patterns are good ones.
func (a *asker) allows(tool string) bool {
	return slices.ContainsFunc(a.flag, func(pattern string) bool {
		ok, err := path.Match(pattern, tool)
		return pattern == "all" || ok && err == nil
	})
}

// answer tells the server. An answer that somebody gave before, elsewhere, is the one that counts.
func (a *asker) answer(ctx context.Context, c *session.ToolCall, approve bool, reason string) {
	var err error
	if approve {
		_, err = a.client.ApproveCall(ctx, c.SessionID, c.CallID)
	} else {
		_, err = a.client.DenyCall(ctx, c.SessionID, c.CallID, reason)
	}
	var refusal *client.Error
	if errors.As(err, &refusal) && refusal.Status == http.StatusConflict || ctx.Err() != nil {
		return
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "the answer about %s was not delivered: %v\n", plain(c.Name), err)
	}
}

// talk asks about the calls that wait, the first one first, and takes a question back that was
// answered elsewhere. Only a yes allows; what follows a no is the reason.
func (a *asker) talk(ctx context.Context, lines <-chan string) {
	var open []session.ToolCall
	ask := func() {
		for ; lines == nil && len(open) > 0; open = open[1:] { // whoever was there has gone
			a.answer(ctx, &open[0], false, "nobody is there who could be asked")
		}
		if len(open) > 0 {
			c := &open[0]
			fmt.Fprintf(a.stderr, "\n%s wants to run:\n  %s\nAllow it? [y/N, or a reason against it] ", plain(c.Name), full(c.Arguments))
		}
	}
	for {
		select {
		case c := <-a.heard:
			at := slices.IndexFunc(open, func(o session.ToolCall) bool { return o.CallID == c.CallID && o.RunID == c.RunID && o.Step == c.Step })
			switch {
			case c.State == session.CallAsked && at < 0:
				if open = append(open, c); len(open) == 1 {
					ask()
				}
			case c.State != session.CallAsked && at >= 0:
				open = slices.Delete(open, at, at+1)
				if at == 0 {
					fmt.Fprintln(a.stderr, "it was answered elsewhere")
					ask()
				}
			}
		case line, ok := <-lines:
			if !ok {
				lines = nil
			} else if len(open) > 0 {
				approve, reason := said(line)
				a.answer(ctx, &open[0], approve, reason)
				open = open[1:]
			} else {
				continue // it answers no question
			}
			ask()
		case <-ctx.Done():
			return
		}
	}
}

// said understands an answer.
func said(line string) (approve bool, reason string) {
	line = strings.TrimSpace(line)
	switch strings.ToLower(line) {
	case "y", "yes":
		return true, ""
	case "", "n", "no":
		return false, ""
	}
	return false, line
}
