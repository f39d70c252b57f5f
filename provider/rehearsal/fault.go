package rehearsal

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// wording is how one kind of fault reads in the three families of APIs. Chat and Responses
// share OpenAI's.
type wording struct {
	openai   openaiError
	messages vendorError
	gemini   vendorError
}

type openaiError struct {
	status              int
	kind, code, message string
}

type vendorError struct {
	status        int
	kind, message string
}

var words = map[Kind]wording{
	Overloaded: {
		openaiError{503, "service_unavailable_error", "server_is_overloaded", "Our servers are currently overloaded. Please try again later."},
		vendorError{529, "overloaded_error", "Overloaded"},
		vendorError{503, "UNAVAILABLE", "The model is overloaded. Please try again later."}},
	Unavailable: {
		openaiError{503, "server_error", "", "The server is temporarily unable to handle the request."},
		vendorError{503, "api_error", "Service unavailable"},
		vendorError{503, "UNAVAILABLE", "The service is currently unavailable."}},
	ServerError: {
		openaiError{500, "server_error", "server_error", "The server had an error while processing your request. Sorry about that!"},
		vendorError{500, "api_error", "Internal server error"},
		vendorError{500, "INTERNAL", "An internal error has occurred."}},
	BrokenUpstream: {
		openaiError{502, "server_error", "upstream_stream_error", "stream interrupted before terminal response event"},
		vendorError{502, "api_error", "stream interrupted before terminal response event"},
		vendorError{500, "INTERNAL", "stream interrupted before terminal response event"}},
	TimedOut: {
		openaiError{408, "timeout_error", "request_timeout", "The request timed out."},
		vendorError{408, "timeout_error", "Request timed out"},
		vendorError{504, "DEADLINE_EXCEEDED", "The request could not be completed before its deadline."}},
	RateLimited: {
		openaiError{429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."},
		vendorError{429, "rate_limit_error", "This request would exceed your account's rate limit. Please try again later."},
		vendorError{429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."}},
	Quota: {
		openaiError{429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."},
		vendorError{400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."},
		vendorError{429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."}},
	SpendLimit: {
		openaiError{400, "invalid_request_error", "billing_hard_limit_reached", "Billing hard limit has been reached"},
		vendorError{400, "invalid_request_error", "You have reached your specified API usage limits."},
		vendorError{429, "RESOURCE_EXHAUSTED", "Your project has exceeded its monthly spending cap."}},
	AuthFailed: {
		openaiError{401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."},
		vendorError{401, "authentication_error", "invalid x-api-key"},
		vendorError{400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."}},
	Forbidden: {
		openaiError{403, "invalid_request_error", "permission_denied", "You do not have permission to use this resource."},
		vendorError{403, "permission_error", "Your API key does not have permission to use the specified resource."},
		vendorError{403, "PERMISSION_DENIED", "The caller does not have permission."}},
	ModelNotFound: {
		openaiError{404, "invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."},
		vendorError{404, "not_found_error", "model not found"},
		vendorError{404, "NOT_FOUND", "The model is not found for API version v1beta, or is not supported for generateContent."}},
	ContextOverflow: {
		openaiError{400, "invalid_request_error", "context_length_exceeded", "Your input exceeds the context window of this model. Please adjust your input and try again."},
		vendorError{400, "invalid_request_error", "prompt is too long: 208656 tokens > 200000 maximum"},
		vendorError{400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}},
	TooLarge: {
		openaiError{413, "invalid_request_error", "request_too_large", "The request is too large."},
		vendorError{413, "request_too_large", "Request exceeds the maximum size"},
		vendorError{413, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."}},
	Invalid: {
		openaiError{400, "invalid_request_error", "invalid_value", "Invalid value for 'messages'."},
		vendorError{400, "invalid_request_error", "messages: field required"},
		vendorError{400, "INVALID_ARGUMENT", "Request contains an invalid argument."}},
	Filtered: {
		openaiError{400, "invalid_request_error", "content_filter", "The response was filtered due to the prompt triggering the content management policy. Please modify your prompt and retry."},
		vendorError{400, "invalid_request_error", "Output blocked by content filtering policy"},
		vendorError{400, "INVALID_ARGUMENT", "The prompt was blocked: PROHIBITED_CONTENT"}},
}

// extras are the members that the fault's hint adds to the error object, each with a comma
// before it.
func (f *Fault) extras(now time.Time) string {
	wait := time.Duration(f.Wait)
	switch f.Hint {
	case HintInfo:
		return fmt.Sprintf(`,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%gs"}]`, wait.Seconds())
	case HintResetsAt:
		return fmt.Sprintf(`,"resets_at":%d,"resets_in_seconds":%d`, now.Add(wait).Unix(), int64(wait.Seconds()))
	}
	return ""
}

// sentence is the fault's message: the script's own, or the dialect's, with a hint in prose.
func (f *Fault) sentence(dialects string) string {
	s := f.Message
	if s == "" {
		s = dialects
	}
	if f.Hint == HintProse {
		s += " Please try again in " + time.Duration(f.Wait).String() + "."
	}
	return s
}

// header returns the headers of the fault, its rate limit headers in Anthropic's form or in
// the one that OpenAI and most others use.
func (f *Fault) header(now time.Time, anthropic bool) http.Header {
	h, wait := http.Header{}, time.Duration(f.Wait)
	switch f.Hint {
	case "", HintSeconds:
		if wait > 0 {
			h.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		}
	case HintDate:
		h.Set("Retry-After", now.Add(wait+time.Second-1).UTC().Format(http.TimeFormat))
	case HintMillis:
		h.Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds(), 10))
	case HintReset:
		limit, remaining, reset, at := "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests",
			"X-Ratelimit-Reset-Requests", wait.String()
		if anthropic {
			limit, remaining, reset = "Anthropic-Ratelimit-Requests-Limit",
				"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"
			at = now.Add(wait + time.Second - 1).UTC().Format(time.RFC3339)
		}
		h.Set(limit, "50")
		h.Set(remaining, "0")
		h.Set(reset, at)
	}
	for k, v := range maps.All(f.Header) {
		h.Set(k, v)
	}
	return h
}

// silence is how a summary says that a take gave no output.
const silence = "before it said anything"

// summary says in a few words how a take went, for the reply that follows it.
func (t Take) summary() string {
	said := silence
	for i := range t {
		s := &t[i]
		switch s.Do {
		case Say, Think, Redacted, Remote:
			said = "after some output"
		case Call, HalfCall:
			said = "in a tool call"
		}
		if !s.ends() {
			continue
		}
		switch s.Do {
		case Status, Object, Failed, Error:
			return "failed " + said + " (" + strings.ReplaceAll(string(s.Fault.Kind), "_", " ") + ")"
		case Page:
			return "was answered with a web page"
		case Malformed:
			return "broke " + said + ": a frame was not JSON"
		case Cut, Reset:
			return "lost its connection " + said
		case End:
			return "ended " + said + " and never said that it was done"
		case Done:
			return "was completed"
		default:
			return "fell silent " + said
		}
	}
	return "was completed"
}
