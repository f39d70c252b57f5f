package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/reprise-run/reprise/failure"
)

// TestClassifyRecorded pipes every recorded failure through the verb: one line each, in order,
// with the members that it promises and the class that is right.
func TestClassifyRecorded(t *testing.T) {
	var recorded []byte
	for _, file := range []string{"cases", "further"} {
		b, err := os.ReadFile("../../failure/testdata/" + file + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		recorded = append(recorded, b...)
	}
	r := newHome(t).with(t.Context(), string(recorded), nil, "classify")
	r.want(t, exitDone)
	if r.stderr != "" {
		t.Errorf("said %q", r.stderr)
	}
	answers := bufio.NewScanner(strings.NewReader(r.stdout))
	for line := range strings.Lines(string(recorded)) {
		var c struct {
			ID        string
			Ambiguous bool
			Expect    struct {
				Class     failure.Class
				Retryable bool
				MS        *int64  `json:"retry_after_ms"`
				Until     *string `json:"retry_after_until"`
			}
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("%s: no answer", c.ID)
		}
		var members map[string]any
		var got failure.Answer
		if err := errors.Join(json.Unmarshal(answers.Bytes(), &members), json.Unmarshal(answers.Bytes(), &got)); err != nil {
			t.Fatalf("%s: %s: %v", c.ID, answers.Text(), err)
		}
		for _, m := range []string{"id", "class", "retryable", "rule", "message"} {
			if members[m] == nil {
				t.Errorf("%s: %s without %s", c.ID, answers.Text(), m)
			}
		}
		wait := got.RetryAfterMS != nil || got.RetryAfterUntil != ""
		if got.ID != c.ID || !c.Ambiguous && (got.Class != c.Expect.Class || got.Retryable != c.Expect.Retryable ||
			wait != (c.Expect.MS != nil || c.Expect.Until != nil)) {
			t.Errorf("%s: %s, want %+v", c.ID, answers.Text(), c.Expect)
		}
	}
	if answers.Scan() {
		t.Errorf("one answer too many: %s", answers.Text())
	}
}

// A line that cannot be used is told by its number and stops none of the others.
func TestClassifyUnusable(t *testing.T) {
	const good = `{"id":"a<b","provider":"openai","status":503}`
	for name, c := range map[string]struct {
		stdin, stderr string // stderr: after "reprise: line "
		answers       int
	}{
		"no JSON":          {"nonsense\n" + good + "\n", "1: read case: invalid character", 1},
		"another type":     {good + "\n[1]\n" + good, "2: read case: json: cannot unmarshal array", 2},
		"no such time":     {good + "\n\n{\"id\":\"x\",\"now\":\"today\"}\n", `3: read case "x": now: `, 1},
		"no such phase":    {`{"id":"x","phase":"late"}`, `1: read case "x": phase "late"`, 0},
		"cut off":          {good + "\n" + good[:20], "2: read case: unexpected end of JSON input", 1},
		"two in one line":  {good + good + "\n" + good, "1: read case: invalid character '{'", 1},
		"too long":         {good + "\n" + strings.Repeat("x", 3*maxLine) + "\n" + good + "\n", "2: longer than 4194304 bytes", 2},
		"too long at last": {good + "\n" + strings.Repeat("x", maxLine+1), "2: longer than 4194304 bytes", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHome(t).with(t.Context(), c.stdin, nil, "classify")
			r.want(t, exitFailed)
			if !strings.HasPrefix(r.stderr, "reprise: line "+c.stderr) || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("said %q, want %q", r.stderr, c.stderr)
			}
			if strings.Count(r.stdout, "\n") != c.answers || strings.Count(r.stdout, `"id":"a<b","class":"overloaded","retryable":true`) != c.answers {
				t.Errorf("%q, want %d answers", r.stdout, c.answers)
			}
		})
	}
}

// A line of the greatest length is read, and an empty input has nothing to answer.
func TestClassifyBounds(t *testing.T) {
	c := `{"id":"long","provider":"openai","status":503,"body":"` + strings.Repeat("x", maxLine)
	r := newHome(t).with(t.Context(), c[:maxLine-3]+"\"}\n\n  \n", nil, "classify")
	r.want(t, exitDone)
	if !strings.HasPrefix(r.stdout, `{"id":"long","class":"overloaded"`) || r.stderr != "" || len(r.stdout) > 8<<10 {
		t.Errorf("%d bytes, said %q", len(r.stdout), r.stderr)
	}
	r = newHome(t).run("classify")
	r.want(t, exitDone)
	if r.stdout != "" || r.stderr != "" {
		t.Errorf("said %q and %q", r.stdout, r.stderr)
	}
}

// What cannot be read or written is an error with its line.
func TestClassifyBroken(t *testing.T) {
	broken := errors.New("the pipe broke")
	var out, errs strings.Builder
	code := run(t.Context(), []string{"classify"}, nil, iotest.ErrReader(broken), &out, &errs)
	if code != exitFailed || errs.String() != "reprise: read line 1: the pipe broke\n" {
		t.Errorf("%d, said %q", code, &errs)
	}
	errs.Reset()
	code = run(t.Context(), []string{"classify"}, nil, strings.NewReader("\n{}\n"), brokenWriter{broken}, &errs)
	if code != exitFailed || errs.String() != "reprise: answer line 2: the pipe broke\n" {
		t.Errorf("%d, said %q", code, &errs)
	}
}

// A wish to stop ends it before the next answer.
func TestClassifyCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(string) { cancel() }
	r := newHome(t).with(ctx, "{\"id\":\"1\"}\n{\"id\":\"2\"}\n", stop, "classify")
	r.want(t, exitCancelled)
	if strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("answered %q", r.stdout)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// TestClassifyText: what a person pastes is explained to a person.
func TestClassifyText(t *testing.T) {
	const overloaded = `API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  []string
	}{
		"argument": {"", []string{overloaded}, []string{"class    overloaded: The provider or the model is short of capacity.",
			"verdict  worth retrying", "Reprise  Waits and goes on", "you      Wait, or choose another model.", "wait     none was stated",
			"rule     the code or type overloaded_error, whoever sends it", "source   https://docs.anthropic.com/", "message  Overloaded"}},
		"stdin":     {overloaded + "\n", nil, []string{"class    overloaded"}},
		"a dash":    {overloaded, []string{"-"}, []string{"class    overloaded"}},
		"not typed": {"", []string{"connect", "ECONNREFUSED", "127.0.0.1:11434"}, []string{"class    network", "verdict  worth retrying", "network library: “connect ECONNREFUSED *”"}},
		"provider": {"", []string{"--provider", "mistral", "Requests rate limit exceeded"},
			[]string{"class    rate_limited", "the complete sentence “Requests rate limit exceeded”, which is mistral's"}},
		"no provider": {"", []string{"Requests rate limit exceeded"}, []string{"class    unknown", "verdict  not worth retrying", "no rule knows it"}},
		"wait": {"", []string{`429 {"error":{"message":"Rate limit reached. Please try again in 6m0s.","code":"rate_limit_exceeded"}}`},
			[]string{"class    rate_limited", "wait     6m0s, until 20", ", stated by prose"}},
		"words":       {"", []string{`402 {"error":{"message":"Insufficient Balance"}}`}, []string{"class    quota_exhausted", "the words “insufficient balance”: no retry would help"}},
		"certificate": {"", []string{"unable to verify the first certificate"}, []string{"class    network", "verdict  not worth retrying"}},
		"a secret":    {"", []string{"401 Incorrect API key provided: sk-proj-Zq8vTnW3xYb5LmK1PdRs"}, []string{"class    auth_failed", "[key]"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHome(t).with(t.Context(), c.stdin, nil, append([]string{"classify", "--text"}, c.args...)...)
			r.want(t, exitDone)
			for _, want := range c.want {
				if !strings.Contains(r.stdout, want) {
					t.Errorf("said\n%swithout %q", r.stdout, want)
				}
			}
			if strings.Contains(r.stdout, "Zq8v") {
				t.Errorf("said a key: %s", r.stdout)
			}
		})
	}
}

func TestClassifyUsage(t *testing.T) {
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"text without its flag": {"", []string{"classify", "Overloaded"}, "needs --text"},
		"provider without it":   {"", []string{"classify", "--provider", "openai"}, "--provider needs --text"},
		"nothing pasted":        {" \n", []string{"classify", "--text"}, "the error's text is empty"},
		"too much pasted":       {strings.Repeat("x", maxLine+1), []string{"classify", "--text"}, "longer than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHome(t).with(t.Context(), c.stdin, nil, c.args...)
			r.want(t, exitUsage)
			if !strings.Contains(r.stderr, c.want) || r.stdout != "" {
				t.Errorf("said %q and %q, want %q", r.stderr, r.stdout, c.want)
			}
		})
	}
}
