package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestEdit(t *testing.T) {
	for name, c := range map[string]struct {
		before   string
		old, new string
		all      bool
		after    string // empty: as before
		want     string // is in what the model is told
	}{
		"one place":         {"a\nb\nc\n", "b", "B", false, "a\nB\nc\n", "f: replaced\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		"several lines":     {"a\nb\nc\nd\n", "b\nc", "x", false, "a\nx\nd\n", "-b\n-c\n+x\n"},
		"to nothing":        {"a\nb\n", "b\n", "", false, "a\n", "-b\n"},
		"no last line end":  {"a\nb", "b", "c", false, "a\nc", "-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"},
		"all":               {"x x\nx\n", "x", "y", true, "y y\ny\n", "f: replaced in 3 places\n"},
		"all of one":        {"x\n", "x", "y", true, "y\n", "f: replaced\n"},
		"not there":         {"a\n", "b", "c", false, "", "error: f: old_text is not in the file; it must be exactly as in the file"},
		"nearly there":      {"a\n\tif x {\n", "  if x {\n", "c", false, "", "old_text is not in the file, though line 2 is like its first one; it must be"},
		"not unique":        {"a\nb\na\n", "a", "c", false, "", "error: f: old_text is in the file more than once, at lines 1, 3; give more"},
		"over itself":       {"aaa\n", "aa", "b", false, "", "at lines 1, 1; give more"},
		"line ends":         {"\n\n\nx", "\n\n", "b", false, "", "at lines 1, 2; give more"},
		"often":             {"a\na\na\na\na\na\n", "a", "c", false, "", "at lines 1, 2, 3, 4, 5, …; give more"},
		"empty":             {"a\n", "", "c", false, "", "error: old_text is empty; write_file makes a new file"},
		"the same":          {"a\n", "a", "a", false, "", "error: old_text and new_text are the same"},
		"Windows":           {"a\r\nb\r\nc\r\n", "a\nb", "x\ny", false, "x\r\ny\r\nc\r\n", "-a\r\n-b\r\n+x\r\n+y\r\n"},
		"Windows, one line": {"a\r\nb\r\n", "a", "x\ny", false, "x\r\ny\r\nb\r\n", "+y\r\n"},
		"Windows, as it is": {"a\r\nb\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\n", "+y\r\n"},
		"one Windows line":  {"a\nb\r\nc\nd\n", "c\nd", "x\ny", false, "a\nb\r\nx\ny\n", "+y\n"},
		"other encoding":    {"caf\xe9\nb\n", "b", "c", false, "caf\xe9\nc\n", " caf\uFFFD\n-b\n+c\n"},
		"binary":            {"a\x00\nb\n", "b", "c", false, "", "error: f: is not text"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": c.before})
			got := w.said("edit_file", args{"path": "f", "old_text": c.old, "new_text": c.new, "replace_all": c.all})
			if !strings.Contains(got, c.want) {
				t.Errorf("%q\nwant %q", got, c.want)
			}
			if c.after == "" {
				c.after = c.before
			}
			if has := w.has("f"); has != c.after {
				t.Errorf("has %q, want %q", has, c.after)
			}
			w.alone("f")
		})
	}
}

// alone reports what is in the folder besides these.
func (w *world) alone(names ...string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(entries) != len(names) {
		w.t.Errorf("the folder has %v, want %v", entries, names)
	}
}

func TestWrite(t *testing.T) {
	w := newWorld(t, map[string]string{"old": "a\nb\n", "binary": "x\x00", "ro": "x"})
	for _, c := range []struct{ name, content, want string }{
		{"new", "a\n", "new: created\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n"},
		{"x/y/deep", "a\n", "x/y/deep: created\n"},
		{"old", "a\nc\n", "old: written\n--- a/old\n+++ b/old\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		{"old", "a\nc\n", "old: has this content already"},
		{"none", "", "none: created"},
		{"binary", "text\n", "binary: written"},
		{"old/x", "a", "error: old/x: not a directory"},
		{"x", "a", "error: x: is a folder, not a file"},
		{"large", strings.Repeat("x", maxEdit+1), "error: content has 8388609 bytes; at most 8388608 can be written"},
	} {
		got := w.said("write_file", args{"path": c.name, "content": c.content})
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q\nwant %q", c.name, got, c.want)
		}
		if !strings.HasPrefix(got, "error") && w.has(c.name) != c.content {
			t.Errorf("%s has %q", c.name, w.has(c.name))
		}
	}
	if got := w.said("write_file", args{"path": "old"}); got != "error: content is missing" {
		t.Error(got)
	}
	w.alone("new", "x", "old", "none", "binary", "ro")
}

// A diff is a part of its own that says so, and bounded.
func TestDiff(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	parts, err := w.call(t.Context(), "write_file", args{"path": "f", "content": "b\n"})
	if err != nil || len(parts) != 2 || parts[0].MediaType != "" || parts[1].MediaType != "text/x-diff" {
		t.Errorf("%+v %v", parts, err)
	}
	parts, err = w.call(t.Context(), "write_file", args{"path": "f", "content": strings.Repeat("a line of thirty-two characters\n", 4000)})
	if err != nil || len(parts) != 3 || len(parts[1].Text) > maxBytes || !strings.HasSuffix(parts[1].Text, "\n") ||
		!strings.HasPrefix(parts[2].Text, "[the diff goes on for ") {
		t.Errorf("%d parts, %v", len(parts), err)
	}
}

// What git's own patch makes of a diff is what the tool has made of the file.
func TestDiffsCanBeApplied(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var b strings.Builder
		for range random.IntN(30) {
			fmt.Fprintf(&b, "%d\n", random.IntN(6))
		}
		return b.String() + []string{"", "end"}[random.IntN(2)]
	}
	for i := range 40 {
		before, after := text(), text()
		w := newWorld(t, map[string]string{"f": before})
		parts, err := w.call(t.Context(), "write_file", args{"path": "f", "content": after})
		if err != nil {
			t.Fatal(err)
		}
		if before == after {
			continue
		}
		w.file("f", before)
		git := exec.Command("git", "apply", "--unidiff-zero", "-")
		git.Dir, git.Stdin = w.dir, strings.NewReader(parts[1].Text)
		if out, err := git.CombinedOutput(); err != nil || w.has("f") != after {
			t.Fatalf("%d: %v %s\n%s", i, err, out, parts[1].Text)
		}
	}
}

func TestPermissionsStay(t *testing.T) {
	w := newWorld(t, map[string]string{"run": "a\n", "secret": "a\n", "locked": "a\n"})
	modes := map[string]fs.FileMode{"run": 0o755, "secret": 0o600, "locked": 0o444}
	for name, mode := range modes {
		if err := os.Chmod(filepath.Join(w.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range modes {
		got := w.said("edit_file", args{"path": name, "old_text": "a", "new_text": "b"})
		if name == "locked" != (got == "error: locked: may only be read") {
			t.Errorf("%s: %s", name, got)
		}
		if info, err := os.Stat(filepath.Join(w.dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// What git keeps is what it runs, and is not written, under no name.
func TestGitsOwnFiles(t *testing.T) {
	w := newWorld(t, map[string]string{".git/config": "a\n", "sub/.git": "a\n", ".gitignore": "a\n"})
	w.link("hooks", ".git")
	for _, name := range []string{".git/config", ".git/hooks/pre-commit", "sub/.git", ".GIT/config", "hooks/config", "hooks/new", "x/../.git/config"} {
		if got := w.said("write_file", args{"path": name, "content": "x"}); !strings.HasSuffix(got, "what git keeps for itself is not changed") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := w.said("edit_file", args{"path": ".gitignore", "old_text": "a", "new_text": "b"}); !strings.HasPrefix(got, ".gitignore: replaced") {
		t.Error(got)
	}
	if got := w.said("read_file", args{"path": "hooks/config"}); got != "a\n" {
		t.Error(got)
	}
}

// A file that somebody else has changed, replaced, removed or made since it was read stays as
// they left it.
func TestChangedMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world, at string) error{
		"written":     func(w *world, at string) error { return os.WriteFile(at, []byte("aX"), 0o644) },
		"same length": func(w *world, at string) error { return os.WriteFile(at, []byte("X\n"), 0o644) },
		"replaced": func(w *world, at string) error {
			return errors.Join(os.WriteFile(at+"2", []byte("a\n"), 0o644), os.Rename(at+"2", at))
		},
		"removed": func(w *world, at string) error { return os.Remove(at) },
		"a link":  func(w *world, at string) error { return errors.Join(os.Remove(at), os.Symlink("other", at)) },
		"made":    func(w *world, at string) error { return os.WriteFile(filepath.Join(w.dir, "new"), []byte("X"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": "a\n", "other": "a\n"})
			of := map[bool]string{true: "new", false: "f"}[name == "made"]
			c, err := w.begin(of)
			if err != nil {
				t.Fatal(err)
			}
			if err := meanwhile(w, filepath.Join(w.dir, "f")); err != nil {
				t.Fatal(err)
			}
			left := w.has(of)
			if err := w.replace(t.Context(), c, []byte("mine")); !errors.Is(err, errChanged) {
				t.Errorf("%v", err)
			}
			if has := w.has(of); has != left || w.has("other") != "a\n" {
				t.Errorf("has %q, was %q", has, left)
			}
			if found, err := filepath.Glob(filepath.Join(w.dir, ".reprise-*")); err != nil || len(found) > 0 {
				t.Errorf("%v is left, %v", found, err)
			}
		})
	}
}

// Edits beside each other are all made, or say that they are not.
func TestEditsBesideEachOther(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "start\n"})
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 40 {
		wg.Go(func() {
			got := w.said("edit_file", args{"path": "f", "old_text": "start\n", "new_text": fmt.Sprintf("start\nby %d\n", i)})
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(got, "f: replaced") {
				done++
			} else if !strings.HasSuffix(got, errChanged.Error()) {
				t.Error(got)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(w.has("f"), "by "); n != done || done == 0 {
		t.Errorf("%d edits are in the file, %d said so", n, done)
	}
	w.alone("f")
}

func TestCancelledChange(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	w.commit <- struct{}{} // another one is going on
	_, err := w.call(ctx, "write_file", args{"path": "f", "content": "b"})
	if <-w.commit; !errors.Is(err, stop) || w.has("f") != "a\n" {
		t.Errorf("%v, has %q", err, w.has("f"))
	}
	w.alone("f")
}
