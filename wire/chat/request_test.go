package chat_test

import (
	"testing"

	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
)

// What was encoded is read as it was, and what no other dialect can be told is lost by its name.
func TestReadRequest(t *testing.T) {
	wiretest.Reads(t, chat.Codec{}, map[string]string{
		"provider_state":        "store",
		"provider_tool_by_name": "tools[0].type: googleSearch is a tool of the provider",
		"provider_tools":        "tools[1].type: web_search_20250305 is a tool of the provider",
	})
	for _, c := range [][2]string{
		{`{"model":"m","messages":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b"}]},{"role":"user","content":"hi"}],"user":"u","metadata":{},"service_tier":"auto","stream_options":{"include_usage":true},"n":1,"response_format":{"type":"text"},"parallel_tool_calls":true,"logprobs":null,"seed":null}`,
			""},
		{`{"messages":[{"role":"user","content":"hi"}],"seed":1,"logprobs":true,"response_format":{"type":"json_object"},"n":2,"parallel_tool_calls":false}`,
			"n; logprobs; parallel_tool_calls; response_format; seed"},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"file","file":{"file_id":"f"}},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"high"}}],"name":"bob"}]}`,
			"messages[0].content[1].type: file has no word in other dialects; messages[0].content[2].image_url.detail; messages[0].name"},
		{`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"x"},{"role":"system","content":"b"},{"role":"user","content":"c"}]}`,
			"messages[2]: instructions behind an answer"},
		{`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"Once upon"}]}`,
			"messages: the last is the answer's own beginning"},
		{`{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","strict":true}},{"type":"custom","custom":{"name":"g"}}],"tool_choice":{"type":"allowed_tools"}}`,
			"tools[0].function.strict; tools[1].type: custom has no word in other dialects; tool_choice.type"},
		{`{"messages":7,"tools":[3],"temperature":"hot"}`,
			"temperature: it is not a number; messages: it is not a list; tools[0]: it is not an object"},
		{`[]`,
			"!"},
		{`{`,
			"!"},
	} {
		wiretest.Loses(t, chat.Codec{}, c[0], c[1])
	}
}

// No body breaks the reading, and what is read can be said or is refused.
func FuzzReadRequest(f *testing.F) {
	wiretest.FuzzReads(f, chat.Codec{})
}
