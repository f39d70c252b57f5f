package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/gemini"
	"github.com/reprise-run/reprise/wire/messages"
	"github.com/reprise-run/reprise/wire/responses"
	"github.com/reprise-run/reprise/wire/sse"
)

// answer is what a client makes of a stream.
type answer struct {
	Text     string // refusals included
	Thinking string
	Calls    []call // whole ones
	Stop     llm.StopReason
	Usage    llm.Usage
}

type call struct {
	ID, Name, Arguments string
}

// canonical makes arguments comparable: key order and white space say nothing.
func canonical(arguments string) string {
	var v any
	if arguments == "" {
		return "{}"
	}
	if json.Unmarshal([]byte(arguments), &v) != nil {
		return arguments
	}
	b, err := json.Marshal(v)
	if err != nil {
		return arguments
	}
	return string(b)
}

// ours decodes with our codec. The error is how the stream ended, nil where it ended well.
func ours(t *testing.T, c wire.Codec, body []byte) (answer, error) {
	t.Helper()
	var out llm.Output
	d, r := c.NewDecoder(), sse.NewReader(bytes.NewReader(body))
	end := func() error {
		for {
			f, err := r.Next()
			if err == io.EOF {
				events, err := d.End(nil)
				fold(&out, events)
				return err
			}
			if err != nil {
				return err
			}
			events, err := d.Decode(nil, f)
			fold(&out, events)
			if err != nil {
				return err
			}
		}
	}()
	a := answer{Stop: out.Stop}
	if out.Usage != nil {
		a.Usage = *out.Usage
	}
	for _, p := range out.Parts() {
		switch p.Kind {
		case llm.PartText:
			a.Text += p.Text
		case llm.PartThinking:
			a.Thinking += p.Text
		case llm.PartToolCall:
			if !p.Cut {
				a.Calls = append(a.Calls, call{p.CallID, p.Name, canonical(p.Arguments)})
			}
		}
	}
	return a, end
}

func fold(out *llm.Output, events []llm.Event) {
	for i := range events {
		out.Add(&events[i])
	}
}

// dialect is a codec beside the SDK that speaks the same dialect. theirs reads one stream from
// the server to its end. differ says, by transcript, what the SDK cannot read, or reads
// otherwise on purpose; such a transcript must still differ.
type dialect struct {
	codec  wire.Codec
	theirs func(ctx context.Context, base string) (answer, error)
	differ map[string]string
}

func TestTranscripts(t *testing.T) {
	for name, d := range map[string]dialect{
		"chat":      {chat.Codec{}, openaiChat, chatDiffers},
		"responses": {responses.Codec{}, openaiResponses, responsesDiffers},
		"messages":  {messages.Codec{}, anthropicMessages, messagesDiffers},
		"gemini":    {gemini.Codec{}, googleGemini, geminiDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("..", "wire", name, "testdata", "*.sse"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no transcripts: %v", err)
			}
			seen := map[string]bool{}
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".sse")
				seen[name] = true
				t.Run(name, func(t *testing.T) { d.compare(t, file, d.differ[name]) })
			}
			for name := range d.differ {
				if !seen[name] {
					t.Errorf("no transcript %q differs, since there is none", name)
				}
			}
		})
	}
}

func (d *dialect) compare(t *testing.T, file, reason string) {
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := w.Write(body); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()

	got, end := ours(t, d.codec, body)
	want, theirEnd := d.theirs(t.Context(), server.URL)
	if end != nil {
		// SDKs take a cut stream for a whole one, so only what both saw is comparable.
		got = answer{Text: got.Text, Thinking: got.Thinking}
		want = answer{Text: want.Text, Thinking: want.Thinking}
	}
	for i := range min(len(got.Calls), len(want.Calls)) {
		if want.Calls[i].ID == "" {
			want.Calls[i].ID = got.Calls[i].ID // we make one up where the server gives none
		}
	}
	same := reflect.DeepEqual(got, want) && (end != nil || theirEnd == nil)
	switch {
	case same && reason != "":
		t.Errorf("the SDK agrees now, although %s", reason)
	case !same && reason == "":
		t.Errorf("\n  we got %+v, end %v\nthe SDK %+v, end %v", got, end, want, theirEnd)
	}
}
