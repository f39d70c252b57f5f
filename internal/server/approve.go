package server

import (
	"maps"
	"path"
	"slices"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// What the operator says of a tool; empty: a tool with an effect asks.
const (
	toolAllow = "allow"
	toolAsk   = "ask"
	toolDeny  = "deny"
)

// check finds what is wrong with the settings of approvals.
func (t Tools) check(bad func(key, format string, args ...any)) {
	for _, p := range slices.Sorted(maps.Keys(t.Approve)) {
		if _, err := path.Match(p, ""); p == "" || err != nil {
			bad("tools.approve", "%q is not a name or pattern", p)
		}
		switch t.Approve[p] {
		case "", toolAllow, toolAsk, toolDeny:
		default:
			bad("tools.approve", "%s: want allow, ask or deny, or nothing: to ask for an effect", p)
		}
	}
	if s := t.Subagents; s.Depth < 1 || s.MaxSteps < 0 || s.Spend < 0 {
		bad("tools.subagents", "want a depth of 1 or more, and nothing below 0")
	}
	if t.ApprovalTimeout <= 0 {
		bad("tools.approval_timeout", "want a time above 0")
	}
}

// subagents are those that the operator allows. To delegate is asked about only where it says so:
// what a subagent does is asked about in its own session.
func (t Tools) subagents() session.Subagents {
	word := policy{t.Approve}.of(session.DelegateTool)
	if !t.Subagents.Enabled || word == toolDeny {
		return session.Subagents{}
	}
	return session.Subagents{Depth: t.Subagents.Depth, MaxSteps: t.Subagents.MaxSteps,
		Spend: llm.Money(t.Subagents.Spend), Ask: word == toolAsk}
}

// policy says which tools are offered, and which are asked about.
type policy struct{ words map[string]string }

// of is what the longest pattern says that a name matches; of two that are as long, the stricter.
func (p policy) of(name string) (word string) {
	longest, order := -1, []string{toolAllow, "", toolAsk, toolDeny}
	for pattern, w := range p.words {
		ok, err := path.Match(pattern, name)
		if n := len(pattern); ok && err == nil && (n > longest || n == longest && slices.Index(order, w) > slices.Index(order, word)) {
			longest, word = n, w
		}
	}
	return word
}

// word is what becomes of a tool that is called.
func (p policy) word(t agent.Tool) string {
	if w := p.of(t.Spec().Name); w != "" {
		return w
	}
	if traits := t.Traits(); traits.Ask || traits.Effect {
		return toolAsk
	}
	return toolAllow
}

// apply returns the tools that may be offered, each with what it needs to start.
func (p policy) apply(tools []agent.Tool) []agent.Tool {
	out := make([]agent.Tool, 0, len(tools))
	for _, t := range tools {
		word, traits := p.word(t), t.Traits()
		if traits.Ask = word == toolAsk; word != toolDeny {
			out = append(out, governed{t, traits})
		}
	}
	return out
}

// governed is a tool under the operator's policy.
type governed struct {
	agent.Tool
	traits agent.Traits
}

// Traits implements agent.Tool.
func (g governed) Traits() agent.Traits { return g.traits }
