package provider

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
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
		{"GOAWAY after the headers, then the end", append(frame(1, 4, 1, headers), frame(7, 0, 0, code(1, calm))...),
			failure.StreamInterrupted, "http2_goaway", llm.MaybeAccepted},
		{"the end after the headers", frame(1, 4, 1, headers), failure.StreamInterrupted, "eof", llm.MaybeAccepted},
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
