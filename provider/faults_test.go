package provider

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
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
	"github.com/reprise-run/reprise/provider/rehearsal"
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
				timeouts.FirstEvent = 20 * time.Millisecond
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

// TestHTTP2 plays the frames of a server that refuses (RFC 9113, sections 6.4, 6.8, 8.7).
func TestHTTP2(t *testing.T) {
	const noError, protocolError, refusedStream, calm = 0, 1, 7, 11
	code := func(values ...uint32) (b []byte) {
		for _, v := range values {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	headers := append([]byte{0x88}, append([]byte{0x0f, 0x10, 17}, "text/event-stream"...)...) // 200, content-type
	for _, tc := range []struct {
		name      string
		frames    []byte // sent once the whole request was read
		class     failure.Class
		transport string
		delivery  llm.Delivery
	}{
		{"REFUSED_STREAM", frame(3, 0, 1, code(refusedStream)), failure.Network, "http2_refused", llm.Refused},
		{"GOAWAY below the stream", frame(7, 0, 0, code(0, noError)), failure.Network, "http2_goaway", llm.Refused},
		{"GOAWAY below the stream with an error", frame(7, 0, 0, code(0, calm)), failure.Network, "http2_refused", llm.Refused},
		{"GOAWAY above the stream, then the end", frame(7, 0, 0, code(1, noError)), failure.Network, "http2_goaway", llm.MaybeAccepted},
		{"RST_STREAM with an error", frame(3, 0, 1, code(calm)), failure.Network, "http2_reset", llm.MaybeAccepted},
		{"RST_STREAM with PROTOCOL_ERROR", frame(3, 0, 1, code(protocolError)), failure.Network, "http2_reset", llm.MaybeAccepted},
		{"RST_STREAM after the headers", append(frame(1, 4, 1, headers), frame(3, 0, 1, code(refusedStream))...),
			failure.Network, "http2_refused", llm.Refused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, _ := tlsServer(t, nil) // for its certificate
			config := server.TLS.Clone()
			config.NextProtos = []string{"h2"}
			u := listen(t, func(u *upstream, c *net.TCPConn, _ *bufio.Reader) {
				conn := tls.Server(c, config)
				defer conn.Close()
				r := bufio.NewReader(conn)
				if _, err := io.CopyN(io.Discard, r, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
					return
				}
				conn.Write(frame(4, 0, 0, nil)) // our settings
				for {
					kind, flags, err := readFrame(r)
					if err != nil {
						return
					}
					if kind == 4 && flags&1 == 0 {
						conn.Write(frame(4, 1, 0, nil))
					}
					if kind == 0 && flags&1 != 0 { // DATA, END_STREAM
						u.requests.Add(1)
						conn.Write(tc.frames)
						return
					}
				}
			})
			trust := server.Client().Transport.(*http.Transport).TLSClientConfig
			p := open(t, Config{BaseURL: strings.Replace(u.url, "http", "https", 1), TLS: trust, HTTP2: true})
			_, err := call(t, p, hello("m"))
			if f, ok := errors.AsType[*failure.Failure](err); ok && f.Phase == failure.PhaseStream {
				// Who has begun to answer has not refused.
				tc.class, tc.delivery = failure.StreamInterrupted, llm.MaybeAccepted
			}
			wantFailure(t, err, tc.class, tc.transport, tc.delivery)
			p.CloseIdle()
			if n := u.requests.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// frame makes an HTTP/2 frame (RFC 9113, section 4.1).
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

func readFrame(r *bufio.Reader) (kind, flags byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	_, err = io.CopyN(io.Discard, r, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
	return head[3], head[4], err
}

// TestHTTP2Answer: with the setting on, an answer comes over HTTP/2; off, over HTTP/1.1.
func TestHTTP2Answer(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := newRehearsal(t)
		var proto atomic.Value
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			proto.Store(r.Proto)
			s.ServeHTTP(w, r)
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		trust := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		trust.NextProtos = nil
		p := open(t, Config{BaseURL: server.URL + "/v1", TLS: trust, HTTP2: on})
		out, err := call(t, p, hello("ok-fast"))
		if want := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[on]; err != nil || len(out.Parts()) == 0 || proto.Load() != want {
			t.Errorf("HTTP2 %t: %v, %v", on, err, proto.Load())
		}
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

// TestSharedConnection: over HTTP/2, a refused permit and a cancelled call leave the other
// calls on their connection alone.
func TestSharedConnection(t *testing.T) {
	server := httptest.NewUnstartedServer(newRehearsal(t, rehearsal.Script{Name: "brief", Pause: rehearsal.Duration(time.Millisecond),
		Scenes: []rehearsal.Scene{{{{Do: rehearsal.Say, Deltas: 50}}}}}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	var dials atomic.Int32
	p := open(t, Config{BaseURL: server.URL + "/v1", HTTP2: true, TLS: server.Client().Transport.(*http.Transport).TLSClientConfig,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		}})
	first, err := p.Stream(t.Context(), llmtest.Permit(t), hello("brief"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	stale, calls := errors.New("stale"), 0
	if _, err := p.Stream(t.Context(), llmtest.PermitChecked(t, func(context.Context) error {
		if calls++; calls == 1 {
			return nil
		}
		return stale
	}), hello("brief")); !errors.Is(err, stale) {
		t.Error(err)
	}
	second, err := p.Stream(t.Context(), llmtest.Permit(t), hello("stall-after-text"))
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	for err == nil {
		_, err = first.Next()
	}
	if err != io.EOF || dials.Load() != 1 {
		t.Errorf("%v, %d connections", err, dials.Load())
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
