package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/transport"
)

// Each of these is one delta.
const (
	opening = "Opening. "
	answers = "Answered."
)

// own are scripts in which text breaks in each way, and the next request gets an answer.
func own() (scripts []rehearsal.Script) {
	answer := rehearsal.Take{{Do: rehearsal.Say, Text: answers}}
	for name, steps := range map[string][]rehearsal.Step{
		"cut":            {{Do: rehearsal.Cut}},
		"stalled":        {{Do: rehearsal.Stall}},
		"malformed":      {{Do: rehearsal.Malformed}},
		"ended":          {{Do: rehearsal.End}},
		"failed":         {{Do: rehearsal.Error, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}},
		"text-call-cut":  {{Do: rehearsal.Call}, {Do: rehearsal.Cut}},
		"text-half-call": {{Do: rehearsal.HalfCall}, {Do: rehearsal.End}},
	} {
		take := append(rehearsal.Take{{Do: rehearsal.Say, Text: opening}}, steps...)
		scripts = append(scripts, rehearsal.Script{Name: name, Pause: 1, Scenes: []rehearsal.Scene{{take, answer}}},
			rehearsal.Script{Name: "always-" + name, Pause: 1, Scenes: []rehearsal.Scene{{take}}})
	}
	no := rehearsal.Take{{Do: rehearsal.Status, Fault: &rehearsal.Fault{Kind: rehearsal.Invalid,
		Message: "This model does not support assistant message prefill."}}}
	return append(scripts, rehearsal.Script{Name: "answer", Pause: 1, Scenes: []rehearsal.Scene{{answer}}},
		rehearsal.Script{Name: "picky", Pause: 1, Scenes: []rehearsal.Scene{{answer}}},
		rehearsal.Script{Name: "small-answer", Pause: 1, Scenes: []rehearsal.Scene{{answer}}},
		rehearsal.Script{Name: "no-prefill", Pause: 1, Scenes: []rehearsal.Scene{{no}}})
}

// table are the faults, and the models that have them. After " then " is what a chain falls back to.
var table = []struct {
	fault, model string
	after        bool // text comes first
}{
	{"429 with a hint", "rate-limited-1s-then-ok-fast", false},
	{"429 without a hint", "rate-limited-then-ok-fast", false},
	{"429 for 50 minutes", "rate-limited-3000s", false},
	{"429 for 50 minutes, and a fallback", "rate-limited-3000s then answer", false},
	{"500 once", "500-then-ok-fast", false},
	{"503 for ever", "always-503", false},
	{"503 for ever, and a fallback", "always-503 then answer", false},
	{"503 for ever, and a fallback that refuses the request", "always-503 then no-prefill then answer", false},
	{"503 for ever, and a fallback that is too small", "always-503 then context-overflow then answer", false},
	{"reset before headers", "reset-before-headers-then-ok-fast", false},
	{"silence", "silent-then-ok-fast", false},
	{"silence, and a fallback", "silent then answer", false},
	{"slow first token", "slow", false},
	{"malformed chunk", "malformed-first-then-ok-fast", false},
	{"missing end, before text", "ended-before-text-then-ok-fast", false},
	{"context length", "context-overflow", false},
	{"context length, and a fallback", "context-overflow then answer", false},
	{"content filter", "prompt-filtered", false},
	{"content filter in the middle", "filtered-fast", false},

	{"cut", "cut", true},
	{"cut for ever", "always-cut", true},
	{"cut for ever, and a fallback", "always-cut then answer", true},
	{"cut for ever, and a fallback that refuses prefill", "always-cut then picky", true},
	{"stall", "stalled", true},
	{"malformed chunk after text", "malformed", true},
	{"missing end", "ended", true},
	{"error inside", "failed", true},
	{"cut after a call", "text-call-cut", true},
	{"half a call", "text-half-call", true},
}

// The fault table: what a client gets, how many requests the provider, and who answers, in every
// dialect, with output shown as soon as possible and held back until it is whole. What the frames
// are is pinned by package transport's tests.
func TestFaultTable(t *testing.T) {
	var golden bytes.Buffer
	for _, row := range table {
		fmt.Fprintf(&golden, "%s (%s)\n", row.fault, row.model)
		for _, hold := range []string{"first_content", "whole"} {
			var cells []string
			for _, dialect := range names {
				cells = append(cells, cell(t, dialect, row.model, hold, row.after))
			}
			for i, c := range cells {
				if i == 0 || c != cells[i-1] {
					fmt.Fprintf(&golden, "  %-14s %-10s %s\n", hold, names[i], c)
				}
			}
		}
	}
	path := filepath.Join("testdata", "faults.golden")
	if *update {
		if err := os.WriteFile(path, golden.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden.Bytes(), want) {
		t.Errorf("%s changed (-update rewrites it):\n%s", path, &golden)
	}
}

// cell plays one fault and says what came of it. What must hold of every fault is not left to a
// golden file.
func cell(t *testing.T, dialect, model, hold string, after bool) (came string) {
	t.Helper()
	f, j := &fences{}, &journal{attempts: map[string]replay.Seal{}}
	run(t, gateway.Options{Fences: f, Journal: j}, func(w *world) {
		w.instead = func(rw http.ResponseWriter, r *http.Request) bool {
			sent, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(sent))
			prefilled := bytes.Contains(sent, []byte(`"picky"`)) && bytes.Contains(sent, []byte(opening))
			if prefilled {
				rw.WriteHeader(http.StatusBadRequest)
			}
			return prefilled
		}
		began := time.Now()
		resp, body, err := w.post(dialect, model, true, gateway.HeaderHold, hold)
		requests := w.upstream.Requests()
		whole := err == nil && (strings.Contains(body, terminal[dialect]) || strings.Contains(body, "response.incomplete"))
		complain := func(what string) { t.Errorf("%s %s %s: %s\n%v\n%s", dialect, model, hold, what, err, body) }
		switch {
		case resp.StatusCode != 200:
			came = fmt.Sprint(resp.StatusCode)
			if v := resp.Header.Get("Retry-After"); v != "" {
				came += ", come back in " + v + " s"
			}
			if resp.Header.Get("X-Should-Retry") == "" && resp.StatusCode < 429 {
				complain("an invitation to repeat")
			}
		case whole:
			came = "whole"
		default:
			came = "broken"
			if requests.Total != 1 || !strings.Contains(body, opening) || err == nil && !strings.Contains(body, ends[dialect]) {
				complain(fmt.Sprintf("a broken answer, %d requests", requests.Total))
			}
			if len(f.raised) != 1 {
				complain("no fence")
			}
		}
		once := opening
		if dialect == "responses" { // its closing events say it again
			once = `"delta":"` + opening
		}
		if whole && strings.Contains(body, opening) || strings.Count(body, once) > 1 || strings.Contains(body, "clock") {
			complain("a spliced or doubled answer, or a call of a broken one")
		}
		if after && whole != (hold == "whole") && !strings.HasPrefix(model, "always-") {
			complain("held back, it is repaired; shown, it is not")
		}
		if came != "broken" && len(f.raised) != 0 {
			complain("a fence before nothing")
		}
		// A fallback is sent what the client sent: no provider is asked to go on from another's words.
		for _, sent := range w.bodies {
			if strings.Contains(sent, opening) {
				complain("asked with a part of an answer: " + sent)
			}
		}
		synctest.Wait() // the account is closed behind the answer
		good := 0
		for _, a := range j.attempts {
			if a.OK {
				good++
				if u := j.result.Output.Usage; !reflect.DeepEqual(u, a.Usage) {
					complain(fmt.Sprintf("the answer's usage is %v, its attempt's %v", u, a.Usage))
				}
			}
		}
		if j.result.Attempts != requests.Total || len(j.attempts) != requests.Total || good > 1 || (good == 1) != whole {
			complain(fmt.Sprintf("%d requests, accounted are %d and %v", requests.Total, j.result.Attempts, j.attempts))
		}
		came += fmt.Sprintf(", %d requests", requests.Total)
		if asked := cmp.Or(resp.Header.Get(transport.HeaderModel), resp.Trailer.Get(transport.HeaderModel)); asked != "" {
			came += ", " + asked[strings.IndexByte(asked, '/')+1:]
		}
		if took := time.Since(began).Round(time.Second); took > time.Second {
			came += fmt.Sprintf(", after %v", took)
		}
	})
	return came
}

// journal keeps what one call cost.
type journal struct {
	attempts map[string]replay.Seal
	result   transport.Result
}

func (j *journal) Open(_ context.Context, c *gateway.Call) gateway.Record {
	m := replay.NewMemory()
	return &record{m, j, m.Claim(c.ID)}
}

func (j *journal) Refused(context.Context, *gateway.Call, int, string, string) {}

type record struct {
	replay.Ledger
	journal    *journal
	generation int64
}

func (r *record) Generation() int64                                { return r.generation }
func (r *record) Close(_ context.Context, result transport.Result) { r.journal.result = result }
func (r *record) Chosen(recovery.Choice)                           {}
func (r *record) Decided(context.Context, string, *failure.Failure, recovery.Decision) error {
	return nil
}

func (r *record) Seal(ctx context.Context, scope llm.Scope, attempt string, s replay.Seal) error {
	r.journal.attempts[attempt] = s // a second one replaces the first
	return r.Ledger.Seal(ctx, scope, attempt, s)
}
