package transport

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
)

// body is the client's side of an exchange: the sink of its attempts. All that reaches the
// client goes through it. Beside the exchange's own goroutine only the keep-alive's timer uses it.
type body struct {
	x     *Exchange
	trace *trace
	whole bool // the answer comes in one piece
	tail  wire.Tail

	mu     sync.Mutex
	w      http.ResponseWriter
	flush  func() error
	header http.Header // of the provider's answer
	writer wire.Writer // says an answer of another dialect; nil: it is of the client's
	said   []llm.Event // by writer
	status int         // that was sent
	early  bool        // it was sent before anybody knew who would answer
	shown  bool        // something of an answer was sent
	last   time.Time   // of the last byte
	over   bool        // no attempt sends anything any more
	timer  *time.Timer // of the keep-alive; nil: there is none
	buf    []byte
	err    error // of the client; sticky
}

// keptBuffer is the largest buffer that waits for the next delta.
const keptBuffer = 16 << 10

func newBody(x *Exchange, w http.ResponseWriter, t *trace) *body {
	return &body{x: x, trace: t, whole: x.Request.Whole, tail: x.Dialect.NewTail(), w: w, flush: http.NewResponseController(w).Flush}
}

// answered takes over the header of an attempt's answer.
func (b *body) answered(h map[string][]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.header, b.writer = h, nil
}

// foreign makes the answer of the attempt one to translate. Its header is about another dialect.
func (b *body) foreign(map[string][]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.header, b.writer = nil, b.x.Dialect.NewWriter(b.x.Request.Raw, b.whole)
}

// translate returns the events in the client's dialect.
func (b *body) translate(events []llm.Event) (_ []llm.Event, err error) {
	b.said = b.said[:0]
	for i := range events {
		if b.said, err = b.writer.Write(b.said, &events[i]); err != nil {
			return nil, err
		}
	}
	return b.said, nil
}

// Append implements replay.Sink: what came together goes out together.
func (b *body) Append(_ context.Context, events []llm.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writer != nil {
		var err error
		if events, err = b.translate(events); err != nil {
			return err
		}
	}
	b.buf = b.buf[:0]
	for i := range events {
		if raw := events[i].Raw; len(raw) > 0 {
			b.buf = append(b.buf, raw...)
			if !b.whole {
				b.buf = append(b.buf, "\n\n"...)
			}
		}
	}
	if len(b.buf) == 0 || b.err != nil {
		return b.err
	}
	if b.status == 0 && b.whole {
		b.w.Header().Set("Content-Length", strconv.Itoa(len(b.buf)))
	}
	b.shown = true
	b.send(b.buf)
	b.tail.Sent(events)
	if cap(b.buf) > keptBuffer {
		b.buf = nil
	}
	return b.err
}

// send writes to the client, after the header where that is still to come.
func (b *body) send(p []byte) {
	if b.status == 0 {
		b.begin()
	}
	b.last = time.Now()
	if _, b.err = b.w.Write(p); b.err == nil && !b.whole {
		b.err = b.flush()
	}
}

// begin sends the header of an answer.
func (b *body) begin() {
	h := b.w.Header()
	pass(h, b.header)
	if !b.whole {
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	} else if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	if b.early = !b.shown; b.early {
		b.x.announce(h)
	} else {
		b.x.tell(h, b.trace)
	}
	b.status = http.StatusOK
	b.w.WriteHeader(b.status)
}

// wait begins to keep the connection alive.
func (b *body) wait() {
	if b.x.KeepAlive <= 0 || b.whole {
		return
	}
	b.last = time.Now()
	b.timer = time.AfterFunc(math.MaxInt64, b.tick)
	b.timer.Reset(b.x.KeepAlive)
}

func (b *body) tick() {
	if !b.mu.TryLock() { // something is being sent just now
		b.timer.Reset(b.x.KeepAlive)
		return
	}
	defer b.mu.Unlock()
	if b.over || b.err != nil {
		return
	}
	quiet := time.Since(b.last)
	if quiet >= b.x.KeepAlive {
		b.send(b.x.Dialect.KeepAlive())
		quiet = 0
	}
	b.timer.Reset(b.x.KeepAlive - quiet)
}

// say tells who answered where the header could not.
func (b *body) say() {
	if b.early {
		b.x.tell(b.w.Header(), b.trace)
	}
}

// rest ends the keeping alive.
func (b *body) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over = true; b.timer != nil {
		b.timer.Stop()
	}
}

// refuse answers with an error status.
func (b *body) refuse(r wire.Refusal, header http.Header, own []byte) {
	h := b.w.Header()
	for k, v := range header {
		h[k] = v
	}
	if own == nil {
		own = b.x.Dialect.Refusal(r)
	}
	b.x.tell(h, b.trace)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(own)))
	b.status = r.Status
	b.w.WriteHeader(r.Status)
	_, b.err = b.w.Write(own)
}

// end ends an answer that broke. It reports false where only a cut can say so.
func (b *body) end(r wire.Refusal) bool {
	last := b.tail.Broken(r)
	if b.whole || last == nil {
		return false
	}
	if b.err == nil {
		b.send(last)
	}
	return b.err == nil
}
