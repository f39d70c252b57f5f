package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-run/reprise/agent"
)

const (
	firstRest = time.Second // before a server is started again; it doubles each time
	longRest  = time.Minute
	steady    = time.Minute     // a server that worked for so long begins with firstRest again
	inARow    = 5               // quick ends, after which it is not started again by itself
	startTime = 2 * time.Minute // for a server to come up, although no run waits as long
)

// server is one server and what keeps it up: a goroutine that the first who wants it starts.
type server struct {
	name  string
	cfg   Config
	namer namer
	o     Options
	log   *slog.Logger
	words *words
	ctx   context.Context // until the servers close
	wg    *sync.WaitGroup
	open  func() (mcp.Transport, stop, error) // starts what carries a session

	mu      sync.Mutex
	is      Status
	tools   []agent.Tool
	link    *link         // while it is ready
	changed chan struct{} // closed when the state changes
	wake    chan struct{} // holds one: somebody wants a server that has failed
}

func newServer(ctx context.Context, wg *sync.WaitGroup, name string, cfg Config, n namer, o Options) *server {
	s := &server{name: name, cfg: cfg, namer: n, o: o, log: o.Log.With("server", name), ctx: ctx, wg: wg,
		is: Status{Name: name, State: Idle, Since: time.Now()}, changed: make(chan struct{}), wake: make(chan struct{}, 1)}
	s.words = &words{log: s.log, clean: s.clean}
	s.open = s.spawned
	if cfg.URL != "" {
		s.open = s.reached
	}
	return s
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.is
	is.Tools = s.tools
	return is
}

// set changes the state. The lock is held.
func (s *server) set(state State, err error, next time.Time) {
	s.is.State, s.is.Since, s.is.Next = state, time.Now(), next
	switch {
	case err != nil:
		s.is.Err = s.clean(err.Error())
	case state == Ready:
		s.is.Err = ""
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// want starts the server where nobody has yet, or where it has failed and rested since. The lock
// is held.
func (s *server) want() {
	switch {
	case s.ctx.Err() != nil:
	case s.is.State == Idle:
		s.set(Starting, nil, time.Time{})
		s.wg.Go(s.keep)
	case s.is.State == Failed && !time.Now().Before(s.is.Next):
		s.set(Starting, nil, time.Time{})
		s.wake <- struct{}{} // taken before it can fail again
	}
}

// await returns the link to the server. It waits while the server starts, but no longer than the
// configuration says.
func (s *server) await(ctx context.Context) (*link, error) {
	late := time.NewTimer(s.cfg.StartTimeout)
	defer late.Stop()
	for {
		s.mu.Lock()
		s.want()
		link, is, changed := s.link, s.is, s.changed
		s.mu.Unlock()
		switch {
		case is.State == Ready && link.alive():
			return link, nil
		case is.State == Failed, is.State == Stopped, is.State == Restarting && time.Until(is.Next) > s.cfg.StartTimeout:
			return nil, fmt.Errorf("the tool server %s is not there: %s", s.name, is.Err)
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, fmt.Errorf("the tool server %s is being stopped", s.name)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			return nil, fmt.Errorf("the tool server %s is not there yet, after %s", s.name, s.cfg.StartTimeout)
		}
	}
}

// keep keeps the server up until it is closed.
func (s *server) keep() {
	ends := 0 // in a row
	for s.ctx.Err() == nil {
		l, err := s.connect()
		state := Failed
		if err == nil {
			begun := time.Now()
			s.serve(l)
			err = l.close(nil)
			if time.Since(begun) > steady {
				ends = 0
			}
			state = Restarting
		}
		ends++
		if ends >= inARow {
			state = Failed
		}
		rest := restOf(ends)
		s.mu.Lock()
		s.link = nil
		s.set(state, err, time.Now().Add(rest))
		s.mu.Unlock()
		if s.ctx.Err() != nil {
			break
		}
		s.log.Warn("the tool server is not there", "state", state, "error", s.clean(err.Error()), "rests", rest.Round(time.Millisecond))
		var again <-chan time.Time
		if state == Restarting {
			again = time.After(rest)
		}
		select {
		case <-s.ctx.Done():
		case <-s.wake:
		case <-again:
			s.mu.Lock()
			s.set(Starting, nil, time.Time{})
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(Stopped, errors.New("it was stopped"), time.Time{})
}

// restOf is how long a server rests after so many ends in a row: half of it is chance, so that
// many do not start together.
func restOf(ends int) time.Duration {
	most := firstRest
	for ; ends > 1 && most < longRest; ends-- {
		most *= 2
	}
	most = min(most, longRest)
	return most/2 + rand.N(most/2+1)
}

// serve tells everybody that the server is ready, and follows its list of tools until it ends.
func (s *server) serve(l *link) {
	s.mu.Lock()
	s.link, s.tools, s.is.Version = l, s.toolsOf(l.list), l.version()
	s.set(Ready, nil, time.Time{})
	s.mu.Unlock()
	s.log.Info("the tool server is ready", "tools", len(l.list), "version", l.version())
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-l.lost:
			return
		case <-l.stale:
			ctx, cancel := context.WithTimeout(l.ctx, startTime)
			err := l.refresh(ctx)
			cancel()
			if err != nil && !l.alive() {
				return
			}
			if err != nil {
				s.log.Warn("the server's list of tools could not be read again", "error", s.clean(err.Error()))
			} else {
				s.mu.Lock()
				s.tools = s.toolsOf(l.list)
				s.mu.Unlock()
			}
			select { // however often it changes
			case <-s.ctx.Done():
			case <-l.lost:
			case <-time.After(time.Second):
			}
		}
	}
}
