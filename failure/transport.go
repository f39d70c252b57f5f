package failure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"syscall"

	"github.com/reprise-run/reprise/llm"
)

// What the network did, in Failure.Transport.
const (
	transportDial        = "dial"
	transportDNS         = "dns"
	transportTLS         = "tls"
	transportCertificate = "certificate"
	transportReset       = "reset"
	transportEOF         = "eof"
	transportRefused     = "http2_refused"
	transportStreamReset = "http2_reset"
	transportGoAway      = "http2_goaway"
	transportTimeout     = "timeout"
)

// FromError classifies an error of the transport, or the end of a context. Pass
// context.Cause(ctx) rather than the error that a cancelled read returned. A *Failure is
// returned as it is, also where it is the cause of a cancelled context.
//
// What never left this machine is NeverSent: a failed dial, look-up or handshake. What the
// server says it did not process (HTTP/2 REFUSED_STREAM, a graceful GOAWAY for a later stream)
// is Refused. Else the caller's word
// stands. A connection that breaks in phase stream is stream_interrupted, before that network.
func FromError(f Facts, err error) *Failure {
	var known *Failure
	if errors.As(err, &known) {
		return known
	}
	out := f.fail()
	if errors.Is(err, context.Canceled) {
		out = NewCancelled(err)
		out.Provider, out.Dialect, out.Model, out.Phase, out.Delivered = f.Provider, f.Dialect, f.Model, f.Phase, f.Delivered
		return out
	}
	out.cause = err
	if err != nil {
		out.Message = clip(redact(clipToken(err.Error(), maxRaw)), maxMessage)
	}
	class, kind, delivered := network(err, f)
	out.Transport, out.Delivered = kind, delivered
	switch {
	case class == Network && f.Phase == PhaseStream && kind != transportCertificate && delivered != llm.NeverSent:
		class = StreamInterrupted
	case class == Unknown:
		out.set(Unknown, "none", "no rule knows it")
		return out
	}
	out.set(class, "transport:"+kind, "https://pkg.go.dev/net")
	if kind == transportCertificate {
		out.Retryable = false
	}
	return out
}

// FromContext classifies a call that ended because its context did. A *Failure as the cause
// (a watchdog's) is returned as it is, a deadline is a timeout, any other end is deliberate.
func FromContext(f Facts, ctx context.Context) *Failure {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return FromError(f, err)
	}
	if !errors.Is(err, context.Canceled) {
		err = &ended{err}
	}
	return FromError(f, err)
}

// ended is a cancelled context with the cause that somebody gave it.
type ended struct{ cause error }

func (e *ended) Error() string   { return "context canceled: " + e.cause.Error() }
func (e *ended) Unwrap() []error { return []error{context.Canceled, e.cause} }

// network says what an error of the net packages is.
func network(err error, f Facts) (Class, string, llm.Delivery) {
	var (
		verify    *tls.CertificateVerificationError
		unknownCA x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		system    x509.SystemRootsError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		ech       *tls.ECHRejectionError
		dns       *net.DNSError
		op        *net.OpError
		stream    http2Stream
		timeout   net.Error
		syntax    *json.SyntaxError
	)
	delivered := f.Delivered
	timedOut := errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case errors.As(err, &verify), errors.As(err, &unknownCA), errors.As(err, &hostname), errors.As(err, &invalid), errors.As(err, &system):
		return Network, transportCertificate, llm.NeverSent
	case errors.As(err, &record), errors.As(err, &ech), errors.Is(err, http.ErrSchemeMismatch):
		return Network, transportTLS, llm.NeverSent
	case holds(err, "http.tlsHandshakeTimeoutError"):
		return Timeout, "connect_timeout", llm.NeverSent
	case errors.As(err, &dns):
		return Network, transportDNS, llm.NeverSent
	case errors.As(err, &op) && op.Op == "dial":
		if timedOut {
			return Timeout, "connect_timeout", llm.NeverSent
		}
		return Network, transportDial, llm.NeverSent
	case errors.As(err, &alert):
		return Network, transportTLS, delivered
	case errors.As(err, &stream):
		if stream.Code == http2RefusedStream {
			return Network, transportRefused, llm.Refused
		}
		return Network, transportStreamReset, delivered
	case isGoAway(err):
		return Network, transportGoAway, delivered
	case isGracefulGoAway(err):
		return Network, transportGoAway, llm.Refused
	case timedOut:
		return Timeout, transportTimeout, delivered
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return Network, transportEOF, delivered
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Network, transportDial, llm.NeverSent
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED),
		errors.Is(err, net.ErrClosed), errors.As(err, &op), isServerClosedIdle(err):
		return Network, transportReset, delivered
	case errors.As(err, &syntax):
		return ServerError, "malformed", delivered
	}
	return Unknown, "", delivered
}

// http2Stream takes the stream errors of net/http's own HTTP/2, which copy themselves into
// any struct of the same shape (net/http/h2_error.go).
type http2Stream struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e http2Stream) Error() string { return "http2 stream error" }

const http2RefusedStream = 7 // RFC 9113, section 7

// isGoAway recognises net/http's error for a connection that ended after a GOAWAY. Its type is
// not exported and does not copy itself, so its shape tells.
func isGoAway(err error) bool {
	return someError(err, func(e error) bool {
		t := reflect.TypeOf(e)
		if t.Kind() != reflect.Struct || t.NumField() != 3 {
			return false
		}
		_, last := t.FieldByName("LastStreamID")
		_, code := t.FieldByName("ErrCode")
		_, debug := t.FieldByName("DebugData")
		return last && code && debug
	})
}

// isGracefulGoAway and isServerClosedIdle recognise two of net/http's errors that have no type
// at all. The first says that the stream's id is above the last that the server will process.
func isGracefulGoAway(err error) bool {
	return err != nil && strings.Contains(err.Error(), "http2: Transport received Server's graceful shutdown GOAWAY")
}

func isServerClosedIdle(err error) bool {
	return someError(err, func(e error) bool { return e.Error() == "http: server closed idle connection" })
}

// holds reports whether the chain has an error of an unexported type with that name.
func holds(err error, name string) bool {
	return someError(err, func(e error) bool { return reflect.TypeOf(e).String() == name })
}

func someError(err error, is func(error) bool) bool {
	for err != nil {
		if is(err) {
			return true
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				if someError(e, is) {
					return true
				}
			}
			return false
		}
		err = errors.Unwrap(err)
	}
	return false
}
