package failure

import (
	"io"
	"net/http"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// MaxBody is how much of a body is looked at, in bytes. Callers read no more than that.
const MaxBody = 256 << 10

const (
	maxMessage = 2 << 10
	maxRaw     = 16 << 10
	maxField   = 200
)

// Facts is what the caller knows about a failed call besides the failure itself.
type Facts struct {
	// Provider is the configured name, Host the endpoint's host. Both help to find the
	// vendor whose tables apply: a known host wins over a name that somebody chose.
	Provider string
	Host     string
	// Dialect is chat, responses, messages or gemini; the long names (openai-chat,
	// openai-responses, anthropic-messages) are the same.
	Dialect string
	Model   string
	Phase   Phase
	// Delivered is the caller's word on how far the request came. FromResponse and FromError
	// overrule it where the failure itself says more.
	Delivered llm.Delivery
	// Now turns relative waits into absolute times. Where it is zero, the response's Date
	// stands for it, else the clock.
	Now time.Time

	// undated: Now is a mere origin for relative waits (a case from a file), so that no
	// absolute time is old or far.
	undated bool
}

// fail starts a Failure with what the caller knows.
func (f *Facts) fail() *Failure {
	return &Failure{Provider: f.Provider, Dialect: f.Dialect, Model: f.Model, Phase: f.Phase,
		Delivered: f.Delivered}
}

// FromResponse classifies an HTTP answer that is not the stream that was asked for. At most
// MaxBody bytes of the body are looked at.
//
// An answer of 4xx says that the request was not processed, so its delivery is Refused; 408,
// 409, 425 and 499 don't say that, nor do 5xx: there the caller's word stands.
func FromResponse(f Facts, status int, header http.Header, body []byte) *Failure {
	if status >= 200 && status < 300 && len(body) == 0 {
		f.Phase = PhaseStream // an answer was promised, and ended before it began
		out := FromError(f, io.ErrUnexpectedEOF)
		out.Status, out.RequestID = status, RequestID(header)
		return out
	}
	e := gather(&f, header)
	e.status = status
	e.read(body)
	out := e.conclude()
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, 499:
	default:
		if status >= 400 && status < 500 {
			out.Delivered = llm.Refused
		}
	}
	return out
}

// FromStream classifies an error that a provider reports inside its stream, from the JSON
// that the codec put into the event's Text.
func FromStream(f Facts, payload []byte) *Failure { return fromStream(f, nil, payload) }

func fromStream(f Facts, h http.Header, payload []byte) *Failure {
	e := gather(&f, h)
	e.status = http.StatusOK
	e.read(payload)
	return e.conclude()
}

// FromStop returns the failure that a terminal event's reason stands for, or nil where the
// reason is a normal end.
func FromStop(f Facts, stop llm.StopReason) *Failure {
	out := f.fail()
	switch stop {
	case llm.StopFiltered:
		out.set(ContentFiltered, "stop:filtered", "the dialect's stop reason")
		out.Message = "The provider withheld the answer."
	case llm.StopMalformed:
		out.set(ServerError, "stop:malformed", "the dialect's stop reason")
		out.Message = "The model broke its own tool call."
	default:
		return nil
	}
	return out
}

// set gives the failure its class with the class's own eligibility.
func (f *Failure) set(c Class, rule, source string) {
	f.Class, f.Retryable, f.Rule, f.Source = c, c.Retryable(), rule, source
}

// NewTimeout is one of our own watchdogs running out: connect_timeout, first_event_timeout,
// first_content_timeout or idle_timeout. A connect_timeout was never sent.
func NewTimeout(f Facts, kind string, after time.Duration) *Failure {
	out := f.fail()
	out.set(Timeout, kind, "our own limit")
	out.Transport = kind
	if kind == "connect_timeout" {
		out.Delivered = llm.NeverSent
	}
	out.Message = "Nothing came for " + after.String() + " (" + kind + ")."
	return out
}

// NewLocal is a limit or defect of our own. The rule names it.
func NewLocal(rule, message string) *Failure {
	out := &Failure{Message: clip(redact(message), maxMessage)}
	out.set(Local, rule, "our own limit")
	return out
}

// NewSpendLimit is a call that was not made because a cap of the operator's leaves too little
// for it. It has no provider: none was asked. The code names the cap.
func NewSpendLimit(code, message string) *Failure {
	out := &Failure{Code: code, Message: clip(redact(message), maxMessage), Delivered: llm.NeverSent}
	out.set(SpendLimitExceeded, "spend_limit", "our own configuration")
	return out
}

// NewUnresolved is a call that was not made because no credential was found for it.
func NewUnresolved(f Facts, message string) *Failure {
	out := f.fail()
	out.set(CredentialsUnresolved, "credentials_unresolved", "our own configuration")
	out.Delivered = llm.NeverSent
	out.Message = clip(redact(message), maxMessage)
	return out
}

// NewCancelled is a deliberate end: an operator's, or a caller's. cause may be nil.
func NewCancelled(cause error) *Failure {
	out := &Failure{Message: "The request was cancelled.", cause: cause}
	out.set(Cancelled, "cancelled", "the context's cause")
	return out
}

// NewInterrupted is a call that ended because our own process stopped.
func NewInterrupted() *Failure {
	out := &Failure{Message: "The server stopped during the request."}
	out.set(Interrupted, "interrupted", "our own shutdown")
	return out
}
