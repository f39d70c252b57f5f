package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/provider/rehearsal"
)

const (
	opening = "This is said once, "
	answers = "and this is the whole of the answer."
)

// fault is a call that goes wrong, or does not, and what becomes of it under every SDK: what the
// program has in the end, whether it is told that this is not all, and how many requests the
// provider gets. A request that should not be sent would get an answer.
type fault struct {
	name     string
	take     rehearsal.Take
	text     string
	fails    bool
	requests int
}

// faults are the calls of which nothing is shown, those that break after text, and those that
// nothing can help.
func faults() []fault {
	begin, say := rehearsal.Step{Do: rehearsal.Start}, rehearsal.Step{Do: rehearsal.Say, Text: opening}
	do := func(verb rehearsal.Verb) rehearsal.Step { return rehearsal.Step{Do: verb} }
	with := func(verb rehearsal.Verb, f rehearsal.Fault) rehearsal.Step {
		return rehearsal.Step{Do: verb, Fault: &f}
	}
	status := func(f rehearsal.Fault) rehearsal.Take { return rehearsal.Take{with(rehearsal.Status, f)} }
	broken := with(rehearsal.Failed, rehearsal.Fault{Kind: rehearsal.BrokenUpstream})
	overloaded := with(rehearsal.Error, rehearsal.Fault{Kind: rehearsal.Overloaded})
	limited := func(wait time.Duration, hint rehearsal.Hint) rehearsal.Take {
		return status(rehearsal.Fault{Kind: rehearsal.RateLimited, Wait: rehearsal.Duration(wait), Hint: hint})
	}
	saved := func(name string, take ...rehearsal.Step) fault { return fault{name, take, answers, false, 2} }
	ended := func(name string, take ...rehearsal.Step) fault {
		return fault{name, append(rehearsal.Take{say}, take...), opening, true, 1}
	}
	final := func(name string, take ...rehearsal.Step) fault { return fault{name, take, "", true, 1} }
	return []fault{
		{"whole", rehearsal.Take{{Do: rehearsal.Say, Text: answers}}, answers, false, 1},
		{"call", rehearsal.Take{say, do(rehearsal.Call)}, opening + "clock{}", false, 1},

		saved("503-once", status(rehearsal.Fault{Kind: rehearsal.Overloaded})...),
		saved("500-once", status(rehearsal.Fault{Kind: rehearsal.ServerError})...),
		saved("429-once", status(rehearsal.Fault{Kind: rehearsal.RateLimited})...),
		saved("429-hint", limited(time.Second, rehearsal.HintSeconds)...),
		saved("429-prose", limited(time.Second, rehearsal.HintProse)...),
		saved("429-kept-alive", limited(17*time.Second, rehearsal.HintSeconds)...),
		saved("reset-first", do(rehearsal.Reset)),
		saved("object", with(rehearsal.Object, rehearsal.Fault{Kind: rehearsal.ServerError})),
		saved("overloaded-first", begin, overloaded),
		saved("failed-first", begin, broken),
		saved("cut-first", begin, do(rehearsal.Cut)),
		saved("ended-first", begin, do(rehearsal.End)),
		saved("malformed-first", begin, do(rehearsal.Malformed)),
		saved("stalled-first", begin, do(rehearsal.Stall)),
		saved("half-call-cut", do(rehearsal.HalfCall), do(rehearsal.Cut)),
		saved("half-call-ended", do(rehearsal.HalfCall), do(rehearsal.End)),
		saved("call-cut", do(rehearsal.Call), do(rehearsal.Cut)),
		saved("call-failed", do(rehearsal.Call), broken),

		ended("cut", do(rehearsal.Cut)),
		ended("reset", do(rehearsal.Reset)),
		ended("ended", do(rehearsal.End)),
		ended("malformed", do(rehearsal.Malformed)),
		ended("stalled", do(rehearsal.Stall)),
		ended("pings", rehearsal.Step{Do: rehearsal.Ping, For: rehearsal.Duration(50 * time.Millisecond)}),
		ended("overloaded", overloaded),
		ended("limited", with(rehearsal.Error, rehearsal.Fault{Kind: rehearsal.RateLimited})),
		ended("failed", broken),
		ended("closed-failed", do(rehearsal.Close), broken),
		ended("text-call-cut", do(rehearsal.Call), do(rehearsal.Cut)),
		ended("text-call-ended", do(rehearsal.Call), do(rehearsal.End)),
		ended("text-call-failed", do(rehearsal.Call), broken),
		ended("text-half-call-cut", do(rehearsal.HalfCall), do(rehearsal.Cut)),
		ended("text-half-call-ended", do(rehearsal.HalfCall), do(rehearsal.End)),
		{"thought-cut", rehearsal.Take{{Do: rehearsal.Think, Text: opening}, do(rehearsal.Cut)}, "", true, 1},

		final("429-50-minutes", limited(50*time.Minute, rehearsal.HintSeconds)...),
		final("quota", status(rehearsal.Fault{Kind: rehearsal.Quota})...),
		final("wrong-key", status(rehearsal.Fault{Kind: rehearsal.AuthFailed})...),
		final("too-long", status(rehearsal.Fault{Kind: rehearsal.ContextOverflow})...),
		final("filtered", status(rehearsal.Fault{Kind: rehearsal.Filtered})...),
	}
}

// heard is what a program has in the end.
type heard struct {
	Model string
	Text  string
	Error *string
}

// asker asks each of the models at once.
type asker func(ctx context.Context, base string, models []string) ([]heard, error)

// inGo asks with an SDK for Go.
func inGo(prompt func(ctx context.Context, c *http.Client, base, model string) (string, error)) asker {
	return func(ctx context.Context, base string, models []string) ([]heard, error) {
		all := make([]heard, len(models))
		var wg sync.WaitGroup
		for i, model := range models {
			wg.Go(func() {
				text, err := prompt(ctx, new(http.Client), base, model)
				all[i] = heard{Model: model, Text: text}
				if err != nil {
					said := err.Error()
					all[i].Error = &said
				}
			})
		}
		wg.Wait()
		return all, nil
	}
}

// inNode asks with an SDK for Node.
func inNode(sdk string) asker {
	return func(ctx context.Context, base string, models []string) (all []heard, err error) {
		out, err := exec.CommandContext(ctx, "node", append([]string{"node/prompt.mjs", sdk, base}, models...)...).Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); err == nil; {
			var h heard
			if err = d.Decode(&h); err == nil {
				all = append(all, h)
			}
		}
		if err == io.EOF {
			err = nil
		}
		return all, err
	}
}

// The binary between the official SDKs, their own retries on, and a provider with every fault: what
// fails before output is not seen; after output there is one request, the text is neither doubled
// nor taken for whole, and no call is run; what cannot pass is asked once (R1-R7, R9-R10). The SDKs for
// Go ask the gateway of `reprise serve`, those for Node `reprise gateway`.
func TestGatewayUnderSDKs(t *testing.T) {
	sdks := map[string]asker{}
	for name, prompt := range prompts {
		sdks["go "+name] = inGo(prompt)
	}
	for _, name := range []string{"chat", "chat helper", "responses", "messages", "messages helper", "gemini", "ai chat", "ai responses", "ai messages", "ai gemini"} {
		sdks["node "+name] = inNode(name)
	}
	all := faults()
	var scripts []rehearsal.Script
	var models []string
	for _, f := range all {
		scripts = append(scripts, rehearsal.Script{Name: f.name, Pause: 1, Scenes: []rehearsal.Scene{{f.take, {{Do: rehearsal.Say, Text: answers}}}}})
		models = append(models, f.name)
	}
	binary := filepath.Join(t.TempDir(), "reprise")
	build := exec.Command("go", "build", "-o", binary, "./cmd/reprise")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the binary: %v\n%s", err, out)
	}
	for _, name := range slices.Sorted(maps.Keys(sdks)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			upstream, err := rehearsal.New(scripts...)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(upstream)
			defer server.Close()
			verb := "gateway"
			if strings.HasPrefix(name, "go ") {
				verb = "serve"
			}
			base := gateway(t, binary, verb, server.URL)
			got, err := sdks[name](t.Context(), base, models)
			if err != nil || len(got) != len(all) {
				t.Fatalf("%d answers: %v", len(got), err)
			}
			requests := upstream.Requests().ByModel
			for _, f := range all {
				h := got[slices.IndexFunc(got, func(h heard) bool { return h.Model == f.name })]
				told := "nothing"
				if h.Error != nil {
					told = *h.Error
				}
				if h.Text != f.text || (h.Error != nil) != f.fails || requests[f.name] != f.requests {
					t.Errorf("%s: %d requests; the program has %q and is told %s", f.name, requests[f.name], h.Text, told)
				}
			}
		})
	}
}

// gateway starts the binary before a provider and returns its address.
func gateway(t *testing.T, binary, verb, upstream string) string {
	t.Helper()
	dir := t.TempDir()
	config := "data: " + filepath.Join(dir, "data") + "\nauth: {mode: none}\nrecovery: {tier1: {base: 5ms}}\nproviders:\n"
	for dialect, path := range map[string]string{"chat": "/v1", "responses": "/v1", "messages": "", "gemini": ""} {
		config += fmt.Sprintf("  %s: {dialect: %s, base_url: %s%s, timeouts: {first_event: 5s, first_content: 5s, idle: 4s}}\n", dialect, dialect, upstream, path)
	}
	file := filepath.Join(dir, "reprise.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(binary, verb, "--listen", "127.0.0.1:0", "--config", file)
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := cmd.Process.Signal(os.Interrupt)
		if werr := cmd.Wait(); err != nil || werr != nil {
			t.Errorf("the gateway ends with %v %v", err, werr)
		}
		if said := log.String(); t.Failed() || strings.Contains(said, "level=ERROR") {
			t.Errorf("the gateway's log:\n%s", said)
		}
	})
	line := make([]byte, 200)
	n, err := out.Read(line)
	base := regexp.MustCompile(`http://[^\s/]+`).FindString(string(line[:n]))
	if err != nil || base == "" {
		t.Fatalf("the gateway says %q: %v", line[:n], err)
	}
	return base
}
