package messages

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/sse"
)

func TestTranscripts(t *testing.T) { wiretest.Transcripts(t, Codec{}) }

// TestRequests also checks the rules that the API enforces on a conversation (N12, N65).
func TestRequests(t *testing.T) { wiretest.Requests(t, Codec{}, valid) }

func valid(t *testing.T, body []byte) {
	var r struct {
		MaxTokens int `json:"max_tokens"`
		Stream    bool
		Thinking  *struct {
			Budget int `json:"budget_tokens"`
		}
		Messages []struct {
			Role    string
			Content []struct {
				Type, Text, ID, Signature string
				ToolUseID                 string `json:"tool_use_id"`
				Input                     json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	if r.MaxTokens < 1 || !r.Stream || r.Thinking != nil && r.Thinking.Budget >= r.MaxTokens {
		t.Errorf("max_tokens %d, stream %v, thinking %+v", r.MaxTokens, r.Stream, r.Thinking)
	}
	seen := map[string]bool{}
	var open []string
	for i, m := range r.Messages {
		if want := [...]string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
			t.Errorf("message %d: role %s, %d blocks", i, m.Role, len(m.Content))
		}
		answers := open
		open = nil
		for j, b := range m.Content {
			switch b.Type {
			case "text":
				if strings.TrimSpace(b.Text) == "" {
					t.Errorf("message %d: empty text", i)
				}
			case "thinking":
				if b.Signature == "" {
					t.Errorf("message %d: thinking without signature", i)
				}
			case "tool_use":
				if seen[b.ID] || b.ID == "" || b.Input[0] != '{' || strings.Trim(b.ID, ids) != "" {
					t.Errorf("message %d: tool_use %+v", i, b)
				}
				seen[b.ID] = true
				open = append(open, b.ID)
			case "tool_result":
				if j >= len(answers) || answers[j] != b.ToolUseID {
					t.Errorf("message %d: result of %s, want %v in order", i, b.ToolUseID, answers)
				}
			}
		}
		if results := bytes.Count(mustMarshal(t, m.Content), []byte(`"tool_result"`)); results != len(answers) {
			t.Errorf("message %d: %d results for %d calls", i, results, len(answers))
		}
	}
	if len(open) > 0 {
		t.Errorf("calls without results at the end: %v", open)
	}
}

const ids = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func mustMarshal(t *testing.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRaw(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"replaced": {`{ "model" : "alias", "messages":[ {"role":"user","content":"model"} ],"stream":false}`,
			`{ "model" : "claude-x", "messages":[ {"role":"user","content":"model"} ],"stream":true}`},
		"added":     {`{"messages":[],"max_tokens":1}`, `{"model":"claude-x","stream":true,"messages":[],"max_tokens":1}`},
		"unchanged": {"{\n\t\"model\":\"claude-x\",\"stream\":true,\"x\":\"\\u003c<\"}", "{\n\t\"model\":\"claude-x\",\"stream\":true,\"x\":\"\\u003c<\"}"},
	} {
		// Everything but the model and the provider's fields is ignored beside Raw.
		got, err := Codec{}.Encode(&llm.Request{Model: "claude-x", System: "s", ProviderState: true, Raw: []byte(c.raw)})
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := (Codec{}).Encode(&llm.Request{Raw: []byte(`[]`)}); err == nil {
		t.Error("a list passed for a request")
	}
}

func TestHeadersAndPath(t *testing.T) {
	h := http.Header{}
	Codec{}.Authorize(h, "secret")
	if h.Get("x-api-key") != "secret" || h.Get("anthropic-version") != "2023-06-01" {
		t.Error(h)
	}
	h = http.Header{}
	Codec{}.Authorize(h, "")
	if len(h) != 1 {
		t.Errorf("without a key: %v", h)
	}
	if p := (Codec{}).Path(&llm.Request{Model: "m"}); p != "/v1/messages" {
		t.Error(p)
	}
}

func TestClaudeVersion(t *testing.T) {
	for model, want := range map[string]int{
		"claude-3-7-sonnet-20250219": 307, "claude-sonnet-4-20250514": 400, "claude-sonnet-4@20250514": 400,
		"claude-sonnet-4-5-20250929": 405, "anthropic.claude-opus-4-6-v1:0": 406, "claude-opus-4.7": 407,
		"claude-sonnet-5": 500, "claude-fable-5-1": 501, "claude-instant": 0, "kimi-k2-5": 0,
	} {
		if got := claude(model); got != want {
			t.Errorf("%s: %d, want %d", model, got, want)
		}
	}
}

// FuzzDecode: whatever comes, and wherever it is cut, the stream ends well only after a
// message_stop.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, len(body)/2)
	}
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		for _, b := range [][]byte{body, body[:min(max(cut, 0), len(body))]} {
			frames, end := wiretest.Read(t, Codec{}, bytes.NewReader(b))
			if _, done := wiretest.Ended(frames); done != (end == nil) || done && !stopped(b) {
				t.Errorf("terminal event: %v, end: %v, message_stop: %v", done, end, stopped(b))
			}
		}
	})
}

func stopped(body []byte) bool {
	for r := sse.NewReader(bytes.NewReader(body)); ; {
		f, err := r.Next()
		if err != nil {
			return false
		}
		data := f.Data
		if data == nil {
			data = f.Raw
		}
		kind := string(f.Event)
		err = scan.Fields(data, func(name, v []byte) (err error) {
			if string(name) == "type" && scan.IsString(v) {
				kind, err = scan.String(v)
			}
			return err
		})
		if err == nil && kind == "message_stop" {
			return true
		}
	}
}

func BenchmarkTextDelta(b *testing.B) {
	f := sse.Frame{Event: []byte("content_block_delta"),
		Data: []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" and then the"}}`)}
	f.Raw = append([]byte("event: content_block_delta\ndata: "), f.Data...)
	d := Codec{}.NewDecoder()
	events := make([]llm.Event, 0, 8)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if events, err = d.Decode(events[:0], f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRaw100kB(b *testing.B) {
	raw := []byte(`{"max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat(`line of \"code\" {x}\n`, 5000) + `"}],"model":"alias","stream":false}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := (Codec{}).Encode(&llm.Request{Model: "m", Raw: raw}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	body, err := os.ReadFile("testdata/tool.sse")
	if err != nil {
		b.Fatal(err)
	}
	var events []llm.Event
	b.ReportAllocs()
	for b.Loop() {
		r, d := sse.NewReader(bytes.NewReader(body)), Codec{}.NewDecoder()
		for {
			f, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if events, err = d.Decode(events[:0], f); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestWhiteSpace: the API refuses texts without a letter, in tool results too.
func TestWhiteSpace(t *testing.T) {
	body, err := Codec{}.Encode(&llm.Request{Model: "m", Messages: []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(" "), llm.Text("Hi")}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("\n\n"), {Kind: llm.PartToolCall, CallID: "1", Name: "t"}}},
		{Role: llm.RoleTool, Parts: []llm.Part{{Kind: llm.PartToolResult, CallID: "1", Content: []llm.Part{llm.Text("\n")}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	valid(t, body)
	want := `"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"t","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}]`
	if !bytes.Contains(body, []byte(want)) {
		t.Errorf("got %s", body)
	}
}

// TestBudgetWins: a budget outranks an effort, "none" too.
func TestBudgetWins(t *testing.T) {
	body, err := Codec{}.Encode(&llm.Request{Model: "m", Reasoning: llm.Reasoning{Effort: "none", Budget: 3000},
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Hi")}}}})
	if want := `"thinking":{"type":"enabled","budget_tokens":3000}`; err != nil || !bytes.Contains(body, []byte(want)) {
		t.Errorf("%s, %v", body, err)
	}
}
