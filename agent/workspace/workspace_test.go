package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// world is a workspace, and a folder beside it that nobody may reach.
type world struct {
	t       *testing.T
	dir     string
	outside string
	*Workspace
}

// newWorld makes the files, which name a folder where they end in a slash.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	top := t.TempDir()
	w := &world{t: t, dir: filepath.Join(top, "in"), outside: filepath.Join(top, "out")}
	for _, dir := range []string{w.dir, w.outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.file("../out/secret", "secret\n")
	for name, text := range files {
		w.file(name, text)
	}
	var err error
	if w.Workspace, err = Open(w.dir, os.Environ()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) file(name, text string) {
	w.t.Helper()
	at := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if strings.HasSuffix(name, "/") {
		if err := os.Mkdir(at, 0o755); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(name, to string) {
	w.t.Helper()
	if err := os.Symlink(to, filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

// has is what a file has in it; empty where there is none.
func (w *world) has(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(b)
}

// call runs a tool as an agent would.
func (w *world) call(ctx context.Context, name string, arguments any) ([]llm.Part, error) {
	w.t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, t := range w.Tools() {
		if t.Spec().Name == name {
			return t.Run(ctx, raw, func(agent.Progress) {})
		}
	}
	w.t.Fatalf("no tool %s", name)
	return nil, nil
}

// said is what a model is told of a call: its parts, a line's end between them, or its error.
func (w *world) said(name string, arguments any) string {
	w.t.Helper()
	parts, err := w.call(w.t.Context(), name, arguments)
	if err != nil && !errors.Is(err, agent.ErrResult) {
		return "error: " + err.Error()
	}
	return texts(parts)
}

func texts(parts []llm.Part) string {
	var all []string
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return strings.Join(all, "\n")
}

type args = map[string]any

func TestTools(t *testing.T) {
	w := newWorld(t, nil)
	for _, tool := range w.Tools() {
		spec, traits := tool.Spec(), tool.Traits()
		var schema struct {
			Type       string         `json:"type"`
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
			Additional *bool          `json:"additionalProperties"`
		}
		if err := json.Unmarshal(spec.Schema, &schema); err != nil {
			t.Fatalf("%s: %v", spec.Name, err)
		}
		if schema.Type != "object" || schema.Additional == nil || *schema.Additional || spec.Description == "" {
			t.Errorf("%s: %s", spec.Name, spec.Schema)
		}
		for _, r := range schema.Required {
			if schema.Properties[r] == nil {
				t.Errorf("%s requires %s, which it does not have", spec.Name, r)
			}
		}
		changes := slices.Contains([]string{"edit_file", "write_file", "run_command"}, spec.Name)
		if want := (agent.Traits{Effect: changes, Parallel: !changes}); traits != want {
			t.Errorf("%s: %+v", spec.Name, traits)
		}
		if got := w.said(spec.Name, args{"nonsense": 1}); !strings.Contains(got, `unknown field "nonsense"`) {
			t.Errorf("%s: %s", spec.Name, got)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{file, filepath.Join(dir, "none")} {
		if _, err := Open(bad, nil); err == nil {
			t.Errorf("%s was opened", bad)
		}
	}
}

// Whatever a name looks like, it leads to no file out of the folder.
func TestNothingOutsideIsReached(t *testing.T) {
	w := newWorld(t, map[string]string{"a/file": "inside\n", "plain": "x"})
	w.link("relative", "../out/secret")
	w.link("absolute", filepath.Join(w.outside, "secret"))
	w.link("folder", "../out")
	w.link("a/up", "../..")
	w.link("two", "one")
	w.link("one", "relative")
	w.link("loop", "loop")
	w.link("fresh", "../out/fresh")
	w.link("proc", "/proc/self/cwd")
	for _, name := range []string{"../out/secret", "a/../../out/secret", filepath.Join(w.outside, "secret"), "/etc/hostname",
		"relative", "absolute", "folder/secret", "a/up/out/secret", "two", "loop", "fresh", "proc", "folder/fresh", "..", "a/up",
		w.dir + "/../out/secret", "plain/x", "", ".", "a"} {
		for tool, more := range map[string]args{
			"read_file": {}, "edit_file": {"old_text": "secret", "new_text": "found"}, "write_file": {"content": "found"}} {
			more["path"] = name
			if got := w.said(tool, more); !strings.HasPrefix(got, "error: ") || strings.Contains(got, "secret\n") {
				t.Errorf("%s %q: %s", tool, name, got)
			}
		}
	}
	for _, name := range []string{"folder", "..", "a/up", "/", w.outside} {
		for tool, more := range map[string]args{"list_files": {}, "search_files": {"pattern": "."}} {
			more["path"] = name
			if got := w.said(tool, more); !strings.HasPrefix(got, "error: ") {
				t.Errorf("%s %q: %s", tool, name, got)
			}
		}
		if got := w.said("run_command", args{"command": "pwd", "folder": name}); !strings.HasPrefix(got, "error: ") {
			t.Errorf("run_command in %q: %s", name, got)
		}
	}
	if got := w.said("search_files", args{"pattern": "secret"}); !strings.HasPrefix(got, "[nothing matches") {
		t.Errorf("search: %s", got)
	}
	if w.has("../out/secret") != "secret\n" || w.has("../out/fresh") != "" {
		t.Error("a file outside was changed")
	}
}

// Links within the folder are followed, and stay links.
func TestLinksInside(t *testing.T) {
	w := newWorld(t, map[string]string{"a/b/file": "one\n"})
	w.link("link", "a/b/file")
	w.link("folder", "a/b")
	w.link("a/b/up", "../../folder/file")
	for i, name := range []string{"link", "folder/file", "a/b/up", filepath.Join(w.dir, "link"), "./a//b/../b/file"} {
		next := fmt.Sprintf("%d\n", i)
		if got := w.said("write_file", args{"path": name, "content": next}); !strings.HasPrefix(got, "a/b/file: written") {
			t.Errorf("%s: %s", name, got)
		}
		if got := w.said("read_file", args{"path": name}); got != next || w.has("a/b/file") != next {
			t.Errorf("%s: %q", name, got)
		}
	}
	if info, err := os.Lstat(filepath.Join(w.dir, "link")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link has become %v %v", info.Mode(), err)
	}
}

// What is exchanged for a link while a tool works leads out no more than one that was there.
func TestExchangedFoldersLeadNowhere(t *testing.T) {
	w := newWorld(t, map[string]string{"real/file": "inside\n", "there/file": "inside\n"})
	w.file("../out/file", "secret\n")
	w.link("link", "../out")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		at := func(name string) string { return filepath.Join(w.dir, name) }
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, move := range [][2]string{{"there", "aside"}, {"link", "there"}, {"there", "link"}, {"aside", "there"}} {
				for os.Rename(at(move[0]), at(move[1])) != nil { // the tool has made a folder of that name
					if err := os.RemoveAll(at(move[1])); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
						t.Error(err)
						return
					}
				}
			}
		}
	})
	defer func() { close(stop); swapping.Wait() }()
	written := 0
	for i := range 200 {
		if got := w.said("read_file", args{"path": "there/file"}); strings.Contains(got, "secret") {
			t.Fatalf("read: %s", got)
		}
		got := w.said("write_file", args{"path": "there/file", "content": fmt.Sprintf("inside %d\n", i)})
		if strings.Contains(got, "secret") {
			t.Fatalf("written over: %s", got)
		}
		if strings.HasPrefix(got, "there/file: ") {
			written++
		}
		if got := w.said("write_file", args{"path": "there/new/file", "content": "x"}); strings.Contains(got, "secret") {
			t.Fatal(got)
		}
		if w.has("../out/file") != "secret\n" || w.has("../out/new/file") != "" {
			t.Fatal("a file outside was changed")
		}
	}
	if written == 0 {
		t.Error("nothing was ever written")
	}
}

// A pipe that has the name of a file keeps nobody waiting.
func TestNotRegular(t *testing.T) {
	w := newWorld(t, nil)
	if err := syscall.Mkfifo(filepath.Join(w.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for tool, a := range map[string]args{"read_file": {"path": "pipe"}, "write_file": {"path": "pipe", "content": "x"},
		"search_files": {"path": "pipe", "pattern": "x"}, "edit_file": {"path": "pipe", "old_text": "a", "new_text": "b"}} {
		if got := w.said(tool, a); got != "error: pipe: is not a regular file" {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if got := w.said("search_files", args{"pattern": "x"}); got != "[nothing matches in 0 files]" {
		t.Error(got)
	}
}
