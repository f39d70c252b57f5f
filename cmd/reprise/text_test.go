package main

import (
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// Text comes as it is published, merged in a snapshot, and in messages; it is written once.
func TestTranscript(t *testing.T) {
	output := func(step int, text string) *session.Output {
		return &session.Output{RunID: "run_1", Step: step, Events: []llm.Event{{Kind: llm.EventText, Text: text}}}
	}
	message := func(run session.RunID, step int, text string) *session.Message {
		return &session.Message{RunID: run, Step: step, Role: session.RoleReply, Parts: []llm.Part{llm.Text(text)}}
	}
	var out strings.Builder
	text := transcript{to: &out}
	text.skip(message("run_0", 0, "Of yesterday."))
	for i, step := range []struct {
		take func() error
		want string // all that was written until then
	}{
		{func() error { return text.message(message("run_0", 0, "Of yesterday.")) }, ""},
		{func() error { return text.output(output(0, "One, ")) }, "One, "},
		{func() error { return text.merged(output(0, "One, two, ")) }, "One, two, "}, // after a lost connection
		{func() error { return text.output(output(0, "three")) }, "One, two, three"},
		{func() error { return text.message(message("run_1", 0, "One, two, three.")) }, "One, two, three."},
		{func() error { return text.output(output(0, "three.")) }, "One, two, three."}, // it comes late
		{func() error { return text.output(output(1, "Next.\n")) }, "One, two, three.\nNext.\n"},
		{text.endLine, "One, two, three.\nNext.\n"},
		{func() error { return text.message(message("run_2", 0, "Whole")) }, "One, two, three.\nNext.\nWhole"},
		{text.endLine, "One, two, three.\nNext.\nWhole\n"},
	} {
		if err := step.take(); err != nil || out.String() != step.want {
			t.Fatalf("step %d: wrote %q, want %q; %v", i, out.String(), step.want, err)
		}
	}
}
