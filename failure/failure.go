// Package failure turns whatever went wrong with a model call into typed facts, one class
// out of a closed set, and at most one absolute time before which nothing may be tried.
//
// It answers one question: may this failure be retried? Whether the request may be sent
// again is llm/replay's question, and the two packages never import each other. Failures
// hold no secrets: keys, tokens, addresses and account ids are taken out of every field
// before a Failure exists.
package failure

import (
	"fmt"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// Class is what kind of failure it was. The zero value is Unknown, which nothing retries.
type Class uint8

const (
	Unknown Class = iota
	RateLimited
	Overloaded
	ServerError
	Network
	Timeout
	StreamInterrupted
	QuotaExhausted
	SpendLimitExceeded
	AuthFailed
	CredentialsUnresolved
	PermissionDenied
	ModelNotFound
	ContextOverflow
	RequestTooLarge
	InvalidRequest
	ContentFiltered
	Cancelled
	Interrupted // our own process stopped
	Local       // our own limit or defect
	classes
)

var classNames = [classes]string{"unknown", "rate_limited", "overloaded", "server_error",
	"network", "timeout", "stream_interrupted", "quota_exhausted", "spend_limit_exceeded",
	"auth_failed", "credentials_unresolved", "permission_denied", "model_not_found",
	"context_overflow", "request_too_large", "invalid_request", "content_filtered",
	"cancelled", "interrupted", "local"}

// Classes lists every class.
func Classes() []Class {
	all := make([]Class, classes)
	for i := range all {
		all[i] = Class(i)
	}
	return all
}

func (c Class) String() string {
	if c < classes {
		return classNames[c]
	}
	return classNames[Unknown]
}

// MarshalText writes the class's name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a class's name; a name we don't know is an error.
func (c *Class) UnmarshalText(b []byte) error {
	for i, n := range classNames {
		if n == string(b) {
			*c = Class(i)
			return nil
		}
	}
	return fmt.Errorf("unknown failure class %q", b)
}

// Retryable reports whether the same request may pass later with nobody acting.
func (c Class) Retryable() bool {
	switch c {
	case RateLimited, Overloaded, ServerError, Network, Timeout, StreamInterrupted, Interrupted:
		return true
	}
	return false
}

// Phase says when a call failed.
type Phase string

const (
	PhaseOpen   Phase = "open"   // before the answer's headers, or by its status
	PhaseStream Phase = "stream" // after a status that promised an answer
)

// Failure is one failed model call: the facts, what they amount to, and by which rule. It is
// immutable once made. Error gives the sentence for a person.
type Failure struct {
	Class Class `json:"class"`
	// Retryable is the class's, but for failures whose facts deny it: a certificate that is
	// not trusted, a provider that says so in a field or a header of its own.
	Retryable bool `json:"retryable"`
	// NotBefore is the earliest time at which the provider lets us try again; zero: it said
	// nothing. Hint says where that came from ("retry-after", "resets_at", "prose" …).
	NotBefore time.Time `json:"not_before,omitzero"`
	Hint      string    `json:"hint,omitempty"`

	Provider  string `json:"provider,omitempty"`
	Dialect   string `json:"dialect,omitempty"`
	Model     string `json:"model,omitempty"`
	Phase     Phase  `json:"phase,omitempty"`
	Status    int    `json:"status,omitempty"`
	Code      string `json:"code,omitempty"` // the provider's own, known or not
	Type      string `json:"type,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	// Transport is what the network did: "dial", "dns", "tls", "certificate", "reset", "eof",
	// "http2_refused", "http2_reset", "http2_goaway", or which of our limits ran out:
	// "connect_timeout", "first_event_timeout", "first_content_timeout", "idle_timeout".
	Transport string       `json:"transport,omitempty"`
	Delivered llm.Delivery `json:"delivery"`
	// Message is the provider's own sentence, redacted and bounded to 2 kB.
	Message string `json:"message"`
	// Body is the answer as it came, redacted and bounded to 16 KiB, for a person who digs.
	Body string `json:"body,omitempty"`
	// KeyInvalid: a typed code says that the key itself is refused (rotation may help).
	// PerKey: the limit belongs to the key, not to the account or the model.
	KeyInvalid bool `json:"key_invalid,omitempty"`
	PerKey     bool `json:"per_key,omitempty"`
	// Rule is the id of the rule that set the class, and Source says where that rule is from.
	Rule   string `json:"rule"`
	Source string `json:"source,omitempty"`

	cause error
}

func (f *Failure) Error() string {
	s := f.Class.String()
	if f.Provider != "" {
		s = f.Provider + ": " + s
	}
	if f.Status != 0 && f.Status != 200 {
		s += fmt.Sprintf(" (%d)", f.Status)
	}
	if f.Message != "" {
		s += ": " + f.Message
	}
	return s
}

// Unwrap returns the error of the transport or context behind the failure, if there is one.
func (f *Failure) Unwrap() error { return f.cause }

// Delivery says how far the request came.
func (f *Failure) Delivery() llm.Delivery { return f.Delivered }
