package mcptool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	leaveTime = 2 * time.Second  // after its input has ended, and again after SIGTERM
	drainTime = time.Second      // for what a command that has ended wrote before
	writeTime = 10 * time.Second // for the command to take what is written to it
)

// process is a command in a process group of its own.
type process struct {
	cmd     *exec.Cmd
	in, out *os.File // our ends
	exited  chan struct{}
	err     error // how it exited
}

// spawn starts a command. Nothing of our environment reaches it but what env says.
func spawn(command, env []string, stderr io.Writer) (p *process, err error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	p = &process{in: in, out: out, exited: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append([]string{}, env...) // not nil, which would be ours
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = drainTime
	err = p.cmd.Start()
	err = errors.Join(err, theirIn.Close(), theirOut.Close())
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go p.wait()
	return p, nil
}

// wait ends what a command leaves behind in its group, so that its output ends too.
func (p *process) wait() {
	p.err = p.cmd.Wait()
	p.signal(syscall.SIGKILL)
	_ = p.out.SetReadDeadline(time.Now().Add(drainTime)) // one who has left the group may still hold it
	close(p.exited)
}

// signal reaches the whole group. That nobody is left of it is fine.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// stop lets the command leave, and then makes it; ok: it left by itself. The order is the
// protocol's (https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown).
func (p *process) stop() (ok bool) {
	_ = p.in.Close() // it may be closed
	select {
	case <-p.exited:
		return true
	case <-time.After(leaveTime):
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return false
	case <-time.After(leaveTime):
	}
	p.signal(syscall.SIGKILL)
	<-p.exited
	return false
}

// how says how the command exited, with its last words.
func (p *process) how(said string) error {
	what := "it exited"
	if p.err != nil && !errors.Is(p.err, exec.ErrWaitDelay) {
		what = p.err.Error()
	}
	if said != "" {
		what += ": " + said
	}
	return errors.New(what)
}

// Write implements io.Writer for the protocol. A command that does not read is given up.
func (p *process) Write(b []byte) (int, error) {
	if err := p.in.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	n, err := p.in.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the server has read nothing for %s: %w", writeTime, err)
	}
	return n, err
}

// Close ends the command's input; it implements io.WriteCloser for the protocol.
func (p *process) Close() error { return p.in.Close() }
