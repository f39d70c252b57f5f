package gateway_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/sqlite"
	"github.com/reprise-run/reprise/transport"
)

// resting runs a gateway whose cool-offs are in a real store.
func resting(t *testing.T, f func(w *world, b *session.Barriers)) {
	dir := t.TempDir()
	var b *session.Barriers
	runWith(t, func(t *testing.T) gateway.Options {
		b = barriers(t, dir)
		return gateway.Options{CoolOffs: b.Credentials()}
	}, func(w *world) { f(w, b) })
}

// barriers opens a store in the bubble, in whose time it lives.
func barriers(t *testing.T, dir string) *session.Barriers {
	t.Helper()
	store, err := sqlite.Open(filepath.Join(dir, "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return session.NewBarriers(store)
}

// refuse answers 429 in the provider's place.
func refuse(w http.ResponseWriter, retryAfter string) {
	w.Header().Set("Retry-After", retryAfter)
	w.WriteHeader(http.StatusTooManyRequests)
	fmt.Fprint(w, `{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}`)
}

// R6, R7: a provider that refuses every fourth request for a second keeps nobody waiting but whom
// it has refused, and everybody gets an answer.
func TestLimitNowAndThen(t *testing.T) {
	resting(t, func(w *world, _ *session.Barriers) {
		var requests, left atomic.Int64
		w.instead = func(rw http.ResponseWriter, r *http.Request) bool {
			<-time.After(2 * time.Millisecond)
			if requests.Add(1)%4 != 0 {
				return false
			}
			refuse(rw, "1")
			return true
		}
		began := time.Now()
		left.Store(200)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for left.Add(-1) >= 0 {
					at := time.Now()
					resp, body, err := w.post("chat", "ok-fast", true)
					if took := time.Since(at); err != nil || resp.StatusCode != http.StatusOK || took > 5*time.Second {
						t.Errorf("after %v: %d %v %s", took, resp.StatusCode, err, body)
					}
				}
			})
		}
		clients.Wait()
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("it took %v", took)
		}
		if n := requests.Load(); n > 270 {
			t.Errorf("%d requests", n)
		}
	})
}

// R6: while a key rests nobody asks with it; then one request tries it, and as soon as that is
// answered all who wait are, those who have waited longest first.
func TestLimitEnds(t *testing.T) {
	resting(t, func(w *world, _ *session.Barriers) {
		began := time.Now()
		var early, trying, together atomic.Int64
		var answered atomic.Bool
		w.instead = func(rw http.ResponseWriter, r *http.Request) bool {
			if time.Since(began) < 5*time.Second {
				early.Add(1)
				refuse(rw, "5")
				return true
			}
			if n := trying.Add(1); !answered.Load() {
				together.Store(max(together.Load(), n))
			}
			<-time.After(500 * time.Millisecond)
			answered.Store(true)
			return false
		}
		var clients sync.WaitGroup
		for i := range 40 {
			clients.Go(func() {
				<-time.After(time.Duration(i) * 25 * time.Millisecond)
				if resp, body, err := w.post("chat", "ok-fast", true); err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("%d %v %s", resp.StatusCode, err, body)
				}
			})
		}
		clients.Wait()
		if took := time.Since(began); took > 6300*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if early.Load() != 1 || together.Load() != 1 {
			t.Errorf("%d requests before the time, %d together after it", early.Load(), together.Load())
		}
	})
}

// R6, R7: what does not pass soon, or at all, is 400 in the dialect's words with the time that is
// known, and repetitions are answered from memory.
func TestFromMemory(t *testing.T) {
	for _, c := range []struct {
		script, code string
		status       int
		timed        bool
		requests     int // of five
	}{
		{"rate-limited-3000s", "rate_limit_exceeded", 400, true, 1},
		{"quota", "insufficient_quota", 400, true, 1},
		{"auth-failed", "invalid_api_key", 400, true, 1},
		{"context-overflow", "context_length_exceeded", 400, false, 5},
	} {
		for _, dialect := range names {
			resting(t, func(w *world, _ *session.Barriers) {
				for i := range 5 {
					resp, body, err := w.post(dialect, c.script+"-fast", i%2 == 0)
					h := resp.Header
					if err != nil || resp.StatusCode != c.status || h.Get("X-Should-Retry") != "false" || h.Get("Retry-After") != "" {
						t.Errorf("%s %s %d: %d %v %v %s", dialect, c.script, i, resp.StatusCode, err, h, body)
					}
					if i > 0 && c.timed && h.Get(transport.HeaderRetryAt) == "" {
						t.Errorf("%s %s %d: no time in %v\n%s", dialect, c.script, i, h, body)
					}
					if (dialect == "chat" || dialect == "responses") && !strings.Contains(body, c.code) {
						t.Errorf("%s %s %d: %s", dialect, c.script, i, body)
					}
				}
				if n := w.upstream.Requests().Total; n != c.requests {
					t.Errorf("%s %s: %d requests", dialect, c.script, n)
				}
			})
		}
	}
}

// R6, R7, R10: a client that repeats at once what a busy provider refuses is not passed on
// each time; it is told when to come back, or, where it was kept waiting for long, that this is
// the end.
func TestBusyProviderIsLeftAlone(t *testing.T) {
	for _, dialect := range names {
		for _, script := range []string{"always-503", "rate-limited", "rate-limited-1s"} {
			resting(t, func(w *world, _ *session.Barriers) {
				asked, began := 0, time.Now()
				for ; time.Since(began) < time.Minute; asked++ {
					<-time.After(time.Second / 2) // as the most impatient clients do
					at := time.Now()
					resp, body, _ := w.post(dialect, script+"-fast", true)
					after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
					status := resp.StatusCode >= 429 && err == nil && after >= 1 && after <= 30
					kept := resp.StatusCode == 200 && time.Since(at) > gateway.DefaultKeepAlive && strings.Contains(body, ends[dialect]) && !strings.Contains(body, terminal[dialect])
					if !status && !kept {
						t.Errorf("%s %s: %d, Retry-After %d %v\n%s", dialect, script, resp.StatusCode, after, err, body)
					}
				}
				if n := w.upstream.Requests().Total; n > 25 {
					t.Errorf("%s %s: %d requests of %d", dialect, script, n, asked)
				}
			})
		}
	}
}

// A cool-off that a person lifts lets those go on at once that wait for its end.
func TestCoolOffIsLifted(t *testing.T) {
	resting(t, func(w *world, b *session.Barriers) {
		var open atomic.Bool
		w.instead = func(rw http.ResponseWriter, r *http.Request) bool {
			if !open.Load() {
				refuse(rw, "25")
			}
			return !open.Load()
		}
		if resp, _, _ := w.post("chat", "ok-fast", true, gateway.HeaderAttempts, "1"); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "25" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() {
			open.Store(true)
			list, err := b.CoolOffs(w.t.Context())
			if err != nil || len(list) != 1 || list[0].Candidate.String() != "chat/ok-fast with env:KEY" {
				t.Errorf("%v %+v", err, list)
				return
			}
			if err := b.LiftCoolOff(w.t.Context(), "operator", list[0].Candidate); err != nil {
				t.Error(err)
			}
		})
		resp, body, err := w.post("chat", "ok-fast", true)
		if took := time.Since(began); err != nil || resp.StatusCode != http.StatusOK || took < 3*time.Second || took > 4*time.Second {
			t.Errorf("after %v: %d %v %s", took, resp.StatusCode, err, body)
		}
	})
}
