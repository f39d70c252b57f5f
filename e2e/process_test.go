package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one run of the binary.
type process struct {
	t              testing.TB
	cmd            *exec.Cmd
	stdout, stderr *output
	ended          chan struct{} // closed after its end
	mayFail        bool          // it is expected to write of errors
}

// start runs the binary in an environment of nothing but a home folder. What is still
// running at the end of the test is killed.
func start(t testing.TB, home string, stdin io.Reader, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(binary, args...), stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	p.cmd.Dir = home
	p.cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TZ=UTC"}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		var exit *exec.ExitError
		if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Errorf("wait for the process: %v", err)
		}
		p.stdout.close()
		p.stderr.close()
	}()
	t.Cleanup(func() {
		p.kill()
		for _, bad := range []string{"panic: ", "fatal error: ", "DATA RACE", "level=ERROR"} {
			if strings.Contains(p.stderr.String(), bad) && !(p.mayFail && bad == "level=ERROR") {
				t.Errorf("reprise %s has written %q", args[0], bad)
			}
		}
		if t.Failed() {
			t.Logf("reprise %s\nstderr: %s", strings.Join(args, " "), p.stderr)
		}
	})
	return p
}

// wait returns the exit code.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("the process does not end\nstdout: %s", p.stdout)
	}
	return p.cmd.ProcessState.ExitCode()
}

// signal sends a signal to a process that may have ended.
func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal the process: %v", err)
	}
}

// kill is kill -9. It returns after the end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// reprise runs the binary to its end.
func reprise(t testing.TB, home string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, home, nil, args...)
	code = p.wait()
	return code, p.stdout.String(), p.stderr.String()
}

// output is what a process has written so far.
type output struct {
	mu      sync.Mutex
	b       []byte
	over    bool
	changed chan struct{} // closed at the next change
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.change(func() { o.b = append(o.b, b...) })
	return len(b), nil
}

func (o *output) close() { o.change(func() { o.over = true }) }

func (o *output) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.b)
}

// await returns the output as soon as it satisfies the condition.
func (o *output) await(t testing.TB, what string, condition func(string) bool) string {
	t.Helper()
	late := time.After(patience)
	for {
		o.mu.Lock()
		s, over, changed := string(o.b), o.over, o.changed
		o.mu.Unlock()
		if condition(s) {
			return s
		}
		if over {
			t.Fatalf("the process has ended without %s; it wrote: %s", what, s)
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("no %s; it wrote: %s", what, s)
		}
	}
}
