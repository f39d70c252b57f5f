package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server that this run has started.
type process struct {
	cmd   *exec.Cmd
	url   string
	ready time.Duration // from its start to its first answer
}

// startProcess starts a role of this program, which prints its address.
func startProcess(ctx context.Context, dir, path string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	log, err := os.Create(filepath.Join(dir, args[1]+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s printed no address: %w", path, err), cmd.Process.Kill())
	}
	return &process{cmd: cmd, url: strings.TrimSpace(line)}, nil
}

// startServer starts a server and waits until it listens.
func startServer(ctx context.Context, logFile, listen, path string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, url: "http://" + listen}
	for time.Since(began) < 20*time.Second {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			conn.Close()
			p.ready = time.Since(began)
			return p, nil
		}
		time.Sleep(500 * time.Microsecond)
	}
	p.stop()
	text, _ := os.ReadFile(logFile)
	return nil, fmt.Errorf("%s does not listen after 20 s: %s", path, text)
}

// stop ends the process and waits for it.
func (p *process) stop() {
	if p == nil || p.cmd.Process == nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(35 * time.Second):
		p.cmd.Process.Kill()
		<-done
	}
}

// cpu is the processor time that the process has used.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read the processor time: %q", stat)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// memory is the resident set, in MB.
func (p *process) memory() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kb / 1000, err
		}
	}
	return 0, errors.New("no VmRSS")
}
