package provider

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/provider/rehearsal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// transcript reads an answer to its end and writes what came: kinds, and how often, then the
// end.
func transcript(t *testing.T, p *Provider, model string) (kinds []string, end error) {
	t.Helper()
	s, err := p.Stream(t.Context(), llmtest.Permit(t), hello(model))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	count := 0
	add := func(kind string) {
		if n := len(kinds); n > 0 && kinds[n-1] == kind {
			count++
			return
		}
		if n := len(kinds); count > 1 {
			kinds[n-1] += fmt.Sprintf("×%d", count)
		}
		kinds, count = append(kinds, kind), 1
	}
	for {
		e, err := s.Next()
		if e.Kind != 0 && e.Kind != llm.EventPing && e.Kind != llm.EventUsage {
			kind := e.Kind.String()
			if e.Observability() == llm.Preamble && (e.Kind == llm.EventText || e.Kind == llm.EventThinking) {
				kind = "empty"
			}
			add(kind)
		}
		if err != nil {
			add("")
			if err == io.EOF {
				return kinds[:len(kinds)-1], nil
			}
			return kinds[:len(kinds)-1], err
		}
	}
}

// TestScripts plays every script of one take that a provider can fail by through every
// codec, and pins what came of it: the events, and the facts of the failure (F24, F26, F88, N01,
// N04-N08, N10, N11, N71, F96): what came before a failure is delivered before it.
func TestScripts(t *testing.T) {
	for _, c := range codecs {
		var all bytes.Buffer
		for _, script := range rehearsal.Scripts() {
			if skipped(script.Name) {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				server := newRehearsal(t)
				p := open(t, Config{Codec: c.codec, Dial: serve(t, server), BaseURL: "http://rehearsal.test" + c.path,
					Timeouts: DefaultTimeouts})
				began := time.Now()
				kinds, err := transcript(t, p, script.Name+"-fast")
				fmt.Fprintf(&all, "%s\n\t%s\n", script.Name, strings.Join(kinds, " "))
				if err != nil {
					f, ok := errors.AsType[*failure.Failure](err)
					if !ok {
						t.Fatalf("%s: %T %v", script.Name, err, err)
					}
					fmt.Fprintf(&all, "\t%s %s %s status=%d transport=%q retryable=%t after %v", f.Class, f.Phase, f.Delivered,
						f.Status, f.Transport, f.Retryable, time.Since(began).Round(time.Millisecond))
					if !f.NotBefore.IsZero() {
						fmt.Fprintf(&all, ", not before %v by %s", f.NotBefore.Sub(began), f.Hint)
					}
					all.WriteByte('\n')
					if f.Message == "" || f.Provider != "test" || f.Model != script.Name+"-fast" || f.Dialect != c.codec.Dialect() || f.Rule == "" {
						t.Errorf("%s: facts missing: %+v", script.Name, f)
					}
					if f.Status != 0 && f.RequestID == "" {
						t.Errorf("%s: no request id", script.Name)
					}
				}
				if n := server.Requests().Total; n != 1 {
					t.Errorf("%s: %d requests", script.Name, n)
				}
			})
		}
		golden(t, c.codec.Dialect(), all.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s changed (-update rewrites it):\n%s", path, got)
	}
}

// skipped leaves out what only takes long, and the scripts whose first take another one has.
func skipped(script string) bool {
	return script == "flood" || script == "drip" || strings.HasSuffix(script, "-then-ok")
}

// TestDialectsAgree: a script gives the same content and the same class of failure in every
// dialect. Three things not every dialect can say: thinking that only the provider can read
// comes as a mere proof in Responses and Gemini, and Gemini's calls come whole and its answers
// end with the body, so that an error behind the finish reason is still a failure.
func TestDialectsAgree(t *testing.T) {
	for _, script := range rehearsal.Scripts() {
		if skipped(script.Name) {
			continue
		}
		var first, firstDialect string
		for _, c := range codecs {
			if script.Name == "done-then-error" && c.codec.Dialect() == "gemini" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				p := open(t, Config{Codec: c.codec, Dial: serve(t, newRehearsal(t)), BaseURL: "http://rehearsal.test" + c.path,
					Timeouts: DefaultTimeouts})
				kinds, err := transcript(t, p, script.Name+"-fast")
				got := ""
				for _, k := range kinds {
					switch kind, _, _ := strings.Cut(k, "×"); kind {
					case "text", "thinking", "done":
						got += k + " "
					case "provider_tool": // once, or at its beginning and its end
						got = strings.TrimSuffix(got, kind+" ") + kind + " "
					case "call_start":
						if !strings.Contains(script.Name, "half-call") {
							got += k + " "
						}
					}
				}
				got += end(err)
				if first == "" {
					first, firstDialect = got, c.codec.Dialect()
				} else if got != first {
					t.Errorf("%s: %s gives\n%s\nbut %s gives\n%s", script.Name, firstDialect, first, c.codec.Dialect(), got)
				}
			})
		}
	}
}

// end names the class of the failure, if there is one.
func end(err error) string {
	if f, ok := errors.AsType[*failure.Failure](err); ok {
		return f.Class.String()
	}
	return fmt.Sprint(err)
}
