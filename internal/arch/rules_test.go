package arch

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageHasAComment(t *testing.T) {
	has := map[string]int{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		has[s.pkg] += 0
		if s.ast.Doc == nil {
			continue
		}
		has[s.pkg]++
		want := "Package " + s.ast.Name.Name + " "
		if s.ast.Name.Name == "main" {
			want = "Command " + path.Base(s.pkg) + " "
		}
		if !strings.HasPrefix(s.ast.Doc.Text(), want) {
			t.Errorf("%s: the comment does not begin with %q", s.path, want)
		}
	}
	for pkg, n := range has {
		if n != 1 {
			t.Errorf("package %s has %d comments, want one", pkg, n)
		}
	}
}

func TestPackagesHaveNamesThatSayWhatTheyAreFor(t *testing.T) {
	for pkg := range table {
		for _, name := range strings.Split(pkg, "/") {
			if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc", "shared", "base"}, name) {
				t.Errorf("package %s says nothing by its name", pkg)
			}
		}
	}
}

// A request leaves by Provider.Stream, which takes three arguments; only the gate calls it,
// and the suite that proves what providers do.
func TestOnlyTheGateSends(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.pkg == "llm/replay" || s.pkg == "llm/llmtest" {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 3 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Stream" {
				t.Errorf("%s: Stream is for llm/replay to call", s.at(sel))
			}
			return true
		})
	}
}

// What a package does at its start, it does behind its caller's back. The one exception is
// explained where it is.
func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && f.Name.Name == "init" && s.path != "internal/httpapi/errors.go" {
				t.Errorf("%s: an init function", s.at(f))
			}
		}
	}
}

// Time in tests is testing/synctest, or an event that is waited for; what a test needs and
// does not find is a failure.
func TestTestsNeitherSleepNorSkip(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch {
			case x.Name == "time" && sel.Sel.Name == "Sleep":
				t.Errorf("%s: time.Sleep", s.at(sel))
			case slices.Contains([]string{"t", "b", "tb"}, x.Name) && strings.HasPrefix(sel.Sel.Name, "Skip"):
				t.Errorf("%s: a test that skips", s.at(sel))
			}
			return true
		})
	}
}

// unfit finds unfinished work, and places that only one machine has. The patterns are written
// so that they do not find themselves.
var unfit = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b|(?i:\bfor no` + `w\b|not implemente` + `d\b)|` +
	`/(wor` + `k|tm` + `p|roo` + `t)/|\b(hom` + `e|User` + `s)/[a-z]+/`)

func TestTextsAreFinishedAndAtHomeEverywhere(t *testing.T) {
	kinds := []string{".go", ".md", ".ts", ".tsx", ".css", ".html", ".yaml", ".yml", ".sh", ".mod", ""}
	walk(t, true, func(rel string) {
		if !slices.Contains(kinds, path.Ext(rel)) || strings.Contains(rel, "testdata/") || rel == "LICENSE" {
			return
		}
		b, err := os.ReadFile(filepath.Join(root, rel))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(b), "\n") {
			if m := unfit.FindString(line); m != "" {
				t.Errorf("%s:%d: %q", rel, i+1, m)
			}
		}
	})
}
