package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/session"
)

// The codes of the API's errors. Besides them there are the named conflicts of package
// session, with status 409.
const (
	CodeBadRequest          = "bad_request"
	CodeValidation          = session.CodeValidation
	CodeUnauthenticated     = "unauthenticated"
	CodeForbidden           = "forbidden"
	CodeNotFound            = "not_found"
	CodeConflict            = session.CodeConflict
	CodeGone                = "gone"
	CodeTooLarge            = "payload_too_large"
	CodeRateLimited         = "rate_limited"
	CodeInternal            = "internal"
	CodeProviderUnreachable = "provider_unreachable"
	CodeUnavailable         = session.CodeUnavailable
)

var statuses = map[string]int{
	CodeBadRequest:          http.StatusBadRequest,
	CodeValidation:          http.StatusBadRequest,
	CodeUnauthenticated:     http.StatusUnauthorized,
	CodeForbidden:           http.StatusForbidden,
	CodeNotFound:            http.StatusNotFound,
	CodeConflict:            http.StatusConflict,
	CodeGone:                http.StatusGone,
	CodeTooLarge:            http.StatusRequestEntityTooLarge,
	CodeRateLimited:         http.StatusTooManyRequests,
	CodeInternal:            http.StatusInternalServerError,
	CodeProviderUnreachable: http.StatusBadGateway,
	CodeUnavailable:         http.StatusServiceUnavailable,
}

// Status is the one HTTP status of a code. Every other code is a named conflict.
func Status(code string) int {
	if s, ok := statuses[code]; ok {
		return s
	}
	return http.StatusConflict
}

// Error is what went wrong with a request. Details depend on the code: Fields for
// validation_failed, Limit for rate_limited and payload_too_large, Allowed for a method that
// a route does not have, Incident for internal, the provider's failure for
// provider_unreachable, and what the session manager says for the named conflicts.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}

// Fields lists what is wrong with a request, by path ("body.parts[0].kind", "query.limit").
type Fields struct {
	Fields []Field `json:"fields"`
}

// Field is one wrong field.
type Field struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Limit names a bound that was reached.
type Limit struct {
	Resource string `json:"resource"`
	Limit    int64  `json:"limit"`
	Count    int64  `json:"count,omitempty"`
}

// Allowed lists the methods of a route.
type Allowed struct {
	Allow []string `json:"allow"`
}

// Incident finds an internal error in the log.
type Incident struct {
	ID string `json:"id"`
}

// envelope is the body of every answer that is an error.
type envelope struct {
	Err Error `json:"error"`
}

func (e *envelope) Error() string  { return e.Err.Message }
func (e *envelope) GetStatus() int { return Status(e.Err.Code) }

func refuse(code, format string, args ...any) *envelope {
	return &envelope{Error{Code: code, Message: fmt.Sprintf(format, args...)}}
}

func (e *envelope) with(details any) *envelope {
	e.Err.Details = details
	return e
}

// Huma takes the form of its own errors, and what a slice's zero means, from its package
// variables alone. This package is the only one that imports it.
func init() {
	huma.NewError = humaError
	huma.DefaultArrayNullable = false
}

// humaError is what huma makes of its own errors: bodies and parameters that it cannot read.
func humaError(status int, msg string, errs ...error) huma.StatusError {
	if status == http.StatusUnprocessableEntity {
		fields := make([]Field, 0, len(errs))
		for _, err := range errs {
			f := Field{Message: err.Error()}
			var d *huma.ErrorDetail
			if errors.As(err, &d) {
				f = Field{Path: d.Location, Message: d.Message}
			}
			fields = append(fields, f)
		}
		return refuse(CodeValidation, "%s", validationMessage(fields)).with(Fields{fields})
	}
	var d *huma.ErrorDetail
	if len(errs) > 0 && errors.As(errs[0], &d) {
		msg = "cannot read the body: " + d.Message
	}
	return refuse(CodeBadRequest, "%s", msg)
}

func validationMessage(fields []Field) string {
	switch {
	case len(fields) == 0:
		return "the request is not valid"
	case len(fields) == 1:
		return fields[0].Path + ": " + fields[0].Message
	}
	return fmt.Sprintf("%s: %s (and %d more)", fields[0].Path, fields[0].Message, len(fields)-1)
}

// invalid is a refusal of one field.
func invalid(path, format string, args ...any) *envelope {
	fields := []Field{{path, fmt.Sprintf(format, args...)}}
	return refuse(CodeValidation, "%s", validationMessage(fields)).with(Fields{fields})
}

// explain maps an error to what the client is told. What is not meant for it is logged under
// an id, and only the id goes out.
func (h *Handler) explain(ctx context.Context, err error) *envelope {
	var (
		known   *envelope
		refusal *session.Refusal
		failed  *failure.Failure
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refusal):
		return refuse(refusal.Code, "%s", refusal.Message).with(refusal.Details)
	case errors.As(err, &failed):
		return refuse(CodeProviderUnreachable, "%s", failed.Error()).with(failed)
	case errors.Is(err, session.ErrNotFound):
		return refuse(CodeNotFound, "there is no such thing here")
	case errors.Is(err, session.ErrUncertain):
		h.o.Log.ErrorContext(ctx, "an outcome is not known", "error", err, "route", callerOf(ctx).route())
		return refuse(CodeUnavailable, "the server's database went away before it said whether this was done: look, or repeat it with the same Idempotency-Key")
	case errors.Is(err, session.ErrUnavailable):
		h.o.Log.WarnContext(ctx, "cannot serve now", "error", err, "route", callerOf(ctx).route())
		return refuse(CodeUnavailable, "something that the server needs cannot be reached, so nothing was done: try again in a moment; its log says why")
	case errors.Is(err, session.ErrClosed), ctx.Err() != nil:
		return refuse(CodeUnavailable, "the server is stopping")
	}
	return h.incident(ctx, "request failed", "error", err)
}

// incident logs what happened and returns the error that names it.
func (h *Handler) incident(ctx context.Context, msg string, args ...any) *envelope {
	id := rand.Text()
	h.o.Log.ErrorContext(ctx, msg, append(args, "incident", id, "route", callerOf(ctx).route())...)
	return refuse(CodeInternal, "something went wrong in the server; its log says what, under %s", id).
		with(Incident{id})
}

// reply writes an error outside of huma.
func reply(w http.ResponseWriter, e *envelope) {
	body, err := json.Marshal(e)
	if err != nil { // details that are no JSON
		body, _ = json.Marshal(e.with(nil))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.GetStatus())
	w.Write(append(body, '\n'))
}
