package transport

import (
	"net/http"
	"strings"
)

// own are the header fields that belong to one connection, to a message's length and coding, or
// to whoever is logged in on it. They are never passed on, in either direction.
var own = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Content-Length": true, "Content-Encoding": true, "Accept-Encoding": true, "Host": true, "Date": true, "Server": true,
	"Cookie": true, "Set-Cookie": true, "Alt-Svc": true, "Strict-Transport-Security": true, "Via": true, "Forwarded": true,
	"X-Real-Ip": true, "Origin": true, "Referer": true, "Expect": true,
}

// private reports whether a field is not passed on.
func private(name string) bool {
	return own[name] || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Reprise-") ||
		strings.HasPrefix(name, "Sec-") || strings.HasPrefix(name, "Access-Control-") || strings.HasPrefix(name, "Cf-")
}

// pass copies into dst the fields that may be passed on.
func pass(dst, src http.Header) {
	for k, v := range src {
		if !private(k) {
			dst[k] = v
		}
	}
}

// Credentials are the fields by which clients of the dialects show a key.
var Credentials = []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// Forward returns the fields of a client's request that a provider is sent, without those that
// show a key.
func Forward(h http.Header) http.Header {
	out := make(http.Header, len(h))
	pass(out, h)
	for _, name := range Credentials {
		delete(out, name)
	}
	return out
}
