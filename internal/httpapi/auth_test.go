package httpapi_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/session"
)

func hashed(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

// withTokens names two programs.
func withTokens(t *testing.T) func(*config) {
	path := filepath.Join(t.TempDir(), "tokens")
	text := "# programs\n\nci  " + hashed("ci-secret") + "\nnightly " + strings.ToUpper(hashed("other-secret")) + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config) { c.auth.Tokens = path }
}

// K-170, K-172, K-174: who may use the API, and as whom.
func TestActor(t *testing.T) {
	launch := start(t, withTokens(t), func(c *config) { c.auth.ProxyNonce = "n0nce" })
	none := start(t, withTokens(t), func(c *config) { c.auth.Mode = httpapi.ModeNone })
	for _, tc := range []struct {
		name   string
		w      *world
		header []string
		actor  string // empty: 401
	}{
		{"nothing", launch, nil, ""},
		{"the local token", launch, []string{launch.bearer()}, "operator"},
		{"a token", launch, []string{"Authorization: Bearer ci-secret"}, "ci"},
		{"a token, another case of the scheme", launch, []string{"Authorization: bearer other-secret"}, "nightly"},
		{"a wrong token", launch, []string{"Authorization: Bearer ci-secre"}, ""},
		{"an empty token", launch, []string{"Authorization: Bearer "}, ""},
		{"a token's hash", launch, []string{"Authorization: Bearer " + hashed("ci-secret")}, ""},
		{"another scheme", launch, []string{"Authorization: Basic ci-secret"}, ""},
		{"an unknown cookie", launch, []string{"Cookie: " + cookieOf(launch) + "=x"}, ""},
		{"an empty cookie", launch, []string{"Cookie: " + cookieOf(launch) + "="}, ""},
		{"a proxy's user", launch, []string{"X-Reprise-User: ada", "X-Reprise-Nonce: n0nce"}, "ada"},
		{"a proxy's user without nonce", launch, []string{"X-Reprise-User: ada"}, ""},
		{"a proxy's user with a wrong nonce", launch, []string{"X-Reprise-User: ada", "X-Reprise-Nonce: nonce"}, ""},
		{"a nonce without user", launch, []string{"X-Reprise-Nonce: n0nce"}, ""},
		{"a nonce with a token", launch, []string{"X-Reprise-User: ada", "X-Reprise-Nonce: n0nce", "Authorization: Bearer ci-secret"}, "ci"},
		{"a user with an endless name", launch, []string{"X-Reprise-User: " + strings.Repeat("a", 129), "X-Reprise-Nonce: n0nce"}, ""},
		{"a wrong token beside a nonce", launch, []string{"X-Reprise-User: ada", "X-Reprise-Nonce: n0nce", "Authorization: Bearer x"}, ""},
		{"without auth, nothing", none, nil, "operator"},
		{"without auth, a token", none, []string{"Authorization: Bearer ci-secret"}, "ci"},
		{"without auth, a wrong token", none, []string{"Authorization: Bearer x"}, ""},
		{"without auth and proxy, a user", none, []string{"X-Reprise-User: ada", "X-Reprise-Nonce: "}, "operator"},
	} {
		tc.w.fake.calls = nil
		resp, body := tc.w.send(t, "DELETE", "/api/v1/sessions/ses_1", "", tc.header...)
		want, asked := 200, "patch "+tc.actor+" ses_1 archived=true"
		if tc.actor == "" {
			want, asked = 401, ""
			if !strings.Contains(body, `"code":"unauthenticated"`) {
				t.Errorf("%s: %s", tc.name, body)
			}
		}
		if resp.StatusCode != want || tc.w.last() != asked {
			t.Errorf("%s: %d, asked %q, want %d %q", tc.name, resp.StatusCode, tc.w.last(), want, asked)
		}
		mark := resp.Header.Get("X-Reprise-Auth")
		if (mark == "none") != (tc.w == none) {
			t.Errorf("%s: the response is marked %q", tc.name, mark)
		}
	}
}

// K-170: every route of the API wants an actor, those that do not exist too; the page, the
// document and the probes do not.
func TestPrivate(t *testing.T) {
	w := start(t, func(c *config) { c.o.Page = http.NotFoundHandler() })
	for _, route := range []string{
		"GET /api/v1/sessions", "POST /api/v1/sessions", "GET /api/v1/events", "GET /api/v1/runs/run_1",
		"GET /api/v1/nothing", "GET /api/", "POST /auth/logout", "GET /auth/x", "GET /%61pi/v1/system",
	} {
		method, path, _ := strings.Cut(route, " ")
		if resp, body := w.send(t, method, path, ""); resp.StatusCode != 401 {
			t.Errorf("%s: %d %s", route, resp.StatusCode, body)
		}
	}
	for path, want := range map[string]int{"/openapi.json": 200, "/healthz": 200, "/readyz": 200, "/": 404} {
		if resp, body := w.send(t, "GET", path, ""); resp.StatusCode != want {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	// Nobody may send much before it is known who it is.
	large := `{"secret":"` + strings.Repeat("x", 5<<10) + `"}`
	if resp, _ := w.send(t, "POST", "/auth/launch", large); resp.StatusCode != 413 {
		t.Errorf("a large body of nobody: %d", resp.StatusCode)
	}
}

// K-174: without authentication nobody from elsewhere gets in, however the listener is bound.
func TestNoneIsLocal(t *testing.T) {
	w := start(t, func(c *config) { c.auth.Mode = httpapi.ModeNone })
	for addr, want := range map[string]int{"127.0.0.1:5": 200, "[::1]:5": 200, "[::ffff:127.0.0.1]:5": 200, "192.0.2.7:5": 403, "": 403} {
		r := httptest.NewRequest("GET", "http://localhost/api/v1/system", nil)
		r.RemoteAddr = addr
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		if rec.Code != want || rec.Header().Get("X-Reprise-Auth") != "none" {
			t.Errorf("%q: %d %s", addr, rec.Code, rec.Body)
		}
	}
}

// browser is a client with a cookie jar and no token.
func (w *world) browser(t *testing.T) *client.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &client.Client{Base: w.server.URL, HTTP: &http.Client{Jar: jar, Transport: w.server.Client().Transport}}
}

// link makes a launch link and returns the secret in its fragment.
func (w *world) link(t *testing.T) string {
	t.Helper()
	base, secret, ok := strings.Cut(w.auth.Link(w.server.URL), "/#launch=")
	if !ok || base != w.server.URL || len(secret) < 43 {
		t.Fatalf("link %s#%s", base, secret)
	}
	return secret
}

func cookieOf(w *world) string {
	return "reprise_" + w.server.URL[strings.LastIndexByte(w.server.URL, ':')+1:]
}

// A link can be asked for, by the operator alone; it leads to where it was asked for.
func TestLink(t *testing.T) {
	w := start(t, withTokens(t))
	link, err := w.client.Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	base, secret, _ := strings.Cut(link, "/#launch=")
	if base != w.server.URL {
		t.Errorf("a link to %s, want %s", base, w.server.URL)
	}
	b := w.browser(t)
	if _, err := b.Login(t.Context(), secret); err != nil {
		t.Error(err)
	}
	if _, err := b.Link(t.Context()); err != nil {
		t.Errorf("logged in: %v", err)
	}
	for header, want := range map[string]int{"Authorization: Bearer ci-secret": 403, "X: y": 401} {
		if resp, body := w.send(t, "POST", "/auth/link", "", header); resp.StatusCode != want || strings.Contains(body, "launch=") {
			t.Errorf("%s: %d %s", header, resp.StatusCode, body)
		}
	}
	resp, body := w.send(t, "POST", "/auth/link", "", w.bearer(), "Origin: https://"+strings.TrimPrefix(w.server.URL, "http://"))
	if resp.StatusCode != 201 || !strings.Contains(body, `"url":"https://`) {
		t.Errorf("through a proxy: %d %s", resp.StatusCode, body)
	}
}

// K-171: a launch link logs in once; the login ends at a logout, and survives a restart.
func TestLaunch(t *testing.T) {
	dir := t.TempDir()
	w := start(t, func(c *config) { c.auth.Dir = dir })
	ctx, secret := t.Context(), w.link(t)
	b := w.browser(t)
	if _, err := b.Login(ctx, secret+"x"); status(err) != 401 {
		t.Errorf("a wrong secret: %v", err)
	}
	if a, err := b.Login(ctx, secret); err != nil || a.Actor != "operator" {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := w.browser(t).Login(ctx, secret); status(err) != 401 {
		t.Errorf("a secret that was used: %v", err)
	}
	if _, err := b.CreateSession(ctx, session.NewSession{}); err != nil {
		t.Errorf("logged in: %v", err)
	}

	// Another server with the same folder and name knows the login; its links are its own.
	again := start(t, func(c *config) { c.auth.Dir = dir })
	moved := b.HTTP.Jar.Cookies(mustURL(t, w.server.URL))[0]
	header := "Cookie: " + cookieOf(again) + "=" + moved.Value
	if resp, body := again.send(t, "GET", "/api/v1/system", "", header); resp.StatusCode != 200 {
		t.Errorf("after a restart: %d %s", resp.StatusCode, body)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("the folder holds %v, %v", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
		if text, err := os.ReadFile(f); err != nil || strings.Contains(string(text), moved.Value) {
			t.Errorf("%s holds the cookie, or: %v", f, err)
		}
	}

	if err := b.Logout(ctx, false); err != nil {
		t.Error(err)
	}
	if _, err := b.System(ctx); status(err) != 401 {
		t.Errorf("logged out: %v", err)
	}
	if len(b.HTTP.Jar.Cookies(mustURL(t, w.server.URL))) != 0 {
		t.Error("the browser keeps its cookie")
	}
	if resp, _ := w.send(t, "GET", "/api/v1/system", "", "Cookie: "+cookieOf(w)+"="+moved.Value); resp.StatusCode != 401 {
		t.Errorf("a copy of the cookie after logout: %d", resp.StatusCode)
	}
	b1, b2 := w.browser(t), w.browser(t)
	for _, b := range []*client.Client{b1, b2} {
		if _, err := b.Login(ctx, w.link(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b1.Logout(ctx, true); err != nil {
		t.Error(err)
	}
	if _, err := b2.System(ctx); status(err) != 401 {
		t.Errorf("all logged out: %v", err)
	}
	// K-180: each of them is an act; what was refused is none.
	acts := w.named("record")
	want := []string{"log in", "log out", "log in", "log in", "log out all"}
	for i := range want {
		want[i] = "record operator " + want[i]
	}
	if !slices.Equal(acts, want) {
		t.Errorf("recorded %q, want %q", acts, want)
	}
}

// K-171: what the login's cookie says to a browser.
func TestCookie(t *testing.T) {
	w := start(t)
	login := func(header ...string) *http.Cookie {
		resp, body := w.send(t, "POST", "/auth/launch", `{"secret":"`+w.link(t)+`"}`, header...)
		if resp.StatusCode != 200 || len(resp.Cookies()) != 1 {
			t.Fatalf("%d %s %v", resp.StatusCode, body, resp.Header)
		}
		return resp.Cookies()[0]
	}
	c := login()
	if c.Name != cookieOf(w) || c.SameSite != http.SameSiteStrictMode || !c.HttpOnly || c.Path != "/" || c.Secure || c.Domain != "" || c.MaxAge != 30*24*3600 {
		t.Errorf("%+v", c)
	}
	if c := login("Host: localhost", "Origin: https://localhost"); c.Name != "reprise" || !c.Secure {
		t.Errorf("behind TLS: %+v", c)
	}
}

// K-171: a link is good for ten minutes, a login for thirty days.
func TestExpiry(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a, err := httpapi.OpenAuth(httpapi.AuthOptions{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		h := httpapi.New(httpapi.Options{Sessions: &fake{}, Models: &fake{}, Auth: a})
		send := func(method, path, body, cookie string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
			if cookie != "" {
				r.Header.Set("Cookie", cookie)
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			return rec
		}
		secret := func() string {
			_, s, _ := strings.Cut(a.Link("http://localhost"), "#launch=")
			return `{"secret":"` + s + `"}`
		}
		early, late := secret(), secret()
		wait(10*time.Minute - time.Second)
		in := send("POST", "/auth/launch", early, "")
		if in.Code != 200 {
			t.Fatalf("a fresh link: %d", in.Code)
		}
		wait(time.Second)
		if rec := send("POST", "/auth/launch", late, ""); rec.Code != 401 {
			t.Errorf("a link after ten minutes: %d", rec.Code)
		}
		cookie, _, _ := strings.Cut(in.Header().Get("Set-Cookie"), ";")
		wait(30*24*time.Hour - 2*time.Second)
		if rec := send("GET", "/api/v1/system", "", cookie); rec.Code != 200 {
			t.Errorf("a login: %d", rec.Code)
		}
		wait(time.Second)
		if rec := send("GET", "/api/v1/system", "", cookie); rec.Code != 401 {
			t.Errorf("a login after thirty days: %d", rec.Code)
		}
	})
}

// wait lets the time of a bubble pass.
func wait(d time.Duration) { <-time.After(d) }

// Old links and logins make room for new ones.
func TestBoundedLinks(t *testing.T) {
	w := start(t)
	first := w.link(t)
	for range 16 {
		w.link(t)
	}
	if _, err := w.browser(t).Login(t.Context(), first); status(err) != 401 {
		t.Errorf("the oldest link: %v", err)
	}
}

// Files that are not as they should be stop the start, and say where.
func TestAuthFiles(t *testing.T) {
	for _, tc := range []struct{ name, file, text, want string }{
		{"no hash", "tokens", "# x\nci\n", "tokens:2: want two words"},
		{"three words", "tokens", "ci " + hashed("x") + " y\n", "tokens:1: want two words"},
		{"a secret for a hash", "tokens", "ci secret\n", "tokens:1: want a SHA-256"},
		{"a name twice", "tokens", "ci " + hashed("x") + "\nci " + hashed("y") + "\n", `tokens:2: the name "ci" is there twice`},
		{"a login's time", "logins", hashed("x") + " soon\n", "logins:1:"},
		{"an empty local token", "token", "\n", "is empty"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, tc.file)
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := httpapi.AuthOptions{Dir: dir}
		if tc.file == "tokens" {
			o.Tokens = path
		}
		if _, err := httpapi.OpenAuth(o); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	for name, o := range map[string]httpapi.AuthOptions{
		"mode":      {Mode: "off", Dir: t.TempDir()},
		"no tokens": {Dir: t.TempDir(), Tokens: "missing"},
		"no folder": {Dir: filepath.Join(t.TempDir(), "missing")},
	} {
		if _, err := httpapi.OpenAuth(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	dir := t.TempDir()
	one, err := httpapi.LocalToken(dir)
	two, err2 := httpapi.LocalToken(dir)
	if err != nil || err2 != nil || one != two || len(one) < 43 {
		t.Errorf("local token %q %q, %v %v", one, two, err, err2)
	}
}
