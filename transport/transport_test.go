package transport_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/pipe"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/transport"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// serve serves h inside the test's bubble and returns what dials it.
func serve(t *testing.T, h http.Handler) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	l := pipe.Listen()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rehearsal.Serve(ctx, l, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Dial
}

// dialects are where a model call of each goes, and what it says.
var dialects = []struct {
	name, path, whole, body string
}{
	{"chat", "/v1/chat/completions", "/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":"Hello?"}],"stream":%t,"unknown":{"kept":[1,2]}}`},
	{"responses", "/v1/responses", "/v1/responses", `{"model":%q,"input":"Hello?","stream":%t}`},
	{"messages", "/v1/messages", "/v1/messages", `{"model":%q,"max_tokens":1000,"messages":[{"role":"user","content":"Hello?"}],"stream":%t}`},
	{"gemini", "/v1beta/models/%s:streamGenerateContent?alt=sse", "/v1beta/models/%s:generateContent", `{"contents":[{"role":"user","parts":[{"text":"Hello?"}]}]}`},
}

func call(t *testing.T, d int, model string, stream bool) *http.Request {
	t.Helper()
	path, body := dialects[d].path, dialects[d].body
	if !stream {
		path = dialects[d].whole
	}
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, model)
	} else {
		body = fmt.Sprintf(body, model, stream)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model.test"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// ask returns what a client gets.
func ask(t *testing.T, c http.RoundTripper, r *http.Request) (*http.Response, []byte, error) {
	t.Helper()
	resp, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); cerr != nil {
		t.Error(cerr)
	}
	return resp, body, err
}

// Every reply of every dialect passes as it came, streamed and not.
func TestReplyPassesUnchanged(t *testing.T) {
	for d := range dialects {
		for _, script := range []string{"ok", "thinking", "redacted", "tool", "two-tools", "remote-tool", "empty", "length", "filtered"} {
			for _, stream := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					upstream := func() func(context.Context, string, string) (net.Conn, error) {
						s, err := rehearsal.New()
						if err != nil {
							t.Fatal(err)
						}
						return serve(t, s)
					}
					direct := &http.Transport{DialContext: upstream()}
					defer direct.CloseIdleConnections()
					ours := &transport.Transport{Dial: upstream()}
					defer ours.CloseIdleConnections()
					want, wantBody, werr := ask(t, direct, call(t, d, script+"-fast", stream))
					got, gotBody, gerr := ask(t, ours, call(t, d, script+"-fast", stream))
					if werr != nil || gerr != nil || got.StatusCode != want.StatusCode || !bytes.Equal(bytes.TrimSpace(gotBody), bytes.TrimSpace(wantBody)) {
						t.Errorf("%s %s streamed %t: %d %v\n%s\nwant %d %v\n%s", dialects[d].name, script, stream,
							got.StatusCode, gerr, gotBody, want.StatusCode, werr, wantBody)
					}
					if kind := got.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/event-stream") != stream {
						t.Errorf("content type %q", kind)
					}
				})
			}
		}
	}
}

// What real servers were recorded to send passes as it came, unknown fields and events included.
func TestRecordingPassesUnchanged(t *testing.T) {
	for d, dialect := range dialects {
		files, err := filepath.Glob("../wire/" + dialect.name + "/testdata/*.sse")
		if err != nil || len(files) == 0 {
			t.Fatalf("no recordings: %v", err)
		}
		whole := 0
		for _, file := range files {
			recorded, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			events, err := os.ReadFile(strings.TrimSuffix(file, ".sse") + ".events")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(events, []byte("\nend: <nil>\n")) || recorded[0] == '{' {
				continue
			}
			whole++
			synctest.Test(t, func(t *testing.T) {
				ours := &transport.Transport{Dial: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					w.Write(recorded)
				}))}
				defer ours.CloseIdleConnections()
				_, got, err := ask(t, ours, call(t, d, "m", true))
				// What follows the terminal event is nobody's.
				if err != nil || len(got) < len(recorded)/2 || !bytes.HasPrefix(frames(recorded), frames(got)) {
					t.Errorf("%s: %v\n%s\nwant\n%s", file, err, got, recorded)
				}
			})
		}
		if whole < 3 {
			t.Errorf("%s: %d recordings end well", dialect.name, whole)
		}
	}
}

// frames normalises the line ends and blank lines between frames.
func frames(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	for bytes.Contains(b, []byte("\n\n\n")) {
		b = bytes.ReplaceAll(b, []byte("\n\n\n"), []byte("\n\n"))
	}
	return bytes.TrimSpace(b)
}

// faults are the scripts whose transcripts are pinned.
var faults = []string{"ok",
	"overloaded-then-ok", "always-503", "rate-limited-1s", "rate-limited-1s-then-ok", "rate-limited-3000s", "quota", "auth-failed",
	"permission-denied", "model-not-found", "context-overflow", "too-large", "invalid", "prompt-filtered", "silent",
	"reset-before-headers-then-ok", "error-in-200-then-ok", "page-in-200",
	"overloaded-after-start-then-ok", "cut-before-text-then-ok", "ended-before-text-then-ok", "malformed-first-then-ok",
	"keep-alives-only-then-ok", "half-call-then-ok", "half-call-ended-then-ok", "call-failed-then-ok",
	"failed-inside-text", "failed-after-text", "error-after-text", "cut-after-text", "reset-after-text", "ended-after-text", "malformed-after-text",
	"stall-after-text", "thinking-failed", "redacted-reset", "remote-tool-failed", "text-half-call"}

// R1-R3, R5-R7, R9, R10: what each dialect's client gets for each fault, byte for byte.
func TestFaults(t *testing.T) {
	for d, dialect := range dialects {
		var all bytes.Buffer
		for _, script := range faults {
			fmt.Fprintf(&all, "=== %s\n%s\n", script, play(t, d, script+"-fast", true, replay.Hold{}))
		}
		golden(t, dialect.name, all.Bytes())
	}
}

// A request that is not streamed is repeated as long as it is not whole (R11).
func TestFaultsUnstreamed(t *testing.T) {
	var all bytes.Buffer
	for d, dialect := range dialects {
		for _, script := range []string{"overloaded-then-ok", "cut-after-text", "rate-limited-3000s", "context-overflow"} {
			fmt.Fprintf(&all, "=== %s %s\n%s\n", dialect.name, script, play(t, d, script+"-fast", false, replay.Hold{}))
		}
	}
	golden(t, "unstreamed", all.Bytes())
}

// With hold whole, a break in the middle of the answer is repaired and nobody sees it; where it
// cannot be, it is a status.
func TestWholeIsRescued(t *testing.T) {
	var all bytes.Buffer
	for d, dialect := range dialects {
		for _, script := range []string{"failed-inside-text-once", "cut-after-text"} {
			fmt.Fprintf(&all, "=== %s %s\n%s\n", dialect.name, script, play(t, d, script+"-fast", true, replay.Hold{Mode: replay.HoldWhole}))
		}
	}
	golden(t, "hold_whole", all.Bytes())
}

// R2, R5: the frame that says why the answer ends goes out with the end or not at all, and so
// does a frame with a part of a call, whatever else is in it.
func TestFramesThatWait(t *testing.T) {
	const chatText = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}` + "\n\n"
	const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"m\"}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n"
	for _, c := range []struct {
		name     string
		d        int
		upstream string
		reads    string // what of it the client gets, before the ending
	}{
		{"finish reason", 0, chatText + `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", chatText},
		{"last text with finish reason", 0, chatText + `data: {"id":"c","choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"stop"}]}` + "\n\n", chatText},
		{"text with half a call", 0, chatText + `data: {"id":"c","choices":[{"index":0,"delta":{"content":"!","tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{"}}]}}]}` + "\n\n", chatText},
		{"stop reason", 2, start + "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n", start},
		{"gemini", 3, `data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}` + "\n\n" + `data: {"candidates":[{"content":{"parts":[{"text":"!"}]},"finishReason":"STOP"}]}` + "\n\n",
			`data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}` + "\n\n"},
		{"a finish reason in every chunk", 3, `data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}` + "\n\n" + `data: {"candidates":[{"content":{"parts":[{"text":"!"}]},"finishReason":"STOP"}]}` + "\n\n",
			`data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}` + "\n\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ours := &transport.Transport{Dial: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, c.upstream)
				http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}))}
			defer ours.CloseIdleConnections()
			_, got, err := ask(t, ours, call(t, c.d, "m", true))
			if s, ok := errors.AsType[*recovery.Stopped](err); !ok || s.Failure.Class != failure.StreamInterrupted {
				t.Errorf("%s: the body ends with %v", c.name, err)
			}
			rest, ok := strings.CutPrefix(string(got), c.reads)
			if !ok || strings.Contains(rest, "finish") || strings.Contains(rest, "stop_reason") || strings.Contains(rest, "tool_calls") {
				t.Errorf("%s: the client got\n%s", c.name, got)
			}
		})
	}
}

// The key, the query and the fields of a call reach the provider; what belongs to a connection
// does not. The body goes out as it is.
func TestRequestPassesUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen *http.Request
		var body []byte
		ours := &transport.Transport{Dial: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r
			body, _ = io.ReadAll(r.Body)
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}))}
		defer ours.CloseIdleConnections()
		const raw = "{ \"stream\" : true,\t\"odd\": 1e400, \"model\":\"m\", \"messages\": [] }"
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://azure.test/openai/deployments/x/chat/completions?api-version=1", strings.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer k"}, "X-Odd": {"1"}, "Accept-Encoding": {"gzip"}, "Cookie": {"a=b"}}
		if _, _, err := ask(t, ours, r); err != nil {
			t.Fatal(err)
		}
		if string(body) != raw || seen.URL.String() != "/openai/deployments/x/chat/completions?api-version=1" {
			t.Errorf("%s %s", seen.URL, body)
		}
		if h := seen.Header; h.Get("Authorization") != "Bearer k" || h.Get("X-Odd") != "1" || h.Get("Accept-Encoding") != "" || h.Get("Cookie") != "" {
			t.Errorf("header %v", h)
		}
	})
}

// nobody is a transport that keeps what it was sent.
type nobody struct {
	sent   int64
	closed bool
}

func (n *nobody) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	n.sent, err = io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: http.StatusRequestEntityTooLarge, Body: http.NoBody}, errors.Join(err, r.Body.Close())
}

// closing says that it was closed.
type closing struct {
	io.Reader
	closed *bool
}

func (c closing) Close() error { *c.closed = true; return nil }

// What is no call of ours goes to the base whole, however large it is.
func TestOtherBodyPassesWhole(t *testing.T) {
	for _, c := range []struct {
		start string
		size  int64
	}{{"no JSON", 1000}, {`{"model":"m"`, transport.MaxBody + 1}, {`{"model":"m"`, transport.MaxBody + 1000}} {
		base := new(nobody)
		r := call(t, 0, "m", true)
		fill := strings.NewReader(strings.Repeat(" ", int(c.size)-len(c.start)))
		r.Body = closing{io.MultiReader(strings.NewReader(c.start), fill), &base.closed}
		resp, err := (&transport.Transport{Base: base}).RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || base.sent != c.size || !base.closed {
			t.Errorf("of %d bytes %d came, closed: %t, %v", c.size, base.sent, base.closed, err)
		}
	}
}

// A call whose context is done ends with its cause, before the answer and in the middle of it.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream, err := rehearsal.New()
		if err != nil {
			t.Fatal(err)
		}
		ours := &transport.Transport{Dial: serve(t, upstream)}
		defer ours.CloseIdleConnections()
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		if _, err := ours.RoundTrip(call(t, 0, "silent", true).WithContext(ctx)); !errors.Is(err, gone) {
			t.Errorf("before: %v", err)
		}
		ctx, cancel = context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		resp, err := ours.RoundTrip(call(t, 0, "stall-after-text-fast", true).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("a cancelled body ends well")
		}
		resp.Body.Close()
		if resp, err = ours.RoundTrip(call(t, 0, "drip", true)); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close() // ends the call: the bubble would wait for it
	})
}

// play writes down what a client sees of one call.
func play(t *testing.T, d int, model string, stream bool, hold replay.Hold) string {
	var b strings.Builder
	synctest.Test(t, func(t *testing.T) {
		upstream, err := rehearsal.New()
		if err != nil {
			t.Fatal(err)
		}
		policy := recovery.DefaultPolicy()
		policy.Tier1.Base = 1 // nothing is left to chance
		ours := &transport.Transport{Dial: serve(t, upstream), Hold: hold, Policy: policy}
		defer ours.CloseIdleConnections()
		resp, body, end := ask(t, ours, call(t, d, model, stream))
		fmt.Fprintf(&b, "%s\n", resp.Status)
		for _, k := range slices.Sorted(maps.Keys(resp.Header)) {
			if k != transport.HeaderID && k != "X-Request-Id" && k != "Request-Id" {
				fmt.Fprintf(&b, "%s: %s\n", k, strings.Join(resp.Header[k], ", "))
			}
		}
		id := resp.Header.Get(transport.HeaderID)
		if id == "" {
			t.Error("no id")
		}
		fmt.Fprintf(&b, "\n%s\n--- %d requests", short(strings.ReplaceAll(strings.TrimSpace(string(body)), id, "ID")), upstream.Requests().Total)
		if end != nil {
			s, ok := errors.AsType[*recovery.Stopped](end)
			if !ok {
				t.Errorf("the body ends with %T", end)
			} else {
				fmt.Fprintf(&b, ", cut: %s, %s", s.Failure.Class, s.Decision.Rule)
			}
		}
		b.WriteByte('\n')
	})
	return b.String()
}

var values = regexp.MustCompile(`"(\\.|[^"\\])*"(:?)|[0-9]+`)

// short leaves out frames in the middle of a run that says the same in other words.
func short(body string) string {
	shape := func(frame string) string {
		return values.ReplaceAllStringFunc(frame, func(v string) string {
			if strings.HasSuffix(v, ":") {
				return v
			}
			return "_"
		})
	}
	var out []string
	all := strings.Split(body, "\n\n")
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && shape(all[i+n]) == shape(all[i]) {
			n++
		}
		if n > 3 {
			out = append(out, all[i], "⋮", all[i+n-1])
		} else {
			out = append(out, all[i:i+n]...)
		}
		i += n
	}
	return strings.Join(out, "\n\n")
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, got, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s changed (-update rewrites it):\n%s", path, got)
	}
}
