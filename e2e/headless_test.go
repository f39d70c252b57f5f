package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/session"
)

// shown is a session as `reprise show --json` has it.
type shown struct {
	Session  session.Session   `json:"session"`
	Messages []session.Message `json:"messages"`
}

// show reads the session that a command has named on stderr.
func show(t testing.TB, s *server, stderr string) (v shown) {
	t.Helper()
	id := regexp.MustCompile(`session (ses_\w+)`).FindStringSubmatch(stderr)
	if id == nil {
		t.Fatalf("no session is named: %s", stderr)
	}
	code, stdout, said := reprise(t, s.home, "show", "--json", id[1])
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, said)
	}
	return v
}

// resultsOf are the results of a conversation's tools.
func (v shown) results() string {
	var b strings.Builder
	for _, m := range v.Messages {
		for _, p := range m.Parts {
			for _, c := range p.Content {
				fmt.Fprintf(&b, "%s (%t): %s\n", p.Name, p.IsError, c.Text)
			}
		}
	}
	return b.String()
}

// What is piped in beside a prompt is told below it; without a prompt it is the prompt.
func TestRunReadsWhatIsPipedIn(t *testing.T) {
	s := serve(t, newUpstream(t).config("ok-fast", ""))
	for _, c := range []struct{ prompt, piped, want string }{
		{"Review this", "+ a line\n", "Review this\n\n<stdin>\n+ a line\n</stdin>"},
		{"Review this", " \n\n", "Review this"},
		{"Review this", "", "Review this"},
		{"-", "from a pipe\n", "from a pipe"},
	} {
		p := start(t, s.home, strings.NewReader(c.piped), "run", c.prompt)
		if code := p.wait(); code != 0 {
			t.Errorf("%q: exit %d", c.piped, code)
		}
		if m := show(t, s, p.stderr.String()).Messages[0]; len(m.Parts) != 1 || m.Parts[0].Text != c.want {
			t.Errorf("%q: the prompt is %+v", c.piped, m.Parts)
		}
	}
	file, err := os.Open(filepath.Join(s.home, ".config", "reprise", "reprise.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := start(t, s.home, file, "run", "Explain")
	if code := p.wait(); code != 0 || !strings.Contains(show(t, s, p.stderr.String()).Messages[0].Parts[0].Text, "<stdin>\nproviders:\n") {
		t.Errorf("a file: exit %d", code)
	}
	p = start(t, s.home, strings.NewReader("GIF89a\x00"), "run", "Look")
	if code := p.wait(); code != 2 || !strings.Contains(p.stderr.String(), "what is piped in is not text") {
		t.Errorf("no text: exit %d", code)
	}
}

// --tools and --max-steps are the session's from then on, also on a server; the model gets no tool
// that it was not offered.
func TestRunChoosesToolsAndSteps(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, up.config("tool-fast", ""))
	for _, shared := range []bool{true, false} {
		if !shared {
			s.stop()
		}
		for tools, refused := range map[string]bool{"": false, "clock": false, "c*,read_*": false, "none": true, "read_*": true} {
			args := []string{"run", "hi"}
			if tools != "" {
				args = append(args, "--tools", tools)
			}
			code, _, stderr := reprise(t, s.home, args...)
			if code != 0 {
				t.Errorf("%s: exit %d: %s", tools, code, stderr)
			}
			if !shared {
				if told := strings.Contains(stderr, "tools that are not there"); told != strings.Contains(tools, "read_") {
					t.Errorf("%s: %s", tools, stderr)
				}
				s.start()
			}
			v := show(t, s, stderr)
			if got := v.results(); strings.Contains(got, `there is no tool named "clock"`) != refused {
				t.Errorf("%s: %s", tools, got)
			}
			if got := strings.Join(v.Session.Settings.Tools, ","); got != tools {
				t.Errorf("%s: the session keeps %s", tools, got)
			}
			if !shared {
				s.stop()
			}
		}
		up.Reset()
		code, _, stderr := reprise(t, s.home, "run", "--model", "responses/tool-loop-fast", "--max-steps", "2", "hi")
		if code != 1 || !strings.Contains(stderr, "its 2 steps") || up.quiet(t).Total != 2 {
			t.Errorf("exit %d after %d requests: %s", code, up.Requests().Total, stderr)
		}
		id := regexp.MustCompile(`session (ses_\w+)`).FindStringSubmatch(stderr)
		if id == nil {
			t.Fatal(stderr)
		}
		code, _, stderr = reprise(t, s.home, "run", "--session", id[1], "--tools", "none", "and on")
		if code != 1 || !strings.Contains(stderr, "its 2 steps") || up.quiet(t).Total != 4 {
			t.Errorf("exit %d after %d requests: %s", code, up.Requests().Total, stderr)
		}
	}
}

// --workspace is a folder for this process; a server has its own.
func TestRunInAWorkspace(t *testing.T) {
	up := newUpstream(t, calls("edit", "edit_file", edit))
	s := serve(t, up.config("edit", "tools: {approve: {edit_file: allow}}"))
	dir := workspace(t)
	code, stdout, stderr := reprise(t, s.home, "run", "--workspace", dir, "please")
	if code != 2 || stdout != "" || !strings.Contains(stderr, "has a workspace of its own") || up.Requests().Total != 0 {
		t.Errorf("beside a server: exit %d, %d requests: %s", code, up.Requests().Total, stderr)
	}
	s.stop()
	for i, w := range []string{dir, "project"} { // a relative one is from the current folder on
		if i > 0 {
			if err := os.Rename(dir, filepath.Join(s.home, w)); err != nil {
				t.Fatal(err)
			}
			dir = filepath.Join(s.home, w)
		}
		if err := os.WriteFile(filepath.Join(dir, "greeting.txt"), []byte("Good day\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr = reprise(t, s.home, "run", "--workspace", w, "please")
		if b, err := os.ReadFile(filepath.Join(dir, "greeting.txt")); code != 0 || stdout != "Done.\n" || err != nil || string(b) != "Good evening\n" {
			t.Errorf("exit %d: %q %s; the file has %q, %v", code, stdout, stderr, b, err)
		}
	}
	code, _, stderr = reprise(t, s.home, "run", "--workspace", "nowhere", "please")
	if code != 2 || !strings.Contains(stderr, "there is no folder "+filepath.Join(s.home, "nowhere")+": make it, or name another") {
		t.Errorf("a folder that is not there: exit %d: %s", code, stderr)
	}
}

// --chain asks a chain of the configuration; what makes no sense is said before anything is sent.
func TestRunFlags(t *testing.T) {
	up := newUpstream(t)
	s := serve(t, up.config("ok-fast", "  other: [chat/thinking-fast]"))
	code, stdout, stderr := reprise(t, s.home, "run", "--chain", "other", "hi")
	if r := up.quiet(t); code != 0 || !strings.HasPrefix(stdout, "You asked") || r.ByModel["thinking-fast"] != 1 || r.Total != 1 {
		t.Errorf("exit %d: %s, %v", code, stderr, r.ByModel)
	}
	for want, args := range map[string][]string{
		`"nobody"`:                            {"--chain", "nobody"},
		"that is a model":                     {"--chain", "chat/ok"},
		"[model chain]":                       {"--chain", "other", "--model", "chat/ok"},
		"[base-url chain]":                    {"--chain", "other", "--base-url", up.URL},
		"--tools names no tool":               {"--tools", ""},
		"by a pattern":                        {"--tools", "clock,["},
		"--max-steps is 1 or more":            {"--max-steps", "0"},
		"--workspace names no folder":         {"--workspace", ""},
		"invalid argument \"x\" for \"--max-": {"--max-steps", "x"},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			code, stdout, stderr := reprise(t, s.home, append(append([]string{"run", "hi"}, args...), more...)...)
			if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("%v: exit %d: %q %s", args, code, stdout, stderr)
			}
		}
	}
	if r := up.Requests(); r.Total != 1 {
		t.Errorf("%d requests", r.Total)
	}
}
