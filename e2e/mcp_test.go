package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/agent/mcptool"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// reference is the command of one of the protocol's own servers.
func reference(t testing.TB, name string, args ...string) []string {
	t.Helper()
	path, err := filepath.Abs("mcp/node_modules/@modelcontextprotocol/server-" + name + "/dist/index.js")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: make e2e installs it", err)
	}
	return append([]string{"node", path}, args...)
}

// Every tool that the reference server offers can be called with what its schema says, and each
// call can be cancelled: over standard streams, and over HTTP.
func TestEveryToolOfTheReferenceServer(t *testing.T) {
	for how, cfg := range map[string]mcptool.Config{
		"command": {Command: reference(t, "everything", "stdio"), Env: func() ([]string, error) { return []string{"PATH=" + os.Getenv("PATH")}, nil }},
		"http":    {URL: everythingAt(t)},
	} {
		t.Run(how, func(t *testing.T) {
			cfg.StartTimeout, cfg.Timeout = patience, patience
			servers := mcptool.Open(map[string]mcptool.Config{"everything": cfg}, mcptool.Options{})
			defer func() {
				if err := servers.Close(); err != nil {
					t.Error(err)
				}
			}()
			tools := servers.Tools(t.Context(), nil)
			if len(tools) < 10 {
				t.Fatalf("%d tools: %+v", len(tools), servers.List())
			}
			for _, tool := range tools {
				t.Run(tool.Spec().Name, func(t *testing.T) { callAndCancel(t, tool) })
			}
			if s := servers.List()[0]; s.State != mcptool.Ready {
				t.Errorf("in the end: %+v", s)
			}
		})
	}
}

// callAndCancel calls a tool, and again to cancel it: one that takes its time in its middle.
func callAndCancel(t testing.TB, tool agent.Tool) {
	arguments := fromSchema(t, tool.Spec().Schema)
	progress := make(chan agent.Progress, 100)
	report := func(p agent.Progress) { progress <- p }
	parts, err := tool.Run(t.Context(), arguments, report)
	if err != nil || len(parts) == 0 {
		t.Errorf("%s: %+v, %v", arguments, parts, err)
	}
	long := len(progress) > 0
	for len(progress) > 0 {
		<-progress
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		if long {
			<-progress
		}
		cancel(stop)
	}()
	begun := time.Now()
	if _, err := tool.Run(ctx, arguments, report); long && !errors.Is(err, stop) || err != nil && !errors.Is(err, stop) {
		t.Errorf("cancelled: %v", err)
	}
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("it returned after %s", took)
	}
}

// everythingAt is the address of a reference server.
func everythingAt(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	command := reference(t, "everything", "streamableHttp")
	p := &process{t: t, cmd: exec.Command(command[0], command[1:]...), stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PORT=" + port}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // it is killed
		p.stderr.close()
	}()
	t.Cleanup(p.kill)
	p.stderr.await(t, "listener", func(out string) bool { return strings.Contains(out, "listening on port") })
	return "http://" + address + "/mcp"
}

// fromSchema makes arguments that a schema allows: what is required, and defaults that stay on
// this machine.
func fromSchema(t testing.TB, schema json.RawMessage) json.RawMessage {
	t.Helper()
	var s struct {
		Required   []string
		Properties map[string]struct {
			Type, Format string
			Enum         []any
			Default      any
			Minimum      float64
		}
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	arguments := map[string]any{}
	for name, p := range s.Properties {
		var v any
		switch {
		case len(p.Enum) > 0:
			v = p.Enum[0]
		case p.Format == "uri":
			v = "data:text/plain,hello"
		case name == "duration":
			v = 1
		case p.Default != nil:
			v = p.Default
		case p.Type == "string":
			v = "hello"
		case p.Type == "number" || p.Type == "integer":
			v = max(p.Minimum, 2)
		case p.Type == "boolean":
			v = true
		default:
			if !slices.Contains(s.Required, name) {
				continue
			}
			t.Fatalf("%s: a kind of argument that is not known: %s", name, schema)
		}
		arguments[name] = v
	}
	b, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// From the configuration to the conversation: a model asks for tools of a command and of an
// address, and their results are in the next call and in the history.
func TestToolServers(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "note.txt")
	call := func(name string, arguments map[string]any) rehearsal.Scene {
		b, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		return rehearsal.Scene{{{Do: rehearsal.Call, Name: name, Arguments: string(b)}}}
	}
	up := newUpstream(t, rehearsal.Script{Name: "tools", Scenes: []rehearsal.Scene{
		call("files_write_file", map[string]any{"path": file, "content": "written once"}),
		call("files_read_text_file", map[string]any{"path": file}),
		call("files_read_text_file", map[string]any{"path": "/etc/passwd"}),
		call("everything_get-env", map[string]any{}),
		call("everything_get-tiny-image", map[string]any{}),
		{{say("done")}},
	}})
	s := serve(t, up.config("tools", fmt.Sprintf(`tools:
  approve: {"*": allow, "files_move*": deny, "files_edit*": ""}
  mcp:
    files: {command: [%s], trust: [read_only]}
    everything: {command: [%s], env: {OWN: "it is mine"}}
    gone: {command: [/nowhere/at-all]}
`, quoted(reference(t, "filesystem", folder)), quoted(reference(t, "everything")))))
	if code, out, _ := reprise(t, s.home, "tools"); code != 0 || !strings.Contains(out, "idle") || strings.Contains(out, "files_") {
		t.Errorf("before a run: %d, %s", code, out)
	}
	id := s.session("default")
	o := watch(s, id)
	r := s.post(id, "use them")
	if run := o.end(r.RunID); run.State != session.Succeeded {
		t.Fatalf("%+v", run)
	}
	results := map[string][]llm.Part{}
	for _, m := range s.messages(id) {
		for _, p := range m.Parts {
			if p.Kind == llm.PartToolResult {
				results[p.Name] = append(results[p.Name], p)
			}
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "written once" {
		t.Errorf("the file: %q, %v", b, err)
	}
	read := results["files_read_text_file"]
	if len(read) != 2 || textOf(read[0].Content) != "written once" || read[0].IsError || !read[1].IsError || !strings.Contains(textOf(read[1].Content), "outside allowed directories") {
		t.Errorf("read: %+v", read)
	}
	if env := results["everything_get-env"]; len(env) != 1 || !strings.Contains(textOf(env[0].Content), "it is mine") || strings.Contains(textOf(env[0].Content), "REPRISE") {
		t.Errorf("environment: %+v", env)
	}
	image := slices.IndexFunc(results["everything_get-tiny-image"], func(p llm.Part) bool {
		return slices.ContainsFunc(p.Content, func(p llm.Part) bool { return p.Kind == llm.PartImage && len(p.Data) > 0 })
	})
	if image < 0 {
		t.Errorf("image: %+v", results["everything_get-tiny-image"])
	}

	list, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if effect, known := map[string]bool{"clock": false, "files_write_file": true, "files_read_text_file": false, "everything_echo": true}[tool.Name]; known && tool.Effect != effect {
			t.Errorf("%+v", tool)
		}
		if want := cmp.Or(map[string]string{"files_move_file": "deny", "files_edit_file": "ask"}[tool.Name], "allow"); tool.Policy != want {
			t.Errorf("%+v, want %s", tool, want)
		}
	}
	states := map[string]string{}
	for _, v := range list.Servers {
		states[v.Name] = v.State
	}
	if states["files"] != "ready" || states["everything"] != "ready" || states["gone"] != "failed" {
		t.Errorf("%+v", list.Servers)
	}
	if code, out, _ := reprise(t, s.home, "tools", "--start"); code != 0 || !strings.Contains(out, "no such file") || !strings.Contains(out, "files_read_text_file") {
		t.Errorf("%d, %s", code, out)
	}
	children := childrenOf(t, s.proc.cmd.Process.Pid)
	if len(children) < 2 {
		t.Errorf("children: %v", children)
	}
	s.stop()
	for _, pid := range children {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// quoted writes a list for YAML.
func quoted(list []string) string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, strconv.Quote(s))
	}
	return strings.Join(out, ", ")
}

// childrenOf lists the processes that a process has started.
func childrenOf(t testing.TB, parent int) (list []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			continue // it has just ended
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		var state string
		var ppid, pid int
		if _, err := fmt.Sscan(rest, &state, &ppid); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(b), &pid); err != nil {
			t.Fatal(err)
		}
		if ppid == parent {
			list = append(list, pid)
		}
	}
	return list
}
