package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
)

// numbered has so many lines.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

func TestRead(t *testing.T) {
	long := strings.Repeat("x", maxBytes)
	w := newWorld(t, map[string]string{
		"five": numbered(5), "open": "a\nb", "empty": "", "crlf": "a\r\nb\r\n", "many": numbered(maxLines + 5),
		"wide": strings.Repeat(strings.Repeat("w", 999)+"\n", 100), "long": "first\n" + long + "yz\nlast\n", "longest": long + long + "z",
		"binary": "abc\x00def", "latin": "caf\xe9\n", "big.png": png + strings.Repeat("x", maxImage), "folder/x": "",
	})
	for _, c := range []struct {
		name string
		args args
		want string
	}{
		{"five", nil, numbered(5)},
		{"five", args{"start_line": 2, "end_line": 3}, "line 2\nline 3\n"},
		{"five", args{"start_line": 5}, "line 5\n"},
		{"five", args{"end_line": 99}, numbered(5)},
		{"five", args{"start_line": 6}, "error: five: has only 5 lines"},
		{"five", args{"start_line": 99}, "error: five: has only 5 lines"},
		{"five", args{"start_line": 3, "end_line": 2}, "error: end_line is before start_line"},
		{"open", nil, "a\nb"},
		{"open", args{"start_line": 2}, "b"},
		{"open", args{"start_line": 3}, "error: open: has only 2 lines"},
		{"empty", nil, "[the file is empty]"},
		{"crlf", nil, "a\r\nb\r\n"},
		{"many", nil, numbered(maxLines) + fmt.Sprintf("\n[there is more; go on with start_line %d]", maxLines+1)},
		{"many", args{"start_line": maxLines + 1}, strings.TrimPrefix(numbered(maxLines+5), numbered(maxLines))},
		{"many", args{"end_line": maxLines}, numbered(maxLines)},
		{"wide", nil, strings.Repeat(strings.Repeat("w", 999)+"\n", 65) + "\n[there is more; go on with start_line 66]"},
		{"long", nil, "first\n\n[there is more; go on with start_line 2]"},
		{"long", args{"start_line": 2}, long + "\n[line 2 is longer than what is shown of it; go on with start_line 3]"},
		{"long", args{"start_line": 3}, "last\n"},
		{"longest", args{"start_line": 2}, "error: longest: has only 1 lines"},
		{"binary", nil, "error: binary: is not text but application/octet-stream, of 7 bytes"},
		{"latin", nil, "caf\uFFFD\n"},
		{"big.png", nil, fmt.Sprintf("error: big.png: is an image of %d bytes; at most %d can be shown", maxImage+len(png), maxImage)},
		{"folder", nil, "error: folder: is a folder, not a file"},
		{"none", nil, "error: none: no such file or directory"},
		{"five/x", nil, "error: five/x: not a directory"},
	} {
		a := args{"path": c.name}
		for k, v := range c.args {
			a[k] = v
		}
		if got := w.said("read_file", a); got != c.want {
			t.Errorf("%s %v: %.300q\nwant %.300q", c.name, c.args, got, c.want)
		}
	}
}

func TestReadImage(t *testing.T) {
	w := newWorld(t, map[string]string{"picture": png + "rest"})
	parts, err := w.call(t.Context(), "read_file", args{"path": "picture"})
	if err != nil || len(parts) != 1 || parts[0].Kind != llm.PartImage || parts[0].MediaType != "image/png" || string(parts[0].Data) != png+"rest" {
		t.Errorf("%+v %v", parts, err)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t, map[string]string{"b.go": "", "a/c.go": "", "a/deep/d_test.go": "", "a/e.txt": "", ".git/config": "", "a/.git": "",
		"empty/": "", ".hidden": ""})
	w.link("link", "a")
	for _, c := range []struct {
		args args
		want string
	}{
		{args{}, ".hidden a/ a/c.go a/deep/ a/deep/d_test.go a/e.txt b.go empty/ link -> a"},
		{args{"path": "a"}, "a/c.go a/deep/ a/deep/d_test.go a/e.txt"},
		{args{"path": "link"}, "a/c.go a/deep/ a/deep/d_test.go a/e.txt"},
		{args{"glob": "*.go"}, "a/c.go a/deep/d_test.go b.go"},
		{args{"glob": "a/**/*.go"}, "a/c.go a/deep/d_test.go"},
		{args{"glob": "./*.go"}, "b.go"},
		{args{"glob": "*.{txt,md}"}, "a/e.txt"},
		{args{"path": "empty"}, "[nothing is there]"},
		{args{"path": "none"}, "error: none: no such file or directory"},
		{args{"path": "b.go"}, "error: b.go: not a directory"},
		{args{"glob": "["}, `error: glob "[": a [ is not closed`},
	} {
		got := w.said("list_files", c.args)
		if !strings.HasPrefix(got, "error") && !strings.HasPrefix(got, "[") {
			got = strings.ReplaceAll(got, "\n", " ")
		}
		if got != c.want {
			t.Errorf("%v: %s\nwant %s", c.args, got, c.want)
		}
	}
}

// Of too many, the nearest are listed, and it is said.
func TestListIsBounded(t *testing.T) {
	files := map[string]string{"z/near": "", "last": ""}
	for i := range maxEntries + 50 {
		files[fmt.Sprintf("a/b/%04d", i)] = ""
	}
	got := newWorld(t, files).said("list_files", args{})
	if !strings.Contains(got, "\nlast\n") || !strings.Contains(got, "\nz/near\n") || !strings.HasSuffix(got, "[there are more than these 1000: name a folder, or a glob]") {
		t.Errorf("%.100s … %s", got, got[len(got)-100:])
	}
	if n := strings.Count(got, "\n"); n != maxEntries {
		t.Errorf("%d entries", n)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, yes, no string
	}{
		{"*.go", "a.go x/y/a.go .go", "a.goo go"},
		{"a?c", "abc x/abc aéc", "ac abbc"},
		{"src/*.go", "src/a.go", "src/x/a.go x/src/a.go"},
		{"/a.go", "a.go", "x/a.go"},
		{"**/a", "a x/a x/y/a", "ab x/ba"},
		{"a/**", "a/b a/b/c", "a b/a"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "ab a/xb"},
		{"[a-c]x", "ax cx", "dx"},
		{"[!a]x", "bx", "ax"},
		{`[[]\*`, "[*", "[x"},
		{"{a,b{c,d}}.x", "a.x bc.x bd.x", "b.x c.x"},
		{"a.b+(c)", "a.b+(c)", "axb+(c)"},
		{"a,b}", "a,b}", "a"},
		{"é*", "été", "ete"},
		{"", "a b/c", ""},
	} {
		match, err := glob(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, name := range strings.Fields(c.yes) {
			if !match(name) {
				t.Errorf("%s does not match %s", c.pattern, name)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if match(name) {
				t.Errorf("%s matches %s", c.pattern, name)
			}
		}
	}
	for _, bad := range []string{"[", "[]", "{a", "[z-a]"} {
		if _, err := glob(bad); err == nil {
			t.Errorf("%s is a glob", bad)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a/**/{b,c}[!d]?", "a/x/be1")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if match, err := glob(pattern); err == nil {
			match(name)
		}
	})
}

func TestSearch(t *testing.T) {
	w := newWorld(t, map[string]string{
		"a.go":   "package a\n\nfunc One() {}\n\n\n\n\nfunc Two() {}\nfunc Three() {}\n",
		"b/c.go": "func Four() {}", "b/d.txt": "func Five\r\n", "binary": "func\x00", ".git/x": "func Six",
		"wide": strings.Repeat("x", 1000) + "needle" + strings.Repeat("y", 1000),
	})
	for _, c := range []struct {
		args args
		want string
	}{
		{args{"pattern": "^func"}, "a.go:3:func One() {}\na.go:8:func Two() {}\na.go:9:func Three() {}\nb/c.go:1:func Four() {}\nb/d.txt:1:func Five\n"},
		{args{"pattern": "^func", "glob": "*.txt"}, "b/d.txt:1:func Five\n"},
		{args{"pattern": "(?i)FIVE$", "path": "b"}, "b/d.txt:1:func Five\n"},
		{args{"pattern": "Four", "path": "b/c.go"}, "b/c.go:1:func Four() {}\n"},
		{args{"pattern": "One|Two", "context": 1}, "a.go-2-\na.go:3:func One() {}\na.go-4-\n--\na.go-7-\na.go:8:func Two() {}\na.go-9-func Three() {}\n"},
		{args{"pattern": "One|Two", "context": 2}, "a.go-1-package a\na.go-2-\na.go:3:func One() {}\na.go-4-\na.go-5-\na.go-6-\na.go-7-\na.go:8:func Two() {}\na.go-9-func Three() {}\n"},
		{args{"pattern": "Two|Three", "context": 3}, "a.go-5-\na.go-6-\na.go-7-\na.go:8:func Two() {}\na.go:9:func Three() {}\n"},
		{args{"pattern": "needle"}, "wide:1:…" + strings.Repeat("x", 100) + "needle" + strings.Repeat("y", 294) + "…\n"},
		{args{"pattern": "Six"}, "[nothing matches in 5 files]"},
		{args{"pattern": "x", "path": "none"}, "error: none: no such file or directory"},
		{args{"pattern": "("}, "error: pattern: error parsing regexp: missing closing ): `(`"},
	} {
		if got := w.said("search_files", c.args); got != c.want {
			t.Errorf("%v: %q\nwant %q", c.args, got, c.want)
		}
	}
}

func TestSearchIsBounded(t *testing.T) {
	w := newWorld(t, map[string]string{"a": strings.Repeat("hit\n", maxMatches), "b": "hit\n", "wide/c": strings.Repeat(strings.Repeat("w", 2000)+"\n", maxMatches)})
	if got := w.said("search_files", args{"pattern": "hit", "glob": "a"}); strings.Count(got, "hit") != maxMatches || strings.Contains(got, "[") {
		t.Errorf("%d: %.200s", strings.Count(got, "hit"), got)
	}
	if got := w.said("search_files", args{"pattern": "hit"}); strings.Count(got, "hit") != maxMatches || !strings.HasSuffix(got, "[there is more than these 200 matches: narrow the search down]") {
		t.Errorf("%d: %.200s", strings.Count(got, "hit"), got)
	}
	if got := w.said("search_files", args{"pattern": "w", "context": 20, "path": "wide"}); len(got) > maxBytes+50*maxShown || !strings.Contains(got, "[there is more") {
		t.Errorf("%d bytes", len(got))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	for tool, a := range map[string]args{"search_files": {"pattern": "x"}, "list_files": {}, "read_file": {"path": "a"}} {
		if _, err := w.call(ctx, tool, a); !errors.Is(err, stop) {
			t.Errorf("%s: %v", tool, err)
		}
	}
}
