package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

const (
	readDoc = "Reads a file of the workspace: a text file's lines as they are, or an image. " +
		"A long file is cut off after 2000 lines or 64 KiB, with the line to go on from."
	readSchema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string","minLength":1,"description":"the file, from the workspace's folder on"},
"start_line":{"type":"integer","minimum":1,"description":"the first line to read; 1 if it is missing"},
"end_line":{"type":"integer","minimum":1,"description":"the last line to read; the end of the file if it is missing"}}}`
)

const (
	maxLines = 2000
	maxImage = 5 << 20 // bytes
)

type readArguments struct {
	Path  string `json:"path"`
	First int    `json:"start_line"`
	Last  int    `json:"end_line"`
}

func (w *Workspace) read(ctx context.Context, a readArguments, _ func(agent.Progress)) (parts []llm.Part, err error) {
	first := max(a.First, 1)
	if a.Last != 0 && a.Last < first {
		return nil, errors.New("end_line is before start_line")
	}
	name, err := w.real(a.Path)
	if err != nil {
		return nil, err
	}
	f, info, err := w.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, maxBytes)
	head, err := r.Peek(sniffed)
	if err != nil && err != io.EOF {
		return nil, failed(name, err)
	}
	switch kind := http.DetectContentType(head); {
	case slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind):
		return image(name, kind, r, info.Size())
	case binary(head):
		return nil, fmt.Errorf("%s: is not text but %s, of %d bytes", name, kind, info.Size())
	case len(head) == 0:
		return []llm.Part{note("the file is empty")}, nil
	}
	text, next, err := lines(ctx, r, first, a.Last)
	if err != nil {
		return nil, failed(name, err)
	}
	parts = []llm.Part{llm.Text(valid(text))}
	switch {
	case next != 0 && text[len(text)-1] != '\n':
		parts = append(parts, note("line %d is longer than what is shown of it; go on with start_line %d", next-1, next))
	case next != 0:
		parts = append(parts, note("there is more; go on with start_line %d", next))
	}
	return parts, nil
}

// lines reads the lines from first to last, 0 being the end. next is the first one that was left
// out because there is no room for it; 0: none. A line that alone has no room is cut.
func lines(ctx context.Context, r *bufio.Reader, first, last int) (text []byte, next int, err error) {
	for n := 1; last == 0 || n <= last; n++ {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		line, err := r.ReadSlice('\n') // at most maxBytes
		if n >= first {
			if n-first >= maxLines && len(line) > 0 || len(text) > 0 && len(text)+len(line) > maxBytes {
				return text, n, nil
			}
			text = append(text, line...)
			if err == bufio.ErrBufferFull {
				return text, n + 1, nil
			}
		}
		for err == bufio.ErrBufferFull {
			_, err = r.ReadSlice('\n')
		}
		switch {
		case err == io.EOF && len(line) == 0 && n <= first:
			return nil, 0, fmt.Errorf("has only %d lines", n-1)
		case err == io.EOF && n < first:
			return nil, 0, fmt.Errorf("has only %d lines", n)
		case err == io.EOF:
			return text, 0, nil
		case err != nil:
			return nil, 0, err
		}
	}
	return text, 0, nil
}

func image(name, kind string, r io.Reader, size int64) ([]llm.Part, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxImage+1))
	switch {
	case err != nil:
		return nil, failed(name, err)
	case len(data) > maxImage:
		return nil, fmt.Errorf("%s: is an image of %d bytes; at most %d can be shown", name, size, maxImage)
	}
	return []llm.Part{{Kind: llm.PartImage, MediaType: kind, Data: data}}, nil
}

// whole reads a file that is to be changed. The name is a real one.
func (w *Workspace) whole(name string) (text []byte, info os.FileInfo, err error) {
	f, info, err := w.open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if text, err = io.ReadAll(io.LimitReader(f, maxEdit+1)); err != nil {
		return nil, nil, failed(name, err)
	}
	if len(text) > maxEdit {
		return nil, nil, fmt.Errorf("%s: has %d bytes; at most %d can be changed", name, info.Size(), maxEdit)
	}
	return text, info, nil
}
