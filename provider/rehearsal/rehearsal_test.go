package rehearsal

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/internal/pipe"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// rehearse serves the scripts inside the test's bubble and returns a client of them.
func rehearse(t *testing.T, scripts ...Script) (*Server, *http.Client) {
	t.Helper()
	s, err := New(scripts...)
	if err != nil {
		t.Fatal(err)
	}
	l := pipe.Listen()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, s) }()
	transport := &http.Transport{DialContext: l.Dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, &http.Client{Transport: transport}
}

var dialects = []string{"chat", "responses", "messages", "gemini"}

// ask writes a request of a dialect. results are rounds of tool results after the question.
func ask(dialect, model, question string, stream bool, results ...string) (path, body string) {
	turn := func(format string, args ...any) string { return "," + string(fill(format, args...)) }
	switch dialect {
	case "chat":
		body = string(fill(`{"role":"system","content":"Be kind."},{"role":"user","content":$}`, question))
		for _, r := range results {
			body += turn(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"clock","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":$}`, r)
		}
		return "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"stream":%t,"stream_options":{"include_usage":true},"messages":[%s]}`, model, stream, body)
	case "responses":
		body = string(fill(`{"type":"message","role":"user","content":[{"type":"input_text","text":$}]}`, question))
		for _, r := range results {
			body += turn(`{"type":"function_call","call_id":"c","name":"clock","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":$}`, r)
		}
		return "/v1/responses", fmt.Sprintf(`{"model":%q,"stream":%t,"instructions":"Be kind.","input":[%s]}`, model, stream, body)
	case "messages":
		body = string(fill(`{"role":"user","content":[{"type":"text","text":$}]}`, question))
		for _, r := range results {
			body += turn(`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"clock","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":$}]},{"type":"text","text":"a reminder"}]}`, r)
		}
		return "/v1/messages", fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":100,"system":"Be kind.","messages":[%s]}`, model, stream, body)
	}
	body = string(fill(`{"role":"user","parts":[{"text":$}]}`, question))
	for _, r := range results {
		body += turn(`{"role":"model","parts":[{"functionCall":{"name":"clock","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"clock","response":{"output":$}}}]}`, r)
	}
	method := "generateContent"
	if stream {
		method = "streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/" + model + ":" + method, fmt.Sprintf(`{"systemInstruction":{"parts":[{"text":"Be kind."}]},"contents":[%s]}`, body)
}

type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func send(t *testing.T, c *http.Client, key string, path, body string) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://rehearsal"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret")
	if key != "" {
		req.Header.Set(KeyHeader, key)
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}, nil
}

// TestWireForm pins the bytes of each dialect.
func TestWireForm(t *testing.T) {
	script := Script{Name: "form", Scenes: []Scene{{{
		{Do: Think, Text: "A thought."}, {Do: Redacted}, {Do: Remote}, {Do: Say, Text: "Two words"}, {Do: Call, Arguments: `{"zone":"UTC"}`}, {Do: Call}, {Do: Ping, Times: 1},
	}, {{Do: Say, Text: "Broken"}, {Do: Failed, Fault: broken}, {Do: Error, Fault: overload}}}}}
	for _, dialect := range dialects {
		synctest.Test(t, func(t *testing.T) {
			_, c := rehearse(t, script)
			var all bytes.Buffer
			for _, stream := range []bool{true, false} {
				for range 2 {
					path, body := ask(dialect, "form", fmt.Sprint("Hello? ", stream), stream)
					a, err := send(t, c, "", path, body)
					if err != nil || a.err != nil {
						t.Fatal(err, a.err)
					}
					fmt.Fprintf(&all, "== POST %s\n%d %s\n\n%s\n", path, a.status, a.header.Get("Content-Type"), strings.TrimSuffix(a.body, "\n"))
				}
			}
			golden := filepath.Join("testdata", dialect+".golden")
			if *update {
				if err := os.WriteFile(golden, all.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(all.Bytes(), want) {
				t.Errorf("%s: the wire form changed (-update rewrites %s):\n%s", dialect, golden, all.String())
			}
		})
	}
}

func TestHints(t *testing.T) {
	has := func(name, value string) func(answer) bool {
		return func(a answer) bool { return a.header.Get(name) == value }
	}
	says := func(text string) func(answer) bool {
		return func(a answer) bool { return strings.Contains(a.body, text) }
	}
	for _, tc := range []struct {
		dialect, model string
		is             func(answer) bool
	}{
		{"chat", "rate-limited-3000s", has("Retry-After", "3000")},
		{"chat", "rate-limited-date", has("Retry-After", "Sat, 01 Jan 2000 00:00:02 GMT")},
		{"messages", "rate-limited-ms", has("Retry-After-Ms", "1500")},
		{"gemini", "rate-limited-info", says(`"retryDelay":"2s"`)},
		{"responses", "rate-limited-info", says(`"retryDelay":"2s"`)},
		{"chat", "rate-limited-reset", has("X-Ratelimit-Reset-Requests", "2s")},
		{"messages", "rate-limited-reset", has("Anthropic-Ratelimit-Requests-Reset", "2000-01-01T00:00:02Z")},
		{"responses", "rate-limited-resets-at", says(`"resets_at":946684802,"resets_in_seconds":2`)},
		{"chat", "rate-limited-prose", says("Please try again in 2s.")},
		{"messages", "always-503-2h", has("Retry-After", "7200")},
		{"chat", "rate-limited", has("Retry-After", "")},
	} {
		t.Run(tc.dialect+"/"+tc.model, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // time is 2000-01-01 here
				_, c := rehearse(t)
				path, body := ask(tc.dialect, tc.model, "Hello?", true)
				a, err := send(t, c, "", path, body)
				if err != nil || !tc.is(a) {
					t.Errorf("%v, %d %v %s", err, a.status, a.header, a.body)
				}
			})
		})
	}
}

// statusOf asks once and returns the status.
func statusOf(t *testing.T, c *http.Client, dialect, model, question, key string, results ...string) int {
	t.Helper()
	path, body := ask(dialect, model, question, true, results...)
	a, err := send(t, c, key, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a.status
}

// TestTakes counts the takes of a question: apart by question, model and key, in every
// dialect alike, and again from the start once a script that rewinds was played.
func TestTakes(t *testing.T) {
	for _, dialect := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s, c := rehearse(t, Script{Name: "once", Scenes: []Scene{{status(*overload), reply}}})
			bad := map[string]int{"messages": 529}[dialect]
			if bad == 0 {
				bad = 503
			}
			steps := []struct {
				model, question, key string
				want                 int
			}{
				{"overloaded-then-ok-fast", "a", "", bad},
				{"overloaded-then-ok-fast", "b", "", bad}, // another question
				{"overloaded-then-ok-fast", "a", "", 200},
				{"overloaded-then-ok-fast", "a", "", bad}, // rewound
				{"overloaded-then-ok-fast", "b", "", 200},
				{"overloaded-then-ok-fast", "a", "k1", bad}, // another key
				{"overloaded-then-ok-fast", "z", "k1", 200}, // the key alone counts
				{"once-fast", "a", "", bad},
				{"once-fast", "a", "", 200},
				{"once-fast", "a", "", 200}, // it does not rewind
			}
			for i, st := range steps {
				if got := statusOf(t, c, dialect, st.model, st.question, st.key); got != st.want {
					t.Errorf("%s: step %d (%s, %s, %s): status %d, want %d", dialect, i, st.model, st.question, st.key, got, st.want)
				}
			}
			synctest.Wait()
			if r := s.Requests(); r.Total != len(steps) || r.ByModel["once-fast"] != 3 || r.ByKey["k1"] != 2 {
				t.Errorf("%s: report %+v", dialect, r)
			}
		})
	}
}

// TestScenes plays an agent's run: the rounds of tool results choose the scene, and each
// scene has takes of its own.
func TestScenes(t *testing.T) {
	for _, dialect := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s, c := rehearse(t)
			const model = "tool-then-overloaded-then-ok-fast"
			path, body := ask(dialect, model, "What time is it?", true)
			a, err := send(t, c, "", path, body)
			if err != nil || !strings.Contains(a.body, `"clock"`) {
				t.Fatalf("%s: %v %s", dialect, err, a.body)
			}
			if got := statusOf(t, c, dialect, model, "What time is it?", "", "12:00"); got < 500 {
				t.Errorf("%s: status %d, want an overload", dialect, got)
			}
			path, body = ask(dialect, model, "What time is it?", false, "12:00")
			a, err = send(t, c, "", path, body)
			if err != nil || !strings.Contains(a.body, "The tool answered: `12:00`") || !strings.Contains(a.body, "You asked: **What time is it?**") {
				t.Errorf("%s: %v %s", dialect, err, a.body)
			}
			path, body = ask(dialect, "tool-loop-fast", "Loop", true, "1", "2", "3", "4")
			if a, err = send(t, c, "", path, body); err != nil || !strings.Contains(a.body, `"clock"`) {
				t.Errorf("%s: %v %s", dialect, err, a.body)
			}
			synctest.Wait()
			got := []int{}
			for _, r := range s.Requests().Requests {
				got = append(got, r.Scene, r.Take)
			}
			if want := []int{1, 1, 2, 1, 2, 2, 1, 1}; !slices.Equal(got, want) {
				t.Errorf("%s: scenes and takes %v, want %v", dialect, got, want)
			}
		})
	}
}

// TestClientLeaves: the report says who closed early, and what it saw until then.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := rehearse(t)
		ctx, cancel := context.WithCancel(t.Context())
		path, body := ask("chat", "drip", "Hello?", true)
		req, err := http.NewRequestWithContext(ctx, "POST", "http://rehearsal"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", "secret")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := s.Await(t.Context(), func(r Report) bool { return r.Open == 1 }); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := s.Await(t.Context(), func(r Report) bool { return r.Open == 0 }); err != nil {
			t.Fatal(err)
		}
		r := s.Requests().Requests[0]
		if !r.ClosedEarly || r.Outcome != left || r.Bytes != len(body) {
			t.Errorf("%+v", r)
		}
		if _, shown := r.Header["X-Api-Key"]; shown || r.Header["User-Agent"] == "" {
			t.Errorf("headers %v", r.Header)
		}
		if err := s.Await(ctx, func(Report) bool { return false }); err != context.Canceled {
			t.Errorf("Await: %v", err)
		}
	})
}

func TestPace(t *testing.T) {
	for _, tc := range []struct {
		model string
		low   time.Duration
		high  time.Duration
	}{
		{"ok", 2 * time.Second, 20 * time.Second},
		{"ok-fast", 0, time.Millisecond},
		{"flood", 4900 * time.Millisecond, 5100 * time.Millisecond},
		{"drip", 29 * time.Second, 31 * time.Second},
		{"slow-fast", 5 * time.Second, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, c := rehearse(t)
			path, body := ask("chat", tc.model, "Hello?", true)
			began := time.Now()
			if a, err := send(t, c, "", path, body); err != nil || a.err != nil {
				t.Fatal(err, a.err)
			}
			if took := time.Since(began); took < tc.low || took > tc.high {
				t.Errorf("%s took %v", tc.model, took)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := rehearse(t)
		do := func(method, path, body string) (int, string) {
			req, err := http.NewRequest(method, "http://rehearsal"+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(b)
		}
		for _, tc := range []struct {
			method, path, body string
			status             int
			has                string
		}{
			{"GET", "/v1/models", "", 200, `"id":"overloaded-then-ok"`},
			{"GET", "/models", "", 200, `"object":"list"`},
			{"GET", "/v1beta/models", "", 200, `"name":"models/ok"`},
			{"GET", "/", "", 200, "rehearsal"},
			{"GET", "/rehearsal/scripts", "", 200, `"name":"drip"`},
			{"POST", "/v1/messages", `{"model":"nobody","messages":[]}`, 404, `"not_found_error"`},
			{"POST", "/chat/completions", `{"model":"nobody"}`, 404, `"model_not_found"`},
			{"POST", "/v1/responses", `{"model":"ok-fast","input":"Just text"}`, 200, `You asked: **Just text**`},
			{"POST", "/v1/responses", `{`, 400, `"invalid_value"`},
			{"POST", "/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"12345678"}]}`, 200, `{"input_tokens":2}`},
			{"POST", "/v1beta/models/ok:countTokens", `{"contents":[{"parts":[{"text":"1234"}]}]}`, 200, `{"totalTokens":1}`},
			{"POST", "/v1beta/models/ok-fast:streamGenerateContent", `{"contents":[{"parts":[{"text":"Hi"}]}]}`, 200, `[{"candidates":`},
			{"POST", "/v1beta/models/ok:embedContent", `{}`, 404, ""},
			{"GET", "/rehearsal/requests", "", 200, `"total":5`},
			{"DELETE", "/rehearsal/requests", "", 204, ""},
			{"GET", "/rehearsal/requests", "", 200, `"total":0`},
		} {
			if status, body := do(tc.method, tc.path, tc.body); status != tc.status || !strings.Contains(body, tc.has) {
				t.Errorf("%s %s: %d %s", tc.method, tc.path, status, body)
			}
		}
		long := strings.Repeat("word ", 4000)
		if got := statusOf(t, c, "chat", "window-16k-fast", long, ""); got != 400 {
			t.Errorf("a long conversation: status %d", got)
		}
		if got := statusOf(t, c, "chat", "window-16k-fast", "short", ""); got != 200 {
			t.Errorf("a short conversation: status %d", got)
		}
		if got := len(s.Scripts()); got != len(Scripts()) {
			t.Errorf("%d scripts, want %d", got, len(Scripts()))
		}
	})
}
