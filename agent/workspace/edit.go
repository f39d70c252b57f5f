package workspace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

const (
	editDoc = "Replaces text in a file of the workspace, and returns the diff. old_text must be in the file exactly as it is given, " +
		"white space included, and only once, unless replace_all is set. Line endings are kept."
	editSchema = `{"type":"object","additionalProperties":false,"required":["path","old_text","new_text"],"properties":{
"path":{"type":"string","minLength":1,"description":"the file, from the workspace's folder on"},
"old_text":{"type":"string","minLength":1,"description":"what is replaced, with as many lines around it as make it unique"},
"new_text":{"type":"string","description":"what takes its place"},
"replace_all":{"type":"boolean","description":"replace every place where old_text is"}}}`

	writeDoc = "Writes a whole file of the workspace, and returns the diff. What was in it is lost, folders that are missing are made. " +
		"To change a part of a file, use edit_file."
	writeSchema = `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
"path":{"type":"string","minLength":1,"description":"the file, from the workspace's folder on"},
"content":{"type":"string","description":"all that is to be in it"}}}`
)

type editArguments struct {
	Path string `json:"path"`
	Old  string `json:"old_text"`
	New  string `json:"new_text"`
	All  bool   `json:"replace_all"`
}

func (w *Workspace) edit(ctx context.Context, a editArguments, _ func(agent.Progress)) ([]llm.Part, error) {
	switch a.Old {
	case "":
		return nil, errors.New("old_text is empty; write_file makes a new file")
	case a.New:
		return nil, errors.New("old_text and new_text are the same")
	}
	c, err := w.begin(a.Path)
	if err != nil {
		return nil, err
	}
	if !c.exists {
		return nil, fmt.Errorf("%s: there is no such file; write_file makes one", c.name)
	}
	if binary(c.before) {
		return nil, fmt.Errorf("%s: is not text", c.name)
	}
	after, n, err := replaced(string(c.before), a.Old, a.New, a.All)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	said := "replaced"
	if n > 1 {
		said = fmt.Sprintf("replaced in %d places", n)
	}
	return w.apply(ctx, c, said, after)
}

type writeArguments struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
}

func (w *Workspace) write(ctx context.Context, a writeArguments, _ func(agent.Progress)) ([]llm.Part, error) {
	if a.Content == nil {
		return nil, errors.New("content is missing")
	}
	if len(*a.Content) > maxEdit {
		return nil, fmt.Errorf("content has %d bytes; at most %d can be written", len(*a.Content), maxEdit)
	}
	c, err := w.begin(a.Path)
	if err != nil {
		return nil, err
	}
	if c.exists && string(c.before) == *a.Content {
		return []llm.Part{llm.Text(c.name + ": has this content already")}, nil
	}
	if !c.exists {
		return w.apply(ctx, c, "created", *a.Content)
	}
	return w.apply(ctx, c, "written", *a.Content)
}

// replaced puts new in the place of old, in one place or in all, and counts them. In a text whose
// lines end as on Windows, both are taken to be of such lines.
func replaced(text, old, new string, all bool) (string, int, error) {
	if crlf(text) {
		new = toCRLF(new)
		if !strings.Contains(text, old) {
			old = toCRLF(old)
		}
	}
	first := strings.Index(text, old)
	switch {
	case first < 0:
		return "", 0, errors.New("old_text is not in the file" + nearly(text, old) + "; it must be exactly as in the file")
	case all:
		return strings.ReplaceAll(text, old, new), strings.Count(text, old), nil
	case first != strings.LastIndex(text, old):
		return "", 0, fmt.Errorf("old_text is in the file more than once, at lines %s; give more of what is around the right one, or set replace_all", places(text, old))
	}
	return text[:first] + new + text[first+len(old):], 1, nil
}

// crlf reports whether most lines of a text end as on Windows.
func crlf(text string) bool {
	windows := strings.Count(text, "\r\n")
	return windows > 0 && windows*2 >= strings.Count(text, "\n")
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// places lists the lines at which old begins, the first few.
func places(text, old string) string {
	var lines []string
	for at, n := 0, 1; ; {
		i := strings.Index(text[at:], old)
		switch {
		case i < 0:
			return strings.Join(lines, ", ")
		case len(lines) == 5:
			return strings.Join(lines, ", ") + ", …"
		}
		n += strings.Count(text[at:at+i], "\n")
		lines = append(lines, strconv.Itoa(n))
		if old[0] == '\n' {
			n++
		}
		at += i + 1
	}
}

// nearly says where the text has the first line of old with other white space around it.
func nearly(text, old string) string {
	want, _, _ := strings.Cut(strings.TrimSpace(old), "\n")
	if want = strings.TrimSpace(want); want == "" {
		return ""
	}
	n := 0
	for line := range strings.Lines(text) {
		if n++; strings.TrimSpace(line) == want {
			return fmt.Sprintf(", though line %d is like its first one", n)
		}
	}
	return ""
}
