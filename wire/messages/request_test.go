package messages_test

import (
	"testing"

	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/messages"
)

// What was encoded is read as it was, and what no other dialect can be told is lost by its name.
func TestReadRequest(t *testing.T) {
	wiretest.Reads(t, messages.Codec{}, map[string]string{
		"opaque":         "messages[1].content[0].type: container_upload has no word in other dialects",
		"provider_tools": "tools[1].type: web_search_20250305 is a tool of the provider",
	})
	for _, c := range [][2]string{
		{`{"model":"m","max_tokens":9,"stream":true,"metadata":{"user_id":"u"},"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"i","name":"n","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"r","is_error":true}]}],"tools":[{"name":"n","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],"tool_choice":{"type":"auto"},"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}}`,
			""},
		{`{"messages":[{"role":"user","content":"x"}],"top_k":5,"tools":[{"name":"n"},{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"any","disable_parallel_tool_use":true},"output_config":{"format":{}},"mcp_servers":[{"url":"u"}],"container":"c"}`,
			"tools[1].type: web_search_20250305 is a tool of the provider; tools[2].type: bash_20250124 is a tool of the provider; tool_choice.disable_parallel_tool_use; output_config.format; mcp_servers; and 2 more"},
		{`{"messages":[{"role":"user","content":[{"type":"document","source":{}},{"type":"image","source":{"type":"file","file_id":"f"}}]}]}`,
			"messages[0].content[0].type: document has no word in other dialects; messages[0].content[1].source.type; messages[0].content[1].source.file_id"},
		{`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"Once"}]}`,
			"messages: the last is the answer's own beginning"},
	} {
		wiretest.Loses(t, messages.Codec{}, c[0], c[1])
	}
}

// No body breaks the reading, and what is read can be said or is refused.
func FuzzReadRequest(f *testing.F) {
	wiretest.FuzzReads(f, messages.Codec{})
}
