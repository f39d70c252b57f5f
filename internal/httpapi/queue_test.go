package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/session"
)

// sink counts what reaches a client.
type sink struct{ writes, flushes, bytes int }

func (s *sink) Header() http.Header         { return http.Header{} }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      { s.flushes++ }
func (s *sink) Write(b []byte) (int, error) { s.writes++; s.bytes += len(b); return len(b), nil }

// Frames that wait go out in one write and one flush, and cost no allocations of their own.
func TestQueue(t *testing.T) {
	s := new(sink)
	out := &client{w: s, rc: http.NewResponseController(s)}
	q := newQueue()
	f := session.Frame{ID: "1.12345", Data: []byte(`{"type":"output","text":"` + strings.Repeat("x", 150) + `"}`)}
	one := len("id: \ndata: \n\n") + len(f.ID) + len(f.Data)
	batch := func() {
		for range 10 {
			if err := q.add(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.flush(out); err != nil {
			t.Fatal(err)
		}
	}
	batch()
	if *s != (sink{1, 1, 10 * one}) {
		t.Errorf("ten frames of %d bytes: %+v", one, *s)
	}
	if err := q.flush(out); err != nil || s.writes != 1 {
		t.Errorf("nothing waits, and yet it is written: %+v, %v", *s, err)
	}
	batch() // the second buffer
	if n := testing.AllocsPerRun(100, batch); n > 2 {
		t.Errorf("%v allocations for a batch of ten frames", n)
	}
}

// A large batch does not stay in memory.
func TestQueueForgets(t *testing.T) {
	s := new(sink)
	out := &client{w: s, rc: http.NewResponseController(s)}
	q := newQueue()
	large := session.Frame{Data: make([]byte, keptBuffer+1)}
	for range 2 {
		if err := q.add(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		if err := q.flush(out); err != nil {
			t.Fatal(err)
		}
	}
	if cap(q.waiting)+cap(q.spare) > 2*keptBuffer {
		t.Errorf("an idle stream keeps %d bytes", cap(q.waiting)+cap(q.spare))
	}
}

func BenchmarkFrame(b *testing.B) {
	s := new(sink)
	out := &client{w: s, rc: http.NewResponseController(s)}
	q := newQueue()
	f := session.Frame{ID: "1.12345", Data: []byte(`{"type":"output","text":"` + strings.Repeat("x", 150) + `"}`)}
	b.ReportAllocs()
	for b.Loop() {
		if err := q.add(b.Context(), f); err != nil {
			b.Fatal(err)
		}
		if err := q.flush(out); err != nil {
			b.Fatal(err)
		}
	}
}
