package provider

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
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

// upstream is a TCP server that counts the requests of which it has read every byte.
type upstream struct {
	url      string
	conns    atomic.Int32
	requests atomic.Int32
	gone     chan struct{} // one for each connection that ended
}

// listen plays a connection with f, and waits for what it started.
func listen(t *testing.T, f func(u *upstream, c *net.TCPConn, r *bufio.Reader)) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{url: "http://" + l.Addr().String() + "/v1", gone: make(chan struct{}, 10)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.conns.Add(1)
			f(u, c.(*net.TCPConn), bufio.NewReader(c))
			c.Close()
			u.gone <- struct{}{}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return u
}

// take reads one whole request.
func (u *upstream) take(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	u.requests.Add(1)
	return true
}

func reset(c *net.TCPConn) {
	if c.SetLinger(0) == nil {
		c.Close()
	}
}

const (
	eventStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-Id: req_1\r\nTransfer-Encoding: chunked\r\n\r\n"
	firstChunk  = "4f\r\ndata: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}            \n\n\r\n"
)

// wantFailure checks the facts of a failed call.
func wantFailure(t *testing.T, err error, class failure.Class, transport string, d llm.Delivery) *failure.Failure {
	t.Helper()
	f, ok := errors.AsType[*failure.Failure](err)
	if !ok {
		t.Fatalf("%T %v, want a failure", err, err)
	}
	if f.Class != class || f.Transport != transport || f.Delivery() != d {
		t.Errorf("%v %q %v (%v), want %v %q %v", f.Class, f.Transport, f.Delivery(), f, class, transport, d)
	}
	return f
}

func call(t *testing.T, p *Provider, req *llm.Request) (llm.Output, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, _, err := llmtest.Collect(ctx, p, llmtest.Permit(t), req)
	return out, err
}

// TestSocketFaults breaks real connections at every point of a call. Each draws at most one
// request, also with a header that makes net/http repeat others' (F98, N53, N74).
func TestSocketFaults(t *testing.T) {
	large := hello("m")
	large.Messages[0].Parts[0].Text = strings.Repeat("words ", 4<<20)
	for _, tc := range []struct {
		name      string
		play      func(u *upstream, c *net.TCPConn, r *bufio.Reader)
		req       *llm.Request
		requests  int32
		class     failure.Class
		transport string
		delivery  llm.Delivery
		phase     failure.Phase
	}{
		{"reset before the body was read", func(_ *upstream, c *net.TCPConn, r *bufio.Reader) {
			for line := "-"; strings.TrimSpace(line) != ""; {
				line, _ = r.ReadString('\n')
			}
			reset(c)
		}, large, 0, failure.Network, "reset", llm.NeverSent, failure.PhaseOpen},
		{"reset after the body was read", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			reset(c)
		}, nil, 1, failure.Network, "reset", llm.MaybeAccepted, failure.PhaseOpen},
		{"closed after the body was read", func(u *upstream, _ *net.TCPConn, r *bufio.Reader) {
			u.take(r)
		}, nil, 1, failure.Network, "eof", llm.MaybeAccepted, failure.PhaseOpen},
		{"half closed after the body was read", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			c.CloseWrite()
			io.Copy(io.Discard, r)
		}, nil, 1, failure.Network, "eof", llm.MaybeAccepted, failure.PhaseOpen},
		{"reset in the headers", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: te")
			c.CloseWrite()
			io.Copy(io.Discard, r)
		}, nil, 1, failure.Network, "eof", llm.MaybeAccepted, failure.PhaseOpen},
		{"reset after the headers", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			io.WriteString(c, eventStream)
			reset(c)
		}, nil, 1, failure.StreamInterrupted, "reset", llm.MaybeAccepted, failure.PhaseStream},
		{"closed after text", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			io.WriteString(c, eventStream+firstChunk)
		}, nil, 1, failure.StreamInterrupted, "eof", llm.MaybeAccepted, failure.PhaseStream},
		{"closed in a frame", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			io.WriteString(c, eventStream+firstChunk[:40])
		}, nil, 1, failure.StreamInterrupted, "eof", llm.MaybeAccepted, failure.PhaseStream},
		{"ended in a frame", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			io.WriteString(c, eventStream+"8\r\ndata: {\"\r\n0\r\n\r\n")
		}, nil, 1, failure.StreamInterrupted, "eof", llm.MaybeAccepted, failure.PhaseStream},
		{"broken framing", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			io.WriteString(c, eventStream+"no length\r\n")
		}, nil, 1, failure.StreamInterrupted, "", llm.MaybeAccepted, failure.PhaseStream},
		{"never answered", func(u *upstream, _ *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			io.Copy(io.Discard, r)
		}, nil, 1, failure.Timeout, "first_event_timeout", llm.MaybeAccepted, failure.PhaseOpen},
		{"not HTTP", func(u *upstream, c *net.TCPConn, r *bufio.Reader) {
			u.take(r)
			io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
		}, nil, 1, failure.Unknown, "", llm.MaybeAccepted, failure.PhaseOpen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := listen(t, tc.play)
			timeouts := Timeouts{Connect: 10 * time.Second}
			if tc.class == failure.Timeout {
				timeouts.FirstEvent = 200 * time.Millisecond
			}
			p := open(t, Config{BaseURL: u.url, Timeouts: timeouts,
				Header: http.Header{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"k"}}})
			req := tc.req
			if req == nil {
				req = hello("m")
			}
			_, err := call(t, p, req)
			f := wantFailure(t, err, tc.class, tc.transport, tc.delivery)
			if f.Phase != tc.phase {
				t.Errorf("phase %v, want %v", f.Phase, tc.phase)
			}
			if tc.phase == failure.PhaseStream && (f.RequestID != "req_1" || f.Status != 200) {
				t.Errorf("request id %q, status %d", f.RequestID, f.Status)
			}
			p.CloseIdle()
			<-u.gone // nothing more can come on it
			if n := u.requests.Load(); n != tc.requests || u.conns.Load() != 1 {
				t.Errorf("%d requests on %d connections, want %d on 1", n, u.conns.Load(), tc.requests)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Run("refused port", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		_, err = call(t, open(t, Config{BaseURL: "http://" + l.Addr().String()}), hello("m"))
		wantFailure(t, err, failure.Network, "dial", llm.NeverSent)
	})
	t.Run("no such name", func(t *testing.T) {
		// A name server of our own that knows no name.
		ns, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			b := make([]byte, 1<<10)
			for {
				n, from, err := ns.ReadFrom(b)
				if err != nil {
					return
				}
				binary.BigEndian.PutUint16(b[2:], 0x8183) // an answer: NXDOMAIN
				binary.BigEndian.PutUint16(b[10:], 0)     // no additional records
				for end := 12; end < n; end++ {           // the question alone
					if b[end] == 0 {
						n = end + 5
						break
					}
				}
				ns.WriteTo(b[:n], from)
			}
		}()
		t.Cleanup(func() { ns.Close(); <-done })
		d := net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", ns.LocalAddr().String())
		}}}
		_, err = call(t, open(t, Config{BaseURL: "http://nobody.invalid./v1", Dial: d.DialContext}), hello("m"))
		wantFailure(t, err, failure.Network, "dns", llm.NeverSent)
	})
	t.Run("certificate not trusted", func(t *testing.T) {
		server, requests := tlsServer(t, nil)
		_, err := call(t, open(t, Config{BaseURL: server.URL}), hello("m"))
		f := wantFailure(t, err, failure.Network, "certificate", llm.NeverSent)
		if f.Retryable || requests.Load() != 0 {
			t.Errorf("retryable %v, %d requests", f.Retryable, requests.Load())
		}
	})
	t.Run("certificate of another name", func(t *testing.T) {
		server, requests := tlsServer(t, nil)
		config := server.Client().Transport.(*http.Transport).TLSClientConfig
		url := strings.Replace(server.URL, "127.0.0.1", "127.0.0.2", 1)
		d := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		}
		_, err := call(t, open(t, Config{BaseURL: url, TLS: config, Dial: d}), hello("m"))
		wantFailure(t, err, failure.Network, "certificate", llm.NeverSent)
		if requests.Load() != 0 {
			t.Errorf("%d requests", requests.Load())
		}
	})
	t.Run("no TLS", func(t *testing.T) {
		u := listen(t, func(_ *upstream, c *net.TCPConn, r *bufio.Reader) {
			io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n")
			io.Copy(io.Discard, r)
		})
		_, err := call(t, open(t, Config{BaseURL: strings.Replace(u.url, "http", "https", 1)}), hello("m"))
		wantFailure(t, err, failure.Network, "tls", llm.NeverSent)
	})
}

// tlsServer is a server whose handler counts, h being what it does besides.
func tlsServer(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			requests.Add(1)
		}
		if h != nil {
			h(w, r)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, &requests
}

// TestRehearsedReset: over a real connection, a rehearsed reset is one.
func TestRehearsedReset(t *testing.T) {
	s := newRehearsal(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	p := open(t, Config{BaseURL: server.URL + "/v1"})
	for model, class := range map[string]failure.Class{
		"reset-before-headers":  failure.Network,
		"reset-before-text":     failure.StreamInterrupted,
		"reset-after-text-fast": failure.StreamInterrupted,
	} {
		out, err := call(t, p, hello(model))
		wantFailure(t, err, class, "reset", llm.MaybeAccepted)
		if shown := len(out.Parts()) > 0; shown != (model == "reset-after-text-fast") {
			t.Errorf("%s: %v", model, out.Parts())
		}
		if n := s.Requests().ByModel[model]; n != 1 {
			t.Errorf("%s: %d requests", model, n)
		}
	}
}
