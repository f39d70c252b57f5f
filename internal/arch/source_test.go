package arch

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/reprise-run/reprise"

var root = filepath.Join("..", "..")

// source is one Go file of the product's module.
type source struct {
	path string // from the root, with slashes
	pkg  string // its folder
	test bool
	ast  *ast.File
	set  *token.FileSet
}

func (s *source) at(n ast.Node) string {
	return s.path + ":" + strings.TrimPrefix(s.set.Position(n.Pos()).String(), s.set.Position(n.Pos()).Filename+":")
}

// imports lists what the file imports; packages of ours without the module's path.
func (s *source) imports() []string {
	var list []string
	for _, i := range s.ast.Imports {
		list = append(list, strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module+"/"))
	}
	return list
}

// walk calls f with every file below the root but those of nested modules' dependencies,
// generated bundles and hidden folders. nested says whether nested modules are walked too.
func walk(t *testing.T, nested bool, f func(rel string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !d.IsDir() {
			if d.Type().IsRegular() { // a link leads out of the tree
				f(rel)
			}
			return nil
		}
		name := d.Name()
		if rel != "." && (strings.HasPrefix(name, ".") && name != ".ci" || name == "node_modules" || name == "dist" || name == "bin") {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && rel != "." && !nested {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var parsed []*source // by sources

// sources parses every Go file of the module.
func sources(t *testing.T) []*source {
	t.Helper()
	if parsed != nil {
		return parsed
	}
	var all []*source
	walk(t, false, func(rel string) {
		if !strings.HasSuffix(rel, ".go") || strings.Contains(rel, "testdata/") {
			return
		}
		s := &source{path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), set: token.NewFileSet()}
		var err error
		s.ast, err = parser.ParseFile(s.set, filepath.Join(root, rel), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	})
	if len(all) < 50 {
		t.Fatalf("found %d files: the walk is wrong", len(all))
	}
	parsed = all
	return all
}

// requirements lists the modules that go.mod requires directly.
func requirements(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 2 && strings.HasPrefix(words[1], "v") {
			list = append(list, words[0])
		}
	}
	return list
}
