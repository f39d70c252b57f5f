//go:build unix

package natstest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Processes is a cluster of which each server is a process: one that dies has no time to tell the others, and one that is paused
// wakes with what it knew.
type Processes struct {
	t      testing.TB
	dir    string
	ports  []int
	killed []func() // nil: it does not run
	pids   []int
}

// StartProcesses starts a cluster of n servers. The test's TestMain calls [Child].
func StartProcesses(t testing.TB, n int) *Processes {
	t.Helper()
	p := &Processes{t: t, dir: t.TempDir(), ports: freePorts(t, 2*n), killed: make([]func(), n), pids: make([]int, n)}
	t.Cleanup(func() {
		for i := range n {
			p.Kill(i)
		}
	})
	for i := range n {
		p.Restart(i)
	}
	return p
}

// URL names every server.
func (p *Processes) URL() string {
	var list []string
	for _, port := range p.ports[:len(p.pids)] {
		list = append(list, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	return strings.Join(list, ",")
}

// Index is the number of the server with a name, as JetStream calls its leaders.
func (p *Processes) Index(name string) (i int) {
	p.t.Helper()
	if _, err := fmt.Sscanf(name, "n%d", &i); err != nil || i >= len(p.pids) {
		p.t.Fatalf("there is no server %q", name)
	}
	return i
}

// Kill ends a server with SIGKILL.
func (p *Processes) Kill(i int) {
	if kill := p.killed[i]; kill != nil {
		kill()
		p.killed[i] = nil
	}
}

// Restart starts a server that was killed, with what it had stored. It does not wait for it.
func (p *Processes) Restart(i int) {
	p.t.Helper()
	if p.killed[i] != nil {
		return
	}
	which, err := json.Marshal(place{p.dir, p.ports, i})
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+string(which))
	cmd.Stderr = os.Stderr
	var stdin io.Closer // it lives as long as we do
	if stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatalf("start NATS server %d: %v", i, err)
	}
	p.pids[i] = cmd.Process.Pid
	p.killed[i] = func() {
		_ = cmd.Process.Kill() // it fails where the process has ended
		_ = cmd.Wait()         // it was killed
		_ = stdin.Close()
	}
}

// Pause stops a server without its knowledge, and Resume lets it go on.
func (p *Processes) Pause(i int) { p.signal(i, syscall.SIGSTOP) }

// Resume ends Pause.
func (p *Processes) Resume(i int) { p.signal(i, syscall.SIGCONT) }

func (p *Processes) signal(i int, s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(p.pids[i], s); err != nil {
		p.t.Fatalf("NATS server %d: %v", i, err)
	}
}
