package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/failure"
)

// maxLine bounds one case, newline included, and a pasted error, in bytes.
const maxLine = 4 << 20

func (p *program) classify() *cobra.Command {
	var text bool
	var facts failure.Facts
	cmd := &cobra.Command{
		Use:   "classify [--text [error]]",
		Short: "Say what kind of failure an error is, and whether it is worth retrying",
		Long: "Say what kind of failure an error is, and whether it is worth retrying. Nothing is sent.\n\n" +
			"Without flags it reads recorded failures from stdin, one JSON object a line, and writes one\n" +
			"line for each: id, class, retryable, retry_after_ms or retry_after_until, rule, message.\n" +
			"Members that it reads: id, provider, dialect, phase (open or stream), status, headers, body,\n" +
			"sse (a list of event and data), transport_error, now. A line that is none of this, or is\n" +
			"longer than 4 MiB, is told on stderr by its number; the others are answered all the same.\n\n" +
			"With --text it explains one error that somebody pasted, from its arguments or from stdin.\n\n" +
			"Exit codes: 0 done, 1 a line could not be used, 2 usage, 3 cancelled.",
		Example: "  reprise classify < failures.jsonl\n" +
			"  reprise classify --text \"429 Too Many Requests\"\n" +
			"  pbpaste | reprise classify --text --provider groq",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case text:
				pasted, err := p.pasted(args)
				if err != nil {
					return err
				}
				facts.Phase, facts.Now = failure.PhaseOpen, time.Now()
				return failed(describe(p.stdout, failure.FromText(facts, pasted), facts.Now))
			case len(args) > 0:
				return usage(errors.New(`cases are read from stdin; an error's text needs --text`))
			case facts.Provider != "":
				return usage(errors.New("--provider needs --text: each case names its own"))
			}
			return failed(p.cases(cmd.Context()))
		},
	}
	cmd.Flags().BoolVar(&text, "text", false, "explain one pasted error: the arguments, or stdin where there is none or -")
	cmd.Flags().StringVar(&facts.Provider, "provider", "", "`name` of the provider that the text came from; its own codes and sentences then count")
	return cmd
}

// cases answers each line of stdin as soon as it has come.
func (p *program) cases(ctx context.Context) error {
	in := bufio.NewReaderSize(p.stdin, maxLine)
	out := json.NewEncoder(p.stdout)
	out.SetEscapeHTML(false)
	unusable := 0
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("read line %d: %w", n, err)
		}
		answer, usable, unread := answerTo(line, long)
		if unread != nil {
			unusable++
			fmt.Fprintf(p.stderr, "reprise: line %d: %v\n", n, unread)
		}
		if usable {
			if err := out.Encode(answer); err != nil {
				return fmt.Errorf("answer line %d: %w", n, err)
			}
		}
		if err == io.EOF {
			break
		}
	}
	if unusable > 0 {
		return &ended{code: exitFailed}
	}
	return nil
}

// answerTo answers one line. A blank one has neither answer nor error.
func answerTo(line []byte, long bool) (a failure.Answer, ok bool, err error) {
	if long {
		return a, false, fmt.Errorf("longer than %d bytes", maxLine)
	}
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return a, false, nil
	}
	c, err := failure.ParseCase(line)
	if err != nil {
		return a, false, err
	}
	_, a = c.Classify()
	return a, true, nil
}

// pasted is the text of the arguments, or what stdin has.
func (p *program) pasted(args []string) (string, error) {
	text := strings.Join(args, " ")
	if len(args) == 0 || text == "-" {
		b, err := io.ReadAll(io.LimitReader(p.stdin, maxLine+1))
		switch {
		case err != nil:
			return "", failed(fmt.Errorf("read the error's text: %w", err))
		case len(b) > maxLine:
			return "", usage(fmt.Errorf("the error's text is longer than %d bytes", maxLine))
		}
		text = string(b)
	}
	if strings.TrimSpace(text) == "" {
		return "", usage(errors.New("the error's text is empty"))
	}
	return text, nil
}

// describe tells a person what a failure is and what follows from it.
func describe(w io.Writer, f *failure.Failure, now time.Time) error {
	means, does, can := f.Class.About()
	verdict := "not worth retrying"
	if f.Retryable {
		verdict = "worth retrying"
	}
	wait := "none was stated"
	if f.Hint != "" {
		wait = fmt.Sprintf("%s, until %s, stated by %s", f.NotBefore.Sub(now), clock(f.NotBefore), f.Hint)
	}
	_, err := fmt.Fprintf(w, "class    %s: %s\nverdict  %s\nReprise  %s\nyou      %s\nwait     %s\nrule     %s\nsource   %s\nmessage  %s\n",
		f.Class, means, verdict, does, can, wait, f.Because(), f.Source, f.Message)
	return err
}
