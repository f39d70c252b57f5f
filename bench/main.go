// Command bench measures what Reprise costs: the time that it adds to a first delta, to each
// delta, the processor time of a million deltas, and memory with a thousand open streams. In
// one run it measures the same loads through a plain reverse proxy, so that the ratios hold
// on any machine. The upstream, the proxy, the server and the load are separate processes on
// loopback; every loop is bounded.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	role := flag.String("role", "", "upstream or proxy: what this process is; empty: it runs the benchmark")
	target := flag.String("target", "", "where the proxy sends its requests")
	rounds := flag.Int("rounds", 3, "rounds of each load, interleaved")
	cold := flag.Bool("cold", true, "also time a build with an empty cache")
	flag.Parse()
	var err error
	switch *role {
	case "upstream":
		err = serve(upstream())
	case "proxy":
		err = serve(reverseProxy(*target))
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, *rounds, *cold, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of everything.
type bench struct {
	dir      string // everything that the run writes
	out      io.Writer
	upstream *process
	proxy    *process
	reprise  *process
}

func run(ctx context.Context, rounds int, cold bool, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "reprise-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, out: out}
	defer func() {
		for _, p := range []*process{b.reprise, b.proxy, b.upstream} {
			p.stop()
		}
	}()
	if err := b.build(ctx, cold); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	fsync, err := fsyncTime(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "fsync of 4 kB in the data folder     %8s at the median\n\n", round(fsync))
	if err := b.latency(ctx, rounds, fsync); err != nil {
		return err
	}
	if err := b.throughput(ctx, rounds); err != nil {
		return err
	}
	return b.memory(ctx)
}

// build makes the binary, from an empty cache first.
func (b *bench) build(ctx context.Context, cold bool) error {
	goBuild := func(cache string) (time.Duration, time.Duration, error) {
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", filepath.Join(b.dir, "reprise"), "./cmd/reprise")
		cmd.Env = os.Environ()
		if cache != "" {
			cmd.Env = append(cmd.Env, "GOCACHE="+cache)
		}
		cmd.Stderr = os.Stderr
		began := time.Now()
		err := cmd.Run()
		if err != nil {
			return 0, 0, err
		}
		return time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}
	if cold {
		fmt.Fprintln(os.Stderr, "building with an empty cache …")
		wall, cpu, err := goBuild(filepath.Join(b.dir, "cache"))
		if err != nil {
			return fmt.Errorf("cold build: %w", err)
		}
		fmt.Fprintf(b.out, "cold build                            %8s, %s of processor time (target 150 s)\n", round(wall), round(cpu))
	} else if _, _, err := goBuild(""); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	info, err := os.Stat(filepath.Join(b.dir, "reprise"))
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "stripped binary                       %8.1f MB (target 60)\n", float64(info.Size())/1e6)
	return nil
}

// start starts the upstream, the proxy and the server.
func (b *bench) start(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if b.upstream, err = startProcess(ctx, b.dir, self, "-role", "upstream"); err != nil {
		return err
	}
	if b.proxy, err = startProcess(ctx, b.dir, self, "-role", "proxy", "-target", b.upstream.url); err != nil {
		return err
	}
	return b.startReprise(ctx)
}

func (b *bench) startReprise(ctx context.Context) error {
	config := filepath.Join(b.dir, "reprise.yaml")
	text := fmt.Sprintf("providers:\n  bench: {dialect: chat, base_url: %s/v1}\nchains:\n  default: [bench/d20-0s]\n"+
		"auth: {mode: none}\nlimits: {concurrent_runs: 2000}\n", b.upstream.url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := startServer(ctx, filepath.Join(b.dir, "reprise.log"), listen, filepath.Join(b.dir, "reprise"),
		"serve", "--config", config, "--data", filepath.Join(b.dir, "data"), "--listen", listen)
	if err != nil {
		return err
	}
	b.reprise = p
	fmt.Fprintf(b.out, "from start to listening               %8s (target 300 ms)\n", round(p.ready))
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	rss, err := p.memory()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "resident memory, idle                 %8.1f MB (target 80)\n", rss)
	return nil
}

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// fsyncTime is the median of fifty appends of 4 kB, each synced.
func fsyncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := bytes.Repeat([]byte{'x'}, 4096)
	times := make([]time.Duration, 50)
	for i := range times {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		times[i] = time.Since(began)
	}
	return median(times), nil
}

func median[T int | int64 | float64 | time.Duration](v []T) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
