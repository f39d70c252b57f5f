package retell_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/gemini"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
	"github.com/reprise-run/reprise/wire/messages"
	"github.com/reprise-run/reprise/wire/responses"
)

var servers = []wire.Server{chat.Codec{}, responses.Codec{}, messages.Codec{}, gemini.Codec{}}

// said is what an answer says, without what its dialect alone can: the thoughts, the text, the
// calls, why it ended and what it took.
func said(frames [][]llm.Event) string {
	var out llm.Output
	var text, thought strings.Builder
	for _, events := range frames {
		for i := range events {
			out.Add(&events[i])
		}
	}
	s := ""
	for _, p := range out.Parts() {
		switch p.Kind {
		case llm.PartText:
			text.WriteString(p.Text)
		case llm.PartThinking:
			thought.WriteString(strings.TrimSpace(p.Text))
		case llm.PartToolCall:
			if p.Cut {
				continue
			}
			var args any
			if json.Unmarshal([]byte(p.Arguments), &args) != nil {
				args = map[string]any{"arguments": p.Arguments}
			}
			s += fmt.Sprintf("%s %s %v\n", p.CallID, p.Name, args)
		}
	}
	usage := "none"
	if out.Usage != nil {
		usage = fmt.Sprintf("%+v", *out.Usage)
	}
	return fmt.Sprintf("%s\n%s\n%s%s %s", thought.String(), text.String(), s, out.Stop, usage)
}

// told makes the frames of an answer in the server's words.
func told(t *testing.T, s wire.Server, frames [][]llm.Event, whole bool) ([]byte, error) {
	t.Helper()
	var out []byte
	w := s.NewWriter([]byte(`{"stream_options":{"include_usage":true}}`), whole)
	tail := s.NewTail()
	for _, events := range frames {
		for i := range events {
			mine, err := w.Write(nil, &events[i])
			if err != nil {
				return nil, err
			}
			tail.Sent(mine)
			for _, e := range mine {
				if out = append(out, e.Raw...); !whole && len(e.Raw) > 0 {
					out = append(out, "\n\n"...)
				}
			}
		}
	}
	return out, nil
}

// Every recorded answer that ended well says the same in every dialect, as a stream and in one
// piece. A word that a dialect lacks is the nearest one of its own.
func TestEveryDialectSaysTheSame(t *testing.T) {
	files, err := filepath.Glob("../../*/testdata/*.sse")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	from := map[string]wire.Server{}
	for _, s := range servers {
		from[s.Dialect()] = s
	}
	count := 0
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		frames, end := wiretest.Read(t, from[filepath.Base(filepath.Dir(filepath.Dir(file)))], bytes.NewReader(body))
		if end != nil {
			continue
		}
		stop, done := wiretest.Ended(frames)
		if !done {
			continue
		}
		for _, s := range servers {
			for _, whole := range []bool{false, true} {
				name := fmt.Sprintf("%s in %s, whole %t", file, s.Dialect(), whole)
				out, err := told(t, s, frames, whole)
				if err != nil {
					if !strings.Contains(err.Error(), "has no word for") || !wordless(frames, stop) {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				count++
				again, end := wiretest.Read(t, s, bytes.NewReader(out))
				if end != nil {
					t.Errorf("%s: %v\n%s", name, end, out)
					continue
				}
				want, got := said(frames), said(again)
				want, got = nearest(want, s.Dialect(), stop), nearest(got, s.Dialect(), stop)
				if got != want {
					t.Errorf("%s:\n%s\n--- want\n%s\n--- was\n%s", name, got, want, out)
				}
			}
		}
	}
	if count < 300 {
		t.Errorf("only %d answers were told", count)
	}
}

// wordless reports whether an answer holds, or ended with, what other dialects have no word for.
func wordless(frames [][]llm.Event, stop llm.StopReason) bool {
	switch stop {
	case llm.StopEnd, llm.StopToolCalls, llm.StopLength, llm.StopSequence, llm.StopFiltered:
	default:
		return true
	}
	for _, events := range frames {
		for _, e := range events {
			if e.Kind == llm.EventOpaque {
				return true
			}
		}
	}
	return false
}

var (
	lastCall = regexp.MustCompile(`(?m)^\S+ \S+ map\[.*\]\n(length|filtered) `)
	written  = regexp.MustCompile(`CacheWrite:\d+`)
)

// nearest lets pass what a dialect cannot say: the sequence that stopped an answer, that its last
// call was whole although its end was cut, and what was written to a cache.
func nearest(s, dialect string, stop llm.StopReason) string {
	switch dialect {
	case "messages":
		return lastCall.ReplaceAllString(s, "$1 ")
	case "gemini":
		s = written.ReplaceAllString(s, "")
	}
	if stop == llm.StopSequence {
		s = strings.Replace(s, "\nstop_sequence {", "\nend {", 1)
	}
	return s
}
