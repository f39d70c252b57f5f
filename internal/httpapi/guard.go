package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

const (
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"img-src 'self' data:; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

	bodyTime     = 30 * time.Second // to read a whole body
	maxAnonymous = 4 << 10          // bytes of a body that nobody answers for
	loginPath    = "/auth/launch"
	metricsPath  = "/metrics"
	sameOrigin   = "same-origin"
	pageMethods  = "GET, HEAD"
)

// guard sets the headers that every response has.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", sameOrigin)
	h.Set("Cross-Origin-Resource-Policy", sameOrigin)
}

// private reports whether a path is below /api/ or /auth/: nothing there is answered to
// another site or without an actor, whatever the route.
func private(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/auth/")
}

// isAPI reports whether a path belongs to programs: its errors are JSON, the page's index
// never stands in for it.
func isAPI(path string) bool {
	switch path {
	case "/api", "/auth", "/healthz", "/readyz", "/openapi.json", metricsPath:
		return true
	}
	return private(path)
}

// admit decides whether a request may go on, and finds out who sent it.
func (h *Handler) admit(r *http.Request) *envelope {
	if !h.hosts.Known(r.Host) {
		return refuse(CodeForbidden, "the server does not answer to the host %q; list it under auth.hosts", r.Host)
	}
	if err := h.cross.Check(r); err != nil {
		return refuse(CodeForbidden, "%s", err)
	}
	if r.URL.Path == metricsPath && !h.direct(r) {
		_, err := h.o.Auth.actor(r)
		return err
	}
	if !private(r.URL.Path) {
		return nil
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", sameOrigin, "none":
	default:
		return refuse(CodeForbidden, "the API does not answer to other sites")
	}
	if r.URL.Path == loginPath {
		return nil
	}
	actor, err := h.o.Auth.actor(r)
	callerOf(r.Context()).actor = actor
	return err
}

// Hosts are the names by which a server may be reached, besides those of loopback.
type Hosts map[string]bool

// NewHosts makes a set of names; ports say nothing.
func NewHosts(names []string) Hosts {
	h := Hosts{}
	for _, name := range names {
		h[strings.ToLower(hostname(name))] = true
	}
	return h
}

// Known reports whether a Host header names this server. Another name may be one that an
// attacker has pointed at our address (DNS rebinding).
func (h Hosts) Known(host string) bool {
	name := strings.ToLower(hostname(host))
	if name == "localhost" || h[name] {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.IsLoopback()
}

// direct reports whether a request comes from this machine, and from no proxy on it, which
// would ask for others.
func (h *Handler) direct(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	name := strings.ToLower(hostname(r.Host))
	a, err := netip.ParseAddr(name)
	return local(r.RemoteAddr) && h.o.Auth.nonce == (digest{}) && (name == "localhost" || err == nil && a.IsLoopback())
}

// hostname takes the port off a host, and the brackets of an IPv6 address.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// body reads the request's body whole, within bounds of size and time, so that no handler
// waits for a client.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) *envelope {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	limit := h.o.MaxBody
	if callerOf(r.Context()).actor == "" {
		limit = min(limit, maxAnonymous)
	}
	// net/http takes the deadline back once the body is read.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return refuse(CodeBadRequest, "cannot read the body: %s", err)
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		w.Header().Set("Connection", "close") // what is left of the body is not read
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return refuse(CodeTooLarge, "the body is larger than %d bytes", limit).
				with(Limit{Resource: "body_bytes", Limit: limit})
		}
		return refuse(CodeBadRequest, "cannot read the body")
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return nil
}

// unrouted explains why no route fits. next is what the mux would answer: it knows the
// methods of the path.
func unrouted(next http.Handler, r *http.Request) *envelope {
	p := probe{}
	next.ServeHTTP(p, r)
	allow := http.Header(p).Get("Allow")
	if allow == "" {
		return refuse(CodeNotFound, "there is no route %s", r.URL.Path)
	}
	return refuse(CodeNotFound, "%s has no %s, but %s", r.URL.Path, r.Method, allow).
		with(Allowed{strings.Split(allow, ", ")})
}

// probe keeps a response's header and drops the rest.
type probe http.Header

func (p probe) Header() http.Header         { return http.Header(p) }
func (p probe) Write(b []byte) (int, error) { return len(b), nil }
func (p probe) WriteHeader(int)             {}

// page serves the page's files, and its index for the paths that its own code routes: those
// without a file's extension that are asked for as HTML.
func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case h.o.Page == nil:
		reply(w, refuse(CodeNotFound, "there is nothing at %s", path))
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		reply(w, refuse(CodeNotFound, "%s has no %s, but %s", path, r.Method, pageMethods).
			with(Allowed{strings.Split(pageMethods, ", ")}))
		return
	}
	last := path[strings.LastIndexByte(path, '/')+1:]
	if !strings.Contains(last, ".") && strings.Contains(r.Header.Get("Accept"), "text/html") {
		index := r.Clone(r.Context())
		index.URL.Path, index.URL.RawPath = "/", ""
		r = index
	}
	h.o.Page.ServeHTTP(&pageWriter{ResponseWriter: w, path: path}, r)
}

// pageWriter turns the page's "not found" into the API's.
type pageWriter struct {
	http.ResponseWriter
	path    string
	missing bool
}

func (w *pageWriter) WriteHeader(status int) {
	if status == http.StatusNotFound {
		w.missing = true
		w.Header().Del("Content-Length")
		reply(w.ResponseWriter, refuse(CodeNotFound, "there is nothing at %s", w.path))
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *pageWriter) Write(b []byte) (int, error) {
	if w.missing {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *pageWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
