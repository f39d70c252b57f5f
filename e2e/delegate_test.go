package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// N80, F93: a server is killed while a subagent that has changed a file is being answered. The next
// one goes on with both: the file is changed once, the subagent is asked again for its last words
// alone, and its parent sees one call with one result. The commands tell the tree.
func TestKilledSubagent(t *testing.T) {
	up := newUpstream(t, calls("boss", "delegate", `{"task":"Change the greeting.","title":"Greeting","model":"responses/worker"}`),
		rehearsal.Script{Name: "worker", Scenes: []rehearsal.Scene{
			{{{Do: rehearsal.Call, Name: "edit_file", Arguments: edit}}},
			{{{Do: rehearsal.Wait, For: rehearsal.Duration(time.Minute)}, say("Too late.")}, {say("It says evening now.")}},
		}})
	dir := workspace(t)
	s := serve(t, up.config("boss", fmt.Sprintf("tools: {workspace: %q, subagents: {enabled: true}, approve: {\"*\": allow}}\nlimits: {concurrent_runs: 1}", dir)))
	id := s.session("responses/boss")
	run := s.post(id, "please").RunID
	up.await(t, "the subagent's second request", func(r rehearsal.Report) bool { return r.Total == 3 })
	s.restart()
	o := watch(s, id)
	if end := o.end(run); end.State != session.Succeeded {
		t.Fatalf("%s: %s", end.State, end.Reason)
	}
	var said []string
	for _, m := range s.messages(id) {
		for _, p := range m.Parts {
			said = append(said, string(p.Kind)+" "+p.Text+textOf(p.Content))
		}
	}
	if got := strings.Join(said, ", "); got != "text please, tool_call , tool_result It says evening now., text Done." {
		t.Errorf("the parent's rows: %s", got)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "greeting.txt")); err != nil || string(b) != "Good evening\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
	if r := up.quiet(t); r.Total != 5 {
		t.Errorf("%d requests", r.Total)
	}
	children, err := s.Children(within(t), id)
	if err != nil || len(children) != 1 {
		t.Fatalf("%+v, %v", children, err)
	}
	child := string(children[0].ID)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"show", string(id)}, "\n  " + child + "  succeeded  responses/worker  "},
		{[]string{"sessions", "--parent", string(id)}, child + "  succeeded"},
		{[]string{"sessions"}, string(id) + "  succeeded"},
		{[]string{"explain", string(run)}, "    " + string(children[0].LastRun.ID) + "  succeeded  of " + child},
		{[]string{"explain", string(run)}, "    Attempt 3  step 2  automatic  responses/worker"},
		{[]string{"show", child}, "Change the greeting."},
	} {
		code, out, _ := reprise(t, s.home, c.args...)
		if code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d, no %q in %s", c.args, code, c.want, out)
		}
		if list := len(c.args) == 1; list && strings.Contains(out, child) {
			t.Errorf("the list has the subagent: %s", out)
		}
	}
}

// What a subagent's tools ask is asked where its parent's run is followed: without a terminal it is
// denied at once, and --approve allows it.
func TestRunOfASubagentThatAsks(t *testing.T) {
	up := newUpstream(t, calls("boss", "delegate", `{"task":"Change the greeting.","model":"responses/worker"}`), calls("worker", "edit_file", edit))
	dir := workspace(t)
	s := serve(t, up.config("boss", fmt.Sprintf("tools: {workspace: %q, subagents: {enabled: true}}", dir)))
	for _, c := range []struct {
		args []string
		says string
		has  string
	}{
		{nil, "denied  edit_file  nobody can be asked", "Good day\n"},
		{[]string{"--approve", "edit_file"}, "tool  delegate  ended", "Good evening\n"},
	} {
		code, out, stderr := reprise(t, s.home, append([]string{"run", "--model", "responses/boss", "please"}, c.args...)...)
		if code != 0 || out != "Done.\n" || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, %q, %s", c.args, code, out, stderr)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "greeting.txt")); err != nil || string(b) != c.has {
			t.Errorf("%v: the file has %q, %v", c.args, b, err)
		}
	}
}
