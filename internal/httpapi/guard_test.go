package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/reprise-run/reprise/internal/httpapi"
)

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// K-173: what another site makes a browser send is refused, in every mode; programs, and the
// page itself, are served. Same-site is another site: cookies ignore ports.
func TestCrossOrigin(t *testing.T) {
	launch := start(t)
	none := start(t, func(c *config) { c.auth.Mode = httpapi.ModeNone })
	const post, get = "POST", "GET"
	for _, tc := range []struct {
		name   string
		method string
		header []string
		want   bool
	}{
		{"a program", post, nil, true},
		{"the page", post, []string{"Sec-Fetch-Site: same-origin", "Origin: SELF"}, true},
		{"the address bar", get, []string{"Sec-Fetch-Site: none"}, true},
		{"another site", post, []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, false},
		{"another port", post, []string{"Sec-Fetch-Site: same-site", "Origin: http://127.0.0.1:1"}, false},
		{"another port that lies about its origin", post, []string{"Sec-Fetch-Site: same-site", "Origin: SELF"}, false},
		{"an unknown word", post, []string{"Sec-Fetch-Site: whatever"}, false},
		{"an old browser, the page", post, []string{"Origin: SELF"}, true},
		{"an old browser, another site", post, []string{"Origin: https://evil.example"}, false},
		{"an old browser, another port", post, []string{"Origin: http://127.0.0.1:1"}, false},
		{"an old browser, a sandbox", post, []string{"Origin: null"}, false},
		{"another site reads", get, []string{"Sec-Fetch-Site: cross-site"}, false},
		{"another port reads", get, []string{"Sec-Fetch-Site: same-site"}, false},
	} {
		for name, w := range map[string]*world{"launch": launch, "none": none} {
			header := []string{}
			if w == launch {
				header = append(header, w.bearer())
			}
			for _, h := range tc.header {
				header = append(header, strings.Replace(h, "SELF", w.server.URL, 1))
			}
			path, body := "/api/v1/system", ""
			if tc.method == post {
				path, body = "/api/v1/sessions", "{}"
			}
			resp, got := w.send(t, tc.method, path, body, header...)
			if (resp.StatusCode/100 == 2) != tc.want || !tc.want && (resp.StatusCode != 403 || !strings.Contains(got, `"code":"forbidden"`)) {
				t.Errorf("%s, %s: %d %s", name, tc.name, resp.StatusCode, got)
			}
		}
	}
	// A login is an act as well: another site must not log its victim in.
	resp, _ := launch.send(t, "POST", "/auth/launch", `{"secret":"`+launch.link(t)+`"}`, "Sec-Fetch-Site: cross-site")
	if resp.StatusCode != 403 {
		t.Errorf("a login by another site: %d", resp.StatusCode)
	}
}

// A name that is not ours may be one that was pointed at our address.
func TestHost(t *testing.T) {
	w := start(t, func(c *config) { c.o.Hosts = []string{"Box.Example", "proxy.example:8443"} })
	for host, want := range map[string]bool{
		"":                   true, // the listener's own
		"localhost":          true,
		"LocalHost:7337":     true,
		"127.0.0.1:1":        true,
		"127.1.2.3":          true,
		"[::1]:7337":         true,
		"[::1]":              true,
		"box.example":        true,
		"BOX.example:443":    true,
		"proxy.example":      true,
		"evil.example":       false,
		"localhost.evil.com": false,
		"box.example.evil":   false,
		"192.168.1.5:7337":   false,
		"0.0.0.0:7337":       false,
		"box.example.":       false,
	} {
		for _, path := range []string{"/api/v1/system", "/healthz", "/openapi.json"} {
			header := []string{w.bearer()}
			if host != "" {
				header = append(header, "Host: "+host)
			}
			resp, body := w.send(t, "GET", path, "", header...)
			if (resp.StatusCode == 200) != want || !want && (resp.StatusCode != 403 || !strings.Contains(body, `"code":"forbidden"`)) {
				t.Errorf("%q %s: %d %s", host, path, resp.StatusCode, body)
			}
		}
	}
}

// Every response tells browsers to run nothing but the page's own files.
func TestSecurityHeaders(t *testing.T) {
	w := start(t, withPage)
	for _, path := range []string{"/", "/app.js", "/s/ses_1", "/api/v1/system", "/api/v1/nothing", "/openapi.json", "/missing.js"} {
		resp, _ := w.send(t, "GET", path, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
				"font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
				"require-trusted-types-for 'script'; trusted-types 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := resp.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s lets other origins read", path)
		}
	}
}

func withPage(c *config) {
	c.o.Page = http.FileServerFS(fstest.MapFS{
		"index.html": {Data: []byte("<title>Reprise</title>")},
		"app.js":     {Data: []byte("start()")},
	})
}

// The page's index stands for the paths that its code routes, and for nothing of the API.
func TestPage(t *testing.T) {
	w := start(t, withPage)
	const html = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
	for _, tc := range []struct {
		route, accept string
		status        int
		want          string
	}{
		{"GET /", html, 200, "<title>Reprise"},
		{"GET /", "Accept: */*", 200, "<title>Reprise"},
		{"GET /s/ses_1", html, 200, "<title>Reprise"},
		{"GET /s/ses_1/attempts/msg_1?v=2", html, 200, "<title>Reprise"},
		{"GET /waiting", html, 200, "<title>Reprise"},
		{"HEAD /s/ses_1", html, 200, ""},
		{"GET /app.js", "Accept: */*", 200, "start()"},
		{"GET /missing.js", "Accept: */*", 404, `"code":"not_found"`},
		{"GET /missing.js", html, 404, `"code":"not_found"`},
		{"GET /s/ses_1", "Accept: application/json", 404, `"code":"not_found"`},
		{"POST /s/ses_1", html, 404, `"allow":["GET","HEAD"]`},
		{"GET /api", html, 404, `"code":"not_found"`},
		{"GET /api/v1/nothing", html, 401, `"code":"unauthenticated"`},
		{"GET /auth/nothing", html, 401, `"code":"unauthenticated"`},
	} {
		method, path, _ := strings.Cut(tc.route, " ")
		resp, body := w.send(t, method, path, "", tc.accept)
		if resp.StatusCode != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s %s: %d %s", tc.route, tc.accept, resp.StatusCode, body)
		}
		if tc.status == 404 && (resp.Header.Get("Content-Type") != "application/json" || strings.Contains(body, "page not found")) {
			t.Errorf("%s: %s %s", tc.route, resp.Header.Get("Content-Type"), body)
		}
	}
}

// The page's own "not found" is the API's, whatever its headers promise.
func TestPageNotFound(t *testing.T) {
	w := start(t, func(c *config) {
		c.o.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "4")
			w.WriteHeader(404)
			w.Write([]byte("gone"))
		})
	})
	resp, body := w.send(t, "GET", "/x.js", "")
	if resp.StatusCode != 404 || !strings.HasPrefix(body, `{"error":{"code":"not_found"`) || !strings.HasSuffix(body, "}}\n") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

// Metrics are free for this machine alone, and behind a proxy on it for nobody: what it passes
// on may come from anywhere.
func TestMetrics(t *testing.T) {
	metrics := func(c *config) {
		c.o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("up 1\n")) })
		c.o.Hosts = []string{"reprise.example"}
	}
	w := start(t, metrics)
	proxied := start(t, metrics, func(c *config) { c.auth.ProxyNonce = "nonce" })
	for _, tc := range []struct {
		w      *world
		header string
		want   int
	}{
		{w, "", 200},
		{w, "Host: localhost", 200},
		{w, "Host: [::1]:1", 200},
		{w, "Host: evil.example", 403},
		{w, "Host: reprise.example", 401},
		{w, "X-Forwarded-For: 192.0.2.1", 401},
		{w, "Forwarded: for=192.0.2.1", 401},
		{w, "Via: 1.1 proxy", 401},
		{w, "X-Real-Ip: 192.0.2.1", 401},
		{w, "Authorization: Bearer wrong", 200},
		{proxied, "", 401},
		{proxied, proxied.bearer(), 200},
	} {
		var header []string
		if tc.header != "" {
			header = []string{tc.header}
		}
		if resp, body := tc.w.send(t, "GET", "/metrics", "", header...); resp.StatusCode != tc.want {
			t.Errorf("%q: %d %s, want %d", tc.header, resp.StatusCode, body, tc.want)
		}
	}
	if resp, _ := w.send(t, "GET", "/metrics", "", "Host: reprise.example", w.bearer()); resp.StatusCode != 200 {
		t.Errorf("with a token: %d", resp.StatusCode)
	}
	if resp, _ := w.send(t, "POST", "/metrics", "{}"); resp.StatusCode != 404 {
		t.Errorf("another method: %d", resp.StatusCode)
	}
	// From another machine.
	for header, want := range map[string]int{"": 401, w.token: 200} {
		r := httptest.NewRequest("GET", "http://localhost/metrics", nil)
		r.RemoteAddr = "192.0.2.1:1234"
		if header != "" {
			r.Header.Set("Authorization", "Bearer "+header)
		}
		rec := httptest.NewRecorder()
		if w.handler.ServeHTTP(rec, r); rec.Code != want {
			t.Errorf("from another machine: %d, want %d", rec.Code, want)
		}
	}
	if resp, _ := start(t).send(t, "GET", "/metrics", ""); resp.StatusCode != 404 {
		t.Errorf("where there are none: %d", resp.StatusCode)
	}
}
