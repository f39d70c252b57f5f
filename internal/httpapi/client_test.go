package httpapi

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/session"
)

// sink counts what reaches a client.
type sink struct{ deadlines, writes, flushes, bytes int }

func (s *sink) Header() http.Header              { return http.Header{} }
func (s *sink) WriteHeader(int)                  {}
func (s *sink) FlushError() error                { s.flushes++; return nil }
func (s *sink) SetWriteDeadline(time.Time) error { s.deadlines++; return nil }
func (s *sink) Write(b []byte) (int, error)      { s.writes++; s.bytes += len(b); return len(b), nil }

func delta() *session.Frame {
	return &session.Frame{ID: "1.12345", Data: []byte(`{"type":"output","text":"` + strings.Repeat("x", 150) + `"}`)}
}

// The frames of a batch go out in one write and one flush, and cost no allocation; the
// deadline moves once a second.
func TestSend(t *testing.T) {
	s := new(sink)
	out := &client{w: s, rc: http.NewResponseController(s)}
	frames := make([]*session.Frame, 10)
	for i := range frames {
		frames[i] = delta()
	}
	one := len("id: \ndata: \n\n") + len(frames[0].ID) + len(frames[0].Data)
	for range 2 {
		if err := out.send(frames); err != nil {
			t.Fatal(err)
		}
	}
	if *s != (sink{1, 2, 2, 20 * one}) {
		t.Errorf("twice ten frames of %d bytes: %+v", one, *s)
	}
	least := math.Inf(1) // the race detector's pool forgets a buffer now and then
	for range 20 {
		least = min(least, testing.AllocsPerRun(1, func() { _ = out.send(frames) }))
	}
	if least > 0 {
		t.Errorf("%v allocations for a batch of ten frames", least)
	}
}

// A large batch goes out in pieces.
func TestSendPieces(t *testing.T) {
	s := new(sink)
	out := &client{w: s, rc: http.NewResponseController(s)}
	frames := make([]*session.Frame, 64)
	for i := range frames {
		frames[i] = &session.Frame{Data: make([]byte, 1<<10)}
	}
	if err := out.send(frames); err != nil || s.writes != 4 || s.flushes != 1 {
		t.Errorf("64 frames of 1 kB: %+v, %v", *s, err)
	}
}

// broken is a connection that fails.
type broken struct{ sink }

func (b *broken) Write(p []byte) (int, error) {
	b.sink.Write(p)
	return 0, errors.ErrUnsupported
}

// Nothing follows the first error.
func TestSendFails(t *testing.T) {
	s := new(broken)
	out := &client{w: s, rc: http.NewResponseController(s)}
	for range 2 {
		if err := out.send([]*session.Frame{delta()}); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
	if s.writes != 1 || s.flushes != 0 {
		t.Errorf("%+v", s.sink)
	}
}

func BenchmarkSend(b *testing.B) {
	s := new(sink)
	out := &client{w: s, rc: http.NewResponseController(s)}
	frames := []*session.Frame{delta()}
	b.ReportAllocs()
	for b.Loop() {
		if err := out.send(frames); err != nil {
			b.Fatal(err)
		}
	}
}
