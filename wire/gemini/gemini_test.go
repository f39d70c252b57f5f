package gemini

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/sse"
)

// TestTranscripts: a cut just after a finish reason that was not the last thing to come cannot be
// told from a whole answer.
func TestTranscripts(t *testing.T) {
	wiretest.Transcripts(t, Codec{}, "finish_in_every_chunk", "finish_then_content", "overloaded_after_finish")
}

// TestRequests also checks the rules that the API enforces on a conversation (N12, N65).
func TestRequests(t *testing.T) { wiretest.Requests(t, Codec{}, valid) }

func valid(t *testing.T, body []byte) {
	var r struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text             *string
				ThoughtSignature string
				FunctionCall     *struct {
					ID   string
					Args map[string]any
				}
				FunctionResponse *struct {
					ID       string
					Name     string
					Response map[string]any
				}
			}
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	var open []string
	for i, c := range r.Contents {
		if want := [...]string{"user", "model"}[i%2]; c.Role != want || len(c.Parts) == 0 {
			t.Errorf("content %d: role %s, %d parts", i, c.Role, len(c.Parts))
		}
		var calls, answers []string
		for _, p := range c.Parts {
			switch {
			case p.Text != nil && *p.Text == "" && p.ThoughtSignature == "":
				t.Errorf("content %d: empty text", i)
			case p.FunctionCall != nil:
				calls = append(calls, p.FunctionCall.ID)
				if p.FunctionCall.Args == nil {
					t.Errorf("content %d: no arguments", i)
				}
			case p.FunctionResponse != nil:
				answers = append(answers, p.FunctionResponse.ID)
				if p.FunctionResponse.Name == "" || len(p.FunctionResponse.Response) != 1 {
					t.Errorf("content %d: response %+v", i, p.FunctionResponse)
				}
			}
		}
		if strings.Join(answers, " ") != strings.Join(open, " ") {
			t.Errorf("content %d: results of %v for calls %v", i, answers, open)
		}
		open = calls
	}
	if len(open) > 0 {
		t.Errorf("calls without results at the end: %v", open)
	}
}

// TestGemini3 encodes what differs from Gemini 2.5: images inside results, and a stand-in for
// signatures of other models' calls.
func TestGemini3(t *testing.T) {
	body, err := Codec{}.Encode(&llm.Request{Model: "gemini-3-flash-preview", Messages: []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Look")}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{
			{Kind: llm.PartToolCall, CallID: "1", Name: "look"}, {Kind: llm.PartToolCall, CallID: "2", Name: "look"}}},
		{Role: llm.RoleTool, Parts: []llm.Part{
			{Kind: llm.PartToolResult, CallID: "1", Content: []llm.Part{{Kind: llm.PartImage, MediaType: "image/png", Data: []byte("png")}}},
			{Kind: llm.PartToolResult, CallID: "2", Content: []llm.Part{llm.Text("a"), llm.Text("b")}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"contents":[{"role":"user","parts":[{"text":"Look"}]},` +
		`{"role":"model","parts":[{"functionCall":{"id":"1","name":"look","args":{}},"thoughtSignature":"skip_thought_signature_validator"},` +
		`{"functionCall":{"id":"2","name":"look","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"1","name":"look","response":{"output":""},"parts":[{"inlineData":{"mimeType":"image/png","data":"cG5n"}}]}},` +
		`{"functionResponse":{"id":"2","name":"look","response":{"output":"a\nb"}}}]}]}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

// TestRoundTrip sends back what a stream said, signatures at the parts that they came with.
func TestRoundTrip(t *testing.T) {
	var parts []llm.Part
	for _, name := range []string{"thinking", "signature_alone", "calls_parallel", "code_execution"} {
		body, err := os.ReadFile("testdata/" + name + ".sse")
		if err != nil {
			t.Fatal(err)
		}
		frames, err := wiretest.Read(t, Codec{}, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var out llm.Output
		for _, events := range frames {
			for i := range events {
				out.Add(&events[i])
			}
		}
		parts = append(parts, out.Parts()...)
	}
	body, err := Codec{}.Encode(&llm.Request{Model: "gemini-2.5-pro", Messages: []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Go")}}, {Role: llm.RoleAssistant, Parts: parts}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"text":"42","thoughtSignature":"RXhhbXBsZQ=="},` +
		`{"text":"","thoughtSignature":"c2lnMQ=="},{"text":"A","thoughtSignature":"c2lnMg=="},{"text":"B","thoughtSignature":"c2lnMw=="},` +
		`{"text":"I'll look."},{"functionCall":{"id":"call_c2FtcGxl_1","name":"get_weather","args":{"city":"Paris","days":2}},"thoughtSignature":"c2ln"},` +
		`{"functionCall":{"id":"call_c2FtcGxl_2","name":"get_weather","args":{"city":"London"}}},{"functionCall":{"id":"call_c2FtcGxl_3","name":"now","args":{}}},` +
		`{"text":"Let me compute."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"text":"It is 42."}`
	if !bytes.Contains(body, []byte(want)) {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func TestRaw(t *testing.T) {
	raw := []byte(`{ "contents": [] }`)
	body, err := Codec{}.Encode(&llm.Request{Model: "m", ProviderState: true, Raw: raw})
	if err != nil || &body[0] != &raw[0] || len(body) != len(raw) {
		t.Errorf("%s, %v", body, err)
	}
}

func TestHeadersAndPath(t *testing.T) {
	h := http.Header{}
	Codec{}.Authorize(h, "")
	if len(h) != 0 {
		t.Error(h)
	}
	Codec{}.Authorize(h, "secret")
	if h.Get("x-goog-api-key") != "secret" {
		t.Error(h)
	}
	for model, want := range map[string]string{
		"gemini-2.5-pro":        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
		"models/gemini-2.5-pro": "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
		"tunedModels/a b?c":     "/v1beta/tunedModels/a%20b%3Fc:streamGenerateContent?alt=sse",
	} {
		if got := (Codec{}).Path(&llm.Request{Model: model}); got != want {
			t.Errorf("%s: %s", model, got)
		}
	}
}

// FuzzDecode: whatever comes, and wherever it is cut, the stream ends well only after a reason
// to stop.
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
			_, done := wiretest.Ended(frames)
			if done != (end == nil) || done && !reasoned(b) {
				t.Errorf("terminal event: %v, end: %v", done, end)
			}
			calls := map[string]bool{}
			for _, events := range frames {
				for _, e := range events {
					if e.Kind == llm.EventCallStart && calls[e.ID] {
						t.Errorf("two calls are %q", e.ID)
					}
					calls[e.ID] = calls[e.ID] || e.Kind == llm.EventCallStart
				}
			}
		}
	})
}

// reasoned reports whether a whole frame names a reason to stop. Names with escapes in them are
// the fuzzer's alone: it takes them for one.
func reasoned(body []byte) bool {
	for r := sse.NewReader(bytes.NewReader(body)); ; {
		f, err := r.Next()
		if err != nil {
			return false
		}
		data := f.Data
		if data == nil {
			data = f.Raw
		}
		for _, name := range []string{"finishReason", "blockReason", `\u00`} {
			if bytes.Contains(data, []byte(name)) {
				return true
			}
		}
	}
}

func BenchmarkTextDelta(b *testing.B) {
	f := sse.Frame{Data: []byte(`{"candidates":[{"content":{"parts":[{"text":" and then the"}],"role":"model"},"index":0}],` +
		`"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":6,"totalTokenCount":18,"promptTokensDetails":[{"modality":"TEXT","tokenCount":12}]},` +
		`"modelVersion":"gemini-2.5-flash","responseId":"c2FtcGxl"}`)}
	f.Raw = append([]byte("data: "), f.Data...)
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
