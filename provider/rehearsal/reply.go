package rehearsal

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// explain writes the reply of a script that brings no text of its own: what was asked, what
// just happened and why, and what to try next. The same question gives the same reply.
func explain(p *play) string {
	c := p.call
	var b strings.Builder
	fmt.Fprintf(&b, "You asked: **%s**\n\n", headline(c.question))
	if c.result != "" {
		fmt.Fprintf(&b, "The tool answered: `%s`\n\n", headline(strings.ReplaceAll(c.result, "`", "'")))
	}
	b.WriteString(pick(c.question, openings))
	fmt.Fprintf(&b, "\n\n## What just happened\n\nThe script `%s` shows this:\n\n> %s\n\n", c.script.Name, sentence(c.script.Shows))
	quiet := len(c.earlier) > 0
	for i, t := range c.earlier {
		summary := t.summary()
		quiet = quiet && strings.Contains(summary, silence)
		fmt.Fprintf(&b, "%d. Request %d %s.\n", i+1, i+1, summary)
	}
	n := len(c.earlier) + 1
	fmt.Fprintf(&b, "%d. Request %d is the one that you are reading the answer to.\n\n", n, n)
	if quiet {
		b.WriteString("The earlier requests left nothing behind: they ended before there was anything to show, so it was safe to ask again.\n\n")
	}
	b.WriteString("## What the upstream saw\n\n```json\n")
	fmt.Fprintf(&b, "{\n  \"dialect\": %q,\n  \"model\": %q,\n  \"stream\": %t,\n  \"request\": %d,\n  \"characters\": %d\n}\n```\n\n",
		p.d.name(), c.model, c.stream, n, c.size)
	b.WriteString(pick(c.question, closings))
	return b.String()
}

// reflect writes the thoughts before a reply.
func reflect(p *play) string {
	return fmt.Sprintf("The question is %q. No model is here to think about it, so this thought was rehearsed. "+
		"It comes apart from the text that follows, as a model's own thoughts do.", headline(p.call.question))
}

var openings = []string{
	"This reply was *rehearsed*: no model was called and nothing was spent. It comes from an upstream that plays scripts over real HTTP, so everything between it and you is the real thing.",
	"No model read your question. This text was *rehearsed* by a small upstream that speaks the providers' own APIs and fails on cue, which makes it a good place to see how a reply recovers.",
	"You are looking at a *rehearsal*. The words were written in advance; the connection, the stream, the failures and the recovery are real.",
}

var closings = []string{
	"## Try next\n\n- `rehearsal/overloaded-then-ok`: a failure before any output, repaired without a trace\n- `rehearsal/failed-inside-text`: a failure after output, kept and never repeated\n- `rehearsal/rate-limited-3000s`: a wait that is shown, not slept through\n- `rehearsal/tool`: a tool call and its result\n",
	"## Try next\n\n- `rehearsal/cut-after-text`: the connection breaks in the middle of a sentence\n- `rehearsal/half-call-then-ok`: half a tool call, discarded and asked for again\n- `rehearsal/thinking`: thoughts, then text\n\nAdd a key of a real provider, and the same machinery works for its models.\n",
	"## Try next\n\n- `rehearsal/overloaded-3-times-then-ok`: more failures than the first tier takes\n- `rehearsal/stall-before-text`: an upstream that falls silent\n- `rehearsal/ended-after-text`: an end that only looks like success\n\nPress *Regenerate* to see this one again.\n",
}

// pick chooses by the question, so that a repeated question gets the same answer.
func pick(question string, from []string) string {
	h := fnv.New32a()
	h.Write([]byte(question))
	return from[h.Sum32()%uint32(len(from))]
}

// headline is the first line of a text, bounded, as it fits into a line of markdown.
func headline(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(s); len(r) > 120 {
		s = string(r[:119]) + "…"
	}
	if s == "" {
		return "nothing"
	}
	return strings.ReplaceAll(s, "*", "∗")
}

func sentence(s string) string {
	if s == "" {
		return "A script of your own."
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
