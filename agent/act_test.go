package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/reprise-run/reprise/llm"
)

// double is a tool that does what a test says.
type double struct {
	name   string
	schema string
	traits Traits
	run    func(ctx context.Context, arguments string, report func(Progress)) ([]llm.Part, error)
}

func (d double) Spec() llm.Tool { return llm.Tool{Name: d.name, Schema: json.RawMessage(d.schema)} }
func (d double) Traits() Traits { return d.traits }
func (d double) Run(ctx context.Context, arguments json.RawMessage, report func(Progress)) ([]llm.Part, error) {
	if d.run == nil {
		return []llm.Part{llm.Text("ran with " + string(arguments))}, nil
	}
	return d.run(ctx, string(arguments), report)
}

// notes is a journal that notes what it is told.
type notes struct {
	Journal
	answers map[string]string // by call: why it is denied, "error", or empty
	stored  map[string]*llm.Part

	mu      sync.Mutex
	told    []string
	results []llm.Part
}

func (n *notes) note(what, call string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, what+" "+call)
}

func (n *notes) Result(c Call) (*llm.Part, error) { return n.stored[c.ID], nil }
func (n *notes) Refuse(_ context.Context, c Call, _ llm.Part) error {
	n.note("refuse", c.ID)
	return nil
}
func (n *notes) Ask(_ context.Context, c Call) (*llm.Part, error) {
	n.note("ask", c.ID)
	switch why := n.answers[c.ID]; why {
	case "":
		return nil, nil
	case "error":
		return nil, errors.New("cannot ask")
	default:
		return &llm.Part{Kind: llm.PartToolResult, CallID: c.ID, Content: []llm.Part{llm.Text(why)}}, nil
	}
}
func (n *notes) Start(ctx context.Context, c Call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	n.note("start", c.ID)
	return nil
}
func (n *notes) End(_ context.Context, c Call, _ llm.Part) error { n.note("end", c.ID); return nil }
func (n *notes) Results(_ context.Context, _ int, results []llm.Part) error {
	n.results = results
	return nil
}

// acting carries out calls, each "tool id arguments", and returns what was noted, the texts of the
// results, and the error.
func acting(ctx context.Context, n *notes, tools []double, calls ...string) (told, results string, err error) {
	r := Run{Journal: n, Log: slog.New(slog.DiscardHandler)}
	byName, parts := map[string]Tool{}, []llm.Part{}
	for _, t := range tools {
		byName[t.name] = t
	}
	for _, c := range calls {
		f := strings.SplitN(c, " ", 3)
		p := llm.Part{Kind: llm.PartToolCall, Name: f[0], CallID: f[1]}
		if len(f) > 2 {
			p.Arguments = f[2]
		}
		parts = append(parts, p)
	}
	err = r.act(ctx, 0, parts, byName)
	var texts []string
	for _, p := range n.results {
		text := p.Content[0].Text
		if p.IsError {
			text = "! " + text
		}
		texts = append(texts, text)
	}
	return strings.Join(n.told, ", "), strings.Join(texts, " | "), err
}

const path = `{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer"}},"required":["path"],"additionalProperties":false}`

// What a model gets wrong is told to it, in words by which it can mend it; nothing starts. A
// schema that cannot be used stops nobody.
func TestArguments(t *testing.T) {
	for _, c := range []struct{ schema, arguments, want string }{
		{path, `{"path":"a"}`, `ran with {"path":"a"}`},
		{path, `{"path":"a","lines":3}`, `ran with`},
		{path, ``, `! the arguments do not fit the tool's schema; the tool was not run: .*path`},
		{path, `{"path":3}`, `! the arguments do not fit the tool's schema; the tool was not run: .*string`},
		{path, `{"path":"a","lines":1.5}`, `! the arguments do not fit the tool's schema; the tool was not run: .*integer`},
		{path, `{"path":"a","mode":1}`, `! the arguments do not fit the tool's schema; the tool was not run: .*mode`},
		{path, `[]`, `! the arguments do not fit the tool's schema`},
		{path, `{"path":`, `! the arguments are not valid JSON; the tool was not run`},
		{``, `{"anything":1}`, `ran with`},
		{``, ``, `ran with {}`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","required":["a"]}`, `{}`, `! the arguments do not fit`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["a"]}`, `{}`, `! the arguments do not fit`},
		{`{"$ref":"https://elsewhere.test/schema.json"}`, `{}`, `ran with`},
		{`{"type":"object","properties":{"a":{"pattern":"(?<!b)"}}}`, `{}`, `ran with`},
		{`{"type":17}`, `{}`, `ran with`},
		{`null`, `{}`, `ran with`},
		{`{"$defs":{"n":{"properties":{"n":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`, `{"n":{"n":{}}}`, `ran with`},
	} {
		told, got, err := acting(t.Context(), &notes{}, []double{{name: "t", schema: c.schema, traits: Traits{Ask: true}}}, "t c "+c.arguments)
		want, detail, _ := strings.Cut(c.want, ".*")
		wantTold := "ask c, start c, end c"
		if strings.HasPrefix(c.want, "!") {
			wantTold = "refuse c"
		}
		if err != nil || !strings.HasPrefix(got, want) || !strings.Contains(got, detail) || told != wantTold {
			t.Errorf("%s of %s: %s; %s, %v", c.arguments, c.schema, got, told, err)
		}
	}
	if told, got, err := acting(t.Context(), &notes{}, nil, "gone c"); told != "refuse c" || got != `! there is no tool named "gone"` || err != nil {
		t.Errorf("no tool: %s; %s, %v", told, got, err)
	}
	// A result that is there is used, whatever has become of the tool.
	stored := &notes{stored: map[string]*llm.Part{"c": {Kind: llm.PartToolResult, Content: []llm.Part{llm.Text("before")}}}}
	if told, got, err := acting(t.Context(), stored, nil, "gone c"); told != "" || got != "before" || err != nil {
		t.Errorf("a stored result: %s; %s, %v", told, got, err)
	}
}

// A denied call does not start and holds up no other; where it is not known whether one may start,
// no other starts any more.
func TestDenied(t *testing.T) {
	beside, alone := Traits{Parallel: true, Ask: true}, Traits{Ask: true}
	told, got, err := acting(t.Context(), &notes{answers: map[string]string{"1": "denied"}}, []double{{name: "t", traits: alone}}, "t 1", "t 2")
	if told != "ask 1, ask 2, start 2, end 2" || got != "denied | ran with {}" || err != nil {
		t.Errorf("%s; %s, %v", told, got, err)
	}
	for _, traits := range []Traits{beside, alone} {
		told, _, err = acting(t.Context(), &notes{answers: map[string]string{"1": "error"}}, []double{{name: "t", traits: traits}, {name: "last"}}, "t 1", "last 2")
		if told != "ask 1" || err == nil {
			t.Errorf("%s, %v", told, err)
		}
	}
}

// Calls run side by side where all of them may, no more than so many at a time.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		var mu sync.Mutex
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		run := func(ctx context.Context, arguments string, _ func(Progress)) ([]llm.Part, error) {
			count(1)
			defer count(-1)
			<-time.After(time.Second)
			return []llm.Part{llm.Text(arguments)}, nil
		}
		tools := []double{{name: "beside", traits: Traits{Parallel: true}, run: run}, {name: "alone", run: run}}
		var calls []string
		for i := range 20 {
			calls = append(calls, fmt.Sprintf("beside %d %d", i, i))
		}
		began := time.Now()
		_, got, err := acting(t.Context(), &notes{}, tools, append(calls, "alone a 20", "alone b 21", "beside c 22")...)
		want := make([]string, 23)
		for i := range want {
			want[i] = fmt.Sprint(i)
		}
		if took := time.Since(began); err != nil || got != strings.Join(want, " | ") || most != sideBySide || took != 6*time.Second {
			t.Errorf("%s, %d at a time, in %s, %v", got, most, took, err)
		}
	})
}

// A tool that panics, or ends its goroutine, has failed; one that goes on after its end was wanted
// is left to itself; the result of one that was cut off is none (f11).
func TestToolsThatMisbehave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := double{name: "t", run: func(context.Context, string, func(Progress)) ([]llm.Part, error) { panic("oh") }}
		if told, got, err := acting(t.Context(), &notes{}, []double{fails}, "t c"); got != "! the tool has failed: oh" || told != "start c, end c" || err != nil {
			t.Errorf("%s; %s, %v", told, got, err)
		}
		says := double{name: "t", run: func(context.Context, string, func(Progress)) ([]llm.Part, error) {
			return []llm.Part{llm.Text("in its own words")}, ErrResult
		}}
		if _, got, err := acting(t.Context(), &notes{}, []double{says}, "t c"); got != "! in its own words" || err != nil {
			t.Errorf("%s, %v", got, err)
		}
		why := errors.New("stopped")
		for name, tc := range map[string]struct {
			run  func(context.Context) error
			took time.Duration
			told string
		}{
			"ends":          {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, time.Second, "start c"},
			"finishes":      {func(ctx context.Context) error { <-ctx.Done(); return nil }, time.Second, "start c, end c"},
			"does not hear": {func(context.Context) error { <-time.After(time.Minute); return nil }, time.Second + letGo, "start c"},
		} {
			ctx, stop := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { stop(why) })
			began := time.Now()
			tool := double{name: "t", run: func(ctx context.Context, _ string, _ func(Progress)) ([]llm.Part, error) { return nil, tc.run(ctx) }}
			told, _, err := acting(ctx, &notes{}, []double{tool}, "t c", "t d")
			if took := time.Since(began); told != tc.told || !errors.Is(err, why) || took != tc.took {
				t.Errorf("%s: %s, %v, after %s", name, told, err, took)
			}
		}
		<-time.After(time.Minute) // the one that does not hear ends, too
	})
}

// A result is bounded, and says what it lacks.
func TestBounded(t *testing.T) {
	image := func(n int) llm.Part {
		return llm.Part{Kind: llm.PartImage, MediaType: "image/png", Data: make([]byte, n)}
	}
	long := "begin" + strings.Repeat("ä", maxText) + "end"
	got := bounded([]llm.Part{llm.Text(long), llm.Text("more"), image(3)})
	if len(got) != 2 || len(got[0].Text) > maxText+100 || !utf8.ValidString(got[0].Text) || !strings.HasPrefix(got[0].Text, "begin") || !strings.HasSuffix(got[0].Text, "end") ||
		!strings.Contains(got[0].Text, "bytes were left out here") || !strings.Contains(got[1].Text, "2 more parts") {
		t.Errorf("%d parts, %d bytes, %q", len(got), len(got[0].Text), got[len(got)-1].Text)
	}
	if got = bounded([]llm.Part{image(maxImages), image(1), llm.Text("x")}); len(got) != 3 || got[0].Kind != llm.PartImage || got[1].Kind != llm.PartText || got[2].Text != "x" {
		t.Errorf("images: %+v", got[1:])
	}
	if got = bounded(slices.Repeat([]llm.Part{llm.Text("x")}, maxParts+7)); len(got) != maxParts+1 || !strings.Contains(got[maxParts].Text, "7 more parts") {
		t.Errorf("%d parts", len(got))
	}
	if got = bounded([]llm.Part{llm.Text("x")}); len(got) != 1 || got[0].Text != "x" {
		t.Errorf("%+v", got)
	}
}

// Progress is told at once, and then a few times a second at most, the newest last; nothing is told
// after the end.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Progress
		m := meter{tell: func(p Progress) { told = append(told, p) }}
		for i := range 100 {
			m.report(Progress{Done: float64(i)})
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if n := len(told); n < 4 || n > 6 || told[0].Done != 0 || told[n-1].Done != 99 {
			t.Errorf("told %v", told)
		}
		m.report(Progress{Done: math.NaN(), Total: math.Inf(1), Text: strings.Repeat("ä", 1000)})
		if p := told[len(told)-1]; p.Done != 0 || p.Total != 0 || len(p.Text) > progressText || !utf8.ValidString(p.Text) {
			t.Errorf("told %+v", p)
		}
		n := len(told)
		m.report(Progress{Done: 1})
		m.stop()
		m.report(Progress{Done: 2})
		<-time.After(time.Second)
		synctest.Wait()
		if len(told) != n {
			t.Errorf("told after the end: %v", told[n:])
		}
	})
}
