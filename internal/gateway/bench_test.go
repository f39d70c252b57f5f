package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/accounts"
	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/sqlite"
	"github.com/reprise-run/reprise/transport"
)

// BenchmarkRequest measures a streamed call with a prompt of 100 kB and a short answer, and, as
// cpu-µs/op, the CPU of client, gateway and provider together: through a plain proxy, through a gateway
// that keeps no books, through one that does, and through one that sets aside what each call may cost.
// BenchmarkDeltas does so for an answer of 10,000 deltas.
func BenchmarkRequest(b *testing.B) { benchmark(b, 100_000, 5) }
func BenchmarkDeltas(b *testing.B)  { benchmark(b, 100, 10_000) }

func benchmark(b *testing.B, prompt, deltas int) {
	body := []byte(fmt.Sprintf(`{"model":"gpt","stream":true,"max_tokens":100,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("words ", prompt/6)))
	frame := []byte(`data: {"id":"c1","object":"chat.completion.chunk","model":"gpt","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n")
	answer := append(bytes.Repeat(frame, deltas), []byte(`data: {"id":"c1","object":"chat.completion.chunk","model":"gpt","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+
		"\n\ndata: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n")...)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(answer)
	}))
	defer upstream.Close()
	u, err := url.Parse(upstream.URL)
	if err != nil {
		b.Fatal(err)
	}
	p, err := provider.New(provider.Config{Name: "chat", Codec: transport.Servers["chat"], BaseURL: upstream.URL + "/v1", Timeouts: provider.DefaultTimeouts})
	if err != nil {
		b.Fatal(err)
	}
	defer p.CloseIdle()
	open := func(b *testing.B, books bool, terms session.ClientTerms) (http.Handler, string) {
		key := session.ClientKey{Label: "bench"}
		o := gateway.Options{Models: models{"chat": p}, Policy: recovery.DefaultPolicy, Log: slog.New(slog.DiscardHandler),
			Admit: func(*http.Request) (session.ClientKey, error) { return key, nil }}
		secret := "none"
		if books {
			store, err := sqlite.Open(filepath.Join(b.TempDir(), "db"))
			if err != nil {
				b.Fatal(err)
			}
			a, err := accounts.Open(b.Context(), accounts.Options{Store: store, Log: o.Log, Sole: true, Keep: time.Hour, KeepCalls: 1000,
				About: func(string, string) llm.ModelFacts { return price }})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if a.Close() != nil || store.Close() != nil {
					b.Error("not closed")
				}
			})
			if _, secret, err = a.CreateKey(b.Context(), "ann", "bench", terms); err != nil {
				b.Fatal(err)
			}
			o.Journal = a
			o.Admit = func(r *http.Request) (session.ClientKey, error) {
				k, ok := a.Admit(r.Context(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
				if !ok {
					b.Error("not admitted")
				}
				return k, nil
			}
		}
		return gateway.New(o), secret
	}
	for _, c := range []struct {
		name string
		open func(*testing.B) (http.Handler, string)
	}{
		{"proxy", func(*testing.B) (http.Handler, string) { return httputil.NewSingleHostReverseProxy(u), "none" }},
		{"bare", func(b *testing.B) (http.Handler, string) { return open(b, false, session.ClientTerms{}) }},
		{"books", func(b *testing.B) (http.Handler, string) { return open(b, true, session.ClientTerms{Rate: 1_000_000}) }},
		{"caps", func(b *testing.B) (http.Handler, string) {
			return open(b, true, session.ClientTerms{SpendDay: 1_000_000_000 * llm.Dollar})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, secret := c.open(b)
			near := httptest.NewServer(h)
			defer near.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			before := cpu(b)
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, err := http.NewRequest(http.MethodPost, near.URL+"/v1/chat/completions", bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Authorization", "Bearer "+secret)
					resp, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || !bytes.HasSuffix(got, []byte("data: [DONE]\n\n")) {
						b.Errorf("%v %.300s", err, got)
						return
					}
				}
			})
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
