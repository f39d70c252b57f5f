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
	heartbeat = 15 * time.Second // of silence, then a comment
	writeTime = 30 * time.Second // for one write; then the client is dead
	// maxWaiting bounds what waits for a slow client, in bytes; the watch blocks beyond it.
	maxWaiting = 256 << 10
	// keptBuffer is the largest buffer that an idle stream keeps.
	keptBuffer = 16 << 10
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
	q, ended := newQueue(), make(chan error, 1)
	go func() {
		ended <- h.o.Sessions.Watch(ctx, watch, func(f session.Frame) error { return q.add(ctx, f) })
	}()
	out := &client{w: w, rc: http.NewResponseController(w)}
	err, watching := h.drain(ctx, out, q, ended)
	cancel()
	if watching {
		err = errors.Join(err, <-ended)
	}
	gone := r.Context().Err() != nil || out.err != nil
	if err != nil && !gone && !errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrClosed) {
		h.o.Log.WarnContext(ctx, "event stream ended", "error", err, "session_id", watch.Session)
	}
}

// drain writes what is queued, in one piece each time, and a comment where there is silence.
// It reports whether the watch still runs.
func (h *Handler) drain(ctx context.Context, out *client, q *queue, ended <-chan error) (err error, watching bool) {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	if err := out.send(nil); err != nil {
		return err, true
	}
	for {
		select {
		case <-q.ready:
			err = q.flush(out)
		case <-beat.C:
			err = out.send([]byte(":\n\n"))
		case err := <-ended:
			return errors.Join(err, q.flush(out)), false
		case <-h.stopping:
			return q.flush(out), true
		case <-ctx.Done():
			return nil, true
		}
		if err != nil {
			return err, true
		}
		beat.Reset(heartbeat)
	}
}

// client is a stream's far end. Its first error ends it.
type client struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

// send writes and flushes, in bounded time.
func (c *client) send(b []byte) error {
	if err := c.rc.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		c.err = err
		return err
	}
	if _, err := c.w.Write(b); err != nil {
		c.err = err
		return err
	}
	c.err = c.rc.Flush()
	return c.err
}

// queue holds the frames that wait to be written, as they go out. One goroutine adds, one
// flushes.
type queue struct {
	ready chan struct{} // holds a token when there may be something to flush
	space chan struct{} // holds a token when there may be room again

	mu      sync.Mutex
	waiting []byte
	spare   []byte // the buffer that is being written
}

func newQueue() *queue {
	return &queue{ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// add copies a frame behind those that wait, and blocks while there are too many.
func (q *queue) add(ctx context.Context, f session.Frame) error {
	for {
		q.mu.Lock()
		if len(q.waiting) < maxWaiting {
			break
		}
		q.mu.Unlock()
		select {
		case <-q.space:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if f.ID != "" {
		q.waiting = append(append(append(q.waiting, "id: "...), f.ID...), '\n')
	}
	q.waiting = sse.Append(q.waiting, "", f.Data)
	q.mu.Unlock()
	signal(q.ready)
	return nil
}

// flush writes all that waits in one piece.
func (q *queue) flush(out *client) error {
	q.mu.Lock()
	b := q.waiting
	q.waiting, q.spare = q.spare[:0], nil
	q.mu.Unlock()
	signal(q.space)
	if len(b) == 0 {
		return nil
	}
	err := out.send(b)
	if cap(b) <= keptBuffer {
		q.spare = b
	}
	return err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
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
