package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

var errSecret = errors.New("secret: the disk at /var/lib is full")

func asError(err error, e **client.Error) bool { return errors.As(err, e) }

func status(err error) int {
	var e *client.Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// K-133: each code has its one status, and what is no code of the API is a named conflict.
func TestStatus(t *testing.T) {
	for code, want := range map[string]int{
		"bad_request":          400,
		"validation_failed":    400,
		"unauthenticated":      401,
		"forbidden":            403,
		"not_found":            404,
		"conflict":             409,
		"gone":                 410,
		"payload_too_large":    413,
		"rate_limited":         429,
		"internal":             500,
		"provider_unreachable": 502,
		"unavailable":          503,

		"run_active":            409,
		"stale_run":             409,
		"stale_revision":        409,
		"effects_not_confirmed": 409,
		"idempotency_mismatch":  409,
	} {
		if got := httpapi.Status(code); got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
}

// K-132: what the manager answers becomes one envelope, with code, message and details.
func TestManagerErrors(t *testing.T) {
	w := start(t)
	effects := []map[string]string{{"name": "write_file"}}
	for _, tc := range []struct {
		err     error
		status  int
		code    string
		message string
		details string
	}{
		{session.ErrNotFound, 404, "not_found", "there is no such thing here", ""},
		{fmt.Errorf("read session: %w", session.ErrNotFound), 404, "not_found", "there is no such thing here", ""},
		{&session.Refusal{Code: "validation_failed", Message: "no such model"}, 400, "validation_failed", "no such model", ""},
		{&session.Refusal{Code: "run_active", Message: "it runs"}, 409, "run_active", "it runs", ""},
		{&session.Refusal{Code: "stale_revision", Message: "100% stale"}, 409, "stale_revision", "100% stale", ""},
		{fmt.Errorf("in a transaction: %w", &session.Refusal{Code: "effects_not_confirmed", Message: "tools ran", Details: effects}),
			409, "effects_not_confirmed", "tools ran", `[{"name":"write_file"}]`},
		{&session.Refusal{Code: "idempotency_mismatch", Message: "another body"}, 409, "idempotency_mismatch", "another body", ""},
		{&session.Refusal{Code: "unavailable", Message: "stopping"}, 503, "unavailable", "stopping", ""},
		{session.ErrClosed, 503, "unavailable", "the server is stopping", ""},
	} {
		w.fake.err = tc.err
		_, err := w.client.Post(t.Context(), "ses_1", []llm.Part{llm.Text("hi")}, session.Routing{}, "")
		var e *client.Error
		if !errors.As(err, &e) || e.Status != tc.status || e.Code != tc.code || e.Message != tc.message || string(e.Details) != tc.details {
			t.Errorf("%v:\n got %+v\nwant %+v", tc.err, e, tc)
		}
	}
	if got := w.log.String(); got != "" {
		t.Errorf("refusals are no incidents, and yet: %s", got)
	}
}

// While the database is away the answer says what to do, and the log why.
func TestDatabaseAway(t *testing.T) {
	w := start(t)
	for message, err := range map[string]error{
		"try again in a moment":                   fmt.Errorf("%w: dial secret-host", session.ErrUnavailable),
		"repeat it with the same Idempotency-Key": fmt.Errorf("%w: dial secret-host (%w)", session.ErrUncertain, session.ErrUnavailable),
	} {
		w.fake.err = err
		resp, body := w.send(t, "GET", "/api/v1/system", "", w.bearer())
		if resp.StatusCode != 503 || !strings.Contains(body, `"unavailable"`) || !strings.Contains(body, message) || strings.Contains(body, "secret") {
			t.Errorf("%v: %d %s", err, resp.StatusCode, body)
		}
		if log := w.log.String(); !strings.Contains(log, err.Error()) || !strings.Contains(log, "GET /api/v1/system") {
			t.Errorf("the log does not explain it: %s", log)
		}
	}
}

// What goes wrong inside is told by an id alone, which the log explains.
func TestIncident(t *testing.T) {
	w := start(t)
	for name, err := range map[string]error{"error": errSecret, "lost": fmt.Errorf("put run: %w", session.ErrLost)} {
		w.fake.err = err
		resp, body := w.send(t, "GET", "/api/v1/system", "", w.bearer())
		id := regexp.MustCompile(`"details":\{"id":"([A-Z2-7]+)"\}`).FindStringSubmatch(body)
		if resp.StatusCode != 500 || id == nil || strings.Contains(body, "secret") || strings.Contains(body, "put run") {
			t.Fatalf("%s: %d %s", name, resp.StatusCode, body)
		}
		if log := w.log.String(); !strings.Contains(log, id[1]) || !strings.Contains(log, err.Error()) || !strings.Contains(log, "GET /api/v1/system") {
			t.Errorf("%s: the log does not explain it: %s", name, log)
		}
	}
}

// A handler that panics is answered for, like any error.
func TestPanic(t *testing.T) {
	w := start(t, func(c *config) { c.o.Sessions = nil })
	resp, body := w.send(t, "GET", "/api/v1/system", "", w.bearer())
	if resp.StatusCode != 500 || !strings.Contains(body, `"code":"internal"`) || strings.Contains(body, "nil pointer") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if !strings.Contains(w.log.String(), "nil pointer") {
		t.Errorf("the log: %s", w.log.String())
	}
}

// K-132: every request that cannot be served gets the envelope, whoever refuses it.
func TestBadRequests(t *testing.T) {
	w := start(t, func(c *config) { c.o.MaxBody = 1 << 10 })
	const messages = "/api/v1/sessions/ses_1/messages"
	for _, tc := range []struct {
		name, route, body string
		header            string
		status            int
		want              string // code, and a piece of message or details
	}{
		{"unknown route", "GET /api/v1/nothing", "", "", 404, "not_found /api/v1/nothing"},
		{"unknown route of auth", "POST /auth/nothing", "{}", "", 404, "not_found"},
		{"the API's root", "GET /api", "", "", 404, "not_found"},
		{"wrong method", "PUT /api/v1/sessions", "{}", "", 404, `not_found "allow":["GET","HEAD","POST"]`},
		{"wrong method of launch", "GET /auth/launch", "", "", 404, `not_found "allow":["POST"]`},
		{"wrong method of a page's path", "POST /somewhere", "", "", 404, "not_found"},
		{"no body", "POST " + messages, "", "", 400, "bad_request body is required"},
		{"no JSON", "POST " + messages, "{", "", 400, "bad_request cannot read the body"},
		{"two values", "POST " + messages, `{"parts":[]} {}`, "", 400, "bad_request cannot read the body"},
		{"another type", "POST " + messages, "a=b", "Content-Type: application/x-www-form-urlencoded", 400, "bad_request content type"},
		{"no object", "POST " + messages, "[]", "", 400, `validation_failed "path":"body"`},
		{"a missing field", "POST " + messages, "{}", "", 400, `validation_failed "path":"body"`},
		{"an unknown field", "POST /api/v1/sessions", `{"titel":"x"}`, "", 400, `validation_failed "path":"body.titel"`},
		{"an unknown field within", "POST /api/v1/sessions", `{"settings":{"max_step":3}}`, "", 400, `validation_failed "path":"body.settings.max_step"`},
		{"a wrong type", "POST /api/v1/sessions", `{"title":7}`, "", 400, `validation_failed "path":"body.title"`},
		{"a wrong hold", "POST /api/v1/sessions", `{"settings":{"hold":"never"}}`, "", 400, `validation_failed hold policy`},
		{"null for a list", "POST " + messages, `{"parts":null}`, "", 400, `validation_failed "path":"body.parts"`},
		{"no parts", "POST " + messages, `{"parts":[]}`, "", 400, `validation_failed "path":"body.parts"`},
		{"an empty text", "POST " + messages, `{"parts":[{"kind":"text"}]}`, "", 400, `validation_failed "path":"body.parts[0].text"`},
		{"a model's part", "POST " + messages, `{"parts":[{"kind":"text","text":"x"},{"kind":"opaque","raw":"e30="}]}`, "", 400, `validation_failed "path":"body.parts[1].kind"`},
		{"a signed text", "POST " + messages, `{"parts":[{"kind":"text","text":"x","signature":"s"}]}`, "", 400, `validation_failed "path":"body.parts[0].kind"`},
		{"an image of nothing", "POST " + messages, `{"parts":[{"kind":"image"}]}`, "", 400, `validation_failed "path":"body.parts[0].data"`},
		{"an image without a type", "POST " + messages, `{"parts":[{"kind":"image","data":"AAAA"}]}`, "", 400, `validation_failed "path":"body.parts[0].media_type"`},
		{"a wrong number", "GET " + messages + "?limit=many", "", "", 400, `validation_failed "path":"query.limit"`},
		{"a number out of range", "GET " + messages + "?limit=-1", "", "", 400, `validation_failed "path":"query.limit"`},
		{"a wrong switch", "GET " + messages + "?superseded=perhaps", "", "", 400, `validation_failed "path":"query.superseded"`},
		{"an unknown parameter", "GET " + messages + "?supersede=true", "", "", 400, `validation_failed "path":"query.supersede"`},
		{"a long key", "POST " + messages, `{"parts":[{"kind":"text","text":"x"}]}`, "Idempotency-Key: " + strings.Repeat("k", 201), 400, `validation_failed "path":"header.Idempotency-Key"`},
		{"a large body", "POST " + messages, strings.Repeat(" ", 1<<10+1), "", 413, `payload_too_large "limit":1024`},
		{"a large body to a route without", "GET /api/v1/system", strings.Repeat(" ", 1<<10+1), "", 413, "payload_too_large"},
		{"a large body to nowhere", "POST /api/v1/nothing", strings.Repeat(" ", 1<<10+1), "", 413, "payload_too_large"},
	} {
		method, path, _ := strings.Cut(tc.route, " ")
		header := []string{w.bearer()}
		if tc.header != "" {
			header = append(header, tc.header)
		}
		w.fake.calls = nil
		resp, body := w.send(t, method, path, tc.body, header...)
		code, piece, _ := strings.Cut(tc.want, " ")
		var e struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Errorf("%s: %v: %s", tc.name, err, body)
			continue
		}
		if resp.StatusCode != tc.status || e.Error.Code != code || e.Error.Message == "" || !strings.Contains(body, piece) {
			t.Errorf("%s: %d %s, want %d %s", tc.name, resp.StatusCode, body, tc.status, tc.want)
		}
		if resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", tc.name, resp.Header.Get("Content-Type"))
		}
		if tc.status == 413 && !resp.Close {
			t.Errorf("%s: the server waits for the rest", tc.name)
		}
		if w.last() != "" {
			t.Errorf("%s: the manager was asked %s", tc.name, w.last())
		}
	}
}

// A body may be as large as the bound, which is 8 MiB where nothing else is said.
func TestBodyBound(t *testing.T) {
	for bound, set := range map[int]int64{1 << 10: 1 << 10, 8 << 20: 0} {
		w := start(t, func(c *config) { c.o.MaxBody = set })
		body := `{"parts":[{"kind":"text","text":"x"}]}`
		body += strings.Repeat(" ", bound-len(body))
		for extra, want := range map[string]int{"": 202, " ": 413} {
			resp, got := w.send(t, "POST", "/api/v1/sessions/ses_1/messages", body+extra, w.bearer())
			if resp.StatusCode != want {
				t.Errorf("%d bytes of %d: %d %s", len(body+extra), bound, resp.StatusCode, got)
			}
		}
	}
}
