// Package server makes a program of the parts: it reads the configuration, locks the data
// folder, builds everything in order and stops it in reverse.
//
// It promises: settings come from flags, over the environment, over the file, over defaults,
// and one that has no effect is refused, never ignored; nothing listens beyond this machine
// unless it was asked to; one process at a time uses a data folder, and others reach it as
// its clients or are told who it is; a stop ends within 30 seconds. A key is named, never
// written, in the configuration, and is read at each use.
//
// It refuses to know what a session, an attempt or a failure means.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/agent/mcptool"
	"github.com/reprise-run/reprise/agent/workspace"
	"github.com/reprise-run/reprise/internal/accounts"
	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/internal/hooks"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/internal/pipe"
	"github.com/reprise-run/reprise/internal/telemetry"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/web"
)

// stopTime bounds the whole stop. The parts share it: where there are other nodes, whoever sends requests here has
// farewell to see that this one is not ready any more, while it answers all of them; requests that are being answered have
// httpGrace, then the runs in progress have runGrace, and then hooks have hookGrace, before they
// are cut off.
const (
	stopTime  = 30 * time.Second
	runGrace  = 15 * time.Second
	farewell  = 3 * time.Second
	httpGrace = 5 * time.Second
	hookGrace = 5 * time.Second
)

// readyTime is how long the store may take to be ready.
const readyTime = 2 * time.Second

// How often garbage is collected, unless the environment's GOGC says: when there is a fifth
// as much of it as lives, which bounds the memory of many streams. The floor counts as living, and
// takes no memory, because nobody touches it: without it a small heap would be collected for
// every other reply.
const (
	gcPercent = 19
	heapFloor = 68 << 20 // bytes
)

// Options are what is not configuration.
type Options struct {
	Version string
	Log     *slog.Logger // nil: slog.Default()
	// Grace is how long runs may go on when the server stops; 0: 15 s.
	Grace time.Duration
	// WatchedRetries: a process that ends with its one task starts the retries of the session that
	// it watches.
	WatchedRetries bool
	// passing: the process ends with its one task.
	passing bool
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Grace == 0 {
		o.Grace = runGrace
	}
}

// Server is the parts of the program, working. One goroutine opens and closes it.
type Server struct {
	log       *slog.Logger
	models    *Models
	sessions  *session.Manager
	tools     *Toolbox
	auth      *httpapi.Auth
	api       *httpapi.Handler
	gateway   *gateway.Handler
	accounts  *accounts.Accounts
	lock      *lock
	telemetry *telemetry.Telemetry
	policy    policy       // of tools
	parts     []part       // in the order of their start
	stopping  atomic.Value // string: the part that is being stopped

	others  bool        // there may be other nodes
	leaving atomic.Bool // they are to have what begins
}

// part is something that was started and must be stopped.
type part struct {
	name  string
	close func() error
}

// Open locks the data folder and starts every part but the listener. It fails with a *Held
// where another process has the folder.
func Open(ctx context.Context, cfg Config, o Options) (s *Server, err error) {
	o.defaults()
	s = &Server{log: o.Log, policy: policy{cfg.Tools.Approve}}
	defer s.undo(&err)
	store, err := s.open(ctx, cfg, o)
	if err != nil {
		return s, err
	}

	s.telemetry, err = telemetry.Open(ctx, telemetry.Options{
		Version: o.Version, Log: o.Log, Traces: cfg.Telemetry.Traces, Env: cfg.env, Dialects: s.models.dialectsByName(),
	})
	if err != nil {
		return s, fmt.Errorf("telemetry: %w", err)
	}
	s.started("telemetry", func() error { s.telemetry.Close(); return nil })

	if !o.passing {
		cfg.warnHooks(o.Log)
	}
	s.telemetry.Hooks(slices.Collect(maps.Keys(cfg.Hooks)))
	told := hooks.Open(cfg.hooks(), hooks.Options{Log: o.Log, Base: cfg.env.base(), Count: s.telemetry.Told})
	s.started("hooks", func() error { told.Close(hookGrace); return nil })

	events, err := cfg.openEvents(ctx, store, o.Log)
	if err != nil {
		return s, err
	}
	s.started("event log", events.Close)

	own := []agent.Tool{agent.Clock{}}
	if dir := cfg.Tools.Workspace; dir != "" {
		w, err := workspace.Open(dir, cfg.env.environ())
		if err != nil {
			return s, err
		}
		s.started("workspace", w.Close)
		own = append(own, w.Tools()...)
	}
	s.tools = &Toolbox{own: own, policy: s.policy, subagents: cfg.Tools.subagents(), kinds: kindsOf(cfg.Tools.MCP), servers: mcptool.Open(cfg.toolServers(), mcptool.Options{
		Version: o.Version, Log: o.Log, Taken: append(names(own), session.DelegateTool),
	})}
	s.started("tool servers", s.tools.servers.Close)

	queue, shared := events.(session.Queue)
	s.others = shared && !cfg.sole()
	s.sessions, err = session.New(ctx, store, s.telemetry.EventLog(events), s.models, session.Config{
		Version:        o.Version,
		Rehearsal:      s.models.rehearsing(),
		Model:          cfg.Model(),
		ConcurrentRuns: cfg.Limits.ConcurrentRuns,
		OperatorStarts: cfg.Limits.Queued == "operator",
		Hold:           cfg.Recovery.Hold.replay(),
		Holds:          cfg.Recovery.holds(),
		Policy:         cfg.Recovery.policy(),
		Compaction:     cfg.Compaction.agent(),
		Spend:          cfg.Spend.limits(),
		Unattended:     cfg.Recovery.Tier2.Mode == "unattended",
		Ask:            cfg.Recovery.Tier2.Ask,
		Override:       cfg.live,
		Network:        s.models,
		Passing:        o.passing,
		WatchedRetries: o.WatchedRetries,
		Tools:          s.offer,
		Subagents:      cfg.Tools.subagents(),
		AnswerWithin:   time.Duration(cfg.Tools.ApprovalTimeout),
		Sole:           cfg.sole(),
		Queue:          queue,
		Grace:          o.Grace,
		Log:            o.Log,
		Observer:       s.telemetry,
		Hooks:          told,
	})
	if err != nil {
		return s, fmt.Errorf("start the sessions: %w", err)
	}
	s.started("sessions", s.sessions.Close)
	barriers := s.sessions.Barriers()
	s.models.state = barriers.Credentials()
	s.telemetry.Watch(s.sessions.Standing)

	settings := &Settings{cfg: cfg, sessions: s.sessions}
	if err := settings.check(ctx, o.Log); err != nil {
		return s, err
	}

	if s.gateway, err = s.newGateway(ctx, cfg, o, barriers); err != nil {
		return s, err
	}
	s.api = httpapi.New(httpapi.Options{
		Sessions: s.sessions, Models: s.models, Tools: s.tools, Settings: settings, Barriers: barriers, Accounts: s.accounts, Auth: s.auth, Page: web.Handler(),
		Hosts: cfg.hosts(), Log: o.Log, Metrics: s.telemetry.Handler(),
		Ready: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, readyTime)
			defer cancel()
			if s.leaving.Load() {
				return errLeaving
			}
			if _, err := s.sessions.System(ctx); err != nil { // it reads the store
				return err
			}
			return events.Ready(ctx)
		},
	})
	return s, nil
}

// open opens what sessions and a gateway alone both need.
func (s *Server) open(ctx context.Context, cfg Config, o Options) (store session.Store, err error) {
	if s.lock, err = acquire(cfg.Data); err != nil {
		return nil, err
	}
	s.started("lock", s.lock.Close)
	if s.models, err = OpenModels(cfg); err != nil {
		return nil, err
	}
	s.started("models", s.models.Close)
	s.models.warnUnbounded(o.Log)
	if store, err = cfg.openStore(ctx); err != nil {
		return nil, err
	}
	s.started("store", store.Close)
	if err = s.openAccounts(ctx, cfg, o, store); err != nil {
		return nil, err
	}
	s.auth, err = cfg.openAuth()
	return store, err
}

// undo closes what was opened where the rest could not be.
func (s *Server) undo(err *error) {
	if *err != nil {
		*err = errors.Join(*err, s.Close())
	}
}

func (c *Config) openAuth() (*httpapi.Auth, error) {
	nonce, err := c.Auth.proxyNonce()
	if err != nil {
		return nil, err
	}
	return httpapi.OpenAuth(httpapi.AuthOptions{
		Mode: httpapi.Mode(c.Auth.Mode), Dir: c.Data, Tokens: c.Auth.TokensFile, ProxyNonce: nonce,
	})
}

func (s *Server) started(name string, close func() error) {
	s.parts = append(s.parts, part{name, close})
}

// Close stops every part, the last first. Closing twice is fine.
func (s *Server) Close() error {
	var errs []error
	for len(s.parts) > 0 {
		last := s.parts[len(s.parts)-1]
		s.parts = s.parts[:len(s.parts)-1]
		s.stopping.Store(last.name)
		if err := last.close(); err != nil {
			errs = append(errs, fmt.Errorf("stop the %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}

// Serve opens a server and serves it until ctx is done, then stops it. ready is told the
// address, as a launch link where one is needed, as soon as the server listens and answers.
func Serve(ctx context.Context, cfg Config, o Options, ready func(link string)) error {
	defer tune()()
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return cfg.taken(fmt.Errorf("listen: %w", err))
	}
	s, err := Open(ctx, cfg, o)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	httpd := s.api.Server()
	httpd.Handler = s.telemetry.Incoming(with(s.gateway, httpd.Handler))
	base := "http://" + reachable(listener.Addr())
	return s.run(ctx, httpd, listener, func() error {
		if err := s.lock.announce(state{URL: base, Version: o.Version}); err != nil {
			return err
		}
		s.log.Info("listening", "url", base, "data", cfg.Data, "version", o.Version)
		if cfg.Auth.Mode == string(httpapi.ModeNone) {
			ready(base + "/")
		} else {
			ready(s.auth.Link(base))
		}
		return nil
	})
}

// tune sets how often garbage is collected, until the function that it returns is called.
func tune() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(gcPercent)
	floor := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(floor) }
}

// run serves until ctx is done, then stops every part. ready is called when the listener answers.
func (s *Server) run(ctx context.Context, httpd *http.Server, listener net.Listener, ready func() error) error {
	httpd.RegisterOnShutdown(s.gateway.Stop)
	served := make(chan error, 1)
	go func() { served <- httpd.Serve(listener) }()
	s.started("listener", func() error {
		end, cancel := context.WithTimeout(context.Background(), httpGrace)
		defer cancel()
		if err := httpd.Shutdown(end); err != nil {
			return httpd.Close() // what is still being answered is cut off
		}
		return nil
	})
	if err := ready(); err != nil {
		return errors.Join(err, s.Close())
	}
	var err error
	select {
	case <-ctx.Done():
		s.log.Info("stopping")
		s.leave(served)
	case err = <-served:
		err = fmt.Errorf("serve: %w", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case cerr := <-closed:
		return errors.Join(err, cerr)
	case <-time.After(stopTime):
		return errors.Join(err, fmt.Errorf("the stop took longer than %s, and was at the %v", stopTime, s.stopping.Load()))
	}
}

var errLeaving = errors.New("this node stops")

// leave lets the other nodes have what is still to begin, and those who send requests here see that, before the listener
// is closed.
func (s *Server) leave(served <-chan error) {
	if !s.others {
		return
	}
	s.leaving.Store(true)
	s.sessions.Drain()
	select {
	case <-time.After(farewell):
	case <-served: // nobody can ask any more
	}
}

// taken prefers, where the address is not free because another process serves the folder, to
// say so.
func (c *Config) taken(err error) error {
	l, lerr := acquire(c.Data)
	var held *Held
	if errors.As(lerr, &held) {
		return held
	}
	if lerr == nil {
		lerr = l.Close()
	}
	return errors.Join(err, lerr)
}

// reachable is the address by which this machine reaches a listener: one that listens on
// every address is reached on loopback.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
}

// pipe serves the API inside this process alone and returns how to reach it.
func (s *Server) pipe() *http.Client {
	l := pipe.Listen()
	httpd := s.api.Server()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = httpd.Serve(l) // it ends with the listener, by Close
	}()
	transport := &http.Transport{DialContext: l.Dial}
	s.started("pipe", func() error {
		err := httpd.Close()
		transport.CloseIdleConnections()
		<-served
		return err
	})
	return &http.Client{Transport: transport}
}

// ensureDir makes the data folder, for its owner alone.
func ensureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// offer is what a session's models may ask for in a run.
func (s *Server) offer(ctx context.Context, set session.Settings) []agent.Tool {
	wanted := func(server string) bool { return mayName(set.Tools, server) }
	return s.policy.apply(append(slices.Clone(s.tools.own), s.tools.servers.Tools(ctx, wanted)...))
}
