package responses_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/responses"
	"github.com/reprise-run/reprise/wire/sse"
)

func TestTranscripts(t *testing.T) { wiretest.Transcripts(t, responses.Codec{}) }

// What the provider demands of a body, whatever the request was.
func TestRequests(t *testing.T) {
	wiretest.Requests(t, responses.Codec{}, func(t *testing.T, body []byte) {
		var b struct {
			Input []struct {
				Type      string `json:"type"`
				Role      string `json:"role"`
				CallID    string `json:"call_id"`
				Arguments string `json:"arguments"`
				Content   []any  `json:"content"`
			} `json:"input"`
			Stream bool  `json:"stream"`
			Store  *bool `json:"store"`
		}
		if err := json.Unmarshal(body, &b); err != nil {
			t.Fatal(err)
		}
		if !b.Stream || b.Store == nil {
			t.Error("stream and store are not set")
		}
		due := map[string]bool{}
		for i, it := range b.Input {
			switch it.Type {
			case "message":
				if len(it.Content) == 0 {
					t.Errorf("item %d is empty", i)
				}
				if it.Role == "user" && len(due) > 0 {
					t.Errorf("item %d comes before the results of %v", i, due)
				}
			case "function_call":
				due[it.CallID] = true
				if !json.Valid([]byte(it.Arguments)) || len(it.CallID) > 64 {
					t.Errorf("item %d: %+v", i, it)
				}
			case "function_call_output":
				if !due[it.CallID] {
					t.Errorf("item %d answers %q, which nobody asked", i, it.CallID)
				}
				delete(due, it.CallID)
			case "reasoning":
				if i+1 == len(b.Input) || b.Input[i+1].Type == "function_call_output" || b.Input[i+1].Role == "user" {
					t.Errorf("item %d: reasoning that nothing follows", i)
				}
			}
		}
		if len(due) > 0 {
			t.Errorf("no results for %v", due)
		}
	})
}

func TestRawChangesModelAndStreamAlone(t *testing.T) {
	in := `{"model":"a", "input":[{"model":"a"}],"store":true,"previous_response_id":"resp_1"}`
	got, err := responses.Codec{}.Encode(&llm.Request{Model: "m", Raw: []byte(in), Stop: []string{"ignored"}})
	want := `{"stream":true,"model":"m", "input":[{"model":"a"}],"store":true,"previous_response_id":"resp_1"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := (responses.Codec{}).Encode(&llm.Request{Model: "m", Raw: []byte(`nonsense`)}); err == nil {
		t.Error("takes nonsense for a body")
	}
}

func TestEncodeChoosesFields(t *testing.T) {
	for _, c := range []struct {
		req       llm.Request
		has, lack string
	}{
		{req: llm.Request{Model: "gpt-5.2"}, has: `"include":["reasoning.encrypted_content"]`},
		{req: llm.Request{Model: "gpt-4.1"}, has: `"store":false`, lack: "include"},
		{req: llm.Request{Model: "openai/gpt-5-chat-latest"}, has: `"store":false`, lack: "include"},
		{req: llm.Request{Model: "m", ProviderState: true}, has: `"store":true`},
		{req: llm.Request{Model: "m", MaxOutputTokens: 1}, has: `"max_output_tokens":16`},
		{req: llm.Request{Model: "m", MaxOutputTokens: 100}, has: `"max_output_tokens":100`},
		{req: llm.Request{Model: "m", Reasoning: llm.Reasoning{Show: true}}, has: `"reasoning":{"summary":"auto"}`},
		{req: llm.Request{Model: "m", Reasoning: llm.Reasoning{Budget: 50_000}}, has: `"reasoning":{"effort":"high"}`},
		{req: llm.Request{Model: "m", Tools: []llm.Tool{{Name: "a"}}, ToolChoice: "a"}, has: `"tool_choice":{"name":"a","type":"function"}`},
		{req: llm.Request{Model: "m", Tools: []llm.Tool{{Name: "a"}}}, has: `"strict":false`, lack: "tool_choice"},
	} {
		body, err := responses.Codec{}.Encode(&c.req)
		if err != nil || !strings.Contains(string(body), c.has) || c.lack != "" && strings.Contains(string(body), c.lack) {
			t.Errorf("%+v: %s, %v; want %s, not %q", c.req, body, err, c.has, c.lack)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for want, req := range map[string]llm.Request{
		"stop":           {Stop: []string{"x"}},
		"tools":          {Tools: []llm.Tool{{Name: "a", Schema: json.RawMessage("{")}}},
		"provider_tools": {ProviderTools: []llm.ProviderTool{{Name: "a", Config: json.RawMessage("{")}}},
		"messages":       {Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{{Kind: llm.PartImage}}}}},
	} {
		if _, err := (responses.Codec{}).Encode(&req); err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func parts(t *testing.T, transcript string) []llm.Part {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", transcript+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	var out llm.Output
	frames, _ := wiretest.Read(t, responses.Codec{}, bytes.NewReader(body))
	for i := range frames {
		for j := range frames[i] {
			out.Add(&frames[i][j])
		}
	}
	return out.Parts()
}

// What an answer said goes back as the provider demands: reasoning in its encrypted form,
// together with what followed it, and never without.
func TestReasoningRoundTrip(t *testing.T) {
	encode := func(messages ...llm.Message) string {
		body, err := responses.Codec{}.Encode(&llm.Request{Model: "m", Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	ask := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Weather?")}}
	answer := parts(t, "reasoning_and_tools")
	body := encode(ask, llm.Message{Role: llm.RoleAssistant, Parts: answer})
	want := `{"type":"reasoning","id":"rs_0a1b","summary":[{"type":"summary_text","text":"**Planning** the answer\n\n**Checking** it"}],"encrypted_content":"gAAAAABpVR1x9k=="},{"type":"function_call","call_id":"call_xA1"`
	if !strings.Contains(body, want) {
		t.Errorf("got %s", body)
	}
	for i := range answer {
		answer[i].Cut = answer[i].Kind == llm.PartToolCall
	}
	if body := encode(ask, llm.Message{Role: llm.RoleAssistant, Parts: answer}); strings.Contains(body, "rs_0a1b") {
		t.Errorf("reasoning without what followed it: %s", body)
	}
	if body := encode(ask, llm.Message{Role: llm.RoleAssistant, Parts: parts(t, "web_search")}); strings.Contains(body, "rs_1") {
		t.Errorf("reasoning without the search that followed it: %s", body)
	}
	foreign := llm.Part{Kind: llm.PartThinking, Text: "secret", Signature: "EqoBCkgIBxABGAIiQL2"}
	if body := encode(ask, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{foreign, llm.Text("Hi")}}); strings.Contains(body, "secret") {
		t.Errorf("another dialect's thinking: %s", body)
	}
	if body := encode(ask, llm.Message{Role: llm.RoleAssistant, Parts: parts(t, "unknown_content")}); !strings.Contains(body, `"cmp_1"`) {
		t.Errorf("the compaction item is gone: %s", body)
	}
}

func TestLongCallIDs(t *testing.T) {
	call := func(id string) llm.Part { return llm.Part{Kind: llm.PartToolCall, CallID: id, Name: "t"} }
	long := strings.Repeat("x", 70)
	body, err := responses.Codec{}.Encode(&llm.Request{Messages: []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("a")}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{call(long + "1"), call(long + "2")}},
	}})
	var b struct {
		Input []struct {
			CallID string `json:"call_id"`
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatal(err)
	}
	if err != nil || len(b.Input) != 5 || b.Input[1].CallID == b.Input[2].CallID || len(b.Input[1].CallID) > 64 {
		t.Errorf("%s, %v", body, err)
	}
}

func TestBrokenFrames(t *testing.T) {
	for _, data := range []string{"{", "[]", "ping", `{"type":"response.output_text.delta","delta":"\x"}`,
		`{"type":"response.output_item.added"}`, `{"type":"response.completed","response":{"output":[1]}}`} {
		d := responses.Codec{}.NewDecoder()
		if events, err := d.Decode(nil, sse.Frame{Data: []byte(data), Raw: []byte(data)}); err == nil {
			t.Errorf("%s: %+v", data, events)
		}
	}
}

// N10: the first terminal event wins, whatever comes after it.
func TestNothingAfterTheEnd(t *testing.T) {
	d := responses.Codec{}.NewDecoder()
	var kinds []string
	for _, data := range []string{
		`{"type":"response.completed","response":{"id":"r","output":[]}}`, `{"type":"error","message":"late"}`,
		`{"type":"response.output_text.delta","delta":"late"}`, "[DONE]", "{"} {
		events, err := d.Decode(nil, sse.Frame{Data: []byte(data), Raw: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			kinds = append(kinds, e.Kind.String())
		}
	}
	if got, want := strings.Join(kinds, " "), "start done ping ping ping ping"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if events, err := d.End(nil); len(events) > 0 || err != nil {
		t.Errorf("%+v, %v", events, err)
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		frames, end := wiretest.Read(t, responses.Codec{}, bytes.NewReader(body))
		if _, done := wiretest.Ended(frames); done != (end == nil) {
			t.Errorf("terminal event: %v, end: %v", done, end)
		}
	})
}

var textDelta = []byte(`{"type":"response.output_text.delta","item_id":"msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654","output_index":0,"content_index":0,"delta":" world","logprobs":[],"sequence_number":4,"obfuscation":"Ab3"}`)

func BenchmarkTextDelta(b *testing.B) {
	d := responses.Codec{}.NewDecoder()
	f := sse.Frame{Data: textDelta, Raw: textDelta}
	var events []llm.Event
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if events, err = d.Decode(events[:0], f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRaw100kB(b *testing.B) {
	prompt := strings.Repeat(`She said \"go\" and went. `, 4000)
	req := &llm.Request{Model: "m", Raw: fmt.Appendf(nil, `{"model":"a","input":"%s"}`, prompt)}
	b.SetBytes(int64(len(req.Raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (responses.Codec{}).Encode(req); err != nil {
			b.Fatal(err)
		}
	}
}
