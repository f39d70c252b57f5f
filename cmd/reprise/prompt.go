package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// pipePatience is how long stdin's end is waited for without a word.
const pipePatience = 3 * time.Second

// question is the prompt, with what is piped in beside it.
func (p *program) question(args []string) (string, error) {
	text, err := p.prompt(args)
	if err != nil || len(args) == 0 || args[0] == "-" || p.terminal() {
		return text, err
	}
	slow := time.AfterFunc(pipePatience, func() {
		fmt.Fprintln(p.stderr, "waiting for the end of what is piped in; where nothing is to come, use </dev/null")
	})
	defer slow.Stop()
	b, err := io.ReadAll(p.stdin)
	switch {
	case err != nil:
		return "", fmt.Errorf("read what is piped in: %w", err)
	case len(bytes.TrimSpace(b)) == 0:
		return text, nil
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		return "", errors.New("what is piped in is not text")
	}
	return fmt.Sprintf("%s\n\n<stdin>\n%s\n</stdin>", text, bytes.TrimRight(b, "\r\n")), nil
}

// terminal reports whether stdin is one, or has nothing to say at all.
func (p *program) terminal() bool {
	f, ok := p.stdin.(*os.File)
	if !ok {
		return p.stdin == nil
	}
	info, err := f.Stat()
	return err != nil || info.Mode()&os.ModeCharDevice != 0 // it may be closed
}

// prompt is the argument, or what stdin has.
func (p *program) prompt(args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		if strings.TrimSpace(args[0]) == "" {
			return "", errors.New("the prompt is empty")
		}
		return args[0], nil
	}
	if len(args) == 0 && p.terminal() {
		return "", errors.New(`there is no prompt: name one, as in reprise run "Hello"`)
	}
	b, err := io.ReadAll(p.stdin)
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	if text := strings.TrimSpace(string(b)); text != "" {
		return text, nil
	}
	return "", errors.New("the prompt is empty")
}
