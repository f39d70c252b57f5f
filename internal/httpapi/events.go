package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/wire/sse"
)

const (
	writeTime = 30 * time.Second // for one write; then the client is dead
	// maxPiece is about how much is written at a time, and kept of a buffer, in bytes.
	maxPiece = 16 << 10
)

type eventsInput struct {
	Session     session.ID `query:"session" doc:"The session to follow; without one, the list's changes alone."`
	After       string     `query:"after" maxLength:"200" doc:"The id of the last event that was seen. The stream goes on after it, or starts with a snapshot."`
	LastEventID string     `header:"Last-Event-ID" maxLength:"200" doc:"As after, and goes before it."`
}

// addEvents adds the stream, whose frames huma cannot see.
func (h *Handler) addEvents(api huma.API, op huma.Operation) {
	event := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[session.Event](), true, "")
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Server-sent events without a name. The data of each is one Event. Its id, where it has one, can be resumed from; comments prove that the server lives.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: event}},
	}}
	to(h, h.events)(api, op)
}

func (h *Handler) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	if in.Session != "" {
		if _, err := h.o.Sessions.Session(ctx, in.Session); err != nil {
			return nil, err
		}
	}
	watch := session.Watch{Session: in.Session, After: in.After}
	if in.LastEventID != "" {
		watch.After = in.LastEventID
	}
	release, err := h.streams.acquire(callerOf(ctx).actor)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer release()
		r, w := humago.Unwrap(c)
		h.stream(w, r, watch)
	}}, nil
}

// stream writes a watch's frames until the client, the watch or the server ends it.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, watch session.Watch) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // proxies: pass each event on at once
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.stopping, cancel)()
	out := &client{w: w, rc: http.NewResponseController(w)}
	err := out.flush()
	if err == nil {
		err = h.o.Sessions.Watch(ctx, watch, out.send)
	}
	gone := r.Context().Err() != nil || out.err != nil
	if err != nil && !gone && !errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrClosed) {
		h.o.Log.WarnContext(ctx, "event stream ended", "error", err, "session", watch.Session)
	}
}

// client is a stream's far end. Its first error ends it. It is used by one goroutine.
type client struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	deadline time.Time // of writes, as it is set
	err      error
}

// buffers are those of streams that write: a stream that waits has none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// send writes frames, in few pieces, and flushes them; no frames are a comment, which proves
// that the server lives.
func (c *client) send(frames []*session.Frame) error {
	buffer := buffers.Get().(*[]byte)
	b := (*buffer)[:0]
	if len(frames) == 0 {
		b = append(b, ":\n\n"...)
	}
	for _, f := range frames {
		if f.ID != "" {
			b = append(append(append(b, "id: "...), f.ID...), '\n')
		}
		b = sse.Append(b, "", f.Data)
		if len(b) >= maxPiece {
			c.write(b)
			b = b[:0]
		}
	}
	c.write(b)
	if cap(b) <= 2*maxPiece {
		*buffer = b
		buffers.Put(buffer)
	}
	return c.flush()
}

// write writes in bounded time, unless there was an error.
func (c *client) write(b []byte) {
	if c.bound(); c.err == nil && len(b) > 0 {
		_, c.err = c.w.Write(b)
	}
}

func (c *client) flush() error {
	if c.bound(); c.err == nil {
		c.err = c.rc.Flush()
	}
	return c.err
}

// bound moves the deadline of writes, at most once a second: that costs as much as a write.
func (c *client) bound() {
	until := time.Now().Add(writeTime)
	if c.err != nil || until.Sub(c.deadline) < time.Second {
		return
	}
	c.deadline = until
	if err := c.rc.SetWriteDeadline(until); !errors.Is(err, http.ErrNotSupported) {
		c.err = err
	}
}

// streams counts the open streams, in all and by actor.
type streams struct {
	all, each int

	mu   sync.Mutex
	open int
	by   map[string]int
}

func (s *streams) acquire(actor string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open >= s.all:
		return nil, overLimit("streams", s.all, s.open)
	case s.by[actor] >= s.each:
		return nil, overLimit("streams_per_actor", s.each, s.by[actor])
	}
	s.open++
	s.by[actor]++
	return func() { s.release(actor) }, nil
}

func (s *streams) release(actor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.by[actor]--; s.by[actor] == 0 {
		delete(s.by, actor)
	}
}

func overLimit(resource string, limit, count int) *envelope {
	return refuse(CodeRateLimited, "%d of %d %s are in use", count, limit, resource).
		with(Limit{Resource: resource, Limit: int64(limit), Count: int64(count)})
}
