// Command agents puts the binary's gateway between coding agents and a provider with every fault, and
// prints what each has in the end, how often the provider was asked, and how often a tool ran.
//
//	go run ./e2e/agents [-only NAME] [-fault NAME]
//
// It promises: each run has a home and a folder of its own, an end within a limit of time, and
// agents as they come but for what they send home. It ends with 1 where a text is doubled or taken
// for whole, where a tool ran twice or of a broken answer, or where the provider was asked more often
// than it should be. package.json has the agents' versions, and make clients installs them.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/reprise-run/reprise/provider/rehearsal"
)

// limit is how long an agent may take for one prompt.
const limit = 90 * time.Second

func main() {
	only := flag.String("only", "", "the `agent` to run")
	fault := flag.String("fault", "", "the `fault` to play")
	at := flag.Int("parallel", 2, "how many runs go on at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bad, err := run(ctx, *only, *fault, *at)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if bad || err != nil {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, only, fault string, at int) (bad bool, err error) {
	dir, err := os.MkdirTemp("", "agents-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "reprise")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/reprise").CombinedOutput(); err != nil {
		return false, fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	for _, a := range agents {
		if only != "" && only != a.name {
			continue
		}
		var ran []fate
		ran, err = a.all(ctx, filepath.Join(dir, a.name), binary, fault, at)
		if err != nil {
			return bad, fmt.Errorf("%s: %w", a.name, err)
		}
		bad = table(a.name, ran) || bad
	}
	return bad, nil
}

// table prints what became of an agent's runs, and reports whether anything is bad.
func table(name string, ran []fate) (bad bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\trequests\ttool runs\tends with\ttold\n", name)
	for _, f := range ran {
		wrong := f.wrong()
		bad = bad || wrong != ""
		text := strings.NewReplacer(opening, "OPENING ", answers, "ANSWER ", "\n", " ").Replace(f.text)
		fmt.Fprintf(w, "%s\t%d\t%d\t%.60s\t%d %.150s\t%s\n", f.name, f.requests, f.tools, text, f.exit, strings.Join(strings.Fields(f.told), " "), wrong)
	}
	w.Flush()
	fmt.Println()
	return bad
}

// fate is what became of one run.
type fate struct {
	fault
	text, told            string
	exit, requests, tools int
}

// wrong says what must not be.
func (f *fate) wrong() string {
	var all []string
	if n := strings.Count(f.text, opening); n > 1 || strings.Count(f.text, answers) > 1 {
		all = append(all, "DOUBLED")
	}
	if strings.Contains(f.text, answers) == f.fails {
		all = append(all, "TEXT")
	}
	if f.fails && f.exit == 0 && f.told == "" {
		all = append(all, "TAKEN FOR WHOLE")
	}
	if f.tools != f.runs {
		all = append(all, "TOOL")
	}
	if f.requests < f.want || f.requests > f.want+f.more {
		all = append(all, "REQUESTS")
	}
	return strings.Join(all, ", ")
}

// all plays the faults to an agent, through a gateway and before a provider of their own.
func (a *agent) all(ctx context.Context, dir, binary, only string, at int) ([]fate, error) {
	var ran []fate
	var scripts []rehearsal.Script
	for _, f := range faults(a) {
		if only == "" || only == f.name {
			ran = append(ran, fate{fault: f})
			scripts = append(scripts, rehearsal.Script{Name: f.name, Pause: 1, Scenes: f.scenes})
		}
	}
	upstream, err := rehearsal.New(scripts...)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- rehearsal.Serve(ctx, l, upstream) }()
	base, end, err := gateway(ctx, dir, binary, "http://"+l.Addr().String())
	if err == nil {
		turns := make(chan struct{}, at)
		var wg sync.WaitGroup
		for i := range ran {
			if i == len(ran)-1 {
				wg.Wait()
			}
			turns <- struct{}{}
			wg.Go(func() {
				a.ask(ctx, filepath.Join(dir, ran[i].name), base, &ran[i])
				<-turns
			})
		}
		wg.Wait()
		err = end()
		for i := range ran {
			ran[i].requests = upstream.Requests().ByModel[ran[i].name]
		}
	}
	stop()
	return ran, cmp.Or(err, <-served)
}

// ask runs the agent once.
func (a *agent) ask(ctx context.Context, dir, base string, f *fate) {
	home, work := filepath.Join(dir, "home"), filepath.Join(dir, "work")
	defer os.RemoveAll(dir)
	fail := func(err error) { f.exit, f.told = -1, err.Error() }
	for _, d := range []string{home, work} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			fail(err)
			return
		}
	}
	installed, err := filepath.Abs("e2e/agents/node_modules/.bin")
	if err != nil {
		fail(err)
		return
	}
	env, args, err := a.start(home, base, f.name)
	if err != nil {
		fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(installed, a.command), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = work, &out, &log, 3*time.Second
	cmd.Env = append([]string{"PATH=" + installed + ":" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + dir, "TERM=dumb", "LANG=C.UTF-8", "NO_COLOR=1", "CI=1"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it leaves behind ends with it
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = end
	err = cmd.Run()
	if cmd.Process == nil {
		fail(err)
		return
	}
	_ = end() // it fails where nothing is left
	f.exit = cmd.ProcessState.ExitCode()
	f.text, f.told = a.read(out.Bytes())
	if f.told == "" && f.exit != 0 {
		f.told = log.String()
	}
	if ctx.Err() != nil {
		f.told = "nothing in time " + f.told
	}
	effect, err := os.ReadFile(filepath.Join(work, "ran.txt"))
	if err == nil {
		f.tools = bytes.Count(effect, []byte("\n"))
	} else if !os.IsNotExist(err) {
		fail(err)
	}
}

// gateway starts the binary's gateway before a provider.
func gateway(ctx context.Context, dir, binary, upstream string) (base string, end func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	config := "data: " + filepath.Join(dir, "data") + "\nauth: {mode: none}\nproviders:\n"
	for dialect, path := range map[string]string{"chat": "/v1", "responses": "/v1", "messages": "", "gemini": ""} {
		config += fmt.Sprintf("  %s: {dialect: %s, base_url: %s%s, keys: [env:UPSTREAM_KEY], timeouts: {first_event: 3s, first_content: 3s, idle: 2s}}\n", dialect, dialect, upstream, path)
	}
	file := filepath.Join(dir, "reprise.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "gateway", "--listen", "127.0.0.1:0", "--config", file)
	log, err := os.Create(filepath.Join(os.TempDir(), "agents-gateway.log"))
	if err != nil {
		return "", nil, err
	}
	defer log.Close()
	cmd.Stderr, cmd.Env = log, append(os.Environ(), "UPSTREAM_KEY=key")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if base = regexp.MustCompile(`http://[^\s/]+`).FindString(line); base == "" {
		return "", nil, fmt.Errorf("the gateway says %q: %w", line, err)
	}
	return base, func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return err
		}
		return cmd.Wait()
	}, nil
}
