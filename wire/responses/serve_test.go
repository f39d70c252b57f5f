package responses_test

import (
	"testing"

	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/responses"
)

// What decides where a request goes, and whether the provider may act for it.
func TestHead(t *testing.T) {
	s := responses.Codec{}
	for body, want := range map[string]string{
		`{"model":"m","input":"hi","stream":true,"max_output_tokens":7,"store":true,"previous_response_id":"r"}`:                                           "m true 7",
		`{"model":"m","tools":[{"type":"function"},{"type":"custom"},{"type":"local_shell"},{"type":"apply_patch"}]}`:                                      "m false 0",
		`{"model":"m","tools":[{"type":"web_search"},{"type":"mcp"},{"type":"code_interpreter"},{"type":"new"}]}`:                                          "m false 0 web_search (reads) mcp code_interpreter new",
		`{"model":"m","tools":[{"type":"namespace","name":"n","tools":[{"type":"function"},{"type":"custom"}]},{"type":"web_search_preview_2025_03_11"}]}`: "m false 0 web_search_preview_2025_03_11 (reads)",
		`{"model":"m","tools":[{"type":"namespace","tools":[{"type":"mcp"},{"type":"namespace","tools":[]}]}]}`:                                            "m false 0 mcp namespace",
		`{"model":"m","background":true}`:                      "m false 0 state",
		`{"model":"m","conversation":{"id":"c"}}`:              "m false 0 state",
		`{"model":"m","background":false,"conversation":null}`: "m false 0",
	} {
		wiretest.Head(t, s, body, want)
	}
	wiretest.NoHead(t, s)
}
