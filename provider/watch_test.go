package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/provider/rehearsal"
)

// TestTimeouts: each limit ends a call at its time, 0 turns it off, and nothing but what it
// names resets it (F37, F75, F76, F77).
func TestTimeouts(t *testing.T) {
	second := rehearsal.Duration(time.Second)
	say := rehearsal.Step{Do: rehearsal.Say, Deltas: 1}
	scripts := map[string]rehearsal.Take{
		"silent":        {{Do: rehearsal.Stall}},
		"comments":      {{Do: rehearsal.KeepAlive, For: second}},
		"start":         {{Do: rehearsal.Start}, {Do: rehearsal.Stall}},
		"start, pings":  {{Do: rehearsal.Start}, {Do: rehearsal.Ping, For: second}},
		"late headers":  {{Do: rehearsal.Wait, For: 4 * second}, {Do: rehearsal.Start}, {Do: rehearsal.Wait, For: 4 * second}, say, {Do: rehearsal.Stall}},
		"text":          {say, {Do: rehearsal.Stall}},
		"text, pings":   {say, {Do: rehearsal.Ping, For: second}},
		"text, pauses":  {say, {Do: rehearsal.Wait, For: 4 * second}, say, {Do: rehearsal.Wait, For: 4 * second}, say},
		"half call":     {{Do: rehearsal.HalfCall}, {Do: rehearsal.Stall}},
		"empty block":   {{Do: rehearsal.Empty}, {Do: rehearsal.Stall}},
		"slow thoughts": {{Do: rehearsal.Think, Deltas: 1}, {Do: rehearsal.Wait, For: 4 * second}, say},
	}
	limits := func(event, content, idle int) Timeouts {
		s := time.Second
		return Timeouts{FirstEvent: time.Duration(event) * s, FirstContent: time.Duration(content) * s, Idle: time.Duration(idle) * s}
	}
	for _, tc := range []struct {
		script string
		limits Timeouts
		kind   string // "": no limit ran out
		after  int    // seconds
	}{
		{"silent", limits(5, 10, 3), "first_event_timeout", 5},
		{"silent", limits(0, 10, 3), "first_content_timeout", 10},
		{"silent", limits(0, 0, 3), "", 0},
		{"comments", limits(5, 10, 3), "first_event_timeout", 5},
		{"start", limits(5, 10, 3), "first_content_timeout", 10},
		{"start", limits(5, 0, 3), "idle_timeout", 3},
		{"start", limits(5, 0, 0), "", 0},
		{"start, pings", limits(5, 10, 3), "first_content_timeout", 10},
		{"start, pings", limits(5, 0, 3), "idle_timeout", 3},
		{"late headers", limits(5, 10, 3), "idle_timeout", 11},
		{"late headers", limits(5, 7, 3), "first_content_timeout", 7},
		{"late headers", limits(3, 10, 3), "first_event_timeout", 3},
		{"text", limits(5, 10, 3), "idle_timeout", 3},
		{"text", limits(5, 10, 0), "", 0},
		{"text, pings", limits(5, 10, 3), "idle_timeout", 3},
		{"text, pauses", limits(1, 1, 5), "", 0},
		{"half call", limits(5, 10, 3), "idle_timeout", 3},
		{"empty block", limits(5, 10, 3), "first_content_timeout", 10},
		{"slow thoughts", limits(1, 1, 5), "", 0},
	} {
		for _, c := range codecs {
			if tc.script == "half call" && c.codec.Dialect() == "gemini" {
				continue // a call comes whole there
			}
			t.Run(fmt.Sprint(tc.script, " ", tc.limits, " ", c.codec.Dialect()), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newRehearsal(t, rehearsal.Script{Name: "s", Scenes: []rehearsal.Scene{{scripts[tc.script]}}})
					p := open(t, Config{Codec: c.codec, BaseURL: "http://r.test" + c.path, Timeouts: tc.limits, Dial: serve(t, s)})
					hour := errors.New("an hour went by")
					ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, hour)
					defer cancel()
					began := time.Now()
					_, _, err := llmtest.Collect(ctx, p, llmtest.Permit(t), hello("s-fast"))
					if tc.kind == "" {
						if err != nil && !errors.Is(err, hour) {
							t.Errorf("%v after %v", err, time.Since(began))
						}
						return
					}
					f := wantFailure(t, err, failure.Timeout, tc.kind, llm.MaybeAccepted)
					if d := time.Since(began); d != time.Duration(tc.after)*time.Second || !f.Retryable {
						t.Errorf("%v after %v, want %d s", f, d, tc.after)
					}
				})
			})
		}
	}
}

// TestSilentFrames: frames that say nothing do not keep a stream alive (F77).
func TestSilentFrames(t *testing.T) {
	const text = `{"choices":[{"index":0,"delta":{"content":"Hi"}}]}`
	for _, frame := range []string{
		`{"choices":[{"index":0,"delta":{"content":""}}]}`,
		`{"choices":[{"index":0,"delta":{}}]}`,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`{"choices":[],"unknown":true}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := open(t, Config{Timeouts: Timeouts{Idle: 3 * time.Second}, Dial: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				for data := text; r.Context().Err() == nil; data = frame {
					fmt.Fprintf(w, "data: %s\n\n", data)
					w.(http.Flusher).Flush()
					select {
					case <-time.After(time.Second):
					case <-r.Context().Done():
					}
				}
			}))})
			_, err := call(t, p, hello("m"))
			wantFailure(t, err, failure.Timeout, "idle_timeout", llm.MaybeAccepted)
		})
	}
}

// TestConnectTimeout: the dial counts, and the time until there is a connection does not count
// against the limits that follow (F76).
func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := serve(t, newRehearsal(t, rehearsal.Script{Name: "late", Scenes: []rehearsal.Scene{{{
			{Do: rehearsal.Start}, {Do: rehearsal.Wait, For: rehearsal.Duration(900 * time.Millisecond)}, {Do: rehearsal.Say}}}}}))
		slow := func(wait time.Duration) func(context.Context, string, string) (net.Conn, error) {
			return func(ctx context.Context, network, address string) (net.Conn, error) {
				select {
				case <-time.After(wait):
					return dial(ctx, network, address)
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		}
		limits := Timeouts{Connect: 5 * time.Second, FirstEvent: time.Second, FirstContent: time.Second}
		began := time.Now()
		_, err := call(t, open(t, Config{Timeouts: limits, Dial: slow(time.Minute)}), hello("ok-fast"))
		wantFailure(t, err, failure.Timeout, "connect_timeout", llm.NeverSent)
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("after %v", d)
		}
		if _, err := call(t, open(t, Config{Timeouts: limits, Dial: slow(4 * time.Second)}), hello("late-fast")); err != nil {
			t.Error(err)
		}
		limits.Connect = 0
		if _, err := call(t, open(t, Config{Timeouts: limits, Dial: slow(20 * time.Second)}), hello("late-fast")); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowReader: our own reader may take any time between two events (F77).
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Timeouts: Timeouts{FirstEvent: time.Second, FirstContent: time.Second, Idle: time.Second}, Dial: serve(t, newRehearsal(t))})
		s, err := p.Stream(t.Context(), llmtest.Permit(t), hello("ok-fast"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for range 20 {
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Minute)
		}
		for err == nil {
			_, err = s.Next()
		}
		if err != io.EOF {
			t.Errorf("%v", err)
		}
	})
}

// TestErrorBody: no more of it is read, and not for longer, than its reader looks at.
func TestErrorBody(t *testing.T) {
	for name, write := range map[string]func(io.Writer, *http.Request){
		"endless": func(w io.Writer, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
		"silent": func(w io.Writer, r *http.Request) {
			io.WriteString(w, `{"error":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, Config{Dial: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					w.WriteHeader(503)
					write(w, r)
				}))})
				began := time.Now()
				_, err := call(t, p, hello("m"))
				f := wantFailure(t, err, failure.Overloaded, "", llm.MaybeAccepted)
				if d := time.Since(began); d > errorBody || f.Status != 503 {
					t.Errorf("%v after %v", f, d)
				}
			})
		})
	}
}
