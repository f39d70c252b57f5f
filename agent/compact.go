package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// Strategy is what becomes of the messages that a conversation is relieved of.
type Strategy string

const (
	Drop      Strategy = "drop"      // the model is told that they were left out
	Summarize Strategy = "summarize" // a model is asked for a summary, which takes their place
)

// Why a conversation was made shorter.
const (
	CauseOverflow  = "overflow"  // the model refused it
	CauseThreshold = "threshold" // it had grown as long as it may
)

// Compaction says when and how a conversation is made shorter. The zero value never does.
type Compaction struct {
	Strategy Strategy
	// Turns is how many of the last turns stay, where that shortens anything; at least the
	// operator's last message and the newest step do.
	Turns int
	// Threshold is the share of its model's context at which a request is made shorter before it
	// is sent, where that size is known; 0: only where the model refuses it.
	Threshold float64
}

// Cut says which messages of a conversation are left out, and what is told instead.
type Cut struct {
	Cause    string
	Strategy Strategy
	// First is the index of the first message that stays; Held, where it is not negative, that of an
	// earlier one that stays too: the operator's message that is being answered.
	First, Held   int
	Summary       string
	Before, After int64 // tokens, estimated
}

const leftOut = "(Earlier messages of this conversation were left out, because it had become too long."

// Told is what a model is told in place of messages that were left out.
func Told(summary string) llm.Message {
	text := leftOut + ")"
	if summary != "" {
		text = leftOut + " What they came to:)\n\n" + summary
	}
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}
}

// apply returns the conversation as the cut leaves it.
func (c Cut) apply(messages []llm.Message) []llm.Message {
	out := []llm.Message{Told(c.Summary)}
	if c.Held >= 0 {
		out = append(out, messages[c.Held])
	}
	return append(out, messages[c.First:]...)
}

// cut finds what can be left out so that half of the conversation stays, and no more than half of
// a window of that many tokens (0: not known). Calls stay with their results. ok is false where
// nothing can be.
func cut(messages []llm.Message, turns int, window int64) (c Cut, ok bool) {
	size := make([]int64, len(messages)+1) // of what comes from there on
	var starts []int                       // of turns
	for i := len(messages) - 1; i >= 0; i-- {
		size[i] = size[i+1] + (&llm.Request{Messages: messages[i : i+1]}).Needs().Input
		if messages[i].Role == llm.RoleUser {
			starts = append(starts, i)
		}
	}
	c = Cut{Held: -1, Before: size[0]}
	most := size[0] / 2
	if window > 0 {
		most = min(most, window/2)
	}
	enough := func(i int) bool { return size[i] <= most }
	for n := min(turns, len(starts)) - 1; n >= 0; n-- {
		if i := starts[n]; i > 0 && (enough(i) || n == 0) {
			c.First = i
			break
		}
	}
	// Where the last turn alone is too long, its older steps go as well.
	if len(starts) > 0 && !enough(max(c.First, starts[0])) {
		for i := starts[0] + 2; i < len(messages); i++ {
			if messages[i].Role == llm.RoleAssistant {
				c.First, c.Held = i, starts[0]
				if enough(i) {
					break
				}
			}
		}
	}
	return c, c.First > 0 && (c.Held >= 0 || c.First > 1 || !told(messages[0]))
}

// told reports whether the message stands in for others already: to replace it alone gains
// nothing.
func told(m llm.Message) bool {
	return m.Role == llm.RoleUser && len(m.Parts) == 1 && strings.HasPrefix(m.Parts[0].Text, leftOut)
}

// errNothing: nothing can be left out of the conversation.
var errNothing = errors.New("nothing can be left out")

// compact makes the conversation of the run shorter, for a model of which that much is known.
func (r *Run) compact(ctx context.Context, step int, cause string, facts llm.ModelFacts) error {
	messages, err := r.Journal.Compact(ctx, step, func(messages []llm.Message) (Cut, error) {
		c, ok := cut(messages, r.Compaction.Turns, facts.Context)
		if !ok {
			return c, errNothing
		}
		c.Cause, c.Strategy = cause, r.Compaction.Strategy
		if c.Strategy == Summarize {
			var err error
			if c.Summary, err = r.summarize(ctx, step, cause, messages[:c.First], facts); err != nil {
				return c, err
			}
		}
		c.After = (&llm.Request{Messages: c.apply(messages)}).Needs().Input
		return c, nil
	})
	if err == nil {
		r.Request.Messages = messages
	}
	return err
}

// overflow is the answer to a model's refusal. Where nothing can be left out, the refusal stays
// the step's failure.
func (r *Run) overflow(ctx context.Context, step int, c recovery.Compaction) (*llm.Request, error) {
	err := r.compact(ctx, step, CauseOverflow, r.About(c.Entry.Provider, c.Entry.Model))
	if errors.Is(err, errNothing) {
		return nil, &recovery.Stopped{Failure: c.Failure, Decision: recovery.Decision{Class: c.Failure.Class, Rule: recovery.RuleCompactOnce}}
	}
	return &r.Request, err
}

// relieve makes a request shorter before it is sent that has grown as long as it may. Where that
// cannot be done, it is sent as it is: the model may still take it.
func (r *Run) relieve(ctx context.Context, step int) error {
	entries := r.Plan.Route.Entries()
	if r.Compaction.Strategy == "" || r.Compaction.Threshold == 0 || len(entries) == 0 {
		return nil
	}
	facts := r.About(entries[0].Provider, entries[0].Model)
	if facts.Context == 0 || float64(r.Request.Needs().Input) < r.Compaction.Threshold*float64(facts.Context) {
		return nil
	}
	err := r.compact(ctx, step, CauseThreshold, facts)
	var stopped *recovery.Stopped
	if errors.Is(err, errNothing) || ctx.Err() == nil && errors.As(err, &stopped) {
		return nil // why is stored with the attempts of the summary
	}
	return err
}

const instruction = `You are given the beginning of a conversation between a user and an assistant that has become too long. Write what the assistant must know of it to go on: what the user wants and has decided, what was done and found out, names, paths, figures and quotations that still matter, and what is open. Be complete and brief. Write no answer to the user and nothing about this task.`

const (
	summaryTokens = 8192 // at most, thinking included
	leastClip     = 200  // bytes that each part keeps at least
)

// summarize asks for a summary, as a side call: its output reaches nobody but the conversation,
// and its attempts say nothing about the run's.
func (r *Run) summarize(ctx context.Context, step int, cause string, messages []llm.Message, facts llm.ModelFacts) (string, error) {
	plan, route := r.Plan, *r.Plan.Route // what it asks counts on the step's bound
	plan.Route, plan.Compact = &route, nil
	answer := int64(summaryTokens)
	if facts.MaxOutput > 0 {
		answer = min(answer, facts.MaxOutput)
	}
	plan.Terms = replay.Terms{Hold: replay.Hold{Mode: replay.HoldWhole}}
	scope := r.Scope
	scope.Step, scope.Lineage = step, "compaction_"+cause
	reply, err := recovery.Do(ctx, plan, replay.New(scope, r.Ledger, r.Origin), nowhere{}, &llm.Request{
		System: instruction, MaxOutputTokens: int(answer),
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(transcript(messages, facts.Context))}}},
	})
	if err != nil {
		var s *recovery.Stopped
		if errors.As(err, &s) {
			return "", &recovery.Stopped{Failure: s.Failure, Decision: s.Decision, Tried: s.Tried} // its output is not the reply's
		}
		return "", err
	}
	var text strings.Builder
	for _, p := range reply.Output.Parts() {
		if p.Kind == llm.PartText {
			text.WriteString(p.Text)
		}
	}
	if strings.TrimSpace(text.String()) == "" {
		return "", &recovery.Stopped{Failure: failure.NewLocal("empty_summary", "The model gave no summary of the conversation that has become too long.")}
	}
	return text.String(), nil
}

// nowhere is where a side call's output goes.
type nowhere struct{}

func (nowhere) Append(context.Context, []llm.Event) error { return nil }

// transcript writes the messages down as one text of half their length, so that whoever could
// almost take them can take it, and of half a window of that many tokens (0: not known). Long
// parts lose their middle.
func transcript(messages []llm.Message, window int64) string {
	parts, size := 0, 0
	each(messages, func(_ string, text string) { parts, size = parts+1, size+len(text) })
	size /= 2
	if window > 0 {
		size = min(size, int(window)*2) // four bytes a token
	}
	room := max(size/max(parts, 1), leastClip)
	short := 0 // parts that leave some of their room to the others
	each(messages, func(_ string, text string) { short += max(room-len(text), 0) })
	room += short / max(parts, 1)
	var b strings.Builder
	each(messages, func(who, text string) { fmt.Fprintf(&b, "%s: %s\n\n", who, clip(text, room)) })
	return b.String()
}

// each calls f for each part that has words, with who says them.
func each(messages []llm.Message, f func(who, text string)) {
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p.Kind {
			case llm.PartText:
				f(map[llm.Role]string{llm.RoleUser: "User", llm.RoleAssistant: "Assistant"}[m.Role], p.Text)
			case llm.PartToolCall:
				f("Assistant calls "+p.Name, p.Arguments)
			case llm.PartToolResult:
				for _, c := range p.Content {
					if c.Kind == llm.PartText {
						f("Result of "+p.Name, c.Text)
					}
				}
			case llm.PartImage:
				f("User", "(an image)")
			}
		}
	}
}

// clip shortens a text to about so many bytes, out of its middle.
func clip(s string, size int) string {
	if len(s) <= size {
		return s
	}
	head, tail := ends(s, size)
	return s[:head] + " […] " + s[tail:]
}

// ends finds where the beginning of a text ends and its end begins, which together are of about so
// many bytes.
func ends(s string, size int) (head, tail int) {
	head, tail = size/2, len(s)-size/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return head, tail
}
