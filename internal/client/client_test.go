package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

// An answer that is not the API's is an error that shows it.
func TestError(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   client.Error
		text   string
	}{
		{409, `{"error":{"code":"run_active","message":"it runs","details":{"run_id":"run_1"}}}`,
			client.Error{Status: 409, Code: "run_active", Message: "it runs", Details: []byte(`{"run_id":"run_1"}`)}, "it runs"},
		{502, "<html>bad gateway</html>\n", client.Error{Status: 502, Message: "<html>bad gateway</html>"}, "the server answered 502: <html>bad gateway</html>"},
		{307, "", client.Error{Status: 307}, "the server answered 307: "},
		{404, `{"error":"no"}`, client.Error{Status: 404, Message: `{"error":"no"}`}, `the server answered 404: {"error":"no"}`},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			io.WriteString(w, tc.body)
		}))
		c := &client.Client{Base: s.URL}
		_, err := c.System(t.Context())
		var e *client.Error
		if !errors.As(err, &e) || e.Status != tc.want.Status || e.Code != tc.want.Code || e.Message != tc.want.Message ||
			string(e.Details) != string(tc.want.Details) || err.Error() != tc.text {
			t.Errorf("%d %s: %+v", tc.status, tc.body, err)
		}
		s.Close()
		if _, err := c.System(t.Context()); err == nil {
			t.Errorf("nobody answers: %v", err)
		}
	}
}

// A token goes to the server that it is for, with every call, and a key with the calls that
// have one.
func TestHeaders(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		io.WriteString(w, "{}")
	}))
	defer s.Close()
	c := &client.Client{Base: s.URL, Token: "secret"}
	if _, err := c.Resume(t.Context(), "ses_1", "run_1", "k"); err != nil {
		t.Fatal(err)
	}
	if got.Get("Authorization") != "Bearer secret" || got.Get("Idempotency-Key") != "k" || got.Get("Content-Type") != "" {
		t.Errorf("%v", got)
	}
	c.Token = ""
	if _, err := c.CreateSession(t.Context(), session.NewSession{}); err != nil {
		t.Fatal(err)
	}
	if got.Get("Authorization") != "" || got.Get("Idempotency-Key") != "" || got.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got)
	}
}
