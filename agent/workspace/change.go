package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/reprise-run/reprise/llm"
)

const (
	maxEdit     = 8 << 20 // bytes of a file
	diffContext = 3       // lines
	// DiffType is the media type of a part that is a unified diff.
	DiffType = "text/x-diff"
)

// change is one of a file, from the reading of what it was.
type change struct {
	name   string // real
	exists bool
	before []byte
	info   fs.FileInfo // where it exists
}

var errChanged = errors.New("was changed by somebody else meanwhile; read it again")

// begin reads what is to be changed.
func (w *Workspace) begin(name string) (*change, error) {
	name, err := w.real(name)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, gitFolder) {
			return nil, fmt.Errorf("%s: what git keeps for itself is not changed", name)
		}
	}
	c := &change{name: name}
	c.before, c.info, err = w.whole(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, err
	case c.info.Mode().Perm()&0o200 == 0:
		return nil, failed(name, errors.New("may only be read"))
	}
	c.exists = true
	return c, nil
}

// apply changes the file and says so, with the diff.
func (w *Workspace) apply(ctx context.Context, c *change, done, after string) ([]llm.Part, error) {
	parts, err := c.diff(after)
	if err != nil {
		return nil, err
	}
	if err := w.replace(ctx, c, []byte(after)); err != nil {
		return nil, err
	}
	return append([]llm.Part{llm.Text(c.name + ": " + done)}, parts...), nil
}

// replace writes the file beside the old one and puts it in its place, if that is still as it was
// read. Between the last look and that moment another program could still change it; another
// change of this workspace cannot.
func (w *Workspace) replace(ctx context.Context, c *change, after []byte) (err error) {
	folder, base := path.Split(c.name)
	folder = cmp.Or(folder, ".")
	if !c.exists {
		if err := w.root.MkdirAll(path.Clean(folder), 0o777); err != nil {
			return failed(c.name, err)
		}
	}
	dir, err := w.root.OpenRoot(folder) // whatever its name leads to later
	if err != nil {
		return failed(c.name, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	temporary := ".reprise-" + rand.Text()
	if err := c.put(dir, temporary, after); err != nil {
		return errors.Join(failed(c.name, err), remove(dir, temporary))
	}
	select {
	case w.commit <- struct{}{}:
		defer func() { <-w.commit }()
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), remove(dir, temporary))
	}
	if err = c.unchanged(dir, base); err == nil {
		err = dir.Rename(temporary, base)
	}
	if err != nil {
		return errors.Join(failed(c.name, err), remove(dir, temporary))
	}
	return nil
}

// put writes a new file with the permissions of the one that it is for.
func (c *change) put(dir *os.Root, name string, content []byte) (err error) {
	perm := fs.FileMode(0o666) // as the umask has it
	if c.exists {
		perm = 0o600
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if c.exists {
		if err := f.Chmod(c.info.Mode().Perm()); err != nil {
			return err
		}
	}
	return f.Sync()
}

// unchanged looks whether the file is as it was read.
func (c *change) unchanged(dir *os.Root, base string) error {
	info, err := dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !c.exists:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil || !c.exists || !os.SameFile(info, c.info) || info.Size() != int64(len(c.before)):
		return errChanged
	}
	same, err := dir.ReadFile(base)
	if err == nil && !bytes.Equal(same, c.before) {
		err = errChanged
	}
	return err
}

// remove removes a file that may not be there.
func remove(dir *os.Root, name string) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// diff is what the change comes to; nothing where that is no text.
func (c *change) diff(after string) ([]llm.Part, error) {
	if binary(c.before) || binary([]byte(after[:min(len(after), sniffed)])) {
		return nil, nil
	}
	before := valid(c.before)
	after = valid([]byte(after))
	from := "a/" + c.name
	if !c.exists {
		from = "/dev/null"
	}
	diff, err := udiff.ToUnified(from, "b/"+c.name, before, udiff.Lines(before, after), diffContext)
	if err != nil {
		return nil, fmt.Errorf("%s: compare: %w", c.name, err)
	}
	if diff == "" {
		return nil, nil
	}
	left := 0
	if len(diff) > maxBytes {
		cut := strings.LastIndexByte(diff[:maxBytes], '\n') + 1
		left, diff = len(diff)-cut, diff[:cut]
	}
	parts := []llm.Part{{Kind: llm.PartText, MediaType: DiffType, Text: diff}}
	if left > 0 {
		parts = append(parts, note("the diff goes on for %d bytes", left))
	}
	return parts, nil
}
