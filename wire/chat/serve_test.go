package chat_test

import (
	"testing"

	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
)

// What decides where a request goes, and whether the provider may act for it.
func TestHead(t *testing.T) {
	s := chat.Codec{}
	for body, want := range map[string]string{
		`{"model":"m","stream":true,"max_tokens":7,"messages":[{"role":"user","content":"\"model\":\"x\""}]}`: "m true 7",
		`{"messages":[],"model":"vendor\u002fm","max_completion_tokens":8}`:                                   "vendor/m false 8",
		`{"model":"m","tools":[{"type":"function","function":{}},{"type":"custom"},{"type":"web_search"}]}`:   "m false 0 web_search (reads)",
		`{"model":"m","tools":null,"web_search_options":{},"plugins":[{"id":"web"}]}`:                         "m false 0 web_search (reads) plugins",
		`{"model":"m","web_search_options":null,"plugins":[],"stream":null}`:                                  "m false 0",
		`{"model":"m","max_completion_tokens":900,"max_tokens":1,"n":4,"n":2}`:                                "m false 900x4",
		`{"model":"m","max_tokens":-5,"n":-1}`:                                                                "m false 0",
	} {
		wiretest.Head(t, s, body, want)
	}
	wiretest.NoHead(t, s)
}
