package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/wire/sse"
)

const (
	firstWait = 250 * time.Millisecond // before the first reconnect; doubles
	lastWait  = 10 * time.Second
	// silence is how long the server, which sends a comment every 15 s, may say nothing.
	silence = 45 * time.Second
)

var errSilent = errors.New("the server has said nothing for 45 s")

// Watch calls f, from one goroutine, with every event from the place that w names on. When
// the connection breaks it goes on after the last event that can be resumed from; where the
// server cannot do that, the next frame is a snapshot. It returns the context's cause, f's
// error, or the *Error of a server that refuses (a broken connection, 429 and 5xx are tried
// again). The frame's bytes are valid until f returns.
func (c *Client) Watch(ctx context.Context, w session.Watch, f func(session.Frame) error) error {
	wait := firstWait
	for {
		began := false
		err := c.follow(ctx, w, func(frame session.Frame) error {
			began = true
			if err := f(frame); err != nil {
				return stopped{err}
			}
			if frame.ID != "" {
				w.After = frame.ID
			}
			return nil
		})
		var stop stopped
		var refusal *Error
		switch {
		case errors.As(err, &stop):
			return stop.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &refusal) && refusal.Status < 500 && refusal.Status != http.StatusTooManyRequests:
			return refusal
		}
		if c.Reconnecting != nil {
			c.Reconnecting(err)
		}
		if began {
			wait = firstWait
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		wait = min(2*wait, lastWait)
	}
}

// stopped is an error of Watch's callback.
type stopped struct{ error }

// follow reads one connection's frames until it ends, which is always an error.
func (c *Client) follow(ctx context.Context, w session.Watch, f func(session.Frame) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	query := url.Values{}
	if w.Session != "" {
		query.Set("session", string(w.Session))
	}
	if w.After != "" {
		query.Set("after", w.After)
	}
	req, err := c.request(ctx, "GET", "/api/v1/events", query, nil)
	if err != nil {
		return stopped{err}
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.http().Do(req)
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	frames := sse.NewReader(resp.Body)
	for {
		frame, err := frames.Next()
		if err == io.EOF {
			return fmt.Errorf("the server ended the stream")
		}
		if err != nil {
			return cause(ctx, err)
		}
		watchdog.Stop() // f may take its time
		if len(frame.Data) > 0 {
			if err := f(session.Frame{ID: string(frame.ID), Data: frame.Data}); err != nil {
				return err
			}
		}
		watchdog.Reset(silence)
	}
}

// cause prefers the reason for which a request was given up.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}
