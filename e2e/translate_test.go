package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A chain goes on in another dialect: the client of Messages gets its tool call and its answer from
// a model of Chat Completions, and a request that this one cannot be told is refused by the field.
func TestChainAcrossDialects(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, up.config("ok-fast", "  mixed: [messages/always-503, chat/tool-fast]\n  other: [chat/ok-fast]\n"+everyRetry))
	ask := func(body string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(within(t), http.MethodPost, s.Base+"/v1/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", s.Token)
		r.Header.Set("Anthropic-Version", "2023-06-01")
		resp, err := s.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(got)
	}
	const request = `{"model":%q,"max_tokens":500,"stream":%t,"system":[{"type":"text","text":"Be exact.","cache_control":{"type":"ephemeral"}}],
		"tools":[{"name":"clock","input_schema":{"type":"object","properties":{}}}],"messages":[{"role":"user","content":"What time is it?"}%s]%s}`
	var answer struct {
		Role    string           `json:"role"`
		Content []map[string]any `json:"content"`
		Stop    string           `json:"stop_reason"`
	}
	resp, body := ask(fmt.Sprintf(request, "mixed", false, "", ""))
	if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.Header.Get("X-Reprise-Model") != "chat/tool-fast" || answer.Stop != "tool_use" || len(answer.Content) != 2 {
		t.Fatalf("%d %v %v: %s", resp.StatusCode, resp.Header, err, body)
	}
	call := answer.Content[1]
	turn, err := json.Marshal(answer.Content)
	if err != nil {
		t.Fatal(err)
	}
	more := fmt.Sprintf(`,{"role":"assistant","content":%s},{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"12:00 sharp"}]}`, turn, call["id"])
	resp, body = ask(fmt.Sprintf(request, "mixed", true, more, ""))
	if call["name"] != "clock" || resp.StatusCode != 200 || !strings.Contains(body, "12:00 sharp") || !strings.Contains(body, "event: message_stop") {
		t.Errorf("%v: %d %s", call, resp.StatusCode, body)
	}
	total := up.quiet(t).Total
	resp, body = ask(fmt.Sprintf(request, "other", true, "", `,"top_k":5`))
	if resp.StatusCode != 400 || resp.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, "top_k") || !strings.Contains(body, `"type":"invalid_request_error"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if n := up.quiet(t).Total; n != total {
		t.Errorf("%d requests for what cannot be told", n-total)
	}
}
