package transport

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/wire"
)

// short is the wait that a client is asked for where nobody knows a better one.
const short = 2 * time.Second

// codes are the words for programs, in OpenAI's vocabulary where that has one.
var codes = map[failure.Class]string{
	failure.RateLimited: "rate_limit_exceeded", failure.QuotaExhausted: "insufficient_quota",
	failure.SpendLimitExceeded: "insufficient_quota", failure.AuthFailed: "invalid_api_key",
	failure.CredentialsUnresolved: "invalid_api_key", failure.ContextOverflow: "context_length_exceeded",
	failure.Overloaded: "server_is_overloaded", failure.ContentFiltered: "content_policy_violation",
}

func code(f *failure.Failure) string {
	switch s := codes[f.Class]; {
	case s != "":
		return s
	case f.Class == failure.Local:
		return f.Rule
	}
	return f.Class.String()
}

// RuleUnavailable is the rule of a local failure that passes when our own side is whole again.
const RuleUnavailable = "unavailable"

// refusal is what a client is told that was shown nothing: a status that its own retries fit,
// the header that goes with it, and the provider's own words where they are the whole story.
// A status that invites a repetition is given only where one may pass soon; of the others, 400
// is the one that every client takes for the last word.
func (x *Exchange) refusal(s *recovery.Stopped, now time.Time) (wire.Refusal, http.Header, []byte) {
	f := s.Failure
	r := wire.Refusal{Status: http.StatusBadRequest, Code: code(f), Message: message(s), Metadata: x.metadata(s)}
	h := http.Header{}
	wait := f.NotBefore.Sub(now)
	if wait > 0 {
		h.Set(HeaderRetryAt, f.NotBefore.UTC().Format(time.RFC3339))
		r.Message += " It may pass at " + f.NotBefore.UTC().Format(time.RFC3339) + "."
	}
	var body []byte
	switch {
	case unsafe(s):
		r.Code = "answer_unknown"
		r.Message += " It is not repeated, because the provider may have acted on it."
	case f.Class == failure.Cancelled, f.Class == failure.Local && f.Rule == RuleUnavailable:
		r.Status = http.StatusServiceUnavailable
	case f.Retryable && wait <= x.Policy.Tier1.Cap:
		r.Status = passing(f, x.Dialect.Dialect())
		h.Set("Retry-After", strconv.Itoa(int((max(wait, short)+time.Second-1)/time.Second)))
	default:
		r.Status = lasting(f)
		if f.Dialect == x.Dialect.Dialect() && f.Status == r.Status && len(lost(s)) == 0 && json.Valid([]byte(f.Body)) {
			body = []byte(f.Body)
		}
	}
	if r.Status < 429 || x.Final {
		h.Set("X-Should-Retry", "false")
	}
	return r, h, body
}

// passing is the status of a failure that may pass soon.
func passing(f *failure.Failure, dialect string) int {
	switch f.Class {
	case failure.RateLimited:
		return http.StatusTooManyRequests
	case failure.Timeout:
		return http.StatusGatewayTimeout
	case failure.Overloaded:
		if dialect == "messages" {
			return 529
		}
		return http.StatusServiceUnavailable
	case failure.ServerError:
		return http.StatusInternalServerError
	}
	return http.StatusBadGateway
}

// lasting is the status of a failure that does not pass: the provider's own where it speaks of
// the request and no client repeats it. Keys, quotas and limits are the gateway's, not the
// client's, who must not be told to log in again.
func lasting(f *failure.Failure) int {
	switch f.Class {
	case failure.ModelNotFound:
		return http.StatusNotFound
	case failure.RequestTooLarge:
		return http.StatusRequestEntityTooLarge
	case failure.InvalidRequest, failure.ContentFiltered, failure.ContextOverflow:
		switch f.Status {
		case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType, http.StatusNotFound:
			return f.Status
		}
	}
	return http.StatusBadRequest
}

// broken is what a client is told whose answer had begun.
func (x *Exchange) broken(s *recovery.Stopped, shown bool) wire.Refusal {
	r := wire.Refusal{Status: http.StatusBadRequest, Code: "stream_interrupted", Metadata: x.metadata(s)}
	if shown {
		r.Message = "The answer was interrupted and what was sent of it stands; it was not repeated, as it would have been said twice. "
	}
	r.Message += message(s)
	return r
}

// lost are the models that could not be told the request.
func lost(s *recovery.Stopped) (list []recovery.Outcome) {
	for _, o := range s.Tried {
		if o.Skipped == recovery.SkipLoss {
			list = append(list, o)
		}
	}
	return list
}

// message is a sentence for a person: the failure, and how much was tried.
func message(s *recovery.Stopped) string {
	m := s.Failure.Error()
	if !strings.HasSuffix(m, ".") {
		m += "."
	}
	if tried := s.Exhausted(); tried != "" {
		m += " " + tried
	}
	for _, o := range s.Tried {
		if !unfit(o, s.Failure) {
			continue
		}
		m += " " + o.String()
		if o.Failed != "" && o.Message != "" {
			m += " (" + o.Message + ")"
		}
		m += "."
	}
	return m
}

// unfit reports whether the outcome is of a model that could not take the request, and the failure
// another's.
func unfit(o recovery.Outcome, f *failure.Failure) bool {
	switch o.Failed {
	case failure.InvalidRequest.String(), failure.ContextOverflow.String(), failure.RequestTooLarge.String():
		return o.Failed != f.Class.String()
	}
	return o.Skipped == recovery.SkipLoss || o.Skipped == recovery.SkipContext
}

// metadata are the facts of a failure for programs.
func (x *Exchange) metadata(s *recovery.Stopped) map[string]string {
	f := s.Failure
	m := map[string]string{"reprise_id": x.ID, "cause": f.Class.String(), "attempts": fmt.Sprint(s.Attempts)}
	for k, v := range map[string]string{"provider": f.Provider, "model": f.Model, "upstream_code": f.Code, "upstream_request_id": f.RequestID} {
		if v != "" {
			m[k] = v
		}
	}
	if f.Status != 0 {
		m["upstream_status"] = strconv.Itoa(f.Status)
	}
	return m
}
