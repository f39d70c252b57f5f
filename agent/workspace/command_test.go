package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/agent"
)

func TestCommand(t *testing.T) {
	w := newWorld(t, map[string]string{"sub/f": "x"})
	for _, c := range []struct {
		args args
		want string // as a regular expression
	}{
		{args{"command": "echo one; echo two >&2; echo three"}, `one\ntwo\nthree\n\n\[exit code 0, after [\d.]+s\]`},
		{args{"command": "true"}, `\[exit code 0, after [\d.]+s\]`},
		{args{"command": "echo x; exit 3"}, `x\n\n\[exit code 3, after [\d.]+s\]`},
		{args{"command": "kill -9 $$"}, `\[signal: killed, after [\d.]+s\]`},
		{args{"command": "pwd; ls", "folder": "sub"}, `.*/in/sub\nf\n\n\[exit code 0, .*`},
		{args{"command": "pwd"}, regexp.QuoteMeta(w.dir) + `\n\n\[exit code 0, .*`},
		{args{"command": "cat; test -t 0 || echo none"}, `none\n\n\[exit code 0, .*`},
		{args{"command": "(: </dev/tty) 2>/dev/null || echo no terminal"}, `no terminal\n\n\[exit code 0, .*`},
		{args{"command": "no-such-program"}, `(?s).*not found.*\[exit code 127, .*`},
		{args{"command": "pwd", "folder": "none"}, `error: run the command: .*no such file or directory`},
		{args{"command": "true", "timeout": 601}, `error: timeout is at most 600 seconds`},
	} {
		if got := w.said("run_command", c.args); !regexp.MustCompile(`^` + c.want + `$`).MatchString(got) {
			t.Errorf("%v: %q\nwant %s", c.args, got, c.want)
		}
	}
	for command, wrong := range map[string]bool{"true": false, "false": true} {
		if _, err := w.call(t.Context(), "run_command", args{"command": command}); errors.Is(err, agent.ErrResult) != wrong {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// A command sees neither the keys of providers nor anything else that it does not need.
func TestCommandEnvironment(t *testing.T) {
	dir := t.TempDir()
	w, err := Open(dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=/home", "LC_ALL=C", "OPENAI_API_KEY=sk-secret", "REPRISE_TOKEN=t", "AWS_SECRET=x", "ENV=/x", "LD_PRELOAD="})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	parts, err := (&world{t: t, Workspace: w}).call(t.Context(), "run_command", args{"command": "env"})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(parts[0].Text) {
		switch name, _, _ := strings.Cut(line, "="); name {
		case "PATH", "HOME", "LC_ALL", "TERM", "PAGER", "PWD", "OLDPWD", "SHLVL", "_":
		default:
			t.Errorf("a command sees %s", line)
		}
	}
}

func TestCommandOutputIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	parts, err := w.call(t.Context(), "run_command", args{"command": "seq 1 200000"})
	if err != nil || len(parts) != 4 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	head, cut, tail := parts[0].Text, parts[1].Text, parts[2].Text
	dropped, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(cut, "["), " bytes are left out here]"))
	if err != nil || !strings.HasPrefix(head, "1\n2\n") || !strings.HasSuffix(tail, "\n199999\n200000\n") ||
		len(head) != headBytes || len(tail) != tailBytes || len(head)+len(tail)+dropped != 1288895 {
		t.Errorf("%d, %s, %d, %v", len(head), cut, len(tail), err)
	}
}

// Whatever it is written in, output keeps its two ends and its last line.
func TestOutput(t *testing.T) {
	for _, size := range []int{1, 7, 1000, 100_000} {
		o := &output{}
		all := strings.Repeat("0123456789abcde\n", 5000) + "last \r\n \n50%\r60%\r"
		for rest := all; rest != ""; {
			n := min(size, len(rest))
			if m, err := o.Write([]byte(rest[:n])); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		parts := o.parts()
		if len(parts) != 3 || parts[0].Text != all[:headBytes] || parts[2].Text != all[len(all)-tailBytes:] {
			t.Errorf("in pieces of %d: %d parts", size, len(parts))
		}
		if line, n := o.last(); line != "60%" || n != 5002 {
			t.Errorf("in pieces of %d: %q %d", size, line, n)
		}
	}
}

// alive reports whether a process is there and no zombie.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(n, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// gone waits until a process is not there any more.
func gone(t *testing.T, pid string) {
	t.Helper()
	late := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for alive(t, pid) {
		select {
		case <-tick.C:
		case <-late:
			t.Errorf("process %s goes on", pid)
			return
		}
	}
}

// The time limit, a cancel and the command's own end each end all that it has started, also what
// does not listen, and no output is waited for that somebody else holds on to.
func TestCommandEndsWithAllItStarted(t *testing.T) {
	stubborn := `(trap "" TERM; sleep 60) & echo $!; sh -c 'sleep 60 & echo $!; wait' & echo $!; `
	for name, c := range map[string]struct {
		command string
		cancel  bool
		want    string
	}{
		"time limit":     {stubborn + "wait", false, "[stopped after 1s, the time limit]"},
		"cancel":         {stubborn + "echo ready; wait", true, "[stopped after "},
		"own end":        {stubborn + "read x < pipe", false, "[exit code 0, after "},
		"deaf":           {`trap "" TERM; sleep 60 & echo $!; while :; do wait; done`, false, "[stopped after 1s, the time limit]"},
		"output is held": {`setsid sh -c 'echo $$; echo x > pipe; sleep 60' & read x < pipe`, false, "[exit code 0, after "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			if err := syscall.Mkfifo(w.dir+"/pipe", 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(c.command, "read x < pipe") && strings.HasPrefix(c.command, stubborn) {
				go func() {
					f, err := os.OpenFile(w.dir+"/pipe", os.O_WRONLY, 0)
					if err == nil {
						_, err = f.WriteString("x\n")
						err = errors.Join(err, f.Close())
					}
					if err != nil {
						t.Error(err)
					}
				}()
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			raw, err := json.Marshal(args{"command": c.command, "timeout": map[bool]int{true: 100, false: 1}[c.cancel]})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			parts, err := w.Tools()[5].Run(ctx, raw, func(p agent.Progress) {
				if c.cancel && p.Done == 4 { // all have said their number
					cancel()
				}
			})
			if err != nil && !errors.Is(err, agent.ErrResult) {
				t.Fatal(err)
			}
			said := texts(parts)
			if !strings.Contains(said, c.want) {
				t.Errorf("%q, want %s", said, c.want)
			}
			if took := time.Since(start); took > 7*time.Second {
				t.Errorf("it took %s", took)
			}
			pids := regexp.MustCompile(`(?m)^\d+$`).FindAllString(said, -1)
			if len(pids) == 0 {
				t.Errorf("no process is named: %s", said)
			}
			if name == "output is held" {
				if !alive(t, pids[0]) { // a session of its own is not in the group
					t.Error("what left the group was killed")
				}
				if n, err := strconv.Atoi(pids[0]); err != nil || syscall.Kill(-n, syscall.SIGKILL) != nil {
					t.Error("what left the group cannot be killed")
				}
			}
			for _, pid := range pids {
				gone(t, pid)
			}
		})
	}
}

func TestCommandProgress(t *testing.T) {
	w := newWorld(t, nil)
	if err := syscall.Mkfifo(w.dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	raw := json.RawMessage(`{"command": "echo first; echo; printf 'now  '; read x < pipe; echo then"}`)
	_, err := w.Tools()[5].Run(t.Context(), raw, func(p agent.Progress) {
		if p.Text != "now" { // it has not come that far
			return
		}
		if p.Done != 2 {
			t.Errorf("%+v", p)
		}
		once.Do(func() {
			if err := os.WriteFile(w.dir+"/pipe", []byte("x\n"), 0o600); err != nil {
				t.Error(err)
			}
		})
	})
	if err != nil {
		t.Error(err)
	}
}
