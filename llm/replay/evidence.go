package replay

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"github.com/reprise-run/reprise/llm"
)

// Reasons is a set of reasons why a request may not be sent again by itself. Empty means that
// nothing speaks against it. The effects come first: they are what an attempt is marked with.
type Reasons uint32

const (
	TextShown Reasons = 1 << iota
	ThinkingShown
	ContentShown // images, audio, and kinds we have no word for
	CallShown
	ToolStarted
	ProviderTool
	HookRan    // a hook or subscriber that the operator did not declare observe
	CommandRan // a command of the operator, run meanwhile

	// Missing: no record of the attempt. Unsealed: the attempt has not ended. Stale: it is of
	// an older generation. Evicted: the record was dropped to bound memory.
	Missing
	Unsealed
	Stale
	Evicted
	// RemoteUnknown: the provider may have acted, and may have accepted the request.
	RemoteUnknown
	// NothingCommitted: there is no committed step to go on from.
	NothingCommitted
)

// Effects masks the reasons that are effects: what has happened outside.
const Effects = Missing - 1

var reasonNames = [...]string{"text_shown", "thinking_shown", "content_shown", "call_shown",
	"tool_started", "provider_tool", "hook_ran", "command_ran", "evidence_missing",
	"attempt_open", "evidence_stale", "evidence_evicted", "remote_effect_unknown",
	"nothing_committed"}

// List returns the names of the reasons in the set.
func (r Reasons) List() []string {
	list := make([]string, 0, bits.OnesCount32(uint32(r)))
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

func (r Reasons) String() string { return strings.Join(r.List(), ", ") }

// MarshalJSON writes a list of names.
func (r Reasons) MarshalJSON() ([]byte, error) { return json.Marshal(r.List()) }

// UnmarshalJSON reads a list of names. A name we don't know is an error: dropping it would
// make an unsafe attempt look safe.
func (r *Reasons) UnmarshalJSON(b []byte) error {
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*r = 0
next:
	for _, s := range list {
		for i, name := range reasonNames {
			if name == s {
				*r |= 1 << i
				continue next
			}
		}
		return fmt.Errorf("unknown reason %q", s)
	}
	return nil
}

// State is how far the record of an attempt has come. The zero value is: there is none.
type State uint8

const (
	StateMissing State = iota
	StateOpen
	StateSealed
	StateStale
	StateEvicted
)

var stateNames = [...]string{"missing", "open", "sealed", "stale", "evicted"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return stateNames[StateMissing]
}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name; a name we don't know is an error.
func (s *State) UnmarshalText(b []byte) error {
	for i, n := range stateNames {
		if n == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("unknown evidence state %q", b)
}

// Counts says how much an attempt has published.
type Counts struct {
	Text     int64 `json:"text"`     // characters
	Thinking int64 `json:"thinking"` // characters
	Other    int64 `json:"other"`    // parts of other kinds
	Calls    int64 `json:"calls"`
}

// Evidence is what the ledger holds about one attempt. The zero value is not safe.
type Evidence struct {
	Scope     llm.Scope    `json:"scope"`
	Attempt   string       `json:"attempt"`
	State     State        `json:"state"`
	Marks     Reasons      `json:"marks"` // effects only
	Published Counts       `json:"published"`
	Delivery  llm.Delivery `json:"delivery"`
	// Remote: the request enabled tools that the provider executes, or state that it keeps.
	Remote bool `json:"remote,omitempty"`
}

// Safe reports whether the attempt's request may be sent again by itself, and every reason
// why not.
func (e Evidence) Safe() (bool, Reasons) {
	why := e.Marks & Effects
	switch e.State {
	case StateOpen:
		why |= Unsealed
	case StateSealed:
	case StateStale:
		why |= Stale
	case StateEvicted:
		why |= Evicted
	default:
		why |= Missing
	}
	if e.Attempt == "" || e.Scope == (llm.Scope{}) {
		why |= Missing
	}
	if e.Remote && e.Delivery != llm.NeverSent && e.Delivery != llm.Refused {
		why |= RemoteUnknown
	}
	return why == 0, why
}

// Verb is what an automatic origin wants to do with an earlier run.
type Verb uint8

const (
	// Regenerate answers the operator's message anew: nothing of the run may be observable.
	Regenerate Verb = iota + 1
	// Resume goes on in a new run after the last committed step of the old one.
	Resume
	// Restart goes on in the same run, under a new claim, after its last committed step.
	Restart
)

func (v Verb) String() string {
	switch v {
	case Regenerate:
		return "regenerate"
	case Resume:
		return "resume"
	case Restart:
		return "restart"
	}
	return ""
}

// MarshalText writes the verb's name. What is no verb is an error.
func (v Verb) MarshalText() ([]byte, error) {
	if s := v.String(); s != "" || v == 0 {
		return []byte(s), nil
	}
	return nil, fmt.Errorf("unknown verb %d", uint8(v))
}

// UnmarshalText reads a verb's name; the empty text is no verb.
func (v *Verb) UnmarshalText(b []byte) error {
	for _, w := range []Verb{0, Regenerate, Resume, Restart} {
		if w.String() == string(b) {
			*v = w
			return nil
		}
	}
	return fmt.Errorf("unknown verb %q", b)
}

// RunEvidence is what the ledger holds about a whole run, read in the transaction that
// dispatches or claims. The zero value allows nothing.
type RunEvidence struct {
	Run string `json:"run"`
	// Committed counts the steps whose output, and whose tools' results, are stored.
	Committed int `json:"committed"`
	// Whole unites the reasons of every attempt and tool of the run; Tail those after the
	// last committed step.
	Whole Reasons `json:"whole"`
	Tail  Reasons `json:"tail"`
}

// shown are the effects that only an observer makes: what a side lineage has shown, it has
// shown to us alone.
const shown = TextShown | ThinkingShown | ContentShown | CallShown

// Gather makes the evidence of a run out of that of its attempts. committed is the number of
// committed steps (steps count from 0), tools unites the effects of its tool calls by step.
func Gather(run string, committed int, attempts []Evidence, tools map[int]Reasons) RunEvidence {
	r := RunEvidence{Run: run, Committed: committed}
	add := func(step int, why Reasons) {
		r.Whole |= why
		if step >= committed {
			r.Tail |= why
		}
	}
	for _, e := range attempts {
		_, why := e.Safe()
		if l := e.Scope.Lineage; l != "" && l != llm.LineageMain {
			why &^= shown
		}
		add(e.Scope.Step, why)
	}
	for step, why := range tools {
		add(step, why)
	}
	return r
}

// Allows reports whether the verb may run by itself on this evidence, and every reason why
// not.
func (r RunEvidence) Allows(v Verb) (bool, Reasons) {
	if r.Run == "" {
		return false, Missing
	}
	var why Reasons
	switch v {
	case Regenerate:
		why = r.Whole
	case Resume:
		why = r.Tail
		if r.Committed == 0 {
			why |= NothingCommitted
		}
	case Restart:
		why = r.Tail
	default:
		why = Missing
	}
	return why == 0, why
}
