// Package mcptool makes tools of the tools that MCP servers offer
// (https://modelcontextprotocol.io/specification), over the official SDK. A server is a command that
// speaks over its standard streams, or an address that speaks streamable HTTP.
//
// It promises: a server is started by the first run that may use it, and a run waits for it no
// longer than Config.StartTimeout; one that ends is started again after a wait that grows, has chance
// in it and is a minute at most; one that cannot be started is left out of runs, and its Status
// says why. Names are valid for every model, unique, and depend on the configuration alone. A call
// is sent at most once: a failure, a timeout or a server that ends in its middle is an error that
// says whether it may have been done, and nothing here sends it again, nor does the transport (no
// redirects, no second send on a connection that broke, no further round where a server asks for
// input). When the context of a call ends, the server is told so and Run returns at once. A command
// is given the environment that it is configured with and nothing else, in a process group of its
// own that is gone when Close returns. Secrets stay out of logs, errors and statuses.
//
// It bounds: a message (16 MiB), the number and size of listed tools, what is logged of a server's
// own words, and how long a write to it may take. It cannot bound how many messages a server sends:
// the SDK queues them. It does not bound a result within a message; its caller does.
//
// It refuses: sampling, elicitation, roots, and OAuth. Hints of a server about its tools count only
// where Config.Trust says so. It does not validate arguments.
package mcptool

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/reprise-run/reprise/agent"
)

// Config is one server. Either Command or URL is set.
type Config struct {
	// Command is the program and its arguments. Env is its whole environment, as os.Environ has it,
	// and is read at each start.
	Command []string
	Env     func() ([]string, error)
	// URL is the address, over streamable HTTP. Header is what each request carries besides, and
	// is read for each.
	URL    string
	Header func() (http.Header, error)
	// Secrets are what must not be logged or shown, as it is now.
	Secrets func() []string
	// ReadOnly trusts the server's hint that a tool changes nothing: it is without effect then, and
	// may run beside others.
	ReadOnly bool
	// Parallel lets every tool run beside others.
	Parallel bool
	// Timeout is how long a call may be silent: progress starts it anew, and ten times it is the
	// most that a call may take. 0: no limit.
	Timeout time.Duration
	// StartTimeout is how long a run, or a call, waits for the server to be there.
	StartTimeout time.Duration
}

// Options are common to the servers.
type Options struct {
	Version string       // of this program, told to the servers
	Log     *slog.Logger // nil: slog.Default()
	Taken   []string     // names of tools from elsewhere
}

// Servers are the servers of a configuration. They are safe for concurrent use.
type Servers struct {
	all  []*server // by name
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// State is what a server is doing.
type State string

// The states.
const (
	Idle       State = "idle"       // no run has wanted it yet
	Starting   State = "starting"   // it was started, and has not said what it offers
	Ready      State = "ready"      // its tools can be used
	Restarting State = "restarting" // it ended, and is started again by itself
	Failed     State = "failed"     // it could not be started; a later run tries again
	Stopped    State = "stopped"    // for good
)

// Status is what is known of a server.
type Status struct {
	Name  string
	State State
	Since time.Time // of the state
	Err   string    // why it is not ready, or why it ended last; empty once it is ready
	// Next is the first time at which it is started again; zero where nothing waits.
	Next time.Time
	// Version is the server's own name and version, as it said.
	Version string
	// Tools are what it offers, or offered before it ended.
	Tools []agent.Tool
}

// Open starts nothing yet. Names of servers begin with a letter, and consist of lower-case letters, digits, _ and -.
func Open(servers map[string]Config, o Options) *Servers {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Servers{stop: stop}
	names := slices.Sorted(maps.Keys(servers))
	for _, name := range names {
		s.all = append(s.all, newServer(ctx, &s.wg, name, servers[name], namer{server: name, servers: names, taken: o.Taken}, o))
	}
	return s
}

// Tools starts the wanted servers that have not been, waits for them as long as each says, and returns
// what those offer that are ready. It returns early when ctx ends. wanted nil: all are.
func (s *Servers) Tools(ctx context.Context, wanted func(server string) bool) []agent.Tool {
	all := slices.DeleteFunc(slices.Clone(s.all), func(v *server) bool { return wanted != nil && !wanted(v.name) })
	start(ctx, all)
	var tools []agent.Tool
	for _, v := range all {
		if status := v.status(); status.State == Ready {
			tools = append(tools, status.Tools...)
		} else {
			v.log.Warn("a run goes without the tools of this server", "state", status.State, "error", status.Err)
		}
	}
	return tools
}

// Start starts the servers that have not been, and waits for them as a run does.
func (s *Servers) Start(ctx context.Context) { start(ctx, s.all) }

func start(ctx context.Context, all []*server) {
	var wg sync.WaitGroup
	for _, v := range all {
		wg.Go(func() { _, _ = v.await(ctx) }) // the status says why one is not there
	}
	wg.Wait()
}

// List returns the servers by name. It starts none.
func (s *Servers) List() []Status {
	list := make([]Status, 0, len(s.all))
	for _, v := range s.all {
		list = append(list, v.status())
	}
	return list
}

// Close stops every server and waits for its end, ten seconds or so where one has to be killed. Calls in
// flight are cancelled. Closing twice is fine.
func (s *Servers) Close() error {
	s.stop()
	s.wg.Wait()
	return nil
}
