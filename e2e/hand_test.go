package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/session"
)

// press is what a person does to a page.
type press struct {
	Button string `json:"button"`
	// Then is text that the page must show afterwards; empty: whatever comes, and the button
	// may be gone by then.
	Then string `json:"then"`
	// At is when it is pressed, in milliseconds since 1970; 0: at once.
	At int64 `json:"at"`
}

// hand is a person at a real browser who does what a Go test says. It is safe for concurrent
// use.
type hand struct {
	t       testing.TB
	mu      sync.Mutex
	in      io.Writer
	next    int
	answers map[int]chan string
}

func newHand(t testing.TB) *hand {
	t.Helper()
	h := &hand{t: t, answers: map[int]chan string{}}
	node := browser(t, t.Context(), "browser/hand.mjs", map[string]any{})
	stdin, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := newOutput()
	node.Stderr = stderr
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	h.in = stdin
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 10<<20)
		for lines.Scan() {
			var a struct {
				ID    int
				Error string
			}
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				t.Errorf("the browser says %q", lines.Bytes())
				continue
			}
			h.mu.Lock()
			h.answers[a.ID] <- a.Error
			h.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		stdin.Close()
		<-read
		if err := node.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("the browser ended with %v: %s", err, stderr)
		}
	})
	return h
}

// tab is a page that a hand has open.
type tab struct {
	h  *hand
	id int
}

// open opens a session's page, in a browser of its own that signs in.
func (h *hand) open(s *server, id session.ID) tab {
	h.t.Helper()
	link, err := s.Link(within(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	n, problem := h.tell(map[string]any{"link": link, "path": "/s/" + string(id)})
	if problem != "" {
		h.t.Fatal(problem)
	}
	return tab{h, n}
}

// press waits for the button and presses it; then the tab is closed. It returns what went
// wrong.
func (b tab) press(p press) string {
	b.h.t.Helper()
	_, problem := b.h.tell(map[string]any{"tab": b.id, "press": p})
	return problem
}

func (h *hand) tell(what map[string]any) (id int, problem string) {
	h.t.Helper()
	answer := make(chan string, 1)
	h.mu.Lock()
	h.next++
	id = h.next
	h.answers[id] = answer
	what["id"] = id
	b, err := json.Marshal(what)
	if err == nil {
		_, err = h.in.Write(append(b, '\n'))
	}
	h.mu.Unlock()
	if err != nil {
		h.t.Fatal(err)
	}
	select {
	case problem := <-answer:
		return id, problem
	case <-time.After(3 * patience): // it has a queue
		h.t.Fatal("the browser does not answer")
		return 0, ""
	}
}
