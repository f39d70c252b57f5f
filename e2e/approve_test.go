package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// acting is a server with a workspace, and a model that lets it run a command that leaves a line
// in the file "ran" and then waits for the gate.
type acting struct {
	*server
	up   *upstream
	dir  string
	gate string
}

func newActing(t testing.TB, approve string) *acting {
	t.Helper()
	arguments, err := json.Marshal(map[string]string{"command": "echo ran >> ran; read line < gate"})
	if err != nil {
		t.Fatal(err)
	}
	up := newUpstream(t, rehearsal.Script{Name: "command", Pause: rehearsal.Duration(time.Millisecond), Scenes: []rehearsal.Scene{
		{{say("First this. "), {Do: rehearsal.Call, Name: "run_command", Arguments: string(arguments)}}}, {{say("Then that.")}}}})
	a := &acting{up: up, dir: t.TempDir()}
	a.gate = filepath.Join(a.dir, "gate")
	if err := syscall.Mkfifo(a.gate, 0o600); err != nil {
		t.Fatal(err)
	}
	a.server = serve(t, up.config("command", "tools: {workspace: "+a.dir+", approve: {run_command: "+approve+"}}"))
	// A command that outlives its server still reads: nothing of it stays behind.
	t.Cleanup(func() {
		if f, err := os.OpenFile(a.gate, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	})
	return a
}

// open lets the command end.
func (a *acting) open() {
	a.t.Helper()
	if err := os.WriteFile(a.gate, []byte("go\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// ran counts how often the command was carried out.
func (a *acting) ran() int {
	b, err := os.ReadFile(filepath.Join(a.dir, "ran"))
	if err != nil && !os.IsNotExist(err) {
		a.t.Fatal(err)
	}
	return strings.Count(string(b), "ran\n")
}

func (a *acting) call(o *observer, state session.CallState) session.ToolCall {
	a.t.Helper()
	e := o.await(string(state), func(e *session.Event) bool { return e.ToolCall != nil && e.ToolCall.State == state })
	return *e.ToolCall
}

// A question outlives kill -9: the same call is still asked about, no request is sent again, and
// an approval from the command line lets it run, once.
func TestKillWhileAsked(t *testing.T) {
	a := newActing(t, "ask")
	o := watch(a.server, a.session("default"))
	r := a.post(o.id, "Hello")
	asked := a.call(o, session.CallAsked)
	generation := int64(1)
	for range 2 {
		o.stop()
		a.restart()
		o.follow(a.server)
		o.await("running again", func(e *session.Event) bool {
			run := e.Run
			if e.Snapshot != nil {
				run = e.Snapshot.Session.LastRun
			}
			if run == nil || run.State != session.Running || run.Generation <= generation {
				return false
			}
			generation = run.Generation
			return true
		})
		calls, err := a.ToolCalls(within(t), o.id, r.RunID)
		if err != nil || len(calls) != 1 || calls[0].State != session.CallAsked || *calls[0].Approval != *asked.Approval {
			t.Fatalf("%+v, %v", calls, err)
		}
	}
	if n := len(a.up.quiet(t).Requests); n != 1 || a.ran() != 0 {
		t.Errorf("%d requests, it ran %d times", n, a.ran())
	}
	code, stdout, stderr := reprise(t, a.home, "approve", string(o.id), asked.CallID)
	if code != 0 || !strings.Contains(stdout, "approved by") {
		t.Fatalf("approve: %d, %s%s", code, stdout, stderr)
	}
	if code, _, stderr := reprise(t, a.home, "deny", string(o.id), asked.CallID); code != 1 || !strings.Contains(stderr, "approved already") {
		t.Errorf("deny: %d, %s", code, stderr)
	}
	a.call(o, session.CallStarted)
	a.open()
	if run := o.end(r.RunID); run.State != session.Succeeded || a.ran() != 1 {
		t.Errorf("%+v, it ran %d times", run, a.ran())
	}
	if n := len(a.up.quiet(t).Requests); n != 2 {
		t.Errorf("%d requests", n)
	}
	if text := a.explain(r.RunID); !regexp.MustCompile(`(?s)run_command.*asked .*approved by .*started .*, ended after`).MatchString(text) {
		t.Error(text)
	}
}

// A command that runs at a kill -9 is not run again: nobody knows how it ended until the operator
// has looked, and then the run goes on. N66, K-195.
func TestKillWhileToolRuns(t *testing.T) {
	a := newActing(t, "allow")
	o := watch(a.server, a.session("default"))
	r := a.post(o.id, "Hello")
	call := a.call(o, session.CallStarted)
	o.stop()
	a.restart()
	o.follow(a.server)
	if run := o.end(r.RunID); run.State != session.Failed || run.Recovery.Auto {
		t.Errorf("%+v", run)
	}
	calls, err := a.ToolCalls(within(t), o.id, r.RunID)
	if err != nil || len(calls) != 1 || calls[0].State != session.CallUnknown {
		t.Fatalf("%+v, %v", calls, err)
	}
	if code, _, stderr := reprise(t, a.home, "resume", string(o.id)); code != 1 || !strings.Contains(stderr, "Nobody knows how run_command ended") {
		t.Errorf("resume: %d, %s", code, stderr)
	}
	if code, _, stderr := reprise(t, a.home, "resolve", string(o.id), call.CallID, "mark_done"); code != 0 {
		t.Fatalf("resolve: %d, %s", code, stderr)
	}
	again, err := a.Resume(within(t), o.id, r.RunID, "")
	if err != nil {
		t.Fatal(err)
	}
	if run := o.end(again.RunID); run.State != session.Succeeded || a.ran() > 1 {
		t.Errorf("%+v, it ran %d times", run, a.ran())
	}
	if n := len(a.up.quiet(t).Requests); n != 2 {
		t.Errorf("%d requests", n)
	}
	if text := a.explain(r.RunID); !regexp.MustCompile(`(?s)started .*, and nobody saw its end\n  settled .* by .*: mark_done`).MatchString(text) {
		t.Error(text)
	}
}
