package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/provider/rehearsal"
)

// chromium is where Debian's package of that name puts the browser.
const chromium = "/usr/bin/chromium"

// browserTime bounds the whole browser part.
const browserTime = 5 * time.Minute

// hostile is text that a page must show and never obey.
const hostile = "<script>globalThis.pwned = 1</script><img src=\"http://192.0.2.1/a.png\" onerror=\"globalThis.pwned = 2\">\n\n" +
	"![remote](http://192.0.2.1/b.png) [a](javascript:globalThis.pwned=3) [b](data:text/html,<script>1</script>) [c](//192.0.2.1/d)\n\n" +
	"<iframe src=\"http://192.0.2.1/\"></iframe> <a href=\"javascript:globalThis.pwned=4\">d</a> <style>*{display:none}</style>\n\n" +
	"| a | b |\n|---|---|\n| <svg onload=globalThis.pwned=5> | [e](vbscript:x) |\n\n```html\n<script>globalThis.pwned = 6</script>\n```\n\n"

// TestPage runs browser/scenarios.mjs, one subtest a scenario: rows f1, f2, f8, f10, f14, f25,
// f26 and f29 of the page's behaviour, each with an accessibility check of the state it reaches.
func TestPage(t *testing.T) {
	for path, what := range map[string]string{chromium: "There is no browser", "browser/node_modules/playwright-core": "The browser's driver is missing"} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%s (%v): `make test` installs it.", what, err)
		}
	}
	texts := map[string]string{}
	for name, n := range map[string]int{"steady": 60, "hang": 30, "long": 120, "first": 10, "second": 10, "recovers": 40, "broken": 30} {
		texts[name] = strings.TrimSpace(tokens(name, n))
	}
	var (
		refusal = rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.Unavailable, Status: 503}}}
		later   = rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.RateLimited, Wait: rehearsal.Duration(25 * time.Second)}}}
		hang    = rehearsal.Take{say(texts["hang"]), {Do: rehearsal.Stall}}
	)
	scripts := []rehearsal.Script{
		script("steady", 20*time.Millisecond, rehearsal.Take{say(texts["steady"])}),
		script("hang", time.Millisecond, hang),
		script("hang-too", time.Millisecond, hang),
		script("hang-keys", time.Millisecond, hang),
		script("hang-tabs", time.Millisecond, hang),
		script("hang-restart", time.Millisecond, hang),
		script("busy", 0, later),
		script("long", 40*time.Millisecond, rehearsal.Take{say(texts["long"])}),
		script("twice", time.Millisecond, rehearsal.Take{say(texts["first"])}, rehearsal.Take{say(texts["second"])}),
		script("recovers", 10*time.Millisecond, refusal, rehearsal.Take{say(texts["recovers"])}),
		script("broken", time.Millisecond, rehearsal.Take{say(texts["broken"]), broken}, rehearsal.Take{say("never")}),
		script("hostile", time.Millisecond, rehearsal.Take{say(hostile)}),
	}
	up := newUpstream(t, scripts...)
	names := []string{"tool-fast"}
	for _, s := range scripts {
		names = append(names, s.Name)
	}
	s := serve(t, fmt.Sprintf("providers:\n  up: {dialect: responses, base_url: %s/v1, models: [%s]}\n%s", up.URL, strings.Join(names, ", "), everyRetry))

	restart := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.restartThere() }))
	defer restart.Close()
	input, err := json.Marshal(map[string]any{
		"link": s.link, "upstream": up.URL, "restart": restart.URL, "texts": texts, "executablePath": chromium,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "browser/scenarios.mjs", string(input))
	node.WaitDelay = 10 * time.Second
	node.Env = append(os.Environ(), "HOME="+t.TempDir())
	var stderr bytes.Buffer
	node.Stderr = &stderr
	out, err := node.Output()
	ran := 0
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 10<<20)
	for lines.Scan() {
		var r struct {
			Name, Error string
			MS          int64
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("%v: %s", err, lines.Bytes())
			continue
		}
		ran++
		t.Run(r.Name, func(t *testing.T) {
			t.Logf("%d ms in the browser", r.MS)
			if r.Error != "" {
				t.Error(r.Error)
			}
		})
	}
	if err != nil || ran == 0 {
		t.Errorf("%d scenarios, then %v: %s", ran, err, stderr.String())
	}
}
