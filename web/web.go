// Package web holds the page and serves its files.
//
// The files in dist are built from src by go generate, committed and embedded: the product is
// built with Go alone. Their names are fixed, so browsers ask each time and are answered by
// the hash of the content. The page keeps to a strict content security policy, which whoever
// serves it sets: no inline script or style, no other host, Trusted Types without a policy.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

//go:generate go -C gen run .

//go:embed dist
var dist embed.FS

// types are those of every file there is: what the system's table says does not matter.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

type file struct {
	content   []byte
	kind, tag string
}

// Handler serves the page's files, its index at "/". Another path is a 404, another method
// than GET and HEAD a 405. It is safe for concurrent use.
func Handler() http.Handler {
	files := make(map[string]file)
	entries, err := dist.ReadDir("dist")
	if err != nil {
		panic(err) // the folder is embedded: the compiler has seen it
	}
	for _, e := range entries {
		content, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		files["/"+e.Name()] = file{content, types[path.Ext(e.Name())], `"` + hex.EncodeToString(sum[:16]) + `"`}
	}
	files["/"] = files["/index.html"]
	delete(files, "/index.html")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.kind)
		h.Set("ETag", f.tag)
		h.Set("Cache-Control", "no-cache") // keep it, and ask whether it is still right
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	})
}
