package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// transcript writes the text of replies once and in order, whether it comes as it is
// published, in a message, or in a snapshot after a lost connection. The zero value is ready
// but for where it writes; nil: nowhere.
type transcript struct {
	to    io.Writer
	shown map[stepOf]int  // bytes of text
	whole map[stepOf]bool // whose message has come
	last  byte            // that was written; 0: none
	at    stepOf          // that was written last
}

type stepOf struct {
	run  session.RunID
	step int
}

// output takes in what was published next. Where its message has come already, it has been
// shown.
func (t *transcript) output(o *session.Output) error {
	at := stepOf{o.RunID, o.Step}
	if t.whole[at] {
		return nil
	}
	for i := range o.Events {
		if e := &o.Events[i]; e.Kind == llm.EventText {
			if err := t.write(at, e.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

// merged takes in all that was published of a step.
func (t *transcript) merged(o *session.Output) error {
	var out llm.Output
	for i := range o.Events {
		out.Add(&o.Events[i])
	}
	return t.rest(stepOf{o.RunID, o.Step}, textOf(out.Parts()))
}

// message takes in a whole step.
func (t *transcript) message(m *session.Message) error {
	at := stepOf{m.RunID, m.Step}
	t.complete(at)
	return t.rest(at, textOf(m.Parts))
}

// skip takes a message for one that has been shown.
func (t *transcript) skip(m *session.Message) {
	at := stepOf{m.RunID, m.Step}
	t.complete(at)
	t.count(at, len(textOf(m.Parts)))
}

func (t *transcript) complete(at stepOf) {
	if t.whole == nil {
		t.whole = map[stepOf]bool{}
	}
	t.whole[at] = true
}

func (t *transcript) count(at stepOf, n int) {
	if t.shown == nil {
		t.shown = map[stepOf]int{}
	}
	t.shown[at] += n
}

// rest shows what of a step's text has not been shown.
func (t *transcript) rest(at stepOf, all string) error {
	if n := t.shown[at]; n < len(all) {
		return t.write(at, all[n:])
	}
	return nil
}

func (t *transcript) write(at stepOf, s string) error {
	t.count(at, len(s))
	if t.to == nil || s == "" {
		return nil
	}
	if at != t.at && t.last != 0 && t.last != '\n' {
		s = "\n" + s
	}
	t.at, t.last = at, s[len(s)-1]
	if _, err := io.WriteString(t.to, s); err != nil {
		return fmt.Errorf("write the text: %w", err)
	}
	return nil
}

// endLine ends the line that the text is in.
func (t *transcript) endLine() error {
	if t.last == 0 || t.last == '\n' {
		return nil
	}
	t.last = '\n'
	if _, err := io.WriteString(t.to, "\n"); err != nil {
		return fmt.Errorf("write the text: %w", err)
	}
	return nil
}

func textOf(parts []llm.Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Kind == llm.PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
