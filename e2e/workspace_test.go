package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/provider/rehearsal"
)

// calls is a script of one tool call, and of what is said when it has ended.
func calls(name, tool, arguments string) rehearsal.Script {
	return rehearsal.Script{Name: name, Scenes: []rehearsal.Scene{
		{{{Do: rehearsal.Call, Name: tool, Arguments: arguments}}}, {{say("Done.")}}}}
}

// workspace is a folder with a file greeting.txt.
func workspace(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "greeting.txt"), []byte("Good day\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	return dir
}

const edit = `{"path":"greeting.txt","old_text":"day","new_text":"evening"}`

// A model changes a file of the workspace, and `reprise show` has the diff; it reaches nothing
// outside.
func TestWorkspace(t *testing.T) {
	up := newUpstream(t, calls("edit", "edit_file", edit), calls("escape", "read_file", `{"path":"../../etc/passwd"}`),
		calls("command", "run_command", `{"command":"cat greeting.txt; env"}`))
	dir := workspace(t)
	s := serve(t, up.config("edit", fmt.Sprintf("tools: {workspace: %q, approve: {'*': allow}}", dir)))
	for _, c := range []struct {
		model string
		want  []string
	}{
		{"edit", []string{"greeting.txt: replaced\n--- a/greeting.txt\n+++ b/greeting.txt\n@@ -1 +1 @@\n-Good day\n+Good evening\n", "Done."}},
		{"escape", []string{"[read_file (error): ../../etc/passwd: leads out of the workspace]"}},
		{"command", []string{"Good evening\n", "[exit code 0, after "}},
	} {
		id := s.session("responses/" + c.model)
		o := watch(s, id)
		o.end(s.post(id, "please").RunID)
		code, shown, _ := reprise(t, s.home, "show", string(id))
		for _, want := range c.want {
			if code != 0 || !strings.Contains(shown, want) {
				t.Errorf("%s: exit %d, no %q in %s", c.model, code, want, shown)
			}
		}
		if strings.Contains(shown, "HOME="+s.home) != (c.model == "command") {
			t.Errorf("%s: %s", c.model, shown)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "greeting.txt"))
	if err != nil || string(b) != "Good evening\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
	if r := up.quiet(t); r.Total != 6 {
		t.Errorf("%d requests", r.Total)
	}
}
