// Package history folds a conversation into the turns that strict dialects accept.
//
// Whatever the messages are (a failed run's tail, a call that was never answered, a result
// whose call was compacted away), Turns promises this:
//   - turns alternate, and the first is the user's;
//   - notices, calls that were cut off and empty texts are gone;
//   - call ids are unique, and each assistant turn's calls are answered at the beginning of
//     the next turn, in call order, exactly once: a missing result is a failed one that says
//     so, and a result without its call is left out.
//
// It does not judge who made a part: the caller has taken out what belongs to another provider.
package history

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/reprise-run/reprise/llm"
)

// What stands in for what a conversation lacks.
const (
	noResult = "No result was recorded for this call. It may or may not have run."
	noStart  = "(The beginning of this conversation was left out.)"
)

// Turn is one side's whole say. Its role is RoleUser or RoleAssistant.
type Turn struct {
	Role  llm.Role
	Parts []llm.Part
}

// Rules say what a dialect accepts.
type Rules struct {
	// Keep reports whether a part can be sent in a turn of that role.
	Keep func(role llm.Role, p *llm.Part) bool
	// CallID makes an id acceptable; nil: every id is.
	CallID func(string) string
}

// Turns folds the messages. Their parts are not changed.
func Turns(messages []llm.Message, rules Rules) []Turn {
	f := folder{rules: rules, ids: map[string]bool{}}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Kind == llm.PartNotice || p.Cut || p.Kind == llm.PartText && p.Text == "" {
				continue
			}
			switch role := speaker(m.Role); {
			case !rules.Keep(role, &p):
			case role == llm.RoleAssistant:
				f.assistant(p)
			case p.Kind == llm.PartToolResult:
				f.result(p)
			default:
				f.last(llm.RoleUser).add(p)
			}
		}
	}
	f.settle()
	return f.turns
}

func speaker(r llm.Role) llm.Role {
	if r == llm.RoleAssistant {
		return r
	}
	return llm.RoleUser
}

type folder struct {
	rules    Rules
	turns    []Turn
	ids      map[string]bool
	calls    []call // of the last assistant turn
	answered bool   // one of them at least
}

type call struct {
	asked    string // its id in the messages
	answered bool
	result   llm.Part
}

func (t *Turn) add(p llm.Part) { t.Parts = append(t.Parts, p) }

// last returns the turn at the end, and begins one where that is the other side's.
func (f *folder) last(role llm.Role) *Turn {
	if n := len(f.turns); n == 0 || f.turns[n-1].Role != role {
		f.turns = append(f.turns, Turn{Role: role})
	}
	return &f.turns[len(f.turns)-1]
}

func (f *folder) assistant(p llm.Part) {
	switch n := len(f.turns); {
	case n == 0:
		f.last(llm.RoleUser).add(llm.Text(noStart))
	case f.answered || f.turns[n-1].Role == llm.RoleUser:
		f.settle()
	}
	if p.Kind == llm.PartToolCall {
		asked := p.CallID
		p.CallID = f.unique(asked)
		f.calls = append(f.calls, call{asked: asked, result: llm.Part{
			Kind: llm.PartToolResult, CallID: p.CallID, Name: p.Name,
			Content: []llm.Part{llm.Text(noResult)}, IsError: true,
		}})
	}
	f.last(llm.RoleAssistant).add(p)
}

func (f *folder) result(p llm.Part) {
	for i := range f.calls {
		c := &f.calls[i]
		if c.asked == p.CallID && !c.answered {
			p.CallID, p.Name = c.result.CallID, c.result.Name
			c.answered, c.result = true, p
			f.answered = true
			return
		}
	}
}

// settle puts the results before whatever else the user says in that turn.
func (f *folder) settle() {
	if len(f.calls) == 0 {
		return
	}
	t := f.last(llm.RoleUser)
	parts := make([]llm.Part, 0, len(f.calls)+len(t.Parts))
	for _, c := range f.calls {
		parts = append(parts, c.result)
	}
	t.Parts = append(parts, t.Parts...)
	f.calls, f.answered = nil, false
}

func (f *folder) unique(id string) string {
	if f.rules.CallID != nil {
		id = f.rules.CallID(id)
	}
	if id == "" {
		id = "call"
	}
	free := id
	for n := 2; f.ids[free]; n++ {
		free = id + "_" + strconv.Itoa(n)
	}
	f.ids[free] = true
	return free
}

// Instruct adds to what is said before the conversation. Until an answer was given, a request that
// says its instructions later means the same. It reports false where one was.
func Instruct(req *llm.Request, text string) bool {
	if slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return m.Role == llm.RoleAssistant }) {
		return false
	}
	if req.System != "" {
		req.System += "\n\n"
	}
	req.System += text
	return true
}

// Arguments returns a call's arguments as the JSON object that dialects demand. What the
// model wrote otherwise is kept as the text of a field "arguments".
func Arguments(s string) json.RawMessage {
	if s == "" {
		return json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &object) == nil && object != nil {
		return json.RawMessage(s)
	}
	wrapped, err := json.Marshal(map[string]string{"arguments": s})
	if err != nil {
		panic(err) // a map of strings always marshals
	}
	return wrapped
}
