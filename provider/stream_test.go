package provider

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/wire/chat"
)

// TestOtherAnswers: what comes in place of the event stream (F32, K-135, K-163).
func TestOtherAnswers(t *testing.T) {
	const whole = `{"id":"1","object":"chat.completion","choices":[{"message":{"content":"The server is overloaded, try again in 5s"}}]}`
	const event = `data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	for _, tc := range []struct {
		name, contentType string
		status            int
		body              string
		class             failure.Class
		rule              string // "": any
		retryable         bool
		phase             failure.Phase
	}{
		{"a whole answer", "application/json", 200, whole, failure.InvalidRequest, "protocol_mismatch", false, failure.PhaseStream},
		{"a whole answer, not labelled", "", 200, whole, failure.InvalidRequest, "protocol_mismatch", false, failure.PhaseStream},
		{"a whole answer, labelled as a stream", "text/event-stream", 200, whole, failure.InvalidRequest, "protocol_mismatch", false, failure.PhaseStream},
		{"something else", "application/json", 200, `{"status":"ready"}`, failure.InvalidRequest, "protocol_mismatch", false, failure.PhaseStream},
		{"a whole answer with a bad end", "application/json", 200, `{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}]}`,
			failure.InvalidRequest, "protocol_mismatch", false, failure.PhaseStream},
		{"nothing, as JSON", "application/json", 200, ``, failure.StreamInterrupted, "", true, failure.PhaseStream},
		{"a page", "text/html", 200, "<html><body>Welcome</body></html>", failure.InvalidRequest, "", false, failure.PhaseStream},
		{"an error object", "application/json; charset=utf-8", 200, `{"error":{"message":"Internal Server Error","type":"server_error"}}`, failure.ServerError, "", true, failure.PhaseStream},
		{"an error object, labelled as a stream", "text/event-stream", 200, `{"error":{"message":"Internal Server Error","type":"server_error"}}`, failure.ServerError, "", true, failure.PhaseStream},
		{"nothing", "", 204, "", failure.StreamInterrupted, "", true, failure.PhaseStream},
		{"a redirect", "", 307, "", failure.InvalidRequest, "", false, failure.PhaseOpen},
		{"not modified", "", 304, "", failure.InvalidRequest, "", false, failure.PhaseOpen},
		{"a page of a proxy", "text/html", 502, "<html><h1>502 Bad Gateway</h1></html>", failure.ServerError, "", true, failure.PhaseOpen},
		{"a stream, not labelled", "", 200, event, 0, "", false, ""},
		{"a stream, labelled as text", "text/plain; charset=utf-8", 200, event, 0, "", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int32
				p := open(t, Config{Dial: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					w.Header().Set("X-Request-Id", "req_7")
					w.Header().Set("Location", "/v1/elsewhere")
					w.Header()["Content-Type"] = nil
					if tc.contentType != "" {
						w.Header().Set("Content-Type", tc.contentType)
					}
					w.WriteHeader(tc.status)
					io.WriteString(w, tc.body)
				}))})
				_, err := call(t, p, hello("m"))
				if requests.Load() != 1 {
					t.Errorf("%d requests", requests.Load())
				}
				if tc.phase == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				f, ok := errors.AsType[*failure.Failure](err)
				if !ok {
					t.Fatalf("%T %v", err, err)
				}
				if f.Class != tc.class || tc.rule != "" && f.Rule != tc.rule || f.Retryable != tc.retryable || f.Phase != tc.phase ||
					f.Status != tc.status || f.RequestID != "req_7" || f.Message == "" || !f.NotBefore.IsZero() {
					t.Errorf("%+v", f)
				}
			})
		})
	}
}

// TestReuse: a connection is used again behind a whole answer, and never behind another; a
// server that holds the body open does not hold up the caller.
func TestReuse(t *testing.T) {
	for _, tc := range []struct {
		script string
		dials  int32
		took   time.Duration
	}{
		{"ok-fast", 1, 0},
		{"cut-after-text-fast", 2, 0},
		{"failed-inside-text-fast", 2, 0},
		{"held", 2, 2 * linger},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newRehearsal(t, rehearsal.Script{Name: "held", Pause: 1, Scenes: []rehearsal.Scene{{{
				{Do: rehearsal.Say, Deltas: 1}, {Do: rehearsal.Done}}}}})
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.ServeHTTP(w, r)
				if tc.script == "held" {
					<-r.Context().Done()
				}
			})
			var dials atomic.Int32
			dial := serve(t, h)
			p := open(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return dial(ctx, network, address)
			}})
			began := time.Now()
			for range 2 {
				call(t, p, hello(tc.script))
			}
			if d := time.Since(began); dials.Load() != tc.dials || d.Truncate(time.Millisecond) != tc.took {
				t.Errorf("%s: %d connections, want %d; %v", tc.script, dials.Load(), tc.dials, d)
			}
			if n := s.Requests().Total; n != 2 {
				t.Errorf("%s: %d requests for two calls", tc.script, n)
			}
		})
	}
}

// TestIdleConnection: a connection that is not used is dropped after 30 s.
func TestIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		dial := serve(t, newRehearsal(t))
		p := open(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return dial(ctx, network, address)
		}})
		for i, wait := range []time.Duration{0, 29 * time.Second, 31 * time.Second} {
			<-time.After(wait)
			if _, err := call(t, p, hello("ok-fast")); err != nil {
				t.Fatal(err)
			}
			if want := int32(1 + i/2); dials.Load() != want {
				t.Errorf("after %v: %d connections, want %d", wait, dials.Load(), want)
			}
		}
	})
}

// TestEnds: what a stream says when it is asked again behind its end, closed early or twice.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Dial: serve(t, newRehearsal(t))})
		start := func(model string) llm.Stream {
			s, err := p.Stream(t.Context(), llmtest.Permit(t), hello(model))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		run := func(s llm.Stream) (last llm.Event, err error) {
			for err == nil {
				var e llm.Event
				if e, err = s.Next(); e.Kind != 0 {
					last = e
				}
			}
			return last, err
		}
		s := start("ok-fast")
		if last, err := run(s); last.Kind != llm.EventDone || err != io.EOF {
			t.Errorf("%v, %v", last.Kind, err)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if _, err := s.Next(); err != io.EOF {
			t.Errorf("behind the end: %v", err)
		}
		s = start("failed-inside-text-fast")
		last, first := run(s)
		if last.Kind != llm.EventFailed || !strings.Contains(last.Text, "upstream_stream_error") {
			t.Errorf("the failure's event: %+v", last)
		}
		if _, again := s.Next(); again != first {
			t.Errorf("%v, then %v", first, again)
		}
		s.Close()
		s = start("ok")
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		s.Close()
		_, err := s.Next()
		wantFailure(t, err, failure.Cancelled, "", llm.MaybeAccepted)
		s = start("filtered-fast")
		if last, err := run(s); last.Kind != llm.EventDone || end(err) != "content_filtered" {
			t.Errorf("%v, %v", last.Kind, err)
		}
		s.Close()
	})
}

// TestCancelDropsTheRest: nothing is delivered behind a cancel, also of what is here already.
func TestCancelDropsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Dial: serve(t, newRehearsal(t))})
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		s, err := p.Stream(ctx, llmtest.Permit(t), hello("ok-fast"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for e := (llm.Event{}); e.Kind != llm.EventPartStart; { // the text is in the same frame
			if e, err = s.Next(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		cancel(stop)
		if e, err := s.Next(); e.Kind != 0 || !errors.Is(err, stop) || end(err) != "cancelled" {
			t.Errorf("%v, %v", e.Kind, err)
		}
	})
}

// TestRequest is what the server gets.
func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got *http.Request
		var body string
		p := open(t, Config{BaseURL: "http://r.test/openai/v1/", Key: "sk-1", Header: http.Header{"x-team": {"blue"}, "user-agent": {"mine"}},
			Dial: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got, body = r, string(b)
				w.WriteHeader(401)
			}))})
		_, err := call(t, p, hello("m"))
		if end(err) != "auth_failed" {
			t.Error(err)
		}
		if got.Method != "POST" || got.URL.Path != "/openai/v1/chat/completions" || got.ContentLength != int64(len(body)) || !strings.Contains(body, "Hello?") {
			t.Errorf("%s %s %d %s", got.Method, got.URL, got.ContentLength, body)
		}
		for name, want := range map[string]string{"Authorization": "Bearer sk-1", "Content-Type": "application/json",
			"Accept": "text/event-stream", "Accept-Encoding": "", "X-Team": "blue", "User-Agent": "mine", "Idempotency-Key": ""} {
			if v := got.Header.Get(name); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
		if _, err := call(t, p.WithKey("sk-2"), hello("m")); end(err) != "auth_failed" || got.Header.Get("Authorization") != "Bearer sk-2" {
			t.Errorf("%v, %v", err, got.Header)
		}
		if _, err := call(t, p, hello("m")); end(err) != "auth_failed" || got.Header.Get("Authorization") != "Bearer sk-1" {
			t.Errorf("%v, %v", err, got.Header)
		}
	})
}

// mute is a dialect that cannot say anything.
type mute struct{ chat.Codec }

func (mute) Encode(*llm.Request) ([]byte, error) { return nil, errors.New("messages: no words") }

// TestEncodeError: what the dialect cannot say is a failure of ours, and spends no permit.
func TestEncodeError(t *testing.T) {
	permit := llmtest.Permit(t)
	_, err := open(t, Config{Codec: mute{}}).Stream(t.Context(), permit, hello("m"))
	f := wantFailure(t, err, failure.Local, "", llm.NeverSent)
	if f.Rule != "encode" || !strings.Contains(f.Message, "no words") || f.Provider != "test" || f.Model != "m" {
		t.Errorf("%+v", f)
	}
	if err := permit.Spend(t.Context()); err != nil {
		t.Errorf("the permit was spent: %v", err)
	}
}

func TestNew(t *testing.T) {
	for want, c := range map[string]Config{
		"without a name":             {Codec: chat.Codec{}, BaseURL: "http://x"},
		"or a codec":                 {Name: "x", BaseURL: "http://x"},
		"not scheme, host and path":  {Name: "x", Codec: chat.Codec{}, BaseURL: "localhost:11434"},
		`"ftp://x" is not`:           {Name: "x", Codec: chat.Codec{}, BaseURL: "ftp://x"},
		`?a=b" is not`:               {Name: "x", Codec: chat.Codec{}, BaseURL: "http://x/v1?a=b"},
		`"http://me:xxxxx@x" is not`: {Name: "x", Codec: chat.Codec{}, BaseURL: "http://me:secret@x"},
		"base URL: parse":            {Name: "x", Codec: chat.Codec{}, BaseURL: "http://[::1"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	p := open(t, Config{Name: "local"})
	if p.Name() != "local" {
		t.Error(p.Name())
	}
}

// TestConcurrent: one provider serves many calls at a time, each on its own (F18).
func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRehearsal(t)
		p := open(t, Config{Timeouts: DefaultTimeouts, Dial: serve(t, s)})
		const n = 50
		errs := make(chan error, n)
		for i := range n {
			model := [...]string{"ok", "cut-after-text", "always-503", "thinking", "stall-after-text"}[i%5]
			go func() {
				_, err := call(t, p, hello(model))
				errs <- err
			}()
		}
		good := 0
		for range n {
			if <-errs == nil {
				good++
			}
		}
		if good != n*2/5 || s.Requests().Total != n {
			t.Errorf("%d of %d went well in %d requests", good, n, s.Requests().Total)
		}
	})
}
