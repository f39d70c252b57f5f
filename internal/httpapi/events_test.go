package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/internal/pipe"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// stage is a server and a client in a bubble.
type stage struct {
	*fake
	handler *httpapi.Handler
	server  *http.Server
	client  *client.Client
	log     *safeBuffer
	listen  *pipe.Listener
}

// watcher is what a fake's Watch does.
type watcher = func(context.Context, session.Watch, func([]*session.Frame) error) error

// inBubble runs f with a server whose frames come from f's watcher. Its channels are made
// in the bubble.
func inBubble(t *testing.T, o httpapi.Options, f func(t *testing.T, s *stage)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{fake: &fake{run: aRun}, log: new(safeBuffer), listen: pipe.Listen()}
		auth, err := httpapi.OpenAuth(httpapi.AuthOptions{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		token, err := httpapi.LocalToken(dir)
		if err != nil {
			t.Fatal(err)
		}
		o.Sessions, o.Models, o.Auth, o.Log = s.fake, s.fake, auth, slog.New(slog.NewTextHandler(s.log, nil))
		s.handler = httpapi.New(o)
		server := s.handler.Server()
		s.server = server
		served := make(chan error, 1)
		go func() { served <- server.Serve(s.listen) }()
		transport := &http.Transport{DialContext: s.listen.Dial}
		s.client = &client.Client{Base: "http://localhost", Token: token, HTTP: &http.Client{Transport: transport}}
		defer func() {
			transport.CloseIdleConnections()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}()
		f(t, s)
	})
}

// open opens the stream by hand.
func (s *stage) open(t *testing.T, ctx context.Context, query string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/api/v1/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.client.Token)
	for _, h := range header {
		if name, value, ok := strings.Cut(h, ": "); ok {
			req.Header.Set(name, value)
		}
	}
	resp, err := s.client.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// play sends frames, and then waits for the end of the stream.
func play(frames ...*session.Frame) watcher {
	return func(ctx context.Context, _ session.Watch, f func([]*session.Frame) error) error {
		if len(frames) > 0 {
			if err := f(frames); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

func frame(id, data string) *session.Frame { return &session.Frame{ID: id, Data: []byte(data)} }

// K-140: a frame goes out at once, as the bytes that it has, with its id where it has one.
func TestStreamBytes(t *testing.T) {
	watch := play(frame("", `{"type":"snapshot"}`), frame("7.1", `{"type":"output","a":"<&> "}`), frame("7.2", `{}`))
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		s.watch = watch
		resp := s.open(t, t.Context(), "?session=ses_1")
		defer resp.Body.Close()
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store",
			"X-Accel-Buffering": "no", "Content-Encoding": "", "X-Content-Type-Options": "nosniff"} {
			if got := resp.Header.Get(name); resp.StatusCode != 200 || got != want {
				t.Errorf("%d, %s: %q", resp.StatusCode, name, got)
			}
		}
		const want = "data: {\"type\":\"snapshot\"}\n\n" +
			"id: 7.1\ndata: {\"type\":\"output\",\"a\":\"<&> \"}\n\n" +
			"id: 7.2\ndata: {}\n\n"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Errorf("%v\n got %q\nwant %q", err, got, want)
		}
	})
}

// The headers come before the first frame; a comment proves that the server lives while the
// watch has nothing else.
func TestHeartbeat(t *testing.T) {
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		s.watch = func(ctx context.Context, w session.Watch, f func([]*session.Frame) error) error {
			wait(15 * time.Second)
			err := f(nil)
			wait(25 * time.Second)
			return errors.Join(err, play(frame("1.1", "{}"))(ctx, w, f))
		}
		start := time.Now()
		resp := s.open(t, t.Context(), "")
		if d := time.Since(start); d != 0 {
			t.Errorf("the headers took %v", d)
		}
		lines := bufio.NewReader(resp.Body)
		for _, want := range []struct {
			after time.Duration
			line  string
		}{{15, ":"}, {15, ""}, {40, "id: 1.1"}, {40, "data: {}"}, {40, ""}} {
			line, err := lines.ReadString('\n')
			if err != nil || line != want.line+"\n" || time.Since(start) != want.after*time.Second {
				t.Fatalf("%q at %v, %v; want %+v", line, time.Since(start), err, want)
			}
		}
		resp.Body.Close()
	})
}

// What the client asks for reaches the watch; the header of a browser's own reconnect is
// newer than the address.
func TestStreamPosition(t *testing.T) {
	var got session.Watch
	watch := func(_ context.Context, w session.Watch, _ func([]*session.Frame) error) error {
		got = w
		return nil
	}
	for _, tc := range []struct {
		query, header string
		want          session.Watch
	}{
		{"", "", session.Watch{}},
		{"?session=ses_1", "", session.Watch{Session: "ses_1"}},
		{"?session=ses_1&after=5.7", "", session.Watch{Session: "ses_1", After: "5.7"}},
		{"?after=5.7", "Last-Event-ID: 5.9", session.Watch{After: "5.9"}},
	} {
		inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
			s.watch = watch
			resp := s.open(t, t.Context(), tc.query, tc.header)
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); err != nil || len(b) != 0 || got != tc.want {
				t.Errorf("%s %s: %+v, %q, %v", tc.query, tc.header, got, b, err)
			}
		})
	}
}

// A stream that cannot begin is an error like any other.
func TestStreamRefused(t *testing.T) {
	w := start(t)
	w.fake.err = session.ErrNotFound
	resp, body := w.send(t, "GET", "/api/v1/events?session=ses_9", "", w.bearer(), "Accept: text/event-stream")
	if resp.StatusCode != 404 || !strings.Contains(body, `"code":"not_found"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := w.send(t, "HEAD", "/api/v1/events", "", w.bearer()); resp.StatusCode != 200 {
		t.Errorf("HEAD: %d", resp.StatusCode)
	}
}

// K-033: open streams are bounded, by actor and in all; the refusal names what, how many and
// the limit, and a stream that ends makes room.
func TestStreamLimits(t *testing.T) {
	for name, o := range map[string]httpapi.Options{
		`"resource":"streams","limit":2,"count":2`:           {MaxStreams: 2},
		`"resource":"streams_per_actor","limit":2,"count":2`: {MaxStreamsPerActor: 2},
	} {
		inBubble(t, o, func(t *testing.T, s *stage) {
			s.watch = play()
			first := s.open(t, t.Context(), "")
			second := s.open(t, t.Context(), "")
			third := s.open(t, t.Context(), "")
			body, err := io.ReadAll(third.Body)
			if err != nil || third.StatusCode != 429 || !strings.Contains(string(body), `"code":"rate_limited"`) || !strings.Contains(string(body), name) {
				t.Errorf("%d %s, %v; want %s", third.StatusCode, body, err, name)
			}
			first.Body.Close()
			synctest.Wait()
			again := s.open(t, t.Context(), "")
			if again.StatusCode != 200 {
				t.Errorf("after one has ended: %d", again.StatusCode)
			}
			second.Body.Close()
			again.Body.Close()
		})
	}
}

// A client that goes away ends its watch, at once.
func TestStreamClientGone(t *testing.T) {
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		ended := make(chan time.Time, 1)
		s.watch = func(ctx context.Context, _ session.Watch, _ func([]*session.Frame) error) error {
			<-ctx.Done()
			ended <- time.Now()
			return context.Cause(ctx)
		}
		resp := s.open(t, t.Context(), "")
		gone := time.Now()
		resp.Body.Close()
		if at := <-ended; at != gone {
			t.Errorf("the watch ended %v later", at.Sub(gone))
		}
		synctest.Wait()
		if s.log.String() != "" {
			t.Errorf("nothing is wrong with that: %s", s.log.String())
		}
	})
}

// A client that reads no more is dead after 30 seconds. Until then the watch is held, and
// memory bounded; the other streams go on.
func TestStreamClientStalled(t *testing.T) {
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		sent, ended := 0, make(chan time.Time, 1)
		s.watch = func(ctx context.Context, w session.Watch, f func([]*session.Frame) error) error {
			if w.Session == "ses_1" {
				return play(frame("1.1", "{}"))(ctx, w, f)
			}
			data := []byte(`"` + strings.Repeat("x", 1<<10) + `"`)
			for {
				if err := f([]*session.Frame{{Data: data}}); err != nil {
					ended <- time.Now()
					return err
				}
				sent++
			}
		}
		begin := time.Now()
		stalled, err := s.listen.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(stalled, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+s.client.Token+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(stalled).ReadString('\n'); err != nil { // the headers, and nothing more
			t.Fatal(err)
		}
		synctest.Wait()
		if sent > 1<<10 {
			t.Errorf("%d frames of 1 kB are held in memory", sent)
		}
		other := s.open(t, t.Context(), "?session=ses_1")
		line, err := bufio.NewReader(other.Body).ReadString('\n')
		if err != nil || line != "id: 1.1\n" || time.Since(begin) != 0 {
			t.Errorf("the other stream: %q after %v, %v", line, time.Since(begin), err)
		}
		if d := (<-ended).Sub(begin); d != 30*time.Second {
			t.Errorf("the watch of the dead client ended after %v", d)
		}
		other.Body.Close()
		stalled.Close()
	})
}

// A slow client gets every frame, in order, whatever piles up meanwhile.
func TestStreamSlowClient(t *testing.T) {
	const n = 3000
	watch := func(ctx context.Context, _ session.Watch, f func([]*session.Frame) error) error {
		for i := range n {
			if err := f([]*session.Frame{frame("", strings.Repeat("x", i%500))}); err != nil {
				return err
			}
		}
		return nil
	}
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		s.watch = watch
		resp := s.open(t, t.Context(), "")
		lines, i := bufio.NewScanner(resp.Body), 0
		for lines.Scan() {
			if lines.Text() == "" {
				continue
			}
			if want := "data: " + strings.Repeat("x", i%500); lines.Text() != want {
				t.Fatalf("frame %d: %q", i, lines.Text())
			}
			if i++; i%100 == 0 {
				wait(time.Second)
			}
		}
		if lines.Err() != nil || i != n {
			t.Errorf("%d frames, %v", i, lines.Err())
		}
	})
}

// A stopping server ends its streams, after what was queued, and the connection is still
// good for other requests.
func TestStreamStop(t *testing.T) {
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		s.watch = play(frame("1.1", "{}"))
		resp := s.open(t, t.Context(), "")
		synctest.Wait()
		s.handler.Stop()
		s.handler.Stop()
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != "id: 1.1\ndata: {}\n\n" {
			t.Errorf("%q, %v", b, err)
		}
		wait(time.Minute)
		if _, err := s.client.System(t.Context()); err != nil {
			t.Errorf("the connection after the stream: %v", err)
		}
	})
}

// A shutdown does not wait for streams.
func TestShutdown(t *testing.T) {
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		s.watch = play()
		resp := s.open(t, t.Context(), "")
		read := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, resp.Body)
			read <- err
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-read; err != nil {
			t.Errorf("the stream's end: %v", err)
		}
	})
}

// A request may take long, if only its client reads the answer; one that is given up is no
// incident.
func TestSlowRequest(t *testing.T) {
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		s.fake.pause = 3 * time.Minute
		said := []llm.Part{llm.Text("hi")}
		if r, err := s.client.Post(t.Context(), "ses_1", said, session.Routing{}, ""); err != nil || r != aReceipt {
			t.Errorf("%+v, %v", r, err)
		}
		// A body that the route does not want changes nothing.
		req, err := http.NewRequest("POST", "http://localhost/api/v1/providers/openai/check", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.client.Token)
		resp, err := s.client.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("a slow check: %d", resp.StatusCode)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.client.Post(ctx, "ses_1", said, session.Routing{}, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if s.log.String() != "" {
			t.Errorf("the log: %s", s.log.String())
		}
	})
}

// A watch that fails ends its stream; the log says why.
func TestStreamWatchFails(t *testing.T) {
	watch := func(_ context.Context, _ session.Watch, f func([]*session.Frame) error) error {
		return errors.Join(f([]*session.Frame{frame("1.1", "{}")}), errSecret)
	}
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		s.watch = watch
		resp := s.open(t, t.Context(), "?session=ses_1")
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != "id: 1.1\ndata: {}\n\n" {
			t.Errorf("%q, %v", b, err)
		}
		if !strings.Contains(s.log.String(), errSecret.Error()) || !strings.Contains(s.log.String(), "ses_1") {
			t.Errorf("the log: %s", s.log.String())
		}
	})
}

// A client that asks for much and reads nothing is let go after two minutes.
func TestAnswerTime(t *testing.T) {
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		for range 1000 {
			s.fake.messages = append(s.fake.messages, aMessage)
		}
		conn, err := s.listen.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /api/v1/sessions/ses_1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+s.client.Token+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		wait(2*time.Minute - time.Second)
		first := make([]byte, 1)
		if n, err := conn.Read(first); n != 1 {
			t.Errorf("before two minutes: %v", err)
		}
		wait(time.Second)
		synctest.Wait()
		if b, err := io.ReadAll(conn); len(b) > 64<<10 {
			t.Errorf("%d bytes after %v, %v", len(b), time.Since(begin), err)
		}
		conn.Close()
	})
}

// A client that does not send its body is let go after thirty seconds.
func TestBodyTime(t *testing.T) {
	inBubble(t, httpapi.Options{}, func(t *testing.T, s *stage) {
		conn, err := s.listen.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := io.WriteString(conn, "POST /auth/launch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 400 ") || !strings.Contains(string(b), `"code":"bad_request"`) {
			t.Errorf("%q, %v", b, err)
		}
		if d := time.Since(begin); d != 30*time.Second {
			t.Errorf("after %v", d)
		}
		conn.Close()
	})
}
