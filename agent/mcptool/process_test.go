package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveStdio is the test's binary as a server. It says its process's number to a file.
func serveStdio(how string) int {
	if path := os.Getenv("PIDS"); path != "" {
		if how == "stubborn" || how == "deaf" {
			child := exec.Command("sleep", "600") // in the same group
			if err := child.Start(); err != nil {
				return 2
			}
			note(path, child.Process.Pid)
		}
		note(path, os.Getpid())
	}
	fmt.Fprintln(os.Stderr, "the token is", os.Getenv("TOKEN"))
	s := newStub()
	switch how {
	case "broken":
		fmt.Fprintln(os.Stderr, "cannot open the library")
		return 3
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		<-time.After(10 * time.Minute)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		defer func() { <-time.After(10 * time.Minute) }()
	}
	s.add(&mcp.Tool{Name: "env"}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return said(strings.Join(os.Environ(), "\n")), nil
	})
	s.add(&mcp.Tool{Name: "exit"}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(4)
		return nil, nil
	})
	s.add(&mcp.Tool{Name: "flood"}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return said(strings.Repeat("x", maxMessage)), nil
	})
	if err := s.server.Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, mcp.ErrConnectionClosed) {
		return 1
	}
	return 0
}

func note(path string, pid int) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, pid)
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// own makes a server of the test's binary.
func own(t *testing.T, how string, change ...func(*Config)) (s *Servers, log *safeBuffer, pids func() []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pids")
	// Where the environment does not make a server of it, it runs no tests.
	cfg := Config{Command: []string{self, "-test.run=^$"}, StartTimeout: 20 * time.Second,
		Env: func() ([]string, error) {
			return []string{asServer + "=" + how, "PIDS=" + path, "TOKEN=hunter2", "PATH=" + os.Getenv("PATH")}, nil
		},
		Secrets: func() []string { return []string{"hunter2"} }}
	for _, f := range change {
		f(&cfg)
	}
	log = &safeBuffer{}
	s = Open(map[string]Config{"s": cfg}, Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	t.Cleanup(func() { _ = s.Close() })
	return s, log, func() (list []int) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, pid)
		}
		return list
	}
}

// gone reports whether no process has the number any more; one that nobody has waited for has it.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	// A child whose parent has died is reaped by the system's first process, when it comes to it.
	return strings.Contains(string(b), ") Z ") && !strings.Contains(string(b), fmt.Sprintf(") Z %d ", os.Getpid()))
}

// A command sees the environment that it is given and nothing of ours, and its secrets stay out of the log.
func TestCommand(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-provider")
	s, log, pids := own(t, "plain")
	tools := s.Tools(t.Context(), nil)
	parts, err := find(t, tools, "s_env").Run(t.Context(), []byte(`{}`), nothing)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text(parts), "\n")
	for _, l := range lines {
		if k, _, _ := strings.Cut(l, "="); !slices.Contains([]string{asServer, "PIDS", "TOKEN", "PATH"}, k) {
			t.Errorf("it sees %s", l)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if p := pids(); len(p) != 1 || !gone(p[0]) {
		t.Errorf("processes %v are left", p)
	}
	if l := log.String(); !strings.Contains(l, "the token is [secret]") || strings.Contains(l, "hunter2") {
		t.Errorf("log: %s", l)
	}
}

// A group that does not want to leave is killed, its children too.
func TestCommandThatStays(t *testing.T) {
	s, _, pids := own(t, "stubborn")
	if tools := s.Tools(t.Context(), nil); len(tools) == 0 {
		t.Fatal("no tools")
	}
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 2*leaveTime+4*time.Second {
		t.Errorf("the stop took %s", took)
	}
	for _, p := range pids() {
		if !gone(p) {
			t.Errorf("process %d is left", p)
		}
	}
}

// A command that says nothing is left out, and ended all the same.
func TestCommandThatIsDeaf(t *testing.T) {
	s, _, pids := own(t, "deaf", func(c *Config) { c.StartTimeout = 300 * time.Millisecond })
	if tools := s.Tools(t.Context(), nil); len(tools) != 0 {
		t.Fatal(names(tools))
	}
	if is := s.List()[0]; is.State != Starting {
		t.Errorf("%+v", is)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, p := range pids() {
		if !gone(p) {
			t.Errorf("process %d is left", p)
		}
	}
}

// What is known of a command that fails is said.
func TestCommandThatFails(t *testing.T) {
	for how, want := range map[string]string{"broken": "exit status 3: cannot open the library", "": "no such file"} {
		s, _, _ := own(t, how, func(c *Config) {
			if how == "" {
				c.Command = []string{"/nowhere/tool"}
			}
		})
		if tools := s.Tools(t.Context(), nil); len(tools) != 0 {
			t.Fatal(names(tools))
		}
		if is := s.List()[0]; is.State != Failed || !strings.Contains(is.Err, want) {
			t.Errorf("%q: %+v", how, is)
		}
	}
}

// A command that dies in a call, or sends more than may be: nobody knows what came of it, and it
// is there again for the next.
func TestCommandThatDies(t *testing.T) {
	for name, want := range map[string]string{"exit": "exit status 4: out of memory", "flood": "exceeded the configured maximum line length"} {
		s, log, pids := own(t, "plain")
		tools := s.Tools(t.Context(), nil)
		if _, err := find(t, tools, "s_"+name).Run(t.Context(), []byte(`{}`), nothing); err == nil || !strings.Contains(err.Error(), "may have been done or not") {
			t.Errorf("%s: %v", name, err)
		}
		if parts, err := find(t, tools, "s_echo").Run(t.Context(), []byte(`{}`), nothing); err != nil || text(parts) != "echo {}" {
			t.Errorf("%s: the next call: %v, %v", name, parts, err)
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s: log: %s", name, log)
		}
		if p := pids(); len(p) != 2 || !gone(p[0]) {
			t.Errorf("%s: processes %v", name, p)
		}
	}
}

// What cannot be sent is known not to be done.
func TestUnsent(t *testing.T) {
	stub := newStub()
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return stub.server }, nil))
	defer server.Close()
	var lost atomic.Bool
	s := Open(map[string]Config{"s": {URL: server.URL, StartTimeout: 10 * time.Second, Header: func() (http.Header, error) {
		if lost.Load() {
			return nil, errors.New("the file is gone")
		}
		return nil, nil
	}}}, Options{})
	defer s.Close()
	echo := find(t, s.Tools(t.Context(), nil), "s_echo")
	lost.Store(true)
	if _, err := echo.Run(t.Context(), []byte(`{}`), nothing); err == nil || !strings.Contains(err.Error(), "the file is gone") || !strings.HasSuffix(err.Error(), "the tool was not run") {
		t.Error(err)
	}
	lost.Store(false)
	if parts, err := echo.Run(t.Context(), []byte(`{}`), nothing); err != nil || text(parts) != "echo {}" {
		t.Errorf("%v, %v", parts, err)
	}
	if got := stub.called(); !slices.Equal(got, []string{"echo"}) {
		t.Errorf("calls: %v", got)
	}
}

// A server at an address: headers go with each request and into no log; a call is sent once.
func TestAddress(t *testing.T) {
	stub := newStub()
	var calls, broken, redirected atomic.Int32
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return stub.server }, nil)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Add(1) }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hunter2" || r.URL.Query().Get("key") != "swordfish" {
			t.Errorf("%s without its header or query", r.Method)
		}
		if r.Header.Get("Mcp-Method") == "tools/call" || r.Method == http.MethodPost && broken.Load() > 0 {
			calls.Add(1)
		}
		switch broken.Load() {
		case 1: // the connection breaks
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
		case 2:
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case 3:
			w.Header().Set("Content-Type", "application/json")
			for range maxMessage/1024 + 2 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 1024)))
			}
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	log := &safeBuffer{}
	s := Open(map[string]Config{"s": {URL: server.URL + "/mcp?key=swordfish", StartTimeout: 10 * time.Second, Timeout: 10 * time.Second,
		Header:  func() (http.Header, error) { return http.Header{"Authorization": {"Bearer hunter2"}}, nil },
		Secrets: func() []string { return []string{"hunter2"} },
	}}, Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	defer s.Close()
	echo := find(t, s.Tools(t.Context(), nil), "s_echo")
	for how := range 4 {
		broken.Store(0)
		for { // the first may come before the last connection has been closed
			parts, err := echo.Run(t.Context(), []byte(`{}`), nothing)
			if err == nil && text(parts) == "echo {}" {
				break
			}
			if how == 0 || !strings.Contains(err.Error(), "the tool was not run") {
				t.Fatalf("%d: %v, %v", how, parts, err)
			}
		}
		if how == 0 {
			continue
		}
		calls.Store(0)
		broken.Store(int32(how))
		_, err := echo.Run(t.Context(), []byte(`{}`), nothing)
		if err == nil || !strings.Contains(err.Error(), "may have been done or not") || strings.Contains(err.Error(), "swordfish") {
			t.Errorf("%d: %v", how, err)
		}
		if how == 3 && !strings.Contains(fmt.Sprint(err), "answer is longer than") {
			t.Errorf("%d: %v", how, err)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d: %d requests", how, n)
		}
	}
	if redirected.Load() != 0 {
		t.Error("a redirect was followed")
	}
	broken.Store(0)
	server.CloseClientConnections()
	server.Listener.Close()
	if l := log.String(); strings.Contains(l, "hunter2") || strings.Contains(l, "swordfish") {
		t.Errorf("log: %s", l)
	}
}
