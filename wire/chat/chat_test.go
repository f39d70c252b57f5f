package chat_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/sse"
)

func TestTranscripts(t *testing.T) { wiretest.Transcripts(t, chat.Codec{}) }

// What every server demands of a body, whatever the request was.
func TestRequests(t *testing.T) {
	wiretest.Requests(t, chat.Codec{}, func(t *testing.T, body []byte) {
		var b struct {
			Messages []struct {
				Role       string `json:"role"`
				Content    any    `json:"content"`
				ToolCallID string `json:"tool_call_id"`
				ToolCalls  []struct {
					ID       string `json:"id"`
					Function struct {
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"messages"`
			Stream bool `json:"stream"`
		}
		if err := json.Unmarshal(body, &b); err != nil {
			t.Fatal(err)
		}
		if !b.Stream {
			t.Error("not a streaming call")
		}
		var due []string
		for i, m := range b.Messages {
			if m.Role == "tool" {
				if len(due) == 0 || due[0] != m.ToolCallID {
					t.Fatalf("message %d answers %q, due are %q", i, m.ToolCallID, due)
				}
				due = due[1:]
				continue
			}
			if len(due) > 0 {
				t.Errorf("message %d comes before the results of %q", i, due)
			}
			if m.Content == nil && len(m.ToolCalls) == 0 {
				t.Errorf("message %d is empty", i)
			}
			for _, c := range m.ToolCalls {
				due = append(due, c.ID)
				if !json.Valid([]byte(c.Function.Arguments)) {
					t.Errorf("message %d: arguments %q", i, c.Function.Arguments)
				}
			}
		}
		if len(due) > 0 {
			t.Errorf("no results for %q", due)
		}
	})
}

func TestRawChangesModelAndStreamAlone(t *testing.T) {
	for _, c := range []struct{ model, in, want string }{
		{"m", `{"model":"a","messages":[{"model":"a"}],"stream":false}`, `{"model":"m","messages":[{"model":"a"}],"stream":true}`},
		{"m", `{ "messages" : [] , "stream_options":{"include_usage":false}}`, ``},
		{"", `{"model":"a","stream":true,"x":1e2}`, `{"model":"a","stream":true,"x":1e2}`},
	} {
		got, err := chat.Codec{}.Encode(&llm.Request{Model: c.model, Raw: []byte(c.in), System: "ignored"})
		if err != nil {
			t.Fatal(err)
		}
		if c.want != "" && string(got) != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		var body struct {
			Model  string
			Stream bool
		}
		if err := json.Unmarshal(got, &body); err != nil || !body.Stream || c.model != "" && body.Model != c.model {
			t.Errorf("%s: %v", got, err)
		}
	}
	if _, err := (chat.Codec{}).Encode(&llm.Request{Model: "m", Raw: []byte(`[1]`)}); err == nil {
		t.Error("takes an array for a body")
	}
}

func TestEncodeChoosesFields(t *testing.T) {
	for _, c := range []struct {
		codec     chat.Codec
		req       llm.Request
		has, lack string
	}{
		{req: llm.Request{Model: "gpt-4o", MaxOutputTokens: 7}, has: `"max_tokens":7`},
		{req: llm.Request{Model: "gpt-5.2", MaxOutputTokens: 7}, has: `"max_completion_tokens":7`, lack: "max_tokens"},
		{req: llm.Request{Model: "openai/o3-mini", MaxOutputTokens: 7}, has: `"max_completion_tokens":7`},
		{req: llm.Request{Model: "o1cat", MaxOutputTokens: 7}, has: `"max_tokens":7`},
		{req: llm.Request{Model: "m"}, has: `"stream_options":{"include_usage":true}`},
		{codec: chat.Codec{Strict: true}, req: llm.Request{Model: "m"}, has: `"stream":true`, lack: "stream_options"},
		{req: llm.Request{Model: "m", ToolChoice: "required"}, has: `"stream":true`, lack: "tool_choice"},
		{req: llm.Request{Model: "m", Reasoning: llm.Reasoning{Budget: 8000}}, has: `"reasoning_effort":"medium"`},
		{req: llm.Request{Model: "m", Reasoning: llm.Reasoning{Budget: 8000, Effort: "none"}}, has: `"reasoning_effort":"none"`},
		{req: llm.Request{Model: "m", ProviderState: true}, has: `"store":true`},
		{req: llm.Request{Model: "m", System: "<a> & b"}, has: `"content":"<a> & b"`},
	} {
		body, err := c.codec.Encode(&c.req)
		if err != nil || !strings.Contains(string(body), c.has) || c.lack != "" && strings.Contains(string(body), c.lack) {
			t.Errorf("%+v: %s, %v; want %s, not %q", c.req, body, err, c.has, c.lack)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	user := func(p llm.Part) []llm.Message { return []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{p}}} }
	for want, req := range map[string]llm.Request{
		"tools":          {Tools: []llm.Tool{{Name: "a", Schema: json.RawMessage("{")}}},
		"provider_tools": {ProviderTools: []llm.ProviderTool{{Name: "a", Config: json.RawMessage("{")}}},
		"messages":       {Messages: user(llm.Part{Kind: llm.PartImage})},
	} {
		if _, err := (chat.Codec{}).Encode(&req); err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestCallIDs(t *testing.T) {
	for _, c := range []struct {
		codec      chat.Codec
		id         string
		want, kept int
	}{
		{id: "call_DdmO9pD3xa9XTPNJ32zg2hcA", kept: 29},
		{id: strings.Repeat("x", 41), want: 40},
		{codec: chat.Codec{Strict: true}, id: "D681PevKs", kept: 9},
		{codec: chat.Codec{Strict: true}, id: "call_1234", want: 9},
		{codec: chat.Codec{Strict: true}, id: "toolu_01A09q90qw90lq917835lq9", want: 9},
	} {
		body, err := c.codec.Encode(&llm.Request{Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("a")}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{{Kind: llm.PartToolCall, CallID: c.id, Name: "t"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var b struct {
			Messages []struct {
				ToolCallID string `json:"tool_call_id"`
			}
		}
		if err := json.Unmarshal(body, &b); err != nil {
			t.Fatal(err)
		}
		got := b.Messages[len(b.Messages)-1].ToolCallID
		if len(got) != c.want+c.kept || (c.kept > 0) != (got == c.id) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Thinking goes back in the field it came in, while the turn goes on, and not after.
func TestThinkingGoesBackWithinItsTurn(t *testing.T) {
	out := new(llm.Output)
	frames, err := wiretest.Read(t, chat.Codec{}, strings.NewReader(
		`data: {"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"I look."}}]}`+"\n\n"+
			`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"k","function":{"name":"look","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`+"\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range frames {
		for j := range frames[i] {
			out.Add(&frames[i][j])
		}
	}
	messages := []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Look.")}},
		{Role: llm.RoleAssistant, Parts: out.Parts()},
		{Role: llm.RoleTool, Parts: []llm.Part{{Kind: llm.PartToolResult, CallID: "k", Content: []llm.Part{llm.Text("seen")}}}},
	}
	encode := func() string {
		body, err := chat.Codec{}.Encode(&llm.Request{Model: "m", Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if body := encode(); !strings.Contains(body, `"reasoning_content":"I look."`) {
		t.Errorf("thinking is gone: %s", body)
	}
	messages = append(messages, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Thanks.")}})
	if body := encode(); strings.Contains(body, "I look.") {
		t.Errorf("thinking of an earlier turn: %s", body)
	}
}

// Calls without ids get ids that no other answer has.
func TestCallsWithoutID(t *testing.T) {
	const body = `data: {"choices":[{"delta":{"tool_calls":[` +
		`{"type":"function","function":{"name":"read","arguments":{"p":1}}},` +
		`{"type":"function","function":{"name":"read","arguments":{"p":2}}},` +
		`{"function":{"name":"now"}}]}}]}` + "\n\n" +
		`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	seen := map[string]bool{}
	for range 2 {
		var out llm.Output
		frames, err := wiretest.Read(t, chat.Codec{}, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := range frames {
			for j := range frames[i] {
				out.Add(&frames[i][j])
			}
		}
		var calls []string
		for _, p := range out.Parts() {
			calls = append(calls, p.Name+p.Arguments)
			if p.CallID == "" || seen[p.CallID] || p.Cut {
				t.Errorf("call %+v", p)
			}
			seen[p.CallID] = true
		}
		if want := []string{`read{"p":1}`, `read{"p":2}`, `now`}; !slices.Equal(calls, want) || out.Stop != llm.StopToolCalls {
			t.Errorf("got %q, %s", calls, out.Stop)
		}
	}
}

func TestBrokenFrames(t *testing.T) {
	for _, data := range []string{"{", "[]", "ping", `{"choices":[}`, `{"choices":[{"delta":{"content":"a}}]}`, `{"choices":[1]}`, `{"choices":[{"delta":7}]}`} {
		d := chat.Codec{}.NewDecoder()
		if events, err := d.Decode(nil, sse.Frame{Data: []byte(data), Raw: []byte(data)}); err == nil {
			t.Errorf("%s: %+v", data, events)
		}
	}
}

// The dialect's first form of tool calls, which has no ids either.
func TestFunctionCall(t *testing.T) {
	var out llm.Output
	frames, err := wiretest.Read(t, chat.Codec{}, strings.NewReader(
		`data: {"choices":[{"delta":{"function_call":{"name":"read","arguments":""}}}]}`+"\n\n"+
			`data: {"choices":[{"delta":{"function_call":{"arguments":"{\"p\":1}"}}}]}`+"\n\n"+
			`data: {"choices":[{"delta":{},"finish_reason":"function_call"}]}`+"\n\n"))
	for i := range frames {
		for j := range frames[i] {
			out.Add(&frames[i][j])
		}
	}
	parts := out.Parts()
	if err != nil || out.Stop != llm.StopToolCalls || len(parts) != 1 || parts[0].Name != "read" || parts[0].Arguments != `{"p":1}` {
		t.Errorf("%+v, %s, %v", parts, out.Stop, err)
	}
}

// Where a finish reason comes before the last content, it ends nothing.
func TestEarlyFinishReason(t *testing.T) {
	chunk := func(text, reason string) string {
		return fmt.Sprintf(`data: {"choices":[{"delta":{"content":%q},"finish_reason":%q}]}`+"\n\n", text, reason)
	}
	for _, c := range []struct {
		name, body string
		end        error
	}{
		{"in every chunk, cut", chunk("a", "stop") + chunk("b", "stop"), io.ErrUnexpectedEOF},
		{"in every chunk, whole", chunk("a", "stop") + chunk("b", "stop") + "data: [DONE]\n\n", nil},
		{"the word null, cut", chunk("a", "null") + chunk("b", "null"), io.ErrUnexpectedEOF},
		{"the word null, whole", chunk("a", "null") + chunk("b", "stop"), nil},
		{"empty, cut", chunk("a", "") + "data: [DONE]\n\n", io.ErrUnexpectedEOF},
	} {
		if _, err := wiretest.Read(t, chat.Codec{}, strings.NewReader(c.body)); !errors.Is(err, c.end) {
			t.Errorf("%s: %v, want %v", c.name, err, c.end)
		}
	}
}

// N10: the first terminal event wins, whatever comes after it.
func TestNothingAfterTheEnd(t *testing.T) {
	d := chat.Codec{}.NewDecoder()
	var kinds []string
	for _, data := range []string{`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, "[DONE]", `{"error":{"message":"late"}}`, "[DONE]", "{"} {
		events, err := d.Decode(nil, sse.Frame{Data: []byte(data), Raw: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			kinds = append(kinds, e.Kind.String())
		}
	}
	if got, want := strings.Join(kinds, " "), "start part_start text ping part_end done ping ping ping"; got != want {
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
		frames, end := wiretest.Read(t, chat.Codec{}, bytes.NewReader(body))
		_, done := wiretest.Ended(frames)
		if done && !bytes.Contains(body, []byte("finish_reason")) && !bytes.Contains(body, []byte(`\u`)) {
			t.Error("done without a finish reason")
		}
		if done != (end == nil) {
			t.Errorf("terminal event: %v, end: %v", done, end)
		}
	})
}

var textDelta = []byte(`{"id":"chatcmpl-CtvVn1kWg7sZ0pXo4nQ2rYb8LfJcE","object":"chat.completion.chunk","created":1767225600,"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_3502f4eb73","choices":[{"index":0,"delta":{"content":" world"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"h7Ab2"}`)

func BenchmarkTextDelta(b *testing.B) {
	d := chat.Codec{}.NewDecoder()
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
	req := &llm.Request{Model: "m", Raw: fmt.Appendf(nil, `{"model":"a","messages":[{"role":"user","content":"%s"}],"stream":true}`, prompt)}
	b.SetBytes(int64(len(req.Raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (chat.Codec{}).Encode(req); err != nil {
			b.Fatal(err)
		}
	}
}
