package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/internal/pipe"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/transport"
)

// world is a gateway between a client and a rehearsal, in a bubble of its own time.
type world struct {
	t        *testing.T
	upstream *rehearsal.Server
	client   *http.Client
	gateway  *gateway.Handler
	server   *http.Server
	mu       sync.Mutex
	shown    []string // to the provider: keys and queries
	bodies   []string // that it was sent
	headers  []http.Header
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	left     func()                                        // called when a request to the provider has ended
	instead  func(http.ResponseWriter, *http.Request) bool // answers in the provider's place, where it says so
}

var names = []string{"chat", "responses", "messages", "gemini"}

// models are one provider of each dialect; "a then b" is a chain of two scripts, "chat:a" a script
// in the dialect chat, what is called small takes 2,000 tokens, and
// picky is known to refuse prefill.
type models map[string]*provider.Provider

func (m models) Resolve(dialect, name string) (entries []recovery.Entry, err error) {
	if name == "unknown" {
		return nil, errors.New("unknown")
	}
	for model := range strings.SplitSeq(name, " then ") {
		speaks := dialect
		if d, script, ok := strings.Cut(model, ":"); ok {
			speaks, model = d, script
		}
		var facts llm.ModelFacts
		switch {
		case strings.HasPrefix(model, "small-"):
			facts.Context = 2000
		case model == "picky":
			facts.Prefill = new(bool)
		}
		entries = append(entries, recovery.Entry{Provider: speaks, Model: model, Dialect: speaks, Facts: facts,
			Keys: []recovery.Key{{Label: "env:KEY", Hash: "h", Provider: m[speaks].WithKey("operator's")}}})
	}
	return entries, nil
}
func (m models) Names() []string { return []string{"ok", "chat/ok"} }

func run(t *testing.T, o gateway.Options, f func(w *world)) {
	t.Helper()
	runWith(t, func(*testing.T) gateway.Options { return o }, f)
}

// runWith is run with options that are made in the bubble.
func runWith(t *testing.T, prepare func(t *testing.T) gateway.Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := prepare(t)
		w := &world{t: t, left: func() {}}
		var err error
		if w.upstream, err = rehearsal.New(own()...); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		far, served := pipe.Listen(), make(chan error, 2)
		go func() { served <- rehearsal.Serve(ctx, far, http.HandlerFunc(w.far)) }()
		m := models{}
		for _, dialect := range names {
			base := "http://model.test"
			if dialect == "chat" || dialect == "responses" {
				base += "/v1"
			}
			if m[dialect], err = provider.New(provider.Config{Name: dialect, Codec: transport.Servers[dialect], BaseURL: base, Dial: far.Dial,
				Timeouts: provider.DefaultTimeouts}); err != nil {
				t.Fatal(err)
			}
		}
		o.Models, o.Log = m, slog.New(slog.DiscardHandler)
		o.Policy = func() recovery.Policy {
			p := recovery.DefaultPolicy()
			p.Tier1.Base = 1 // nothing is left to chance
			return p
		}
		if o.Admit == nil {
			o.Admit = func(r *http.Request) (session.ClientKey, error) {
				if r.Header.Get("Authorization") == "Bearer wrong" {
					return session.ClientKey{}, errors.New("the key is not one of this gateway's")
				}
				return session.ClientKey{Label: "laptop"}, nil
			}
		}
		w.gateway = gateway.New(o)
		near := pipe.Listen()
		w.dial = near.Dial
		w.server = &http.Server{Handler: w.gateway, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
		go func() { served <- w.server.Serve(near) }()
		way := &http.Transport{DialContext: near.Dial}
		w.client = &http.Client{Transport: way}
		f(w)
		w.gateway.Stop()
		way.CloseIdleConnections()
		w.server.Close()
		for _, p := range m {
			p.CloseIdle()
		}
		cancel()
		<-served
		<-served
	})
}

func (w *world) far(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	w.bodies = append(w.bodies, string(body))
	w.headers = append(w.headers, r.Header)
	w.shown = append(w.shown, fmt.Sprint(r.Header["Authorization"], r.Header["X-Api-Key"], r.Header["X-Goog-Api-Key"], r.URL.RawQuery))
	w.mu.Unlock()
	defer w.left()
	if w.instead == nil || !w.instead(rw, r) {
		w.upstream.ServeHTTP(rw, r)
	}
}

// post asks the gateway and returns what a client sees.
func (w *world) post(dialect, model string, stream bool, header ...string) (*http.Response, string, error) {
	w.t.Helper()
	path, body := request(dialect, model, stream)
	return w.send(path, body, header...)
}

// request is a question in a dialect.
func request(dialect, model string, stream bool) (path, body string) {
	path, body = "/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":"Hello?"}],"stream":%t}`
	switch dialect {
	case "responses":
		path, body = "/v1/responses", `{"model":%q,"input":"Hello?","stream":%t}`
	case "messages":
		path, body = "/v1/messages", `{"model":%q,"max_tokens":1000,"messages":[{"role":"user","content":"Hello?"}],"stream":%t}`
	case "gemini":
		method := "generateContent"
		if stream {
			method = "streamGenerateContent?alt=sse&key=client"
		}
		path, body = "/v1beta/models/"+strings.ReplaceAll(model, " ", "%20")+":"+method, `{"contents":[{"role":"user","parts":[{"text":"Hello?"}]}]}`
	}
	if strings.Contains(body, "%q") {
		body = fmt.Sprintf(body, model, stream)
	}
	return path, body
}

// send sends the gateway a body and returns what a client sees.
func (w *world) send(path, body string, header ...string) (*http.Response, string, error) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://gateway.test"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer client's")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client.Do(r)
	if err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

// ends is how a broken answer ends in each dialect; gemini's is cut.
var ends = map[string]string{
	"chat":      `"code":"stream_interrupted"`,
	"responses": `"code":"invalid_prompt"`,
	"messages":  `"type":"invalid_request_error"`,
}

// terminal is what only a whole answer has.
var terminal = map[string]string{"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop", "gemini": "finishReason"}

// An answer comes whole, says whence, and the operator's key goes to the provider alone.
func TestAnswer(t *testing.T) {
	run(t, gateway.Options{}, func(w *world) {
		for _, dialect := range names {
			for _, stream := range []bool{true, false} {
				resp, body, err := w.post(dialect, "overloaded-then-ok-fast", stream)
				if err != nil || resp.StatusCode != 200 || stream && !strings.Contains(body, terminal[dialect]) {
					t.Errorf("%s %t: %d %v %s", dialect, stream, resp.StatusCode, err, body)
				}
				h := resp.Header
				if !strings.HasPrefix(h.Get(transport.HeaderID), "gw_") || h.Get(transport.HeaderAttempts) != "2" ||
					h.Get(transport.HeaderModel) != dialect+"/overloaded-then-ok-fast" || h.Get(transport.HeaderKey) != "env:KEY" {
					t.Errorf("%s: header %v", dialect, h)
				}
			}
		}
		for _, said := range w.shown {
			if strings.Contains(said, "client") || !strings.Contains(said, "operator's") {
				t.Errorf("the provider was sent %s", said)
			}
		}
	})
}

// fences records what was raised, and when.
type fences struct {
	mu     sync.Mutex
	raised []string
	stands *gateway.Fence
	err    error
}

func (f *fences) Stands(context.Context, *gateway.Call) (*gateway.Fence, error) {
	return f.stands, f.err
}
func (f *fences) Raise(_ context.Context, c *gateway.Call, s *recovery.Stopped) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raised = append(f.raised, c.Client+" "+c.Model+" "+s.Failure.Class.String())
	return nil
}

// R2-R4: a broken answer ends as its dialect says, after its fence was raised, and is not sent
// again.
func TestBroken(t *testing.T) {
	f := &fences{}
	run(t, gateway.Options{Fences: f}, func(w *world) {
		for i, dialect := range names {
			_, body, err := w.post(dialect, "cut-after-text-fast", true)
			end, worded := ends[dialect]
			if (err == nil) != worded || worded && !strings.Contains(body, end) || strings.Contains(body, terminal[dialect]) || !strings.Contains(body, "rehearsed") {
				t.Errorf("%s: %v\n%s", dialect, err, body)
			}
			if len(f.raised) != i+1 || f.raised[i] != "laptop cut-after-text-fast stream_interrupted" {
				t.Errorf("%s: raised %q", dialect, f.raised)
			}
		}
		if n := w.upstream.Requests().Total; n != len(names) {
			t.Errorf("%d requests", n)
		}
		f.stands = &gateway.Fence{ID: "f1", Call: "gw_1", Until: time.Now()}
		for _, dialect := range names {
			resp, body, _ := w.post(dialect, "ok-fast", true)
			if resp.StatusCode != 400 || resp.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, "f1") {
				t.Errorf("%s behind a fence: %d %s", dialect, resp.StatusCode, body)
			}
		}
	})
}

// While the store's database is away nobody can say whether a fence stands: the client is told to come
// again, in its dialect, and nothing is sent.
func TestFencesAway(t *testing.T) {
	f := &fences{err: fmt.Errorf("%w: dial secret-host", session.ErrUnavailable)}
	run(t, gateway.Options{Fences: f}, func(w *world) {
		for _, dialect := range names {
			resp, body, _ := w.post(dialect, "ok-fast", true)
			if resp.StatusCode != 503 || resp.Header.Get("X-Should-Retry") == "false" || !strings.Contains(body, "try again in a moment") || strings.Contains(body, "secret") {
				t.Errorf("%s: %d %s", dialect, resp.StatusCode, body)
			}
		}
		if n := w.upstream.Requests().Total; n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// R8, R10: a waiting client is kept alive; when it then fails, that is no status any more, and
// no fence, since nothing was shown.
func TestKeepAlive(t *testing.T) {
	f := &fences{}
	run(t, gateway.Options{Fences: f, KeepAlive: 10 * time.Second}, func(w *world) {
		for _, dialect := range names {
			began := time.Now()
			resp, body, err := w.post(dialect, "silent", true)
			keep := string(transport.Servers[dialect].KeepAlive())
			if resp.StatusCode != 200 || strings.Count(body, keep) < 20 || (err == nil) == (dialect == "gemini") || !strings.Contains(body, ends[dialect]) {
				t.Errorf("%s after %v: %d %v\n%s", dialect, time.Since(began), resp.StatusCode, err, body)
			}
			if dialect == "gemini" && strings.Contains(body, "\n:") {
				t.Error("a comment in gemini's stream")
			}
			if resp.Header.Get(transport.HeaderModel) != "" || resp.Header.Get(transport.HeaderID) == "" ||
				dialect != "gemini" && resp.Trailer.Get(transport.HeaderAttempts) != "3" {
				t.Errorf("%s: header %v, trailer %v", dialect, resp.Header, resp.Trailer)
			}
			resp, body, err = w.post(dialect, "silent then slow-text", true)
			if err != nil || !strings.Contains(body, terminal[dialect]) || resp.Header.Get(transport.HeaderModel) != "" ||
				resp.Trailer.Get(transport.HeaderModel) != dialect+"/slow-text" || resp.Trailer.Get(transport.HeaderAttempts) != "2" || resp.Trailer.Get(transport.HeaderKey) != "env:KEY" {
				t.Errorf("%s: %v %v %v\n%s", dialect, err, resp.Header, resp.Trailer, body)
			}
		}
		if len(f.raised) != 0 {
			t.Errorf("raised %q", f.raised)
		}
	})
}

// What a client asks for by header.
func TestHeaders(t *testing.T) {
	run(t, gateway.Options{Hold: func(string) replay.Hold { return replay.Hold{} }}, func(w *world) {
		for _, dialect := range names {
			total := w.upstream.Requests().Total
			if resp, body, err := w.post(dialect, "failed-inside-text-once-fast", true, gateway.HeaderHold, "whole"); err != nil || resp.StatusCode != 200 ||
				!strings.Contains(body, terminal[dialect]) {
				t.Errorf("%s held whole: %v\n%s", dialect, err, body)
			}
			if resp, _, _ := w.post(dialect, "always-503", true, gateway.HeaderAttempts, "1"); resp.StatusCode != 503 && resp.StatusCode != 529 {
				t.Errorf("%s once: %d", dialect, resp.StatusCode)
			}
			if resp, body, err := w.post(dialect, "always-503 then ok-fast", true); err != nil || resp.Header.Get(transport.HeaderModel) != dialect+"/ok-fast" {
				t.Errorf("%s falls back: %v %v\n%s", dialect, err, resp.Header, body)
			}
			if resp, _, _ := w.post(dialect, "always-503 then ok-fast", true, gateway.HeaderFallback, "none", gateway.HeaderAttempts, "1"); resp.StatusCode < 500 {
				t.Errorf("%s does not fall back: %d", dialect, resp.StatusCode)
			}
			if n := w.upstream.Requests().Total - total; n != 2+1+4+1 {
				t.Errorf("%s: %d requests", dialect, n)
			}
			for _, bad := range []string{gateway.HeaderHold, gateway.HeaderAttempts, gateway.HeaderFallback} {
				if resp, body, _ := w.post(dialect, "ok-fast", true, bad, "odd"); resp.StatusCode != 400 || !strings.Contains(body, bad) {
					t.Errorf("%s %s: %d %s", dialect, bad, resp.StatusCode, body)
				}
			}
		}
	})
}

// What the gateway itself refuses is said in the dialect of the path.
func TestRefusals(t *testing.T) {
	run(t, gateway.Options{}, func(w *world) {
		for _, dialect := range names {
			resp, body, _ := w.post(dialect, "ok-fast", true, "Authorization", "Bearer wrong")
			if resp.StatusCode != 401 || !strings.Contains(body, `"error":{`) || strings.Contains(body, "UNAUTHENTICATED") != (dialect == "gemini") {
				t.Errorf("%s: %d %s", dialect, resp.StatusCode, body)
			}
			if resp, body, _ = w.post(dialect, "unknown", true); resp.StatusCode != 500 || strings.Contains(body, "unknown") {
				t.Errorf("%s: %d %s", dialect, resp.StatusCode, body)
			}
		}
		for path, want := range map[string]string{"/v1/models": `"id":"chat/ok"`, "/v1/models/chat/ok": `"id":"chat/ok"`, "/v1/models/none": "model_not_found",
			"/v1beta/models": `"name":"models/chat/ok"`, "/v1/none": "not_found"} {
			resp, err := w.client.Get("http://gateway.test" + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.Contains(string(body), want) {
				t.Errorf("%s: %v %s", path, err, body)
			}
		}
		if n := w.upstream.Requests().Total; n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// A client that leaves ends its provider's stream, and raises no fence: it knows what it saw.
func TestClientThatLeaves(t *testing.T) {
	f := &fences{}
	run(t, gateway.Options{Fences: f}, func(w *world) {
		left := make(chan struct{})
		w.left = sync.OnceFunc(func() { close(left) })
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway.test/v1/chat/completions",
			strings.NewReader(`{"model":"stall-after-text-fast","messages":[],"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		<-left
		synctest.Wait()
		if took := time.Since(began); err == nil || took > 2*time.Second || len(f.raised) != 0 {
			t.Errorf("after %v: %v, raised %q", took, err, f.raised)
		}
	})
}

// When the gateway stops, answers go on for the grace and then end as broken ones do.
func TestStop(t *testing.T) {
	f := &fences{}
	run(t, gateway.Options{Fences: f}, func(w *world) {
		time.AfterFunc(3*time.Second, w.gateway.Stop)
		began := time.Now()
		_, body, err := w.post("chat", "drip", true)
		if took := time.Since(began); err != nil || !strings.Contains(body, ends["chat"]) || took < 7*time.Second || took > 8*time.Second {
			t.Errorf("after %v: %v\n%s", took, err, body)
		}
		if len(f.raised) != 1 {
			t.Errorf("raised %q", f.raised)
		}
	})
}

// A client that does not read any more loses its stream, and the provider's with it.
func TestClientThatDoesNotRead(t *testing.T) {
	run(t, gateway.Options{}, func(w *world) {
		conn, err := w.dial(w.t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		left := make(chan struct{})
		w.left = sync.OnceFunc(func() { close(left) })
		body := `{"model":"flood-fast","messages":[],"stream":true}`
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		began := time.Now()
		<-left
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
			t.Errorf("the provider's stream ended after %v", took)
		}
	})
}
