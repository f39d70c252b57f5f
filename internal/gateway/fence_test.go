package gateway_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/sqlite"
	"github.com/reprise-run/reprise/transport"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// fencing runs a gateway whose fences stand for ten minutes in a real store.
func fencing(t *testing.T, o gateway.Options, f func(w *world, b *session.Barriers)) {
	dir := t.TempDir()
	var b *session.Barriers
	runWith(t, func(t *testing.T) gateway.Options {
		b = barriers(t, dir)
		fences, err := gateway.NewFences(t.Context(), b, 10*time.Minute, true)
		if err != nil {
			t.Fatal(err)
		}
		o.Fences = fences
		return o
	}, func(w *world) { f(w, b) })
}

// asked is a request of each dialect: as it is asked first, in another order and spelling, not
// streamed, with the part that had come, and about something else.
var asked = map[string]struct{ path, first, shuffled, wholePath, whole, goesOn, other string }{
	"chat": {path: "/v1/chat/completions",
		first:    `{"model":"cut-after-text-fast","messages":[{"role":"user","content":"Hello?"}],"temperature":1,"stream":true,"stream_options":{"include_usage":true}}`,
		shuffled: `{"stream":true, "temperature":1.0e0, "messages":[{"content":"\u0048ello?","role":"user"}], "model":"cut-after-text-fast"}`,
		whole:    `{"model":"cut-after-text-fast","messages":[{"role":"user","content":"Hello?"}],"temperature":1}`,
		goesOn:   `{"model":"ok-fast","messages":[{"role":"user","content":"Hello?"},{"role":"assistant","content":"This is a"}],"temperature":1,"stream":true}`,
		other:    `{"model":"ok-fast","messages":[{"role":"user","content":"Hello!"}],"temperature":1,"stream":true}`},
	"responses": {path: "/v1/responses",
		first:    `{"model":"cut-after-text-fast","input":"Hello?","prompt_cache_key":"k","stream":true}`,
		shuffled: `{"stream":true,"prompt_cache_key":"k","input":"Hello?","model":"cut-after-text-fast"}`,
		whole:    `{"model":"cut-after-text-fast","input":"Hello?","prompt_cache_key":"k","stream":false}`,
		goesOn:   `{"model":"ok-fast","input":[{"role":"user","content":"Hello?"},{"role":"assistant","content":"This is a"}],"prompt_cache_key":"k","stream":true}`,
		other:    `{"model":"ok-fast","input":"Hello!","prompt_cache_key":"k","stream":true}`},
	"messages": {path: "/v1/messages",
		first:    `{"model":"cut-after-text-fast","max_tokens":1000,"messages":[{"role":"user","content":"Hello?"}],"stream":true}`,
		shuffled: `{"messages":[{"content":"Hello?","role":"user"}],"max_tokens":1e3,"model":"cut-after-text-fast","stream":true}`,
		whole:    `{"model":"cut-after-text-fast","max_tokens":1000,"messages":[{"role":"user","content":"Hello?"}]}`,
		goesOn:   `{"model":"ok-fast","max_tokens":1000,"messages":[{"role":"user","content":"Hello?"},{"role":"assistant","content":"This is a"}],"stream":true}`,
		other:    `{"model":"ok-fast","max_tokens":1000,"messages":[{"role":"user","content":"Hello!"}],"stream":true}`},
	"gemini": {path: "/v1beta/models/cut-after-text-fast:streamGenerateContent?alt=sse",
		first:     `{"contents":[{"role":"user","parts":[{"text":"Hello?"}]}],"generationConfig":{"temperature":0.50}}`,
		shuffled:  `{"generationConfig":{"temperature":5e-1},"contents":[{"parts":[{"text":"Hello?"}],"role":"user"}]}`,
		wholePath: "/v1beta/models/cut-after-text-fast:generateContent",
		whole:     `{"contents":[{"role":"user","parts":[{"text":"Hello?"}]}],"generationConfig":{"temperature":0.5}}`,
		goesOn:    `{"contents":[{"role":"user","parts":[{"text":"Hello?"}]},{"role":"model","parts":[{"text":"This is a"}]}],"generationConfig":{"temperature":0.5}}`,
		other:     `{"contents":[{"role":"user","parts":[{"text":"Hello!"}]}],"generationConfig":{"temperature":0.5}}`},
}

// R4, R11: what broke is not repeated, in whatever order its fields come and streamed or not,
// while its continuation and everything else pass; the provider sees one request of it.
func TestFenced(t *testing.T) {
	var transcript bytes.Buffer
	fencing(t, gateway.Options{}, func(w *world, b *session.Barriers) {
		for _, dialect := range names {
			a := asked[dialect]
			resp, body, _ := w.send(a.path, a.first)
			broke := resp.Header.Get("X-Reprise-Id")
			if !strings.Contains(body, "rehearsed") {
				t.Fatalf("%s: %d %s", dialect, resp.StatusCode, body)
			}
			total := w.upstream.Requests().Total
			if a.wholePath == "" {
				a.wholePath = a.path
			}
			for i, again := range [][2]string{{a.path, a.first}, {a.path, a.shuffled}, {a.wholePath, a.whole}} {
				resp, body, err := w.send(again[0], again[1])
				if err != nil || resp.StatusCode != 400 || resp.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, broke) {
					t.Errorf("%s %d: %d %v %s", dialect, i, resp.StatusCode, err, body)
				}
				if i == 0 {
					fmt.Fprintf(&transcript, "=== %s\n%s\nX-Reprise-Retry-At: %s\n\n%s\n", dialect, resp.Status, resp.Header.Get("X-Reprise-Retry-At"), steady(body))
				}
			}
			if n := w.upstream.Requests().Total; n != total {
				t.Errorf("%s: %d requests behind the fence", dialect, n-total)
			}
			path := strings.Replace(a.path, "cut-after-text-fast", "ok-fast", 1)
			for i, else_ := range []string{a.goesOn, a.other} {
				if resp, body, err := w.send(path, else_); err != nil || resp.StatusCode != 200 {
					t.Errorf("%s, something else %d: %d %v %s", dialect, i, resp.StatusCode, err, body)
				}
			}
			list, err := b.Fences(w.t.Context())
			i := slices.IndexFunc(list, func(f session.Fence) bool { return f.CallID == broke })
			if err != nil || i < 0 {
				t.Fatalf("%s: %v %+v", dialect, err, list)
			}
			if f := list[i]; f.Dialect != dialect || f.Client != "laptop" || f.Hits != 3 || f.Model != "cut-after-text-fast" ||
				f.Reason != "stream_interrupted" || f.Session != "" {
				t.Errorf("%s: %+v", dialect, f)
			}
		}
	})
	path := filepath.Join("testdata", "fenced.golden")
	if *update {
		if err := os.WriteFile(path, transcript.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, transcript.Bytes()) {
		t.Errorf("%s changed (-update rewrites it): %v\n%s", path, err, transcript.Bytes())
	}
}

var ids = regexp.MustCompile(`(gw|fen)_[0-9A-Za-z]+`)

// steady replaces the ids of a text.
func steady(body string) string { return ids.ReplaceAllString(strings.TrimSpace(body), "${1}_ID") }

// R4: a person who asks again on purpose gets through, by header, by lifting, or by waiting; what
// then breaks again has a fence of its own.
func TestInsist(t *testing.T) {
	fencing(t, gateway.Options{}, func(w *world, b *session.Barriers) {
		breaks := func(header ...string) string {
			t.Helper()
			resp, body, _ := w.post("chat", "cut-after-text-fast", true, append(header, "X-Session-Id", "s")...)
			if resp.StatusCode != 200 || !strings.Contains(body, ends["chat"]) {
				t.Fatalf("%q: %d %s", header, resp.StatusCode, body)
			}
			return resp.Header.Get("X-Reprise-Id")
		}
		refused := func(header ...string) {
			t.Helper()
			if resp, body, _ := w.post("chat", "cut-after-text-fast", true, append(header, "X-Session-Id", "s")...); resp.StatusCode != 400 || !strings.Contains(body, "replay_refused") {
				t.Fatalf("%q: %d %s", header, resp.StatusCode, body)
			}
		}
		first := breaks()
		refused()
		refused(gateway.HeaderInsist, "gw_OTHER")
		second := breaks(gateway.HeaderInsist, first)
		refused(gateway.HeaderInsist, first) // the client repeats it by itself, as it was
		if second == first {
			t.Error("one id for two calls")
		}
		breaks(gateway.HeaderInsist, "1")
		list, err := b.Fences(w.t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%v %+v", err, list)
		}
		if err := b.LiftFence(w.t.Context(), "operator", list[0].ID); err != nil {
			t.Fatal(err)
		}
		breaks()
		<-time.After(10*time.Minute - time.Second)
		refused()
		<-time.After(time.Second)
		breaks()
	})
}

// Who names neither conversation nor request is kept back for as long as programs repeat by
// themselves; another name is another request; and a key may be without fences.
func TestFenceOfNoConversation(t *testing.T) {
	var key session.ClientKey
	admit := func(*http.Request) (session.ClientKey, error) { return key, nil }
	fencing(t, gateway.Options{Admit: admit}, func(w *world, b *session.Barriers) {
		ask := func(want int, header ...string) {
			t.Helper()
			if resp, body, _ := w.post("messages", "cut-after-text-fast", true, header...); resp.StatusCode != want {
				t.Errorf("%q: %d %s", header, resp.StatusCode, body)
			}
		}
		key.Label = "cron"
		ask(200)
		ask(400)
		for _, name := range []string{"one", "two"} {
			ask(200, "Idempotency-Key", name)
			ask(400, "Idempotency-Key", name)
		}
		<-time.After(2*time.Minute - time.Second)
		ask(400)
		<-time.After(time.Second)
		ask(400, "Idempotency-Key", "one")
		ask(200)
		key = session.ClientKey{Label: "bench", ClientTerms: session.ClientTerms{NoFences: true}}
		ask(200)
		ask(200)
		if list, err := b.Fences(w.t.Context()); err != nil || len(list) != 3 {
			t.Errorf("%v %+v", err, list)
		}
	})
}

// Two conversations of one client are not each other's.
func TestFenceIsOneConversations(t *testing.T) {
	fencing(t, gateway.Options{}, func(w *world, _ *session.Barriers) {
		const model = "failed-after-text-fast"
		for _, name := range gateway.SessionHeaders {
			for i, want := range []int{200, 400} {
				if resp, _, _ := w.post("chat", model, true, name, "one of "+name); resp.StatusCode != want {
					t.Errorf("%s, time %d: %d", name, i, resp.StatusCode)
				}
			}
			if resp, _, _ := w.post("chat", model, true, name, "two of "+name); resp.StatusCode != 200 {
				t.Errorf("%s in another conversation: %d", name, resp.StatusCode)
			}
		}
		if resp, _, _ := w.post("chat", model, true); resp.StatusCode != 200 {
			t.Errorf("outside of conversations: %d", resp.StatusCode)
		}
	})
}

// A fence outlives the gateway, and is there for another gateway with the same store.
func TestFenceIsStored(t *testing.T) {
	fencing(t, gateway.Options{}, func(w *world, b *session.Barriers) {
		beside, err := gateway.NewFences(w.t.Context(), b, time.Minute, false)
		if err != nil {
			t.Fatal(err)
		}
		resp, _, _ := w.post("responses", "cut-after-text-fast", true)
		broke := resp.Header.Get("X-Reprise-Id")
		after, err := gateway.NewFences(w.t.Context(), b, time.Minute, true)
		if err != nil {
			t.Fatal(err)
		}
		for name, fences := range map[string]gateway.Fences{"beside": beside, "after a restart": after} {
			c := callOf("responses", `{"stream":true,"input":"Hello?","model":"cut-after-text-fast"}`)
			if f, err := fences.Stands(w.t.Context(), c); err != nil || f == nil || f.Call != broke {
				t.Errorf("%s: %+v %v", name, f, err)
			}
			c.Client = "server"
			if f, err := fences.Stands(w.t.Context(), c); err != nil || f != nil {
				t.Errorf("%s, another client: %+v %v", name, f, err)
			}
		}
	})
}

// What has no fence costs no look at the store, and a count of tokens says nothing twice.
func TestNoFence(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	fences, err := gateway.NewFences(gone, session.NewBarriers(store), time.Minute, true)
	if err != nil {
		t.Fatal(err)
	}
	stopped := &recovery.Stopped{Failure: failure.NewCancelled(nil)}
	c := callOf("chat", `{}`)
	c.Target.Count = true
	if err := fences.Raise(gone, c, stopped); err != nil {
		t.Error(err)
	}
	if list, err := session.NewBarriers(store).Fences(gone); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	cancel()
	if f, err := fences.Stands(gone, callOf("chat", `{}`)); err != nil || f != nil {
		t.Errorf("%v %v", f, err)
	}
	if err := fences.Raise(gone, callOf("chat", `{}`), stopped); err == nil {
		t.Error("a fence that is not stored")
	}
}

// callOf is a call of a client, as the gateway has it.
func callOf(dialect, body string) *gateway.Call {
	return &gateway.Call{ID: "gw_TEST", Client: "laptop", Model: "cut-after-text-fast", Target: transport.Target{Dialect: transport.Servers[dialect]}, Body: []byte(body), Header: http.Header{}}
}
