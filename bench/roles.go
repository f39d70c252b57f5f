package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// serve serves a handler on a free port and prints its address.
func serve(h http.Handler) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", ln.Addr())
	return http.Serve(ln, h)
}

// upstream answers Chat Completions. The model's name says how: "d20-5ms" is twenty deltas,
// five milliseconds apart. The text of each is the time, in nanoseconds, just before it is
// written.
func upstream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct{ Model string }
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		io.Copy(io.Discard, r.Body)
		number, pause, _ := strings.Cut(strings.TrimPrefix(req.Model, "d"), "-")
		var n int
		fmt.Sscan(number, &n)
		delay, err := time.ParseDuration(pause)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		const chunk = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}` + "\n\n"
		fmt.Fprintf(w, chunk, `"role":"assistant","content":""`, "null")
		for i := range n {
			if delay > 0 && i > 0 {
				select {
				case <-time.After(delay):
				case <-r.Context().Done():
					return
				}
			}
			fmt.Fprintf(w, chunk, fmt.Sprintf(`"content":"~%d~"`, time.Now().UnixNano()), "null")
			if flush() != nil {
				return
			}
		}
		fmt.Fprintf(w, chunk, "", `"stop"`)
		io.WriteString(w, "data: [DONE]\n\n")
	})
}

// reverseProxy is the floor: the smallest proxy that streams. It reads a request's body
// first: passed straight on, a few answers in a hundred thousand come out truncated.
func reverseProxy(target string) http.Handler {
	u, err := url.Parse(target)
	if err != nil {
		return http.NotFoundHandler()
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 4096},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}
