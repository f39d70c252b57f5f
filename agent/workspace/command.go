package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

const (
	commandDoc = "Runs a shell command (sh -c) in the workspace's folder and returns what it writes to stdout and stderr, and its exit code. " +
		"It has no terminal and no input. All that it has started ends with it, also what it leaves in the background. " +
		"It is stopped after timeout seconds. Of long output the beginning and the end are returned."
	commandSchema = `{"type":"object","additionalProperties":false,"required":["command"],"properties":{
"command":{"type":"string","minLength":1},
"folder":{"type":"string","description":"where to run it; the workspace's folder if it is missing"},
"timeout":{"type":"integer","minimum":1,"maximum":600,"description":"seconds it may take; 120 if it is missing"}}}`
)

const (
	commandTime = 120 * time.Second
	mostTime    = 600 * time.Second
	// stopGrace is how long a command that is asked to end has before it is killed, and how long
	// its output is waited for when it has ended, where somebody out of its group holds on to it.
	stopGrace   = 2 * time.Second
	reportEvery = 250 * time.Millisecond
)

type commandArguments struct {
	Command string `json:"command"`
	Folder  string `json:"folder"`
	Timeout int    `json:"timeout"` // seconds
}

var errTimeout = errors.New("the time limit")

func (w *Workspace) command(ctx context.Context, a commandArguments, report func(agent.Progress)) ([]llm.Part, error) {
	limit := time.Duration(a.Timeout) * time.Second
	switch {
	case a.Timeout == 0:
		limit = commandTime
	case limit < 0 || limit > mostTime:
		return nil, fmt.Errorf("timeout is at most %d seconds", mostTime/time.Second)
	}
	folder, err := w.real(a.Folder)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", a.Command)
	cmd.Dir = filepath.Join(w.dir, folder)
	cmd.Env = w.environ
	start := time.Now()
	out, err := inGroup(ctx, cmd, report)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return nil, fmt.Errorf("run the command: %w", err)
	}
	parts := out.parts()
	took := time.Since(start).Round(100 * time.Millisecond)
	switch {
	case err == nil:
		return append(parts, note("exit code 0, after %s", took)), nil
	case errors.Is(context.Cause(ctx), errTimeout):
		parts = append(parts, note("stopped after %s, the time limit", limit))
	case ctx.Err() != nil:
		parts = append(parts, note("stopped after %s", took))
	case exit.Exited():
		parts = append(parts, note("exit code %d, after %s", exit.ExitCode(), took))
	default:
		parts = append(parts, note("%s, after %s", exit, took)) // a signal
	}
	return parts, agent.ErrResult
}

// inGroup runs a command in a session and process group of its own, which ends with it, and
// collects what it writes. When ctx has ended the group is asked to end, and then killed.
func inGroup(ctx context.Context, cmd *exec.Cmd, report func(agent.Progress)) (*output, error) {
	r, wr, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = wr, wr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal to ask at, either
	cmd.Cancel = func() error { return signal(cmd, syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	err = cmd.Start()
	if cerr := wr.Close(); err != nil || cerr != nil {
		return nil, errors.Join(err, cerr)
	}
	out := &output{}
	read, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := io.Copy(out, r)
		read <- err
	}()
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for said := ""; ; {
		select {
		case <-tick.C:
			if line, n := out.last(); line != said {
				said = line
				report(agent.Progress{Done: float64(n), Text: line})
			}
			continue
		case err = <-ended:
		}
		break
	}
	err = errors.Join(err, signal(cmd, syscall.SIGKILL))
	if derr := r.SetReadDeadline(time.Now().Add(stopGrace)); derr != nil {
		err = errors.Join(err, derr)
	}
	if rerr := <-read; rerr != nil && !errors.Is(rerr, os.ErrDeadlineExceeded) {
		err = errors.Join(err, rerr)
	}
	return out, err
}

// signal reaches every process of the command's group that is left. That none is, some systems
// say as EPERM.
func signal(cmd *exec.Cmd, s syscall.Signal) error {
	err := syscall.Kill(-cmd.Process.Pid, s)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	return err
}

// minimal is the environment of commands: what names the user's world, and neither keys nor
// anything else of this process.
func minimal(environ []string) []string {
	out := []string{"TERM=dumb", "PAGER=cat"}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "LC_") || slices.Contains(passed, name) {
			out = append(out, e)
		}
	}
	return out
}

var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
