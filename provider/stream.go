package provider

import (
	"bytes"
	"context"
	"encoding/json"
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
	s.relay, s.count = req.Raw != nil || req.Relay, req.Count
	if s.piece = req.Whole; s.piece { // nothing is heard before all is there
		s.watch.limits.FirstEvent, s.watch.limits.Idle = 0, 0
	}
	if err := s.open(p, req); err != nil {
		s.release()
		return nil, err
	}
	if req.Answered != nil {
		req.Answered(s.response.Header)
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
	relay   bool        // the answer goes on to whoever reads why it stopped
	piece   bool        // the answer comes in one
	count   bool        // it is a number of tokens, no output
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

// open sends the request and waits for the headers of the answer.
func (s *stream) open(p *Provider, call *llm.Request) error {
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		s.watch.connect()
		guard(i.Conn, s.transfer.permit)
	}}
	req, err := p.newRequest(httptrace.WithClientTrace(s.ctx, trace), call, s.transfer)
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
	kind, _, _ := mime.ParseMediaType(s.response.Header.Get("Content-Type"))
	if kind == "text/html" || kind == "application/json" && !s.piece {
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
		if s.relay {
			s.end(io.EOF)
			return e, nil
		}
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
	if s.piece {
		return s.readWhole()
	}
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

// readWhole waits for the whole answer and decodes it as one frame. White space before it is
// how some servers keep the connection alive.
func (s *stream) readWhole() error {
	s.watch.resume()
	body, err := io.ReadAll(io.LimitReader(s.response.Body, sse.MaxFrame+1))
	s.watch.pause()
	body = bytes.TrimSpace(body)
	switch {
	case s.ctx.Err() != nil:
		return s.broken(s.ctx.Err())
	case err != nil:
		return s.broken(err)
	case len(body) > sse.MaxFrame:
		return s.local("frame_too_large", "The answer is larger than 16 MiB.")
	case len(body) == 0:
		return s.broken(io.ErrUnexpectedEOF)
	case body[0] != '{':
		return s.stamp(s.mismatch(body))
	}
	s.next = 0
	if s.count && json.Valid(body) {
		s.events = append(s.events[:0], llm.Event{Kind: llm.EventPing, Raw: body, More: true}, llm.Event{Kind: llm.EventDone})
		return nil
	}
	if s.events, err = s.decoder.Decode(s.events[:0], sse.Frame{Raw: body}); err != nil {
		return s.malformed(err)
	}
	for i := range s.events {
		if k := s.events[i].Kind; k == llm.EventDone || k == llm.EventFailed {
			return nil
		}
	}
	s.events[len(s.events)-1].More = true
	if s.events, err = s.decoder.End(s.events); err != nil {
		return s.broken(err)
	}
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
