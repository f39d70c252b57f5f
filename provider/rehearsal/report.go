package rehearsal

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Report says what reached the upstream since its start or the last reset.
type Report struct {
	Total   int            `json:"total"`
	Open    int            `json:"open"` // still being answered
	ByModel map[string]int `json:"by_model"`
	ByKey   map[string]int `json:"by_key"`
	// Requests are the newest 10,000, oldest first.
	Requests []Request `json:"requests"`
}

// Request is one request as the upstream saw it.
type Request struct {
	Number  int       `json:"number"` // from 1
	Time    time.Time `json:"time"`
	Path    string    `json:"path"`
	Dialect string    `json:"dialect"`
	Model   string    `json:"model"`
	Key     string    `json:"key"`
	Scene   int       `json:"scene"` // from 1
	Take    int       `json:"take"`  // from 1: which request for this scene it is
	Stream  bool      `json:"stream"`
	Bytes   int       `json:"bytes"` // of its body
	// Header holds the request's headers but those that carry a secret.
	Header map[string]string `json:"header,omitempty"`
	// Outcome is how the answer ended ("done", "status 503", "cut", "client left" …), and is
	// empty while it lasts. ClosedEarly: the client went before the end.
	Outcome     string   `json:"outcome,omitempty"`
	ClosedEarly bool     `json:"closed_early,omitempty"`
	Took        Duration `json:"took,omitempty"`
}

const (
	keptRequests = 10_000
	keptKeys     = 10_000
)

// ledger counts. It is bounded: the oldest requests and keys are forgotten.
type ledger struct {
	mu      sync.Mutex
	total   int
	open    int
	byModel map[string]int
	byKey   map[string]int
	kept    []*Request
	played  map[place]int // takes of a scene since its last rewind
	keys    []place       // of played, oldest first
	changed chan struct{} // closed at the next change
}

type place struct {
	key, model string
	scene      int
}

func newLedger() *ledger {
	l := &ledger{changed: make(chan struct{})}
	l.clear()
	return l
}

func (l *ledger) clear() {
	l.total, l.open, l.kept, l.keys = 0, 0, nil, nil
	l.byModel, l.byKey, l.played = map[string]int{}, map[string]int{}, map[place]int{}
}

func (l *ledger) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// begin records a request and says which take of which scene it gets, both from 0.
func (l *ledger) begin(r *Request, s *Script, rounds int) (scene, take int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.open++
	r.Number = l.total
	l.byModel[r.Model]++
	if s != nil {
		scene = min(rounds, len(s.Scenes)-1)
		take = l.take(place{r.Key, s.Name, rounds}, s, scene)
	}
	r.Scene, r.Take = scene+1, take+1
	if len(l.byKey) < keptKeys || l.byKey[r.Key] > 0 {
		l.byKey[r.Key]++
	}
	if len(l.kept) == keptRequests {
		l.kept = slices.Delete(l.kept, 0, keptRequests/10)
	}
	l.kept = append(l.kept, r)
	l.change()
	return scene, take
}

func (l *ledger) take(at place, s *Script, scene int) int {
	n, known := l.played[at]
	if !known {
		if len(l.keys) == keptKeys {
			delete(l.played, l.keys[0])
			l.keys = l.keys[1:]
		}
		l.keys = append(l.keys, at)
	}
	last := len(s.Scenes[scene]) - 1
	l.played[at] = n + 1
	if s.Rewind && n >= last {
		l.played[at] = 0
	}
	return n
}

func (l *ledger) end(r *Request, outcome string, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = max(0, l.open-1)
	r.Outcome, r.ClosedEarly, r.Took = outcome, left, Duration(time.Since(r.Time))
	l.change()
}

// Requests reports what reached the upstream.
func (s *Server) Requests() Report {
	r, _ := s.ledger.report()
	return r
}

func (l *ledger) report() (Report, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{Total: l.total, Open: l.open, ByModel: maps.Clone(l.byModel), ByKey: maps.Clone(l.byKey),
		Requests: make([]Request, len(l.kept))}
	for i, k := range l.kept {
		r.Requests[i] = *k
	}
	return r, l.changed
}

// Await returns as soon as the report satisfies the condition, or with the context's error.
func (s *Server) Await(ctx context.Context, condition func(Report) bool) error {
	for {
		r, changed := s.ledger.report()
		if condition(r) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Reset forgets all requests, and every script begins again.
func (s *Server) Reset() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.ledger.clear()
	s.ledger.change()
}

// visible copies the headers that carry no secret.
func visible(h http.Header) map[string]string {
	out := map[string]string{}
	for k, v := range h {
		switch k {
		case "Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key":
		default:
			out[k] = v[0]
		}
	}
	return out
}
