package messages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/messages"
)

// A thought that came across is sent back by its client, and goes no further; what a provider has
// signed does.
func TestForeignThoughtsGoNoFurther(t *testing.T) {
	w := messages.Codec{}.NewWriter(nil, true)
	var frame []byte
	for _, e := range []llm.Event{{Kind: llm.EventStart, ID: "x", Name: "m"}, {Kind: llm.EventThinking, Text: "Hm."}, {Kind: llm.EventText, Part: 1, Text: "Hi."}, {Kind: llm.EventDone, Stop: llm.StopEnd}} {
		said, err := w.Write(nil, &e)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range said {
			frame = append(frame, s.Raw...)
		}
	}
	_, rest, _ := strings.Cut(string(frame), `"content":[`)
	blocks, _, _ := strings.Cut(rest, "],")
	thought, text, _ := strings.Cut(blocks, "},")
	thought += "}"
	own := `{"type":"thinking","thinking":"Mine.","signature":"c2ln"}`
	const body = `{"model":"m","stream":true, "messages":[ {"role":"user","content":"<x>"},{"role":"assistant","content":[%s]},{"role":"assistant","content":[%s]},{"role":"user","content":%q}]}`
	got, err := messages.Codec{}.Encode(&llm.Request{Model: "m", Raw: fmt.Appendf(nil, body, own+","+thought+","+text, thought, "it said "+thought)})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"model":"m","stream":true, "messages":[{"role":"user","content":"\u003cx\u003e"},{"role":"assistant","content":[%s]},{"role":"user","content":%q}]}`, own+","+text, "it said "+thought)
	if string(got) != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
}
