package history

import (
	"fmt"
	"testing"

	"github.com/reprise-run/reprise/llm"
)

var all = Rules{Keep: func(llm.Role, *llm.Part) bool { return true }}

// TestTurnsEnumerated folds every conversation of up to five messages out of the kinds that a
// store can hold, and checks what Turns promises of each (N12, N65, N66).
func TestTurnsEnumerated(t *testing.T) {
	call := func(id string) llm.Part { return llm.Part{Kind: llm.PartToolCall, CallID: id, Name: "t"} }
	result := func(id string) llm.Part {
		return llm.Part{Kind: llm.PartToolResult, CallID: id, Content: []llm.Part{llm.Text(id)}}
	}
	kinds := []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("u")}},
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("")}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("a"), {Kind: llm.PartNotice, Text: "n"}}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{{Kind: llm.PartToolCall, CallID: "a", Cut: true}}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{call("a")}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{call("a"), call("b"), call("a")}},
		{Role: llm.RoleTool, Parts: []llm.Part{result("b"), result("a")}},
		{Role: llm.RoleTool, Parts: []llm.Part{result("a"), llm.Text("x")}},
	}
	var walk func(messages []llm.Message)
	walk = func(messages []llm.Message) {
		promised(t, messages, Turns(messages, all))
		if len(messages) == 5 {
			return
		}
		for _, m := range kinds {
			walk(append(messages[:len(messages):len(messages)], m))
		}
	}
	walk(nil)
}

func promised(t *testing.T, messages []llm.Message, turns []Turn) {
	t.Helper()
	ids := map[string]bool{}
	var open []string
	bad := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nmessages: %+v\nturns: %+v", fmt.Sprintf(format, args...), messages, turns)
	}
	texts := 0
	for i, turn := range turns {
		if want := [...]llm.Role{llm.RoleUser, llm.RoleAssistant}[i%2]; turn.Role != want || len(turn.Parts) == 0 {
			bad("turn %d", i)
		}
		answers := 0
		var calls []string
		for j, p := range turn.Parts {
			switch {
			case p.Kind == llm.PartNotice || p.Cut || p.Kind == llm.PartText && p.Text == "":
				bad("%+v is sent", p)
			case p.Kind == llm.PartToolCall:
				if ids[p.CallID] || p.CallID == "" {
					bad("call id %q", p.CallID)
				}
				ids[p.CallID] = true
				calls = append(calls, p.CallID)
			case p.Kind == llm.PartToolResult:
				if j >= len(open) || open[j] != p.CallID || len(p.Content) == 0 {
					bad("result %d of turn %d", j, i)
				}
				answers++
			case p.Text == "u" || p.Text == "a" || p.Text == "x":
				texts++
			}
		}
		if answers != len(open) {
			bad("%d results for %d calls", answers, len(open))
		}
		open = calls
	}
	if open != nil {
		bad("calls %v are not answered", open)
	}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Kind == llm.PartText && p.Text != "" {
				texts--
			}
		}
	}
	if texts != 0 {
		bad("texts lost or doubled: %d", texts)
	}
}

func TestResultsKeepTheirOwn(t *testing.T) {
	turns := Turns([]llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("u")}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{
			{Kind: llm.PartToolCall, CallID: "x:1", Name: "a"}, {Kind: llm.PartToolCall, CallID: "x.1", Name: "b"}}},
		{Role: llm.RoleTool, Parts: []llm.Part{
			{Kind: llm.PartToolResult, CallID: "x.1", Content: []llm.Part{llm.Text("of b")}},
			{Kind: llm.PartToolResult, CallID: "x.1", Content: []llm.Part{llm.Text("of b again")}}}},
	}, Rules{Keep: all.Keep, CallID: func(string) string { return "same" }})
	got := turns[2].Parts
	if len(got) != 2 || got[0].CallID != "same" || got[0].Name != "a" || !got[0].IsError || got[0].Content[0].Text != noResult ||
		got[1].CallID != "same_2" || got[1].Name != "b" || got[1].IsError || got[1].Content[0].Text != "of b" {
		t.Errorf("%+v", got)
	}
}

func TestArguments(t *testing.T) {
	for s, want := range map[string]string{
		"": "{}", `{"a": 1}`: `{"a": 1}`, "null": `{"arguments":"null"}`, "[1]": `{"arguments":"[1]"}`, `{"a`: `{"arguments":"{\"a"}`,
	} {
		if got := string(Arguments(s)); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
