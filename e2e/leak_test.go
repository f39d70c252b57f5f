package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	openStreams = 1000
	leavers     = 200
)

// holding is a provider whose answers begin, and end when they may.
type holding struct {
	open atomic.Int64
	may  chan struct{}
}

func (h *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.open.Add(1)
	defer h.open.Add(-1)
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(data string) {
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = http.NewResponseController(w).Flush() // the client may have left
	}
	chunk(`{"id":"c","choices":[{"index":0,"delta":{"content":"begun "}}]}`)
	select {
	case <-h.may:
		chunk(`{"id":"c","choices":[{"index":0,"delta":{"content":"and done"},"finish_reason":"stop"}]}`)
		chunk("[DONE]")
	case <-r.Context().Done():
	}
}

// A thousand open streams, and beside them clients that leave at any moment: every stream ends as
// it should, every request of one who left ends at the provider too, and then the server has no
// goroutine and no file (which its connections are) more than before.
func TestGatewayLeaksNothing(t *testing.T) {
	h := &holding{may: make(chan struct{})}
	upstream := httptest.NewServer(h)
	defer upstream.Close()
	s := serve(t, fmt.Sprintf("providers:\n  held: {dialect: chat, base_url: %s/v1}\n", upstream.URL))
	way := &http.Transport{}
	defer way.CloseIdleConnections()
	ask := func(ctx context.Context, begun func()) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Base+"/v1/chat/completions", strings.NewReader(`{"model":"held/m","messages":[],"stream":true}`))
		if err != nil {
			return "", err
		}
		r.Header.Set("Authorization", "Bearer "+s.Token)
		resp, err := (&http.Client{Transport: way}).Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		begun()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	// crowd opens streams, lets others leave, and has the rest answered.
	crowd := func(stay, leave int) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var all, begun sync.WaitGroup
		begun.Add(stay)
		for range stay {
			all.Go(func() {
				once := sync.OnceFunc(begun.Done)
				defer once()
				if text, err := ask(ctx, once); err != nil || !strings.Contains(text, "begun ") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
					t.Errorf("%v: %s", err, text)
				}
			})
		}
		for range leave {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, rand.N(300*time.Millisecond))
				defer cancel()
				if text, err := ask(ctx, func() {}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("one who left: %v: %s", err, text)
				}
			})
		}
		begun.Wait()
		until(t, "those who left are still asked for", func() bool { return h.open.Load() == int64(stay) })
		close(h.may)
		all.Wait()
		until(t, "answers go on", func() bool { return h.open.Load() == 0 })
		h.may = make(chan struct{})
		way.CloseIdleConnections()
		upstream.CloseClientConnections()
	}
	crowd(50, 10)
	before := s.uses(t)
	until(t, "the server does not come to rest", func() bool {
		last := before
		before = s.uses(t)
		return before == last
	})
	crowd(openStreams, leavers)
	var after use
	until(t, "the server keeps something", func() bool {
		after = s.uses(t)
		return after.goroutines <= before.goroutines && after.files <= before.files
	})
	t.Logf("before %+v, after %+v", before, after)
}

// use is what a server has in use.
type use struct{ goroutines, files int }

var metric = regexp.MustCompile(`(?m)^(go_goroutines|process_open_fds) (\d+)$`)

// uses asks the server's metrics.
func (s *server) uses(t testing.TB) (u use) {
	t.Helper()
	resp, err := s.HTTP.Get(s.Base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := metric.FindAllSubmatch(text, -1)
	if len(found) != 2 {
		t.Fatalf("%s: %s", resp.Status, text)
	}
	for _, m := range found {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		if string(m[1]) == "go_goroutines" {
			u.goroutines = n
		} else {
			u.files = n
		}
	}
	return u
}

// until asks again, and again, until something is so.
func until(t testing.TB, not string, so func() bool) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for late := time.After(patience); !so(); {
		select {
		case <-again.C:
		case <-late:
			t.Fatal(not)
		}
	}
}
