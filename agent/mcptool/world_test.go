//lint:file-ignore SA1019 servers of older versions sample and log

package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// asServer makes the test's own binary a tool server on its standard streams.
const asServer = "MCPTOOL_TEST_SERVER"

func TestMain(m *testing.M) {
	if how := os.Getenv(asServer); how != "" {
		os.Exit(serveStdio(how))
	}
	os.Exit(m.Run())
}

// stub is what a server in the tests' process is and what it has seen.
type stub struct {
	server *mcp.Server

	mu        sync.Mutex
	calls     []string
	cancelled chan string // names of tools whose call was cancelled
	started   chan string // names of tools that wait
}

// newStub makes a server with a tool of each kind of behaviour.
func newStub() *stub {
	s := &stub{cancelled: make(chan string, 10), started: make(chan string, 10),
		server: mcp.NewServer(&mcp.Implementation{Name: "stub", Version: "1.0"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}, Logging: &mcp.LoggingCapabilities{}}})}
	s.add(&mcp.Tool{Name: "echo"}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return said("echo " + string(r.Params.Arguments)), nil
	})
	s.add(&mcp.Tool{Name: "read", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return said("read"), nil
	})
	s.add(&mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.started <- "wait"
		<-ctx.Done()
		s.cancelled <- "wait"
		return nil, ctx.Err()
	})
	s.add(&mcp.Tool{Name: "steps"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			<-time.After(40 * time.Second)
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
				Progress: float64(i + 1), Total: 3, Message: fmt.Sprint("step ", i+1)}); err != nil {
				return nil, err
			}
		}
		<-time.After(time.Second) // progress may be overtaken by the result
		return said("done"), nil
	})
	return s
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func (s *stub) add(t *mcp.Tool, h mcp.ToolHandler) {
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	s.server.AddTool(t, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.mu.Lock()
		s.calls = append(s.calls, t.Name)
		s.mu.Unlock()
		return h(ctx, r)
	})
}

func (s *stub) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// world is one server named s, over a pipe in memory.
type world struct {
	*Servers
	stub *stub
	log  *safeBuffer

	mu     sync.Mutex
	opened int
	refuse error // of the next starts
	theirs net.Conn
}

// inMemory makes a world. The stub is connected anew at each start.
func inMemory(t *testing.T, cfg Config, change ...func(*stub)) *world {
	t.Helper()
	w := &world{stub: newStub(), log: &safeBuffer{}}
	for _, f := range change {
		f(w.stub)
	}
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = 20 * time.Second
	}
	cfg.Command = []string{"stub"}
	w.Servers = Open(map[string]Config{"s": cfg}, Options{Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	w.all[0].open = func() (mcp.Transport, stop, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opened++
		if w.refuse != nil {
			return nil, nil, w.refuse
		}
		ours, theirs := net.Pipe()
		if _, err := w.stub.server.Connect(context.Background(), &mcp.IOTransport{Reader: theirs, Writer: theirs}, nil); err != nil {
			return nil, nil, err
		}
		w.theirs = theirs
		return marking{&mcp.IOTransport{Reader: ours, Writer: ours}}, func(end func()) error { end(); return nil }, nil
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// die ends the connection as a server that dies does.
func (w *world) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.theirs.Close()
}

func (w *world) starts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

// tool finds one by its name.
func find(t *testing.T, tools []agent.Tool, name string) agent.Tool {
	t.Helper()
	for _, v := range tools {
		if v.Spec().Name == name {
			return v
		}
	}
	t.Fatalf("there is no %s among %v", name, names(tools))
	return nil
}

func names(tools []agent.Tool) (list []string) {
	for _, v := range tools {
		list = append(list, v.Spec().Name)
	}
	return list
}

func nothing(agent.Progress) {}

// text is the text of parts.
func text(parts []llm.Part) string {
	var all []string
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return strings.Join(all, "|")
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
