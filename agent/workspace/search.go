package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

const (
	searchDoc = "Searches the text files of the workspace, line by line, with a regular expression (RE2). " +
		"A matching line is shown as path:number:line, the lines around it as path-number-line. At most 200 matches are shown."
	searchSchema = `{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{
"pattern":{"type":"string","minLength":1,"description":"the regular expression; (?i) before it ignores case"},
"path":{"type":"string","description":"the folder or file to search; the whole workspace if it is missing"},
"glob":{"type":"string","description":"search only files that match: *.go anywhere, cmd/**/*_test.go from the workspace's folder on, *.{ts,tsx}"},
"context":{"type":"integer","minimum":0,"maximum":20,"description":"lines to show before and after each match"}}}`
)

const (
	maxMatches = 200
	maxContext = 20
	maxShown   = 400 // bytes of one line
	searchTime = 30 * time.Second
)

type searchArguments struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	Glob    string `json:"glob"`
	Context int    `json:"context"`
}

var errLate = errors.New("the search took too long")

func (w *Workspace) search(ctx context.Context, a searchArguments, report func(agent.Progress)) ([]llm.Part, error) {
	re, err := regexp.Compile(a.Pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	match, err := glob(a.Glob)
	if err != nil {
		return nil, err
	}
	top, err := w.real(a.Path)
	if err != nil {
		return nil, err
	}
	info, err := w.root.Stat(top)
	if err != nil {
		return nil, failed(top, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, searchTime, errLate)
	defer cancel()
	s := &finder{re: re, around: min(max(a.Context, 0), maxContext)}
	files, unread := 0, skipped{}
	look := func(name string) error {
		if files++; files%500 == 0 {
			report(agent.Progress{Done: float64(files), Text: fmt.Sprintf("%d files", files)})
		}
		return w.find(ctx, s, name)
	}
	if !info.IsDir() {
		err = look(top)
	} else {
		err = w.walk(ctx, top, &unread, func(name string, e fs.DirEntry) bool {
			if e.Type().IsRegular() && match(name) {
				if err := look(name); ctx.Err() == nil {
					unread.add(err)
				}
			}
			return !s.full && ctx.Err() == nil
		})
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	notes := unread.notes()
	switch {
	case errors.Is(err, errLate):
		notes = append(notes, note("the search ended after %s and %d files; there may be more: name a folder, or a glob", searchTime, files))
	case err != nil:
		return nil, err
	}
	if s.full {
		notes = append(notes, note("there is more than these %d matches: narrow the search down", s.found))
	}
	if s.found == 0 {
		return append([]llm.Part{note("nothing matches in %d files", files)}, notes...), nil
	}
	return append([]llm.Part{llm.Text(s.out.String())}, notes...), nil
}

// find looks through one file. One that is not text has no lines.
func (w *Workspace) find(ctx context.Context, s *finder, name string) (err error) {
	f, _, err := w.open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, maxBytes)
	head, err := r.Peek(sniffed)
	if err != nil && err != io.EOF {
		return failed(name, err)
	}
	if binary(head) {
		return nil
	}
	if err := s.file(ctx, name, r); err != nil {
		return failed(name, err)
	}
	return nil
}

// finder collects matches.
type finder struct {
	re     *regexp.Regexp
	around int // lines of context
	out    strings.Builder
	found  int
	full   bool // no more has room
}

// file adds the matches of one file. Of a line that is longer than the reader's buffer only that
// much is looked at.
func (s *finder) file(ctx context.Context, name string, r *bufio.Reader) error {
	var before []string // that are not shown yet
	shown, after := 0, 0
	show := func(n int, mark byte, line string) {
		if shown != 0 && n != shown+1 && s.around > 0 {
			s.out.WriteString("--\n")
		}
		fmt.Fprintf(&s.out, "%s%c%d%c%s\n", name, mark, n, mark, line)
		shown = n
	}
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			line = bytes.TrimRight(line, "\r\n")
			at := s.re.FindIndex(line)
			switch {
			case at != nil && (s.found == maxMatches || s.out.Len() > maxBytes):
				s.full = true
				return nil
			case at != nil:
				for i, l := range before {
					show(n-len(before)+i, '-', l)
				}
				show(n, ':', window(line, at[0]))
				s.found++
				before, after = before[:0], s.around
			case after > 0:
				show(n, '-', window(line, 0))
				after--
			case s.around > 0:
				before = append(before[max(0, len(before)+1-s.around):], window(line, 0))
			}
		}
		for err == bufio.ErrBufferFull {
			_, err = r.ReadSlice('\n')
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// window is what is shown of a line: its beginning, or what is around a place further on.
func window(line []byte, at int) string {
	if len(line) <= maxShown {
		return valid(line)
	}
	from := max(0, min(at-maxShown/4, len(line)-maxShown))
	text := valid(line[from:from+maxShown]) + "…"
	if from > 0 {
		text = "…" + text
	}
	return text
}
