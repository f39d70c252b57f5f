// Package wiretest checks a codec against transcripts: recorded streams in, every event out,
// and the same neutral requests for all dialects. Run with -update, it rewrites what is
// expected, and the diff is the review.
package wiretest

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/sse"
)

var update = flag.Bool("update", false, "rewrite the expected files")

//go:embed requests/*.json
var requests embed.FS

// Read decodes a whole body and checks what holds for every one: each frame gives events, the
// first of which alone carries the frame; part indexes are dense; the terminal event is the
// last of those that matter. It returns the frames' events, End's last, and the stream's end.
func Read(t testing.TB, c wire.Codec, body io.Reader) ([][]llm.Event, error) {
	t.Helper()
	var frames [][]llm.Event
	r, d, parts, over := sse.NewReader(body), c.NewDecoder(), 0, false
	check := func(events []llm.Event) {
		t.Helper()
		for i := range events {
			e := &events[i]
			if e.Part > parts {
				t.Fatalf("part %d begins after part %d: %+v", e.Part, parts-1, e)
			}
			if e.Part == parts && ofPart(e) {
				parts++
			}
			if over && e.Kind != llm.EventPing {
				t.Fatalf("%s after the end", e.Kind)
			}
			over = over || e.Kind == llm.EventDone || e.Kind == llm.EventFailed
		}
		frames = append(frames, events)
	}
	for {
		f, err := r.Next()
		if err == io.EOF || err != nil && over {
			break
		}
		if err != nil {
			return frames, err
		}
		events, err := d.Decode(nil, f)
		if err != nil {
			if len(events) > 0 {
				t.Fatalf("a broken frame gave events: %+v", events)
			}
			return frames, err
		}
		if len(events) == 0 {
			t.Fatalf("no event for frame %q", f.Raw)
		}
		for i := range events {
			if (i == 0) != (events[i].Raw != nil) {
				t.Fatalf("event %d of frame %q carries %q", i, f.Raw, events[i].Raw)
			}
			if events[i].More != (i < len(events)-1) {
				t.Fatalf("event %d of the %d of frame %q: more is %v", i, len(events), f.Raw, events[i].More)
			}
			events[i].Raw, events[i].More = nil, false
		}
		check(events)
	}
	events, err := d.End(nil)
	if len(events) > 0 {
		check(events)
	}
	return frames, err
}

// ofPart reports whether the event belongs to a part.
func ofPart(e *llm.Event) bool {
	switch e.Kind {
	case llm.EventStart, llm.EventPing, llm.EventUsage, llm.EventDone, llm.EventFailed:
		return false
	case llm.EventProviderTool:
		return e.Part > 0 || e.ID != "" || e.Name == "code_execution"
	}
	return true
}

// Ended returns the stop reason, and whether there was a terminal event.
func Ended(frames [][]llm.Event) (llm.StopReason, bool) {
	for _, events := range frames {
		for i := range events {
			if events[i].Kind == llm.EventDone {
				return events[i].Stop, true
			}
		}
	}
	return "", false
}

// Transcripts decodes every testdata/*.sse and compares with the .events file beside it. Then
// it cuts each body at every byte: what is cut ends well only if all that matters had come. The
// transcripts named last are free from this: they go on after what their dialect calls an end.
func Transcripts(t *testing.T, c wire.Codec, goOn ...string) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sse")
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			frames, end := Read(t, c, bytes.NewReader(body))
			if _, done := Ended(frames); done != (end == nil) {
				t.Errorf("terminal event: %v, end: %v", done, end)
			}
			compare(t, strings.TrimSuffix(file, ".sse")+".events", transcript(t, frames, end))
			for cut := range body {
				part, end := Read(t, c, bytes.NewReader(body[:cut]))
				if _, done := Ended(part); done != (end == nil) {
					t.Fatalf("cut at %d: terminal event: %v, end: %v", cut, done, end)
				}
				if end == nil && !slices.Contains(goOn, name) && !reflect.DeepEqual(matter(part), matter(frames)) {
					t.Fatalf("cut at %d, after %q, the stream ends well", cut, body[max(0, cut-40):cut])
				}
			}
		})
	}
}

// matter lists the events without those that may come after a reason to stop.
func matter(frames [][]llm.Event) []llm.Event {
	var all []llm.Event
	for _, events := range frames {
		for _, e := range events {
			switch e.Kind {
			case llm.EventPing, llm.EventUsage, llm.EventProviderTool:
			default:
				all = append(all, e)
			}
		}
	}
	return all
}

func transcript(t *testing.T, frames [][]llm.Event, end error) []byte {
	t.Helper()
	var b bytes.Buffer
	var out llm.Output
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	write := func(v any) {
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	for _, events := range frames {
		for i := range events {
			out.Add(&events[i])
			write(&events[i])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "end: %v\n", end)
	for _, p := range out.Parts() {
		write(p)
	}
	return b.Bytes()
}

// Requests encodes the shared requests and compares with testdata/encode/. A request that the
// dialect refuses has its error there instead.
func Requests(t *testing.T, c wire.Codec, valid func(t *testing.T, body []byte)) {
	files, err := requests.ReadDir("requests")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file.Name(), ".json"), func(t *testing.T) {
			text, err := requests.ReadFile(path.Join("requests", file.Name()))
			if err != nil {
				t.Fatal(err)
			}
			var req llm.Request
			dec := json.NewDecoder(bytes.NewReader(text))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&req); err != nil {
				t.Fatal(err)
			}
			body, err := c.Encode(&req)
			var got bytes.Buffer
			if err != nil {
				fmt.Fprintf(&got, "error: %v\n", err)
			} else {
				valid(t, body)
				if err := json.Indent(&got, body, "", "  "); err != nil {
					t.Fatal(err)
				}
				got.WriteByte('\n')
			}
			compare(t, filepath.Join("testdata", "encode", file.Name()), got.Bytes())
		})
	}
}

// Reads reads each body that Requests has written and encodes it again: nothing may be lost or
// changed. lossy are the requests of which something is, with what is said of it.
func Reads(t *testing.T, s wire.Server, lossy map[string]string) {
	files, err := filepath.Glob("testdata/encode/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bodies: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if json.Compact(&want, text) != nil {
			continue // the dialect refuses this one
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			req, err := s.ReadRequest(want.Bytes())
			if loss := lossy[name]; err != nil || loss != "" {
				if err == nil || err.Error() != loss {
					t.Fatalf("lost: %v, want %q", err, loss)
				}
				return
			}
			var original llm.Request
			text, err := requests.ReadFile(path.Join("requests", name+".json"))
			if err == nil {
				err = json.Unmarshal(text, &original)
			}
			if err != nil {
				t.Fatal(err)
			}
			req.Model = original.Model // some dialects have it in the path
			got, err := s.Encode(req)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.Bytes()) {
				t.Errorf("read and encoded again\n%s\nwas\n%s", got, want.Bytes())
			}
			if req.System != original.System || len(req.Tools) != len(original.Tools) || len(original.Tools) > 0 && req.ToolChoice != original.ToolChoice {
				t.Errorf("read as %+v", req)
			}
		})
	}
}

// FuzzReads reads anything, beginning with the bodies that Requests has written. What is read is
// read the same once it was encoded.
func FuzzReads(f *testing.F, s wire.Server) {
	files, err := filepath.Glob("testdata/encode/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := s.ReadRequest(body)
		if err != nil {
			return
		}
		once, err := s.Encode(req)
		if err != nil {
			return
		}
		again, err := s.ReadRequest(once)
		if err != nil {
			t.Fatalf("%s\nis read, and is not once it is\n%s\n%v", body, once, err)
		}
		again.Model = req.Model
		twice, err := s.Encode(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\nand then %v\n%s", once, err, twice)
		}
	})
}

// Loses checks which fields of a body are lost; none: it is read.
func Loses(t *testing.T, s wire.Server, body, want string) {
	t.Helper()
	got := ""
	_, err := s.ReadRequest([]byte(body))
	var loss wire.Loss
	if errors.As(err, &loss) {
		got = loss.Error()
	} else if err != nil {
		got = "!"
	}
	if got != want {
		t.Errorf("%s\nloses %q, want %q (%v)", body, got, want, err)
	}
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, got, 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got\n%s", file, got)
	}
}

// Head checks what a server reads of a raw request. want is "model stream max[xanswers] tools… [state]".
func Head(t *testing.T, s wire.Server, body, want string) {
	t.Helper()
	h, err := s.Head([]byte(body))
	if err != nil {
		t.Errorf("%s: %v", body, err)
		return
	}
	got := fmt.Sprintf("%s %t %d", h.Model, h.Stream, h.MaxOutputTokens)
	if h.Answers != 0 {
		got += fmt.Sprintf("x%d", h.Answers)
	}
	for _, tool := range h.ProviderTools {
		got += " " + tool.Name
		if tool.ReadOnly {
			got += " (reads)"
		}
	}
	if h.ProviderState {
		got += " state"
	}
	if got != want {
		t.Errorf("%s: %q, want %q", body, got, want)
	}
}

// NoHead checks that a server refuses what is no JSON object.
func NoHead(t *testing.T, s wire.Server) {
	t.Helper()
	for _, body := range []string{"", "null", "[]", `{"model":"m"`, `{"model":"m"}}`, `"x"`} {
		if h, err := s.Head([]byte(body)); err == nil {
			t.Errorf("%q is read as %+v", body, h)
		}
	}
}
