package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/responses"
)

// A thought that came across is sent back by its client, with its id, its proof or both, and goes
// no further.
func TestForeignThoughtsGoNoFurther(t *testing.T) {
	w := responses.Codec{}.NewWriter(nil, true)
	var frame string
	for _, e := range []llm.Event{{Kind: llm.EventThinking, Text: "Hm."}, {Kind: llm.EventText, Part: 1, Text: "Hi."}, {Kind: llm.EventDone, Stop: llm.StopEnd}} {
		said, err := w.Write(nil, &e)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range said {
			frame += string(s.Raw)
		}
	}
	_, rest, _ := strings.Cut(frame, `"encrypted_content":"`)
	proof, _, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatal(frame)
	}
	const own = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"}`
	body := fmt.Sprintf(`{"model":"m","stream":true,"input":[{"role":"user","content":%q},{"type":"reasoning","summary":[],"encrypted_content":%q},{"type":"reasoning","id":%q,"summary":[]},%s]}`,
		proof, proof, proof, own)
	got, err := responses.Codec{}.Encode(&llm.Request{Model: "m", Raw: []byte(body)})
	want := fmt.Sprintf(`{"model":"m","stream":true,"input":[{"role":"user","content":%q},%s]}`, proof, own)
	if err != nil || string(got) != want {
		t.Errorf("sent %v\n%s\nwant\n%s", err, got, want)
	}
	plain := fmt.Sprintf(`{"model":"m","stream":true,"input":%q}`, "what is "+proof)
	if got, err := (responses.Codec{}).Encode(&llm.Request{Model: "m", Raw: []byte(plain)}); err != nil || string(got) != plain {
		t.Errorf("sent %v %s", err, got)
	}
}
