package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

const (
	listDoc = "Lists the files and folders of the workspace, or of a folder in it, and of all below it; .git is left out. " +
		"Where there are more than 1000, those nearest to the top are listed. Folders end in /."
	listSchema = `{"type":"object","additionalProperties":false,"properties":{
"path":{"type":"string","description":"the folder; the whole workspace if it is missing"},
"glob":{"type":"string","description":"list only what matches: *.go anywhere, cmd/**/*_test.go from the workspace's folder on, *.{ts,tsx}"}}}`
)

const maxEntries = 1000

type listArguments struct {
	Path string `json:"path"`
	Glob string `json:"glob"`
}

func (w *Workspace) list(ctx context.Context, a listArguments, _ func(agent.Progress)) ([]llm.Part, error) {
	match, err := glob(a.Glob)
	if err != nil {
		return nil, err
	}
	top, err := w.real(a.Path)
	if err != nil {
		return nil, err
	}
	var names []string
	var unread skipped
	more := false
	err = w.walk(ctx, top, &unread, func(name string, e fs.DirEntry) bool {
		if !match(name) {
			return true
		}
		if more = len(names) == maxEntries; more {
			return false
		}
		switch {
		case e.IsDir():
			name += "/"
		case e.Type()&fs.ModeSymlink != 0:
			if to, err := w.root.Readlink(name); err == nil { // else it is gone again
				name += " -> " + to
			}
		}
		names = append(names, name)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	parts := []llm.Part{llm.Text(strings.Join(names, "\n"))}
	if len(names) == 0 {
		parts[0] = note("nothing is there")
	}
	if more {
		parts = append(parts, note("there are more than these %d: name a folder, or a glob", maxEntries))
	}
	return append(parts, unread.notes()...), nil
}

// walk calls visit with all that is below a folder, what is nearer to it first, until visit returns
// false. Links are not followed, and .git is left out. What it cannot read it adds to unread.
func (w *Workspace) walk(ctx context.Context, top string, unread *skipped, visit func(name string, e fs.DirEntry) bool) error {
	for folders := []string{top}; len(folders) > 0; folders = folders[1:] {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		folder := folders[0]
		entries, err := w.entries(folder)
		if err != nil && folder == top {
			return err
		}
		unread.add(err)
		for _, e := range entries {
			if e.Name() == gitFolder {
				continue
			}
			name := path.Join(folder, e.Name())
			if !visit(name, e) {
				return nil
			}
			if e.IsDir() {
				folders = append(folders, name)
			}
		}
	}
	return nil
}

// skipped is what could not be read.
type skipped struct {
	first []string // of them, why
	n     int
}

// add notes an error, but for one of what was removed meanwhile.
func (s *skipped) add(err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	if s.n++; s.n <= 3 {
		s.first = append(s.first, err.Error())
	}
}

func (s *skipped) notes() []llm.Part {
	if s.n == 0 {
		return nil
	}
	return []llm.Part{note("%d could not be read, as %s", s.n, strings.Join(s.first, "; "))}
}

// entries lists one folder, by name.
func (w *Workspace) entries(folder string) ([]fs.DirEntry, error) {
	d, err := w.root.OpenFile(folder, directory, 0)
	if err != nil {
		return nil, failed(folder, err)
	}
	list, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, failed(folder, err)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}
