package explore

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// root is the module's folder.
var root = filepath.Join("..", "..")

// chosen is the environment's variable that names the mutant to be.
const chosen = "EXPLORE_MUTANT"

// plant writes the engine with every mutant in it into dir, and the list of its files that the
// compiler takes: one build serves all. Each function that a mutant changes is there once more as
// that mutant has it, and the function itself goes on there where the mutant is chosen.
func plant(list []mutant, dir string) (overlay string, err error) {
	sources := map[string]*source{}
	for i, m := range list {
		changed := map[string]string{}
		for _, e := range m.edits {
			if sources[e.file] == nil {
				if sources[e.file], err = read(e.file); err != nil {
					return "", err
				}
			}
			if _, ok := changed[e.file]; !ok {
				changed[e.file] = sources[e.file].text
			}
			if n := strings.Count(changed[e.file], e.old); n != 1 {
				return "", fmt.Errorf("%s has %q %d times, want once", e.file, e.old, n)
			}
			changed[e.file] = strings.Replace(changed[e.file], e.old, e.new, 1)
		}
		for file, text := range changed {
			if err := sources[file].add(text, m, fmt.Sprint("planted", i)); err != nil {
				return "", fmt.Errorf("%s, %s: %w", m.name, file, err)
			}
		}
	}
	replace := map[string]string{}
	put := func(file, text string) error {
		path, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(file)))
		if _, done := replace[path]; err != nil || done {
			return err
		}
		replace[path] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		return os.WriteFile(replace[path], []byte(text), 0o600)
	}
	for file, s := range sources {
		if err := put(file, s.planted()); err != nil {
			return "", err
		}
		which := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar planted = os.Getenv(%q)\n", s.tree.Name, chosen)
		if err := put(filepath.ToSlash(filepath.Join(filepath.Dir(file), "planted.go")), which); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// source is a file of the engine.
type source struct {
	text  string
	tree  *ast.File // its positions are offsets, from 1
	calls map[token.Pos]string
	more  []string // functions as mutants have them
}

func read(file string) (*source, error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return nil, err
	}
	tree, err := parser.ParseFile(token.NewFileSet(), "", b, parser.SkipObjectResolution)
	return &source{text: string(b), tree: tree, calls: map[token.Pos]string{}}, err
}

// add adds the functions in which a changed text differs, under names of their own.
func (s *source) add(text string, m mutant, suffix string) error {
	tree, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if len(tree.Decls) != len(s.tree.Decls) {
		return fmt.Errorf("it declares another thing")
	}
	for i, was := range s.tree.Decls {
		now := tree.Decls[i]
		old, changed := s.text[was.Pos()-1:was.End()-1], text[now.Pos()-1:now.End()-1]
		if old == changed {
			continue
		}
		f, ok := now.(*ast.FuncDecl)
		if !ok {
			return fmt.Errorf("it changes what is no function: %s", old)
		}
		name := f.Name.Name + suffix
		s.more = append(s.more, text[f.Pos()-1:f.Name.Pos()-1]+name+text[f.Name.End()-1:f.End()-1])
		call := name
		if f.Recv != nil {
			call = f.Recv.List[0].Names[0].Name + "." + name
		}
		call += "(" + arguments(f.Type.Params) + ")"
		if f.Type.Results != nil {
			call = "return " + call
		}
		s.calls[was.(*ast.FuncDecl).Body.Lbrace] += fmt.Sprintf("\nif planted == %q {\n%s\n}", m.name, call)
	}
	return nil
}

// arguments hands parameters on.
func arguments(params *ast.FieldList) string {
	var names []string
	for _, p := range params.List {
		for _, n := range p.Names {
			names = append(names, n.Name)
			if _, ok := p.Type.(*ast.Ellipsis); ok {
				names[len(names)-1] += "..."
			}
		}
	}
	return strings.Join(names, ", ")
}

// planted is the text with the mutants' functions in it.
func (s *source) planted() string {
	var b strings.Builder
	at := 0
	var places []token.Pos
	for p := range s.calls {
		places = append(places, p)
	}
	slices.Sort(places)
	for _, p := range places {
		b.WriteString(s.text[at:p])
		b.WriteString(s.calls[p])
		at = int(p)
	}
	b.WriteString(s.text[at:])
	for _, f := range s.more {
		b.WriteString("\n" + f + "\n")
	}
	return b.String()
}
