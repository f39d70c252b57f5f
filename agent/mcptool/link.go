package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	discoverTime = 10 * time.Second

	maxMessage = mcp.DefaultMaxLineLength // bytes
	maxTools   = 256                      // of one server
	maxSpec    = 64 << 10                 // bytes of a tool's description, and of its schema
)

// link is one connection to a server, from its start to its end.
type link struct {
	s       *server
	ctx     context.Context // until it closes
	cancel  context.CancelCauseFunc
	session *mcp.ClientSession
	stop    stop
	ended   chan struct{} // closed when the session has ended
	lost    chan struct{} // closed when that is certain, or done
	lose    func()        // closes it
	stale   chan struct{} // holds one: the list of tools has changed
	list    []*mcp.Tool   // of the goroutine that keeps the server up

	mu    sync.Mutex
	last  int // token
	calls map[string]*call
	tasks map[string]bool // tools whose calls begin a task
	busy  sync.WaitGroup
}

// stop ends what carries a session, and by end the session itself. Its error is how the former ended, where it was
// not told to.
type stop func(end func()) error

// errEnded is why calls in flight end.
var errEnded = errors.New("the server has ended")

// connect starts the server and reads its list of tools.
func (s *server) connect() (*link, error) {
	l := &link{s: s, ended: make(chan struct{}), lost: make(chan struct{}), stale: make(chan struct{}, 1), calls: map[string]*call{}}
	l.lose = sync.OnceFunc(func() { close(l.lost) })
	l.ctx, l.cancel = context.WithCancelCause(s.ctx)
	transport, stop, err := s.open()
	if err != nil {
		l.cancel(errEnded)
		return nil, err
	}
	l.stop = stop
	ctx, cancel := context.WithTimeout(l.ctx, max(startTime, s.cfg.StartTimeout))
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "reprise", Version: s.o.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, // none: no roots, no sampling, no elicitation
		// A further round is a second call.
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { l.changed() },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { l.progress(r.Params) },
	})
	client.AddSendingMiddleware(hurry)
	client.AddReceivingMiddleware(s.words.listen)
	if err = knowTasks(client); err == nil {
		l.session, err = client.Connect(ctx, transport, nil)
	}
	if err == nil {
		go func() {
			_ = l.session.Wait() // close says why
			close(l.ended)
			l.lose()
		}()
		err = l.refresh(ctx)
	}
	if err != nil {
		if ctx.Err() != nil && l.ctx.Err() == nil {
			err = fmt.Errorf("it has not come up in %s", max(startTime, s.cfg.StartTimeout))
		}
		return nil, l.close(err)
	}
	return l, nil
}

// hurry bounds the question by which the SDK finds out whether a server knows the protocol's
// newest version. Older ones refuse it, and some do not answer at all.
func hurry(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "server/discover" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, discoverTime)
			defer cancel()
		}
		return next(ctx, method, req)
	}
}

// spawned carries a session to a command.
func (s *server) spawned() (mcp.Transport, stop, error) {
	env, err := s.cfg.Env()
	if err != nil {
		return nil, nil, err
	}
	p, err := spawn(s.cfg.Command, env, s.words)
	if err != nil {
		return nil, nil, err
	}
	return marking{&mcp.IOTransport{Reader: p.out, Writer: p, MaxLineLength: maxMessage}}, func(end func()) error {
		alone := p.stop()
		end()
		if !alone {
			return nil
		}
		return p.how(s.words.said())
	}, nil
}

// reached carries a session to an address.
func (s *server) reached() (mcp.Transport, stop, error) {
	c := newCarrier(s.cfg.Header)
	return &mcp.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: c.client(), MaxEventSize: maxMessage},
		func(end func()) error { end(); c.close(); return nil }, nil
}

// close ends the link and everything that it has begun. It returns why the link ended: err, or
// what is found out.
func (l *link) close(err error) error {
	l.cancel(errEnded) // before the session, which waits for its calls
	how := l.stop(func() {
		if l.session == nil {
			return
		}
		_ = l.session.Close() // Wait says more
		<-l.ended
		if err == nil {
			err = l.session.Wait()
		}
		if err == nil {
			err = io.EOF
		}
	})
	l.busy.Wait()
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, mcp.ErrConnectionClosed) && !errors.Is(err, os.ErrDeadlineExceeded):
	case how != nil:
		err = how
	case errors.Is(err, io.EOF):
		err = errors.New("it ended the connection")
	}
	return err
}

// alive is false as soon as the link has ended, or must, before the server's state says so.
func (l *link) alive() bool {
	select {
	case <-l.lost:
		return false
	default:
		return l.ctx.Err() == nil
	}
}

// changed notes that the list of tools is another one.
func (l *link) changed() {
	select {
	case l.stale <- struct{}{}:
	default: // noted already
	}
}

// refresh reads the list of tools.
func (l *link) refresh(ctx context.Context) error {
	var list []*mcp.Tool
	seen := map[string]bool{}
	left := func(name, why string) {
		l.s.log.Warn("a tool is left out", "tool", cut(name, maxName), "why", why)
	}
	for t, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list the tools: %w", err)
		}
		if len(list) == maxTools {
			left(t.Name, fmt.Sprintf("the server has more than %d", maxTools))
			break
		}
		if t.Name == "" || seen[t.Name] {
			left(t.Name, "its name is missing, or that of another")
			continue
		}
		seen[t.Name] = true
		list = append(list, t)
	}
	tasks, err := l.taskTools(ctx)
	if err != nil {
		return fmt.Errorf("list the tools that are tasks: %w", err)
	}
	l.list = list
	l.mu.Lock()
	l.tasks = tasks
	l.mu.Unlock()
	return nil
}

// version is the server's own.
func (l *link) version() string {
	r := l.session.InitializeResult()
	if r == nil || r.ServerInfo == nil {
		return ""
	}
	return cut(strings.TrimSpace(r.ServerInfo.Name+" "+r.ServerInfo.Version), 100)
}

// watch makes c hear of progress, under the token that it returns.
func (l *link) watch(c *call) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	token := strconv.Itoa(l.last)
	l.calls[token] = c
	return token
}

// leave ends that: nothing is reported afterwards.
func (l *link) leave(token string) {
	l.mu.Lock()
	c := l.calls[token]
	delete(l.calls, token)
	l.mu.Unlock()
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
}

// progress tells a call.
func (l *link) progress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	c := l.calls[token]
	l.mu.Unlock()
	if c != nil {
		c.progress(p)
	}
}

// asJSON writes what came as JSON.
func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}
