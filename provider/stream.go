package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/sse"
)

// errorBody bounds the wait for the body of an answer whose status says enough.
const errorBody = 5 * time.Second

// linger bounds the wait for the body's end behind the terminal event, which lets the
// connection be used again.
const linger = 50 * time.Millisecond

// Stream implements llm.Provider. Its errors are *failure.Failure, but for what the permit
// refuses.
func (p *Provider) Stream(ctx context.Context, permit llm.Permit, req *llm.Request) (llm.Stream, error) {
	s := &stream{facts: failure.Facts{Provider: p.config.Name, Host: p.base.Host,
		Dialect: p.config.Codec.Dialect(), Model: req.Model, Phase: failure.PhaseOpen}}
	body, err := p.config.Codec.Encode(req)
	if err != nil {
		return nil, s.local("encode", fmt.Sprintf("The request cannot be said in the dialect %s: %v.", s.facts.Dialect, err))
	}
	if err := permit.Spend(ctx); err != nil {
		return nil, unsent{err}
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.transfer = &transfer{data: body, ask: func() error { return permit.Check(s.ctx) }}
	s.watch = watch{limits: p.config.Timeouts, expire: func(e expired) { s.cancel(e) }}
	if err := s.open(p); err != nil {
		s.release()
		return nil, err
	}
	s.frames, s.decoder = sse.NewReader(s.response.Body), p.config.Codec.NewDecoder()
	return s, nil
}

// unsent is why a request was not sent.
type unsent struct{ error }

func (unsent) Delivery() llm.Delivery { return llm.NeverSent }
func (e unsent) Unwrap() error        { return e.error }

// stream is one call, from its request to the end of its answer.
type stream struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	facts    failure.Facts
	transfer *transfer
	watch    watch
	response *http.Response

	frames  *sse.Reader
	decoder wire.Decoder
	events  []llm.Event // of the last frame
	next    int         // of them
	whole   bool        // the terminal event has come
	err     error       // once the events are used up
	closed  bool
}

// expired is the cause of a context that one of our limits ended.
type expired struct {
	kind  string
	after time.Duration
}

func (e expired) Error() string { return e.kind + " after " + e.after.String() }

// open sends the request and waits for the headers of an event stream.
func (s *stream) open(p *Provider) error {
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		s.watch.connect()
		guard(i.Conn, s.transfer.permit)
	}}
	req, err := p.newRequest(httptrace.WithClientTrace(s.ctx, trace), s.facts.Model, s.transfer)
	if err != nil {
		return s.local("request", "The request cannot be made: "+err.Error())
	}
	s.watch.resume()
	s.response, err = p.transport.RoundTrip(req)
	s.watch.pause()
	s.facts.Delivered = s.transfer.delivery()
	switch {
	case s.ctx.Err() != nil:
		return s.broken(s.ctx.Err())
	case s.transfer.refused() != nil:
		return unsent{s.transfer.refused()}
	case err != nil:
		return s.broken(err)
	case s.response.StatusCode < 200 || s.response.StatusCode > 299:
		return s.refused()
	}
	s.facts.Phase = failure.PhaseStream
	// Some servers label their streams wrongly or not at all; these two are certainly none.
	switch kind, _, _ := mime.ParseMediaType(s.response.Header.Get("Content-Type")); kind {
	case "application/json", "text/html":
		return s.refused()
	}
	return nil
}

// Next implements llm.Stream.
func (s *stream) Next() (llm.Event, error) {
	for s.err == nil {
		switch {
		case s.ctx.Err() != nil:
			s.end(s.broken(s.ctx.Err()))
		case s.next < len(s.events):
			e := s.events[s.next]
			s.next++
			return s.deliver(e)
		default:
			if err := s.read(); err != nil {
				s.end(err)
			}
		}
	}
	return llm.Event{}, s.err
}

// Ready implements llm.Stream.
func (s *stream) Ready() bool {
	return s.err != nil || s.next < len(s.events) || s.frames.Ready()
}

// deliver returns the event, with the failure that it means.
func (s *stream) deliver(e llm.Event) (llm.Event, error) {
	switch e.Kind {
	case llm.EventFailed:
		s.end(s.stamp(failure.FromStream(s.facts, []byte(e.Text))))
		return e, s.err
	case llm.EventDone:
		s.whole = true
		if f := failure.FromStop(s.facts, e.Stop); f != nil {
			s.end(s.stamp(f))
			return e, s.err
		}
		s.end(io.EOF)
	}
	return e, nil
}

// end makes err the stream's end. What comes behind it is dropped.
func (s *stream) end(err error) { s.err, s.events, s.next = err, nil, 0 }

// read waits for one frame and decodes it.
func (s *stream) read() error {
	s.watch.resume()
	frame, err := s.frames.Next()
	s.watch.pause()
	if s.ctx.Err() != nil {
		return s.broken(s.ctx.Err())
	}
	s.next = 0
	switch {
	case err == io.EOF:
		if s.events, err = s.decoder.End(s.events[:0]); err != nil {
			return s.broken(err)
		}
		return nil
	case errors.Is(err, sse.ErrTooLarge):
		return s.local("frame_too_large", err.Error())
	case err != nil:
		return s.broken(err)
	case len(frame.Data) == 0 && len(frame.Raw) > 0 && frame.Raw[0] == '{':
		// An object in place of a stream, as the reader hands it on.
		return s.stamp(s.mismatch(frame.Raw))
	}
	if s.events, err = s.decoder.Decode(s.events[:0], frame); err != nil {
		return s.malformed(err)
	}
	content, sound := false, false
	for i := range s.events {
		switch e := &s.events[i]; e.Observability() {
		case llm.Preamble:
			switch e.Kind {
			case llm.EventPing, llm.EventUsage, llm.EventText, llm.EventThinking:
			default:
				sound = true
			}
		default:
			content, sound = true, true
		}
	}
	s.watch.progress(frame.Data != nil, content, sound)
	return nil
}

// Close implements llm.Stream.
func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.whole {
		s.drain()
	}
	s.release()
	return nil
}

// drain reads what is left behind the terminal event, so that the connection can be used
// again. What it is, and how the reading ends, means nothing any more.
func (s *stream) drain() {
	t := time.AfterFunc(linger, func() { s.cancel(context.Canceled) })
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, s.response.Body, 4<<10)
}

// release frees the connection, and closes it where the answer is not at its end.
func (s *stream) release() {
	s.watch.stop()
	s.cancel(context.Canceled)
	if s.response != nil {
		_ = s.response.Body.Close() // there is nobody to act on it
	}
	if s.err == nil {
		s.end(s.broken(context.Canceled))
	}
}
