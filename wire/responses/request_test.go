package responses_test

import (
	"testing"

	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/responses"
)

// What was encoded is read as it was, and what no other dialect can be told is lost by its name.
func TestReadRequest(t *testing.T) {
	wiretest.Reads(t, responses.Codec{}, map[string]string{
		"provider_state":        "store",
		"provider_tool_by_name": "tools[0].type: googleSearch is a tool of the provider",
		"provider_tools":        "tools[1].type: web_search_20250305 is a tool of the provider",
	})
	for _, c := range [][2]string{
		{`{"model":"m","input":"hi","instructions":"a","store":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low","summary":"auto"},"text":{"verbosity":"medium"},"prompt_cache_key":"k","tool_choice":"auto","tools":[{"type":"function","name":"f","parameters":{},"strict":false}]}`,
			""},
		{`{"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]},{"role":"user","content":"x"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null},{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{}","status":"completed"},{"type":"function_call_output","call_id":"c","output":"y"}]}`,
			""},
		{`{"input":"hi","previous_response_id":"r","conversation":"c","store":true,"background":true,"truncation":"auto","text":{"format":{"type":"json_schema"}}}`,
			"store; background; truncation; text.format; conversation; and 1 more"},
		{`{"input":[{"type":"item_reference","id":"x"},{"type":"compaction","encrypted_content":"e"},{"role":"user","content":[{"type":"input_image","file_id":"f"}]}],"tools":[{"type":"web_search"},{"type":"function","name":"f","strict":true}]}`,
			"input[0].type: item_reference has no word in other dialects; input[1].type: compaction has no word in other dialects; input[2].content[0].file_id; tools[0].type: web_search is a tool of the provider; tools[1].strict"},
	} {
		wiretest.Loses(t, responses.Codec{}, c[0], c[1])
	}
}

// No body breaks the reading, and what is read can be said or is refused.
func FuzzReadRequest(f *testing.F) {
	wiretest.FuzzReads(f, responses.Codec{})
}
