// Package workspace has the tools that work in one folder: they read, list and search its files,
// edit and write them, and run commands in it.
//
// It promises: whatever a model names and whatever changes meanwhile, no file outside of the
// folder is read or written, because each is reached through an os.Root; links that lead out of it
// are refused. A file changes as a whole or not at all, keeps its permissions, is not written over
// what somebody else wrote since it was read, and the result has the diff. Results are bounded and
// say what they leave out. It refuses to write where git keeps its own files.
//
// run_command is not confined: a command does what the user of this process may do, anywhere. It
// has a minimum of environment and a time limit, and its process group ends with it.
package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// Workspace is a folder whose files a model may work with. It is safe for concurrent use.
type Workspace struct {
	dir     string // absolute, without links
	root    *os.Root
	environ []string
	commit  chan struct{} // holds one token: of two changes one goes first
}

// Open opens the folder. Of environ, as os.Environ has it, commands see what they need to work at
// all and nothing else.
func Open(dir string, environ []string) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	return &Workspace{dir: abs, root: root, environ: minimal(environ), commit: make(chan struct{}, 1)}, nil
}

// Close closes the folder. Its tools fail from then on.
func (w *Workspace) Close() error { return w.root.Close() }

// Tools are read_file, list_files, search_files, edit_file, write_file and run_command.
func (w *Workspace) Tools() []agent.Tool {
	reads, changes := agent.Traits{Parallel: true}, agent.Traits{Effect: true}
	return []agent.Tool{
		define("read_file", readDoc, readSchema, reads, w.read),
		define("list_files", listDoc, listSchema, reads, w.list),
		define("search_files", searchDoc, searchSchema, reads, w.search),
		define("edit_file", editDoc, editSchema, changes, w.edit),
		define("write_file", writeDoc, writeSchema, changes, w.write),
		define("run_command", commandDoc, commandSchema, changes, w.command),
	}
}

type tool struct {
	spec   llm.Tool
	traits agent.Traits
	run    func(context.Context, json.RawMessage, func(agent.Progress)) ([]llm.Part, error)
}

func (t *tool) Spec() llm.Tool       { return t.spec }
func (t *tool) Traits() agent.Traits { return t.traits }

func (t *tool) Run(ctx context.Context, arguments json.RawMessage, report func(agent.Progress)) ([]llm.Part, error) {
	return t.run(ctx, arguments, report)
}

// define makes a tool of a function whose arguments are an A.
func define[A any](name, doc, schema string, traits agent.Traits, run func(context.Context, A, func(agent.Progress)) ([]llm.Part, error)) agent.Tool {
	return &tool{llm.Tool{Name: name, Description: doc, Schema: json.RawMessage(schema)}, traits,
		func(ctx context.Context, arguments json.RawMessage, report func(agent.Progress)) ([]llm.Part, error) {
			var a A
			strict := json.NewDecoder(bytes.NewReader(arguments))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&a); err != nil {
				return nil, fmt.Errorf("the arguments: %w", err)
			}
			return run(ctx, a, report)
		}}
}

var errOutside = errors.New("leads out of the workspace")

// maxLinks bounds how many links lead to one file, as Linux does.
const maxLinks = 40

// real is where a name leads to, from the folder on, with every link on the way followed. What
// comes after the last thing that is there need not be. A name may be absolute, within the folder.
func (w *Workspace) real(name string) (string, error) {
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(w.dir, name)
		if err != nil {
			return "", failed(name, errOutside)
		}
		name = rel
	}
	var done []string
	links := 0
	for todo := strings.Split(filepath.ToSlash(name), "/"); len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", failed(name, errOutside)
			}
			done = done[:len(done)-1]
			continue
		}
		next := append(slices.Clone(done), part)
		info, err := w.root.Lstat(path.Join(next...))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", failed(name, err)
		case err != nil || info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		to, err := w.root.Readlink(path.Join(next...))
		if links++; err == nil && links > maxLinks {
			err = syscall.ELOOP
		}
		if err == nil && filepath.IsAbs(to) {
			err = errOutside
		}
		if err != nil {
			return "", failed(name, err)
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	return path.Join(append([]string{"."}, done...)...), nil
}

// open opens a regular file. The name is a real one.
func (w *Workspace) open(name string) (*os.File, fs.FileInfo, error) {
	// Nothing waits for the other end of a pipe that has the name of a file.
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, failed(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = errors.New("is a folder, not a file")
	case !info.Mode().IsRegular():
		err = errors.New("is not a regular file")
	default:
		return f, info, nil
	}
	return nil, nil, errors.Join(failed(name, err), f.Close())
}

// failed says what is wrong with a name, without the words of the system call.
func failed(name string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

const (
	directory = os.O_RDONLY | syscall.O_DIRECTORY
	gitFolder = ".git"
	sniffed   = 8000     // bytes in which git, too, looks for a zero byte
	maxBytes  = 64 << 10 // of a result
)

// binary reports whether a file that begins so is no text.
func binary(head []byte) bool { return bytes.IndexByte(head[:min(len(head), sniffed)], 0) >= 0 }

// valid is what a model can be told of bytes.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// note is a part that speaks of the result and is none of it.
func note(format string, args ...any) llm.Part {
	return llm.Text("[" + fmt.Sprintf(format, args...) + "]")
}
