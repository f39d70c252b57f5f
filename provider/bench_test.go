package provider

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/sse"
)

// BenchmarkNext is the cost of one delta, from the bytes of a body to the event.
func BenchmarkNext(b *testing.B) {
	frame := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n")
	for name, limits := range map[string]Timeouts{"limits": DefaultTimeouts, "no limits": {}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s := &stream{transfer: new(transfer), response: &http.Response{StatusCode: 200}, decoder: chat.Codec{}.NewDecoder()}
			s.ctx, s.cancel = context.WithCancelCause(b.Context())
			s.watch = watch{limits: limits, expire: func(e expired) { s.cancel(e) }}
			s.watch.connect()
			s.frames = sse.NewReader(&endless{body: bytes.Repeat(frame, 20)})
			for b.Loop() {
				if _, err := s.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// endless repeats its body.
type endless struct {
	body []byte
	next int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.body[e.next:])
	e.next = (e.next + n) % len(e.body)
	return n, nil
}
