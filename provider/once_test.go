package provider

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
)

// TestEarlyAnswer: a server that streams before it has read the request may act on it.
func TestEarlyAnswer(t *testing.T) {
	release := make(chan struct{})
	u := listen(t, func(_ *upstream, c *net.TCPConn, r *bufio.Reader) {
		if _, err := r.ReadString('\n'); err == nil {
			const frame = "data: {\"error\":{\"code\":\"server_error\"}}\n\n"
			fmt.Fprintf(c, "%s%x\r\n%s\r\n", eventStream, len(frame), frame)
		}
		<-release
	})
	defer close(release)
	req := hello("m")
	req.Messages[0].Parts[0].Text = strings.Repeat("words ", 4<<20)
	_, err := call(t, open(t, Config{BaseURL: u.url}), req)
	wantFailure(t, err, failure.ServerError, "", llm.MaybeAccepted)
}

// TestNotSentTwice: a kept connection that dies under the second request is where net/http
// repeats what it may. The second request is not repeated (F98).
func TestNotSentTwice(t *testing.T) {
	u := listen(t, func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
		if u.take(r) && u.requests.Load() == 1 {
			io.WriteString(c, eventStream+firstChunk+"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
			u.take(r)
		}
	})
	p := open(t, Config{BaseURL: u.url, Header: http.Header{"Idempotency-Key": {"k"}}})
	// Without a finish reason the first answer is cut, but its body is at its end.
	if out, err := call(t, p, hello("m")); len(out.Parts()) != 1 {
		t.Fatalf("%v, %v", out.Parts(), err)
	}
	_, err := call(t, p, hello("m"))
	wantFailure(t, err, failure.Network, "eof", llm.MaybeAccepted)
	if u.requests.Load() != 2 {
		t.Errorf("%d requests for two calls", u.requests.Load())
	}
}

// TestLastAct: the permit's second question comes before the first byte of the request is
// written, on a new connection and on a kept one, with TLS and without; a no leaves nothing
// at the server.
func TestLastAct(t *testing.T) {
	for _, tc := range []struct {
		name        string
		tls, http2  bool
		ofConnected int // calls that went well before
	}{
		{"new connection", false, false, 0},
		{"kept connection", false, false, 1},
		{"new connection, TLS", true, false, 0},
		{"kept connection, TLS", true, false, 1},
		{"new connection, HTTP/2", true, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newRehearsal(t)
			var begun atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if !tc.http2 || err == nil {
					begun.Add(1)
				}
				r.Body = io.NopCloser(bytes.NewReader(b))
				s.ServeHTTP(w, r)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			c := Config{HTTP2: tc.http2}
			if server.EnableHTTP2 = tc.http2; tc.tls {
				server.StartTLS()
				c.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
			} else {
				server.Start()
			}
			t.Cleanup(server.Close)
			var written atomic.Int64
			c.BaseURL = server.URL + "/v1"
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return &counted{conn, &written}, err
			}
			p := open(t, c)
			for range tc.ofConnected {
				if _, err := call(t, p, hello("ok-fast")); err != nil {
					t.Fatal(err)
				}
			}
			stale := errors.New("another runner owns the run")
			before, calls := written.Load(), 0
			_, err := p.Stream(t.Context(), llmtest.PermitChecked(t, func(context.Context) error {
				if calls++; calls == 1 {
					return nil
				}
				if now := written.Load(); !tc.tls && now != before {
					t.Errorf("%d bytes were written before the last check", now-before)
				}
				return stale
			}), hello("ok-fast"))
			if !errors.Is(err, stale) || calls != 2 {
				t.Errorf("%v after %d checks", err, calls)
			}
			if d, ok := err.(llm.Delivered); !ok || d.Delivery() != llm.NeverSent {
				t.Errorf("delivery of %T", err)
			}
			p.CloseIdle()
			server.Close() // waits for every handler
			if n := begun.Load(); int(n) != tc.ofConnected {
				t.Errorf("%d requests reached the server, want %d", n, tc.ofConnected)
			}
		})
	}
}

// counted counts what is written to a connection.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// TestCancelClosesConnection: the server notices within 100 ms, before the headers and in the
// middle of the stream, at a cancel and at a close (K-042).
func TestCancelClosesConnection(t *testing.T) {
	stop := errors.New("the operator said stop")
	for _, tc := range []struct {
		name    string
		headers bool
		end     func(cancel context.CancelCauseFunc, s llm.Stream)
	}{
		{"cancel before the headers", false, func(cancel context.CancelCauseFunc, _ llm.Stream) { cancel(stop) }},
		{"cancel in the stream", true, func(cancel context.CancelCauseFunc, _ llm.Stream) { cancel(stop) }},
		{"close in the stream", true, func(_ context.CancelCauseFunc, s llm.Stream) { s.Close() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			taken := make(chan struct{})
			u := listen(t, func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
				u.take(r)
				if tc.headers {
					io.WriteString(c, eventStream+firstChunk)
				}
				close(taken)
				io.Copy(io.Discard, r) // until the client goes
			})
			p := open(t, Config{BaseURL: u.url})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var began time.Time
			if tc.headers {
				s, err := p.Stream(ctx, llmtest.Permit(t), hello("m"))
				if err != nil {
					t.Fatal(err)
				}
				<-taken
				began = time.Now()
				tc.end(cancel, s)
				_, err = s.Next()
				f := wantFailure(t, err, failure.Cancelled, "", llm.MaybeAccepted)
				if context.Cause(ctx) != nil && !errors.Is(f, stop) {
					t.Errorf("%v hides the cause", f)
				}
			} else {
				go func() {
					<-taken
					began = time.Now()
					tc.end(cancel, nil)
				}()
				_, err := p.Stream(ctx, llmtest.Permit(t), hello("m"))
				if f := wantFailure(t, err, failure.Cancelled, "", llm.MaybeAccepted); !errors.Is(f, stop) {
					t.Errorf("%v hides the cause", f)
				}
			}
			<-u.gone
			if d := time.Since(began); d > 100*time.Millisecond {
				t.Errorf("the server noticed after %v", d)
			}
		})
	}
}
