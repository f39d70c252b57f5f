package explore

import (
	"fmt"
	"slices"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// scenario is what a set of schedules has in common: what the provider answers, how the server
// is configured, and what operator and fate may do.
type scenario struct {
	name    string
	scripts []string // see provider
	acts    []string // keys of acts, and: fail, crash, pause, conflict
	hold    replay.Hold
	bound   int      // requests a step; 0: 4
	nodes   int      // 1, or 2: a second one takes runs over whose lease has ended
	models  []string // the chain's providers; none: one
	beside  bool     // the second node is there from the start, and the operator acts there after the first message
	watched bool     // a page watches the session
	loops   bool     // also what the node's own loops do may be late: outbox, leases, delivery to pages
	policy  func(*recovery.Policy)
}

func (sc *scenario) may(what string) bool { return slices.Contains(sc.acts, what) }

func (sc *scenario) script(n int) string { return sc.scripts[min(n, len(sc.scripts)-1)] }

func (sc *scenario) chain() []string {
	if sc.models == nil {
		return []string{"script"}
	}
	return sc.models
}

func (sc *scenario) requests() int {
	if sc.bound == 0 {
		return 4
	}
	return sc.bound
}

// oneAttempt leaves everything to the second tier.
func oneAttempt(p *recovery.Policy) { p.Tier1.Attempts = 1 }

// whole holds everything until an attempt has succeeded.
var whole = replay.Hold{Mode: replay.HoldWhole}

func scenarioNamed(name string) (*scenario, error) {
	for _, sc := range scenarios {
		if sc.name == name {
			return sc, nil
		}
	}
	return nil, fmt.Errorf("there is no scenario %q", name)
}

var scenarios = []*scenario{
	{name: "answer", scripts: []string{"pttd"}, nodes: 1,
		acts: []string{"fail", "crash", "cancel", "post another", "regenerate", "conflict"}},
	{name: "held answer", scripts: []string{"httd"}, hold: whole, nodes: 1,
		acts: []string{"fail", "crash", "cancel", "conflict"}},
	{name: "failure, then an answer", scripts: []string{"x", "px", "td"}, nodes: 1,
		acts: []string{"crash", "cancel", "post another", "conflict"}},
	{name: "hint", scripts: []string{"r", "td"}, nodes: 1,
		acts: []string{"crash", "cancel", "regenerate", "retry now"}},
	{name: "failure that stays", scripts: []string{"pn", "td"}, nodes: 1,
		acts: []string{"crash", "cancel", "regenerate", "post another"}},
	{name: "bound", scripts: []string{"px", "x", "td"}, bound: 2, nodes: 1,
		acts:   []string{"fail", "crash", "retry now"},
		policy: func(p *recovery.Policy) { p.Tier1.Attempts = 5 }},
	{name: "two tabs", scripts: []string{"x", "r", "td"}, nodes: 1, policy: oneAttempt,
		acts: []string{"crash", "retry now", "retry now in another tab"}},
	{name: "a wait is cancelled", scripts: []string{"x", "r", "td"}, nodes: 1, policy: oneAttempt,
		acts: []string{"cancel", "retry now", "cancel the retry"}},
	{name: "a wait is left", scripts: []string{"x", "r", "td"}, nodes: 1, policy: oneAttempt,
		acts: []string{"crash", "post another", "regenerate"}},
	{name: "tool", scripts: []string{"tcd", "td"}, nodes: 1,
		acts: []string{"fail", "crash", "cancel", "resume", "regenerate", "post another"}},
	{name: "two tools, then a failure", scripts: []string{"ccd", "x", "td"}, nodes: 1,
		acts: []string{"crash", "cancel", "resume", "conflict"}, policy: oneAttempt},
	{name: "held call that is cut", scripts: []string{"pkx", "tkx"}, nodes: 1,
		acts: []string{"crash", "cancel", "conflict"}},
	{name: "stall", scripts: []string{"tz", "z"}, nodes: 1,
		acts: []string{"crash", "cancel", "post another"}},
	{name: "chain", scripts: []string{"r", "px", "td"}, nodes: 1, models: []string{"one", "two"},
		acts: []string{"crash", "cancel", "retry now"}},
	{name: "page", scripts: []string{"ttd", "td"}, nodes: 1, watched: true,
		acts: []string{"reload", "crash", "cancel", "fail"}},
	{name: "late loops", scripts: []string{"ttd"}, nodes: 1, watched: true, loops: true,
		acts: []string{"reload", "crash"}},
	{name: "second node", scripts: []string{"ptd"}, nodes: 2,
		acts: []string{"pause", "fail", "crash", "cancel"}},
	{name: "operator at another node", scripts: []string{"ptd", "td"}, nodes: 2, beside: true,
		acts: []string{"cancel", "post another"}},
	{name: "second node, tool", scripts: []string{"tcd", "td"}, nodes: 2,
		acts: []string{"pause", "cancel", "crash"}},
	{name: "second node, schedule", scripts: []string{"x", "td"}, nodes: 2,
		acts: []string{"pause", "crash", "cancel", "retry now"}, policy: oneAttempt},
}
