package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// A session's model is offered what its setting names, from the next run on; a pattern that is none
// is refused, and changes nothing.
func TestOfferedTools(t *testing.T) {
	names := []string{"clock", "read_file", "edit_file", "files_read"}
	cases := []struct {
		patterns, want string
	}{
		{"", "clock read_file edit_file files_read"},
		{"*", "clock read_file edit_file files_read"},
		{"none", ""},
		{"read_file clock", "clock read_file"},
		{"*_file", "read_file edit_file"},
		{"*read* read_file", "read_file files_read"},
		{"[a-e]* none", "clock edit_file"},
		{"Clock", ""},
	}
	w := newWorld(t, slices.Repeat([][]llmtest.Step{say("done")}, len(cases))...)
	var tools []agent.Tool
	for _, n := range names {
		tools = append(tools, &tool{name: n})
	}
	w.cfg.Tools = toolbox(tools...)
	w.start()
	for i, c := range cases {
		set := session.Settings{Tools: strings.Fields(c.patterns)}
		if _, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Settings: &set}); err != nil {
			t.Fatal(err)
		}
		w.ask("hi")
		var got []string
		for _, tool := range w.provider.Requests()[i].Tools {
			got = append(got, tool.Name)
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%q offers %v, want %s", c.patterns, got, c.want)
		}
	}
	for _, bad := range []session.Settings{{Tools: []string{"clock", "["}}, {Tools: []string{""}}, {MaxSteps: -1}} {
		_, err := w.m.PatchSession(t.Context(), "ann", w.id, session.SessionPatch{Settings: &bad})
		refused(t, err, session.CodeValidation)
		_, err = w.m.CreateSession(t.Context(), "ann", session.NewSession{Settings: bad})
		refused(t, err, session.CodeValidation)
	}
	if s, err := w.m.Session(t.Context(), w.id); err != nil || !slices.Equal(s.Settings.Tools, []string{"Clock"}) {
		t.Errorf("%v, %v", s.Settings.Tools, err)
	}
}
