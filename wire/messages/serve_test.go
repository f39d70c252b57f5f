package messages_test

import (
	"testing"

	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/messages"
)

// What decides where a request goes, and whether the provider may act for it.
func TestHead(t *testing.T) {
	s := messages.Codec{}
	for body, want := range map[string]string{
		`{"model":"m","max_tokens":7,"stream":true,"messages":[]}`:                                                                                   "m true 7",
		`{"model":"m","tools":[{"name":"f"},{"type":"custom"},{"type":"bash_20250124"},{"type":"text_editor_20250728"},{"type":"memory_20250818"}]}`: "m false 0",
		`{"model":"m","tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"code_execution_20250825"}]}`:                              "m false 0 web_search_20250305 (reads) code_execution_20250825",
		`{"model":"m","mcp_servers":[{"type":"url"}],"container":"c"}`:                                                                               "m false 0 mcp state",
		`{"model":"m","mcp_servers":[],"container":null}`:                                                                                            "m false 0",
	} {
		wiretest.Head(t, s, body, want)
	}
	wiretest.NoHead(t, s)
}
