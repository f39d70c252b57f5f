package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

// answer is what the server does with one connection.
type answer struct {
	err    error         // the connection cannot be made
	status int           // 0: 200
	body   string        // what it sends
	cut    error         // how the stream ends; nil: it goes on, silently
	beats  int           // comments afterwards, one every 15 seconds
	delay  time.Duration // before it answers
}

// script answers one request after another, and notes when each came and what it asked for.
type script struct {
	answers []answer
	begin   time.Time
	asked   []string
	at      []time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.at = append(s.at, time.Now())
	s.asked = append(s.asked, fmt.Sprintf("%v %s", time.Since(s.begin).Truncate(15*time.Second), r.URL.RequestURI()))
	if len(s.answers) == 0 {
		return nil, errors.New("no more answers")
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	if a.err != nil {
		return nil, a.err
	}
	if a.delay > 0 {
		select {
		case <-time.After(a.delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	out, in := io.Pipe()
	stop := context.AfterFunc(r.Context(), func() { in.CloseWithError(r.Context().Err()) })
	go func() {
		for _, frame := range strings.SplitAfter(a.body, "\n\n") {
			io.WriteString(in, frame)
		}
		for range a.beats {
			<-time.After(15 * time.Second)
			io.WriteString(in, ":\n\n")
		}
		if a.cut != nil {
			in.CloseWithError(a.cut)
			stop()
		}
	}()
	if a.status == 0 {
		a.status = 200
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: out, Request: r}, nil
}

const one, two, three = "id: 7.1\ndata: 1\n\n", "id: 7.2\ndata: 2\n\n", "id: 7.3\ndata: 3\n\n"

var errReset = errors.New("connection reset")

// Each event comes once and in order over broken connections, from where the last one was;
// what cannot be helped by trying again ends the watch.
func TestWatch(t *testing.T) {
	errEnough := errors.New("enough")
	refusal := answer{status: 401, body: `{"error":{"code":"unauthenticated","message":"log in"}}`, cut: io.EOF}
	for _, tc := range []struct {
		name    string
		answers []answer
		watch   session.Watch
		frames  string // their ids and data
		asked   []string
		err     string
	}{
		{
			name:    "one connection",
			answers: []answer{{body: "data: s\n\n" + one + two + "data: done\n\n"}},
			watch:   session.Watch{Session: "ses_1", After: "6.9"},
			frames:  "=s 7.1=1 7.2=2 =done",
			asked:   []string{"0s /api/v1/events?after=6.9&session=ses_1"},
			err:     "enough",
		},
		{
			name:    "resume after the last id",
			answers: []answer{{body: one + "data: progress\n\n", cut: errReset}, {body: two, cut: io.EOF}, {body: three + "data: done\n\n"}},
			frames:  "7.1=1 =progress 7.2=2 7.3=3 =done",
			asked:   []string{"0s /api/v1/events", "0s /api/v1/events?after=7.1", "0s /api/v1/events?after=7.2"},
			err:     "enough",
		},
		{
			name:    "a frame that was cut is not delivered",
			answers: []answer{{body: one + "id: 7.2\ndata: 2", cut: errReset}, {body: two + "data: done\n\n"}},
			frames:  "7.1=1 7.2=2 =done",
			asked:   []string{"0s /api/v1/events", "0s /api/v1/events?after=7.1"},
			err:     "enough",
		},
		{
			name: "a server that restarts",
			answers: []answer{{body: one, cut: errReset}, {err: errReset}, {status: 503, cut: io.EOF}, {status: 429, cut: io.EOF},
				{status: 502, body: "<html>", cut: io.EOF}, {body: two + "data: done\n\n"}},
			frames: "7.1=1 7.2=2 =done",
			asked: []string{"0s /api/v1/events", "0s /api/v1/events?after=7.1", "0s /api/v1/events?after=7.1", "0s /api/v1/events?after=7.1",
				"0s /api/v1/events?after=7.1", "0s /api/v1/events?after=7.1"},
			err: "enough",
		},
		{
			name:    "silence",
			answers: []answer{{body: one}, {body: "data: done\n\n"}},
			frames:  "7.1=1 =done",
			asked:   []string{"0s /api/v1/events", "45s /api/v1/events?after=7.1"},
			err:     "enough",
		},
		{
			name:    "comments are no silence",
			answers: []answer{{body: one, beats: 100, cut: errReset}, {body: "data: done\n\n"}},
			frames:  "7.1=1 =done",
			asked:   []string{"0s /api/v1/events", "25m0s /api/v1/events?after=7.1"},
			err:     "enough",
		},
		{
			name:    "a server that never answers",
			answers: []answer{{delay: time.Hour}, {body: "data: done\n\n"}},
			frames:  "=done",
			asked:   []string{"0s /api/v1/events", "45s /api/v1/events"},
			err:     "enough",
		},
		{
			name:    "a refusal",
			answers: []answer{{body: one, cut: errReset}, refusal},
			frames:  "7.1=1",
			asked:   []string{"0s /api/v1/events", "0s /api/v1/events?after=7.1"},
			err:     "log in",
		},
		{
			name:    "the caller has gone",
			answers: []answer{{body: one + "data: leave\n\n"}},
			frames:  "7.1=1 =leave",
			asked:   []string{"0s /api/v1/events"},
			err:     "context canceled",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tc.answers, begin: time.Now()}
				lost := 0
				c := &client.Client{Base: "http://localhost/", Token: "x", HTTP: &http.Client{Transport: s},
					Reconnecting: func(err error) {
						if lost++; err == nil {
							t.Error("reconnecting for no reason")
						}
					}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var frames []string
				err := c.Watch(ctx, tc.watch, func(f session.Frame) error {
					frames = append(frames, f.ID+"="+string(f.Data))
					switch string(f.Data) {
					case "done":
						return errEnough
					case "leave":
						cancel()
					}
					return nil
				})
				if err == nil || err.Error() != tc.err {
					t.Errorf("%v, want %s", err, tc.err)
				}
				if got := strings.Join(frames, " "); got != tc.frames {
					t.Errorf("frames %s, want %s", got, tc.frames)
				}
				if !reflect.DeepEqual(s.asked, tc.asked) {
					t.Errorf("asked\n %q, want\n %q", s.asked, tc.asked)
				}
				if lost != len(tc.asked)-1 {
					t.Errorf("told of %d lost connections", lost)
				}
			})
		})
	}
}

// A callback may take its time without losing the connection.
func TestWatchSlowCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []answer{{body: one + two}}, begin: time.Now()}
		c := &client.Client{Base: "http://localhost", HTTP: &http.Client{Transport: s}}
		n, done := 0, errors.New("done")
		err := c.Watch(t.Context(), session.Watch{}, func(session.Frame) error {
			<-time.After(10 * time.Minute)
			if n++; n == 2 {
				return done
			}
			return nil
		})
		if err != done || len(s.asked) != 1 {
			t.Errorf("%v, asked %q", err, s.asked)
		}
	})
}

// Waits grow from a quarter second to ten, with jitter, and begin anew after a frame.
func TestWatchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 9
		s := &script{begin: time.Now()}
		for range failures {
			s.answers = append(s.answers, answer{err: errReset})
		}
		s.answers = append(s.answers, answer{body: one, cut: errReset}, answer{body: "data: done\n\n"})
		c := &client.Client{Base: "http://localhost", HTTP: &http.Client{Transport: s}}
		done := errors.New("done")
		err := c.Watch(t.Context(), session.Watch{}, func(f session.Frame) error {
			if string(f.Data) == "done" {
				return done
			}
			return nil
		})
		if err != done || len(s.at) != failures+2 {
			t.Fatalf("%v after %d requests", err, len(s.at))
		}
		for i := range failures + 1 {
			most := min(250*time.Millisecond<<i, 10*time.Second)
			if i == failures {
				most = 250 * time.Millisecond
			}
			if got := s.at[i+1].Sub(s.at[i]); got < most/2 || got > most {
				t.Errorf("wait %d was %v, want %v to %v", i+1, got, most/2, most)
			}
		}
	})
}
