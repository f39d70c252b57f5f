package failure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// lookalike has the shape of net/http's own error for a connection that ended after a GOAWAY.
type lookalike struct {
	LastStreamID uint32
	ErrCode      uint32
	DebugData    string
}

func (lookalike) Error() string { return "goaway" }

// TestFromError goes by types alone. F29, F35.
func TestFromError(t *testing.T) {
	post := func(err error) error { return &url.Error{Op: "Post", URL: "https://host/v1", Err: err} }
	op := func(name string, err error) error {
		return &net.OpError{Op: name, Net: "tcp", Err: os.NewSyscallError(name, err)}
	}
	watchdog := NewTimeout(Facts{}, "idle_timeout", time.Minute)
	for _, c := range []struct {
		name      string
		err       error
		phase     Phase
		class     Class
		transport string
		delivered llm.Delivery
	}{
		{"refused port", post(op("dial", syscall.ECONNREFUSED)), PhaseOpen, Network, "dial", llm.NeverSent},
		{"no route", post(op("dial", syscall.EHOSTUNREACH)), PhaseOpen, Network, "dial", llm.NeverSent},
		{"dial timeout", post(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}), PhaseOpen, Timeout, "connect_timeout", llm.NeverSent},
		{"no such host", post(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}), PhaseOpen, Network, "dns", llm.NeverSent},
		{"unknown authority", post(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), PhaseOpen, Network, "certificate", llm.NeverSent},
		{"wrong host", post(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "host"}), PhaseOpen, Network, "certificate", llm.NeverSent},
		{"expired", post(x509.CertificateInvalidError{Reason: x509.Expired}), PhaseOpen, Network, "certificate", llm.NeverSent},
		{"plain HTTP where TLS was due", post(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), PhaseOpen, Network, "tls", llm.NeverSent},
		{"reset before the answer", post(op("read", syscall.ECONNRESET)), PhaseOpen, Network, "reset", llm.MaybeAccepted},
		{"reset in the answer", op("read", syscall.ECONNRESET), PhaseStream, StreamInterrupted, "reset", llm.MaybeAccepted},
		{"broken pipe", post(op("write", syscall.EPIPE)), PhaseOpen, Network, "reset", llm.MaybeAccepted},
		{"EOF before the answer", post(io.EOF), PhaseOpen, Network, "eof", llm.MaybeAccepted},
		{"a dial in the stream's phase", op("dial", syscall.ECONNREFUSED), PhaseStream, Network, "dial", llm.NeverSent},
		{"a certificate in the stream's phase", x509.UnknownAuthorityError{}, PhaseStream, Network, "certificate", llm.NeverSent},
		{"EOF in the answer", io.ErrUnexpectedEOF, PhaseStream, StreamInterrupted, "eof", llm.MaybeAccepted},
		{"refused stream", post(http2Stream{StreamID: 3, Code: http2RefusedStream}), PhaseOpen, Network, "http2_refused", llm.Refused},
		{"stream reset", http2Stream{StreamID: 3, Code: 2}, PhaseStream, StreamInterrupted, "http2_reset", llm.MaybeAccepted},
		{"GOAWAY", lookalike{}, PhaseStream, StreamInterrupted, "http2_goaway", llm.MaybeAccepted},
		{"graceful GOAWAY for a later stream", post(errors.New("http2: Transport received Server's graceful shutdown GOAWAY")), PhaseOpen, Network, "http2_goaway", llm.Refused},
		{"idle connection closed", post(errors.New("http: server closed idle connection")), PhaseOpen, Network, "reset", llm.MaybeAccepted},
		{"read deadline", post(os.ErrDeadlineExceeded), PhaseOpen, Timeout, "timeout", llm.MaybeAccepted},
		{"context deadline", post(context.DeadlineExceeded), PhaseOpen, Timeout, "timeout", llm.MaybeAccepted},
		{"cancelled", post(context.Canceled), PhaseOpen, Cancelled, "", llm.MaybeAccepted},
		{"cancelled in the answer", fmt.Errorf("read: %w", context.Canceled), PhaseStream, Cancelled, "", llm.MaybeAccepted},
		{"a watchdog's cause", fmt.Errorf("read: %w", watchdog), PhaseStream, Timeout, "idle_timeout", llm.MaybeAccepted},
		{"a broken frame", &json.SyntaxError{}, PhaseStream, ServerError, "malformed", llm.MaybeAccepted},
		{"something thrown", errors.New("boom"), PhaseOpen, Unknown, "", llm.MaybeAccepted},
		{"words that look like a transport's", errors.New("connection reset by peer"), PhaseOpen, Unknown, "", llm.MaybeAccepted},
		{"nothing", nil, PhaseOpen, Unknown, "", llm.MaybeAccepted},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Facts{Provider: "p", Dialect: "chat", Model: "m", Phase: c.phase}
			out := FromError(f, c.err)
			if out.Class != c.class || out.Transport != c.transport || out.Delivery() != c.delivered {
				t.Errorf("%v %q %v, want %v %q %v", out.Class, out.Transport, out.Delivered, c.class, c.transport, c.delivered)
			}
			if want := c.class.Retryable() && c.transport != "certificate"; out.Retryable != want {
				t.Errorf("retryable %v", out.Retryable)
			}
			if out == watchdog {
				return
			}
			if out.Provider != "p" || out.Dialect != "chat" || out.Model != "m" || out.Phase != c.phase || out.Rule == "" {
				t.Errorf("facts are lost: %+v", out)
			}
			if c.err != nil && !errors.Is(out, c.err) {
				t.Error("the cause is lost")
			}
		})
	}
}

// TestFromContext: the cause of a context decides what its end was. F29.
func TestFromContext(t *testing.T) {
	f := Facts{Provider: "p", Phase: PhaseStream}
	operator := errors.New("operator")
	watchdog := NewTimeout(f, "first_event_timeout", time.Second)
	for _, c := range []struct {
		cause error
		class Class
	}{{nil, Cancelled}, {operator, Cancelled}, {watchdog, Timeout}, {NewInterrupted(), Interrupted}, {context.DeadlineExceeded, Timeout}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(c.cause)
		out := FromContext(f, ctx)
		if out.Class != c.class || c.cause != nil && !errors.Is(out, c.cause) && error(out) != c.cause {
			t.Errorf("%v: %v, %v", c.cause, out.Class, out)
		}
	}
}

// TestSockets: what net/http really returns, over loopback.
func TestSockets(t *testing.T) {
	f := Facts{Phase: PhaseOpen}
	call := func(client *http.Client, url string) error {
		res, err := client.Post(url, "text/plain", nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
		return err
	}
	abort := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	start := func(h http.Handler, secure bool) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = secure
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s
	}
	expect := func(name string, f Facts, err error, class Class, transport string, d llm.Delivery) {
		t.Helper()
		if out := FromError(f, err); out.Class != class || out.Transport != transport || out.Delivered != d {
			t.Errorf("%s: %v %q %v (%v), want %v %q %v", name, out.Class, out.Transport, out.Delivered, err, class, transport, d)
		}
	}
	stream := Facts{Phase: PhaseStream}

	closed := start(abort, false)
	closed.Close()
	expect("refused port", f, call(http.DefaultClient, closed.URL), Network, "dial", llm.NeverSent)
	expect("closed before the answer", f, call(http.DefaultClient, start(abort, false).URL), Network, "eof", llm.MaybeAccepted)
	expect("cut in the answer", stream, call(http.DefaultClient, start(cut, false).URL), StreamInterrupted, "eof", llm.MaybeAccepted)
	secure := start(cut, true)
	expect("an unknown certificate", f, call(http.DefaultClient, secure.URL), Network, "certificate", llm.NeverSent)
	expect("HTTP/2 stream reset", stream, call(secure.Client(), secure.URL), StreamInterrupted, "http2_reset", llm.MaybeAccepted)
	expect("TLS to a plain port", f, call(secure.Client(), "https"+closed.URL[4:]), Network, "dial", llm.NeverSent)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hasty := &http.Client{Transport: &http.Transport{TLSHandshakeTimeout: 10 * time.Millisecond}}
	expect("a handshake that nobody answers", f, call(hasty, "https://"+silent.Addr().String()), Timeout, "connect_timeout", llm.NeverSent)
	plain := start(abort, false)
	expect("TLS to a plain server", f, call(secure.Client(), "https"+plain.URL[4:]), Network, "tls", llm.NeverSent)
}

// TestDelivery: an answer of 4xx refuses the request, but for those that don't say so.
func TestDelivery(t *testing.T) {
	for status := 300; status < 600; status++ {
		want := llm.MaybeAccepted
		if status >= 400 && status < 500 && status != 408 && status != 409 && status != 425 && status != 499 {
			want = llm.Refused
		}
		if got := FromResponse(Facts{}, status, nil, nil).Delivery(); got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
	}
	if got := FromResponse(Facts{Delivered: llm.NeverSent}, 503, nil, nil).Delivery(); got != llm.NeverSent {
		t.Errorf("the caller's word is lost: %v", got)
	}
}

// TestTransportText: the words of other clients' transport errors. What never got a
// connection stays network, also where the client calls it a stream.
func TestTransportText(t *testing.T) {
	for _, c := range []struct {
		text         string
		open, stream Class
	}{
		{"read ECONNRESET", Network, StreamInterrupted},
		{"socket hang up", Network, StreamInterrupted},
		{"connect ECONNREFUSED 127.0.0.1:1", Network, Network},
		{"getaddrinfo ENOTFOUND host", Network, Network},
		{"something", Network, StreamInterrupted},
		{"timeout of 60000ms exceeded", Timeout, Timeout},
		{"The operation was aborted due to timeout", Timeout, Timeout},
		{"AbortError: The user aborted a request.", Cancelled, Cancelled},
		{"software caused connection abort", Network, StreamInterrupted},
		{"unable to verify the first certificate", Network, Network},
	} {
		for phase, want := range map[Phase]Class{PhaseOpen: c.open, PhaseStream: c.stream} {
			recorded := Case{Phase: phase, TransportError: c.text}
			if out, _ := recorded.Classify(); out.Class != want {
				t.Errorf("%q in %s: %v, want %v", c.text, phase, out.Class, want)
			}
		}
	}
}
