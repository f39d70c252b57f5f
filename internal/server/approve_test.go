package server

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// named is a tool of that name, which never runs.
type named struct {
	name string
	is   agent.Traits
}

func (n named) Spec() llm.Tool       { return llm.Tool{Name: n.name} }
func (n named) Traits() agent.Traits { return n.is }
func (n named) Run(context.Context, json.RawMessage, func(agent.Progress)) ([]llm.Part, error) {
	return nil, nil
}

// The longest pattern decides, of two that are as long the stricter one; without one, an effect
// asks. What is denied is not offered.
func TestPolicy(t *testing.T) {
	p := policy{map[string]string{
		"*": "", "files_*": "ask", "files_read*": "allow", "files_read_all": "deny", "a*": "allow", "*a": "ask", "run": "allow",
	}}
	for _, c := range []struct {
		name string
		is   agent.Traits
		want string
	}{
		{"clock", agent.Traits{}, "allow"},
		{"write", agent.Traits{Effect: true}, "ask"},
		{"careful", agent.Traits{Ask: true}, "ask"},
		{"files_list", agent.Traits{}, "ask"},
		{"files_read", agent.Traits{Effect: true}, "allow"},
		{"files_read_all", agent.Traits{}, "deny"},
		{"aa", agent.Traits{}, "ask"},
		{"run", agent.Traits{Effect: true, Ask: true, Parallel: true}, "allow"},
	} {
		tool := named{c.name, c.is}
		if got := p.word(tool); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		offered := p.apply([]agent.Tool{tool})
		if len(offered) == 0 {
			if c.want != "deny" {
				t.Errorf("%s is not offered", c.name)
			}
			continue
		}
		is := offered[0].Traits()
		if is.Ask != (c.want == "ask") || is.Effect != c.is.Effect || is.Parallel != c.is.Parallel || offered[0].Spec().Name != c.name {
			t.Errorf("%s: %+v", c.name, is)
		}
	}
}
