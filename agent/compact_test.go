package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
)

// talk makes a conversation of letters: u and a are what a user and an assistant say, c a call, r
// its result, s what stands for others; a capital one is long.
func talk(letters string) []llm.Message {
	var out []llm.Message
	for i, l := range letters {
		text := string(l) + strings.Repeat(" word", 20)
		if l < 'a' {
			text += strings.Repeat(" word", 400)
		}
		switch l | 0x20 {
		case 'u':
			out = append(out, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}})
		case 's':
			out = append(out, Told(text))
		case 'a':
			out = append(out, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text(text)}})
		case 'c':
			out = append(out, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Kind: llm.PartToolCall, CallID: fmt.Sprint(i), Name: "t", Arguments: "{}"}}})
		case 'r':
			out = append(out, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{{Kind: llm.PartToolResult, CallID: fmt.Sprint(i - 1), Name: "t", Content: []llm.Part{llm.Text(text)}}}})
		}
	}
	return out
}

// The last turns stay, the message that is being answered always does, and no result loses its
// call (K-151).
func TestCut(t *testing.T) {
	for _, c := range []struct {
		talk  string
		turns int
		want  string // what stays, after what stands for the rest; empty: nothing can go
	}{
		{"uauauau", 2, "uau"},
		{"uauauau", 1, "u"},
		{"uauaUau", 2, "u"}, // two turns are more than half
		{"uau", 2, "u"},
		{"u", 2, ""},
		{"", 2, ""},
		{"su", 1, ""},
		{"sau", 2, "u"},
		{"sUau", 2, "u"},
		{"ucr", 1, ""}, // the newest step stays
		{"ucrcrcrcr", 1, "ucrcr"},
		{"uauCRcrcr", 1, "ucrcr"},
		{"uaucRcR", 1, "ucR"},
		{"scrUcRcRcR", 1, "UcRcR"},
		{"uuuu", 2, "uu"},
		{"aaau", 2, "u"},
	} {
		messages := talk(c.talk)
		cut, ok := cut(messages, c.turns, 0)
		if ok != (c.want != "") {
			t.Errorf("%s: %v, %+v", c.talk, ok, cut)
			continue
		}
		if !ok {
			continue
		}
		got := ""
		if cut.Held >= 0 {
			got = c.talk[cut.Held : cut.Held+1]
		}
		if got += c.talk[cut.First:]; got != c.want {
			t.Errorf("%s of %d turns: %s stays, want %s", c.talk, c.turns, got, c.want)
		}
		left := cut.apply(messages)
		if left[0].Role != llm.RoleUser || len(left) != 1+len(got) {
			t.Errorf("%s: %d messages", c.talk, len(left))
		}
	}
}

// A window that is known bounds what stays, also where half of the conversation is larger.
func TestCutForASmallWindow(t *testing.T) {
	messages := talk("uauauaua")
	size := (&llm.Request{Messages: messages}).Needs().Input
	if c, ok := cut(append(messages, talk("u")...), 4, 0); !ok || c.First != 6 {
		t.Errorf("without a window: %+v", c)
	}
	if c, ok := cut(append(messages, talk("u")...), 4, size/3); !ok || c.First != 8 {
		t.Errorf("with a small one: %+v", c)
	}
	if text := transcript(talk("UAUA"), 500); len(text) > 1200 {
		t.Errorf("a transcript of %d bytes for 500 tokens", len(text))
	}
}

// A transcript is about half as long as what it is of, and has something of every part.
func TestTranscript(t *testing.T) {
	messages := talk("UaCRuACR")
	messages = append(messages, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("ä" + strings.Repeat("ö", 999))}})
	size := 0
	each(messages, func(_, text string) { size += len(text) })
	text := transcript(messages, 0)
	if len(text) > size*6/10 || !strings.Contains(text, " […] ") || strings.ContainsRune(text, '�') {
		t.Errorf("%d bytes of %d", len(text), size)
	}
	for _, who := range []string{"User: U word", "User: ä", "Assistant: a word", "Assistant: A word", "Assistant calls t: {}", "Result of t: R word"} {
		if !strings.Contains(text, who) {
			t.Errorf("%q is not there", who)
		}
	}
}
