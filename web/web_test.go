package web_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/web"
)

func get(t *testing.T, method, path, etag string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	w := httptest.NewRecorder()
	web.Handler().ServeHTTP(w, r)
	return w
}

func TestFiles(t *testing.T) {
	for _, c := range []struct{ path, kind, holds string }{
		{"/", "text/html; charset=utf-8", `<script type="module" src="/app.js">`},
		{"/app.js", "text/javascript; charset=utf-8", "root"},
		{"/chunk.js", "text/javascript; charset=utf-8", "/api/v1/events"},
		{"/late.js", "text/javascript; charset=utf-8", "Attempts"},
		{"/prose.js", "text/javascript; charset=utf-8", "blockquote"},
		{"/app.css", "text/css; charset=utf-8", "color-scheme"},
		{"/favicon.svg", "image/svg+xml", "<svg"},
		{"/licenses.txt", "text/plain; charset=utf-8", "preact"},
	} {
		w := get(t, "GET", c.path, "")
		if w.Code != 200 || w.Header().Get("Content-Type") != c.kind || !strings.Contains(w.Body.String(), c.holds) {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Header().Get("Content-Type"))
		}
		etag := w.Header().Get("ETag")
		if etag == "" {
			t.Errorf("%s has no ETag", c.path)
		}
		if w := get(t, "GET", c.path, etag); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
			t.Errorf("%s again: %d with %d bytes", c.path, w.Code, w.Body.Len())
		}
		if w := get(t, "HEAD", c.path, ""); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("HEAD %s: %d with %d bytes", c.path, w.Code, w.Body.Len())
		}
	}
	for _, path := range []string{"/index.html", "/nothing.js", "/../web.go", "/dist/app.js"} {
		if w := get(t, "GET", path, ""); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := get(t, "POST", "/", ""); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST /: %d", w.Code)
	}
}

// The page must work under a policy that forbids what these would need.
func TestNothingInline(t *testing.T) {
	html := get(t, "GET", "/", "").Body.String()
	for _, bad := range []string{`<script>`, `<style`, ` style=`, ` on[a-z]+=`, `https?://`} {
		if regexp.MustCompile(bad).MatchString(html) {
			t.Errorf("index.html has %s", bad)
		}
	}
	for _, name := range []string{"app.js", "chunk.js", "late.js", "prose.js"} {
		js := get(t, "GET", "/"+name, "").Body.String()
		for _, bad := range []string{`\beval\(`, `new Function\(`, `document\.write`, `insertAdjacentHTML`, `createContextualFragment`} {
			if regexp.MustCompile(bad).MatchString(js) {
				t.Errorf("%s has %s", name, bad)
			}
		}
	}
}

func TestBudget(t *testing.T) {
	const (
		initialScript = 40_000 // bytes, compressed: what must arrive before the page draws
		everything    = 70_000
	)
	// What the page names, and what that cannot start without: the rest is loaded behind it.
	first := map[string]bool{}
	html := get(t, "GET", "/", "").Body.String()
	for _, m := range regexp.MustCompile(`"/(\w+\.js)"`).FindAllStringSubmatch(html, -1) {
		first[m[1]] = true
		js := get(t, "GET", "/"+m[1], "").Body.String()
		for _, i := range regexp.MustCompile(`(?:from|import)"\./(\w+\.js)"`).FindAllStringSubmatch(js, -1) {
			if !strings.Contains(html, `"/`+i[1]+`"`) {
				t.Errorf("%s imports %s, which the page does not name", m[1], i[1])
			}
		}
	}
	total, initial := 0, 0
	err := fs.WalkDir(os.DirFS("dist"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "licenses.txt" {
			return err
		}
		content, err := os.ReadFile("dist/" + path)
		if err != nil {
			return err
		}
		n := compressed(t, content)
		t.Logf("%6d  %s", n, path)
		if first[path] {
			initial += n
		}
		total += n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if initial > initialScript {
		t.Errorf("the page's first scripts take %d bytes compressed, the budget is %d", initial, initialScript)
	}
	if total > everything {
		t.Errorf("the page takes %d bytes compressed, the budget is %d", total, everything)
	}
}

func compressed(t *testing.T, b []byte) int {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}
