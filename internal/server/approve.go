package server

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/agent"
)

// What the operator says of a tool; empty: a tool with an effect asks.
const (
	toolAllow = "allow"
	toolAsk   = "ask"
	toolDeny  = "deny"
)

// pattern is a tool's name, in which * stands for any characters.
var pattern = regexp.MustCompile(`^[a-zA-Z0-9_*-]{1,64}$`)

// check finds what is wrong with the settings of approvals.
func (t Tools) check(bad func(key, format string, args ...any)) {
	for _, p := range slices.Sorted(maps.Keys(t.Approve)) {
		if !pattern.MatchString(p) {
			bad("tools.approve", "%q is not the name of a tool: letters, digits, _ and -, with * for any of them", p)
		}
		switch t.Approve[p] {
		case "", toolAllow, toolAsk, toolDeny:
		default:
			bad("tools.approve", "%s: want allow, ask or deny, or nothing: to ask for an effect", p)
		}
	}
	if t.ApprovalTimeout <= 0 {
		bad("tools.approval_timeout", "want a time above 0")
	}
}

// policy says which tools are offered, and which are asked about.
type policy struct{ words map[string]string }

// of is what the longest pattern says that a name matches; of two that are as long, the stricter.
func (p policy) of(name string) (word string) {
	longest, order := -1, []string{toolAllow, "", toolAsk, toolDeny}
	for pattern, w := range p.words {
		if n := len(pattern); matches(pattern, name) && (n > longest || n == longest && slices.Index(order, w) > slices.Index(order, word)) {
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

// matches reports whether a name is one that the pattern stands for.
func matches(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	for i := len(first); i <= len(name); i++ {
		if matches(rest, name[i:]) {
			return true
		}
	}
	return false
}

// apply returns the tools that may be offered, each with what it needs to start.
func (p policy) apply(tools []agent.Tool) []agent.Tool {
	out := make([]agent.Tool, 0, len(tools))
	for _, t := range tools {
		if word := p.word(t); word != toolDeny {
			traits := t.Traits()
			traits.Ask = word == toolAsk
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
