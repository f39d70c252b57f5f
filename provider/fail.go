package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
)

// broken makes the failure of a call that an error of the transport or of the context ended.
// The context is asked first: a connection that we closed looks like one that broke.
func (s *stream) broken(err error) *failure.Failure {
	s.facts.Delivered = s.transfer.delivery()
	if s.ctx.Err() == nil {
		f := failure.FromError(s.facts, typed(err))
		if f.Class == failure.Unknown && s.facts.Phase == failure.PhaseStream {
			return s.malformed(err) // whatever it was, the stream has no end
		}
		return s.stamp(f)
	}
	if e, ours := errors.AsType[expired](context.Cause(s.ctx)); ours {
		return s.stamp(failure.NewTimeout(s.facts, e.kind, e.after))
	}
	return s.stamp(failure.FromContext(s.facts, s.ctx))
}

// malformed makes the failure of a body that breaks the rules of HTTP or of its dialect: the
// stream ends there.
func (s *stream) malformed(err error) *failure.Failure {
	f := s.stamp(failure.FromError(s.facts, malformedBody{err}))
	f.Rule, f.Source, f.Transport = "malformed_stream", "the dialect's codec, or net/http", ""
	return f
}

type malformedBody struct{ error }

func (e malformedBody) Error() string { return "malformed stream: " + e.error.Error() }
func (malformedBody) Unwrap() error   { return io.ErrUnexpectedEOF }

// refused makes the failure of an answer that is not the stream that was asked for.
func (s *stream) refused() *failure.Failure {
	s.facts.Now = time.Now() // a stated wait counts from here, by our clock
	t := time.AfterFunc(errorBody, func() { _ = s.response.Body.Close() })
	defer t.Stop()
	// What has come when the reading ends, however it ends, is what there is to say.
	body, _ := io.ReadAll(io.LimitReader(s.response.Body, failure.MaxBody))
	if s.ctx.Err() != nil {
		return s.broken(s.ctx.Err())
	}
	if s.facts.Phase == failure.PhaseStream {
		return s.stamp(s.mismatch(body))
	}
	return s.stamp(failure.FromResponse(s.facts, s.response.StatusCode, s.response.Header, body))
}

// mismatch is an answer of 2xx that is not what was asked for: an error object if it is one, else
// another protocol, which no repetition makes right.
func (s *stream) mismatch(body []byte) *failure.Failure {
	f := failure.FromResponse(s.facts, s.response.StatusCode, s.response.Header, body)
	if f.Class != failure.Unknown && !answers(body) {
		return f
	}
	want := "an event stream"
	if s.piece {
		want = "a JSON object"
	}
	f.Class, f.Retryable, f.Rule, f.Source = failure.InvalidRequest, false, "protocol_mismatch", "not "+want+" where one was asked for"
	f.NotBefore, f.Hint = time.Time{}, ""
	f.Message = fmt.Sprintf("The provider answered with %q in place of %s.", s.response.Header.Get("Content-Type"), want)
	return f
}

// answers reports whether the body is a whole answer of one of the dialects.
func answers(body []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return false
	}
	if e := members["error"]; e != nil && string(e) != "null" {
		return false
	}
	for _, name := range []string{"choices", "output", "content", "candidates"} {
		if members[name] != nil {
			return true
		}
	}
	return false
}

// local makes a failure of our own, before anything was sent or in what we take.
func (s *stream) local(rule, message string) *failure.Failure {
	f := failure.NewLocal(rule, message)
	if s.transfer == nil {
		f.Delivered = llm.NeverSent
	} else {
		f.Delivered = s.transfer.delivery()
	}
	return s.stamp(f)
}

// stamp returns the failure with what the call knows about itself.
func (s *stream) stamp(known *failure.Failure) *failure.Failure {
	f := *known
	f.Provider = cmp.Or(f.Provider, s.facts.Provider)
	f.Dialect = cmp.Or(f.Dialect, s.facts.Dialect)
	f.Model = cmp.Or(f.Model, s.facts.Model)
	f.Phase = cmp.Or(f.Phase, s.facts.Phase)
	if s.facts.Phase == failure.PhaseStream {
		f.Delivered = llm.MaybeAccepted // who has begun to answer has not refused
	}
	if s.response != nil {
		f.Status = cmp.Or(f.Status, s.response.StatusCode)
		if f.RequestID == "" {
			f.RequestID = failure.FromResponse(s.facts, s.response.StatusCode, s.response.Header, []byte("{}")).RequestID
		}
	}
	return &f
}

// flattened is a stream error of HTTP/2 that net/http reports as text alone.
type flattened struct {
	error
	code uint64 // RFC 9113, section 7
}

func (e flattened) Unwrap() error { return e.error }

// As fills what has the shape of net/http's stream errors, as those do themselves.
func (e flattened) As(target any) bool {
	v := reflect.ValueOf(target).Elem()
	if v.Kind() != reflect.Struct || v.NumField() != 3 || !v.FieldByName("StreamID").IsValid() {
		return false
	}
	code := v.FieldByName("Code")
	if !code.CanUint() || !code.CanSet() {
		return false
	}
	code.SetUint(e.code)
	return true
}

// typed gives its type back to what net/http flattens where it would have sent a request
// again and the body cannot be read again (shouldRetryRequest of its HTTP/2), and to a GOAWAY
// with an error whose last stream lies below ours, which refuses it (setGoAway; RFC 9113,
// section 6.8).
func typed(err error) error {
	const protocolError, refusedStream = 1, 7
	switch text := err.Error(); {
	case strings.Contains(text, "; REFUSED_STREAM; received from peer]"),
		strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:"):
		return flattened{err, refusedStream}
	case strings.Contains(text, "; PROTOCOL_ERROR; received from peer]"):
		return flattened{err, protocolError}
	}
	return err
}
