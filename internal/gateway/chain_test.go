package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/transport"
)

// begun puts the beginning of the answer behind the question of a request.
var begun = strings.NewReplacer(
	`{"role":"user","content":"Hello?"}]`, `{"role":"user","content":"Hello?"},{"role":"assistant","content":"Well,"}]`,
	`"input":"Hello?"`, `"input":[{"role":"user","content":"Hello?"},{"role":"assistant","content":"Well,"}]`,
	`"parts":[{"text":"Hello?"}]}`, `"parts":[{"text":"Hello?"}]},{"role":"model","parts":[{"text":"Well,"}]}`)

// What a fallback refuses of a request, as its last message being the answer's beginning, says
// nothing of the model that was only busy: the client is told of that, and when to come back.
func TestFallbackThatRefusesPrefill(t *testing.T) {
	for _, dialect := range names {
		for _, stream := range []bool{true, false} {
			resting(t, func(w *world, _ *session.Barriers) {
				path, body := request(dialect, "always-503 then no-prefill", stream)
				for i, requests := range []int{3 + 1, 1} { // the second time the first model rests
					total := w.upstream.Requests().Total
					resp, got, err := w.send(path, begun.Replace(body))
					after, bad := strconv.Atoi(resp.Header.Get("Retry-After"))
					if err != nil || resp.StatusCode != 503 && resp.StatusCode != 529 || bad != nil || after < 1 || after > 30 {
						t.Errorf("%s %d: %d %v %v", dialect, i, resp.StatusCode, err, resp.Header)
					}
					if !strings.Contains(got, "no-prefill with env:KEY: invalid_request (This model does not support assistant message prefill.)") {
						t.Errorf("%s %d: %s", dialect, i, got)
					}
					if n := w.upstream.Requests().Total - total; n != requests {
						t.Errorf("%s %d: %d requests", dialect, i, n)
					}
				}
				for _, sent := range w.bodies {
					if !strings.Contains(sent, "Well,") {
						t.Errorf("%s: asked without the answer's beginning: %s", dialect, sent)
					}
				}
			})
		}
	}
}

// A model that is known not to go on from an answer's beginning is passed over, in the dialect that
// has such a thing; where there is no other, it says so itself.
func TestKnownToRefusePrefill(t *testing.T) {
	for _, dialect := range names {
		run(t, gateway.Options{}, func(w *world) {
			for _, c := range []struct {
				model, want string
				plain       bool
			}{{"always-503 then picky then answer", "answer", false}, {"picky then answer", "answer", false}, {"picky then answer", "picky", true}, {"picky", "picky", false}} {
				path, body := request(dialect, c.model, true)
				if !c.plain {
					body = begun.Replace(body)
				}
				if dialect != "messages" {
					c.want = "picky"
				}
				if resp, got, err := w.send(path, body); err != nil || resp.Header.Get(transport.HeaderModel) != dialect+"/"+c.want {
					t.Errorf("%s %+v: %v %v %s", dialect, c, err, resp.Header, got)
				}
			}
			path, body := request("messages", "always-503 then picky", true)
			if _, got, _ := w.send(path, begun.Replace(body)); !strings.Contains(got, "picky was not asked: not_translatable (the last message is the answer's own beginning") {
				t.Error(got)
			}
		})
	}
}

// A model that is known to be too small for a request is not asked. What pictures come to nobody
// knows, so that they speak against none; and where only an estimate is in the way, it is not.
func TestModelsThatAreTooSmall(t *testing.T) {
	long := strings.Repeat("words and words. ", 1000)
	for _, dialect := range names {
		run(t, gateway.Options{}, func(w *world) {
			for _, c := range []struct{ model, said, want string }{
				{"small-answer then answer", long, "answer"},
				{"small-answer then answer", "Hello?", "small-answer"},
				{"small-answer then answer", strings.Repeat("iVBORw0K", 10_000), "small-answer"},
				{"small-answer", long, "small-answer"},
				{"small-answer then small-answer-fast", long, "small-answer"},
			} {
				path, body := request(dialect, c.model, true)
				resp, got, err := w.send(path, strings.Replace(body, "Hello?", c.said, 1))
				if asked := resp.Header.Get(transport.HeaderModel); err != nil || resp.StatusCode != 200 || asked != dialect+"/"+c.want {
					t.Errorf("%s, %d bytes for %s: %d %v from %s: %s", dialect, len(c.said), c.model, resp.StatusCode, err, asked, got)
				}
			}
			path, body := request(dialect, "small-answer then always-503", true)
			if resp, got, _ := w.send(path, strings.Replace(body, "Hello?", long, 1)); resp.StatusCode < 500 || !strings.Contains(got, "small-answer was not asked: context_too_small") {
				t.Errorf("%s: %d %s", dialect, resp.StatusCode, got)
			}
		})
	}
}

// A head of a chain that comes and goes: no client sees a failure, a head that rests is asked by
// nobody, and after that by one request at a time until it has answered.
func TestFlappingPrimary(t *testing.T) {
	const up, round, rounds, clients = 45 * time.Second, 105 * time.Second, 2, 3
	for i, dialect := range names {
		hold := []string{"first_content", "whole"}[i%2]
		resting(t, func(w *world, _ *session.Barriers) {
			began := time.Now()
			var refused, served, instead, probing, together atomic.Int64
			w.instead = func(rw http.ResponseWriter, r *http.Request) bool {
				if !headOf(r) {
					instead.Add(1)
					return false
				}
				if time.Since(began)%round < up {
					served.Add(1)
					return false
				}
				refused.Add(1)
				if time.Since(began)%round > up+10*time.Second { // everybody knows of it
					together.Store(max(together.Load(), probing.Add(1)))
					defer probing.Add(-1)
					<-time.After(time.Second)
				}
				rw.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			var done sync.WaitGroup
			var asked atomic.Int64
			for range clients {
				done.Go(func() {
					for time.Since(began) < rounds*round {
						asked.Add(1)
						resp, body, err := w.post(dialect, "ok-fast then answer", true, gateway.HeaderHold, hold)
						if err != nil || resp.StatusCode != 200 || !strings.Contains(body, terminal[dialect]) {
							t.Errorf("%s after %v: %d %v %s", dialect, time.Since(began), resp.StatusCode, err, body)
						}
						<-time.After(3 * time.Second)
					}
				})
			}
			done.Wait()
			// In each round every client may find out by itself, and then one probes twice or
			// thrice in a minute; the head is back within 30 seconds of its recovery.
			if n := refused.Load(); n > rounds*(3*clients+4) || together.Load() != 1 {
				t.Errorf("%s: the head refused %d requests, %d together", dialect, n, together.Load())
			}
			if s, i := served.Load(), instead.Load(); s < asked.Load()/12 || i < asked.Load()/2 {
				t.Errorf("%s: of %d calls the head served %d, and the fallback %d", dialect, asked.Load(), s, i)
			}
		})
	}
}

// A head that fails every other request is asked again by the call that it failed, and answers it.
func TestEveryOtherRequestFails(t *testing.T) {
	for _, dialect := range names {
		resting(t, func(w *world, _ *session.Barriers) {
			n := 0
			w.instead = func(rw http.ResponseWriter, _ *http.Request) bool {
				if n++; n%2 == 0 {
					rw.WriteHeader(http.StatusServiceUnavailable)
				}
				return n%2 == 0
			}
			for i := range 6 {
				resp, body, err := w.post(dialect, "ok-fast then answer", true)
				if err != nil || resp.StatusCode != 200 || resp.Header.Get(transport.HeaderModel) != dialect+"/ok-fast" || !strings.Contains(body, terminal[dialect]) {
					t.Errorf("%s %d: %d %v %v %s", dialect, i, resp.StatusCode, err, resp.Header, body)
				}
				<-time.After(time.Second)
			}
			if n != 6+5 {
				t.Errorf("%s: %d requests", dialect, n)
			}
		})
	}
}

// headOf reports whether a request of the provider's is for the chain's head.
func headOf(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return err == nil && strings.Contains(fmt.Sprint(r.URL, string(body)), "ok-fast")
}
