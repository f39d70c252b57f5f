package rehearsal

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// terminal is what an answer of the dialect that is complete contains.
var terminal = map[string]string{
	"chat": "[DONE]", "responses": `"type":"response.completed"`, "messages": `"type":"message_stop"`, "gemini": `"finishReason":"STOP"`,
}

// TestEveryScript plays every script in every dialect, streamed and not, and checks how each
// ends and that what comes is well-formed.
func TestEveryScript(t *testing.T) {
	for _, script := range Scripts() {
		if strings.HasSuffix(script.Name, "-then-ok") || script.Name == "flood" {
			continue // the first take is another script's; TestPace plays the other
		}
		for _, dialect := range dialects {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/stream=%t", script.Name, dialect, stream), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s, c := rehearse(t)
						path, body := ask(dialect, "rehearsal/"+script.Name+"-fast", "Hello?", stream)
						a, err := send(t, c, "", path, body)
						check(t, &script, dialect, stream, a, err)
						synctest.Wait()
						r := s.Requests()
						if r.Total != 1 || r.Open != 0 || r.Requests[0].Outcome == "" || r.Requests[0].Dialect != dialect {
							t.Errorf("report: %+v", r)
						}
					})
				})
			}
		}
	}
}

func check(t *testing.T, s *Script, dialect string, stream bool, a answer, err error) {
	t.Helper()
	take := s.Scenes[0][0]
	end := Step{Do: Done}
	first := len(take)
	for i := range take {
		if take[i].ends() {
			end, first = take[i], i
			break
		}
	}
	begun := first > 0 && stream
	switch end.Do {
	case Status:
		if err != nil || a.status < 400 || !json.Valid([]byte(a.body)) || !strings.Contains(a.body, `"error"`) {
			t.Fatalf("%v, %d %s", err, a.status, a.body)
		}
		return
	case Object, Page:
		if err != nil || a.err != nil {
			t.Fatalf("%v, %v", err, a.err)
		}
		return
	case Reset, Cut, Stall, KeepAlive, Ping:
		if err == nil && a.err == nil {
			t.Fatalf("ended well: %d %s", a.status, a.body)
		}
		if begun && err != nil {
			t.Fatalf("no answer: %v", err)
		}
		if strings.Contains(a.body, terminal[dialect]) {
			t.Fatalf("terminal event in %s", a.body)
		}
		return
	case Failed, Error:
		if err != nil || a.err != nil {
			t.Fatalf("%v, %v", err, a.err)
		}
		if !strings.Contains(a.body, `error`) || stream != (a.status == 200) {
			t.Fatalf("no error in %d %s", a.status, a.body)
		}
	case End, Malformed:
		if err != nil || a.err != nil || a.status != 200 {
			t.Fatalf("%v, %v, %d", err, a.err, a.status)
		}
		if stream && strings.Contains(a.body, terminal[dialect]) || !stream && json.Valid([]byte(a.body)) {
			t.Fatalf("complete: %s", a.body)
		}
		return
	case Done:
		if err != nil || a.err != nil || a.status != 200 {
			t.Fatalf("%v, %v, %d", err, a.err, a.status)
		}
		if stream && end.Stop == "" && !strings.Contains(a.body, terminal[dialect]) {
			t.Fatalf("no terminal event in %s", a.body)
		}
	}
	if !stream {
		if !json.Valid([]byte(a.body)) {
			t.Fatalf("not JSON: %s", a.body)
		}
		return
	}
	for line := range strings.Lines(a.body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" && !json.Valid([]byte(data)) {
			t.Fatalf("not JSON: %s", data)
		}
	}
}

func TestValidate(t *testing.T) {
	take := func(steps ...Step) Script { return Script{Name: "x", Scenes: []Scene{{steps}}} }
	for _, tc := range []struct {
		script Script
		want   string
	}{
		{Script{}, "without a name"},
		{Script{Name: "x"}, "no scenes"},
		{Script{Name: "x", Scenes: []Scene{{}}}, "no takes"},
		{take(Step{Do: "dance"}), `unknown verb "dance"`},
		{take(Step{Do: Status}), "needs a fault"},
		{take(Step{Do: Status, Fault: &Fault{Kind: "odd"}}), `unknown kind of fault "odd"`},
		{take(Step{Do: Status, Fault: &Fault{Kind: Quota, Status: 200}}), "a status that is no error"},
		{take(Step{Do: Error, Fault: &Fault{Kind: Quota, Hint: "telepathy"}}), "unknown hint"},
		{take(Step{Do: Start}, Step{Do: Page}), "the answer has begun"},
		{take(Step{Do: Ping}), "needs for, times or both"},
		{take(Step{Do: Done, Stop: "whim"}), "unknown stop"},
		{take(Step{Do: Wait}), "needs for"},
		{take(Step{Do: Say, Deltas: -1}), "negative"},
	} {
		_, err := New(tc.script)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.script, err, tc.want)
		}
	}
}

// TestScriptText reads a script as a configuration file gives it.
func TestScriptText(t *testing.T) {
	const text = `{"name":"mine","pause":"5ms","rewind":true,"scenes":[[[{"do":"status","fault":{"kind":"rate_limited","wait":"1m30s","hint":"prose"}}],[{"do":"say","text":"Hi","deltas":3},{"do":"wait","for":"2s"}]]]}`
	var s Script
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if back, err := json.Marshal(s); err != nil || !strings.Contains(string(back), `"wait":"1m30s"`) {
		t.Errorf("%v %s", err, back)
	}
}

func TestScriptNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Scripts() {
		if seen[s.Name] || s.Shows == "" || s.Group == "" {
			t.Errorf("script %q: listed twice, or without group or line", s.Name)
		}
		seen[s.Name] = true
	}
	for _, text := range closings {
		for _, part := range strings.Split(text, "`rehearsal/")[1:] {
			if name, _, _ := strings.Cut(part, "`"); !seen[name] {
				t.Errorf("a reply recommends %q, which is no script", name)
			}
		}
	}
}

// TestBounds: the report forgets the oldest requests and the oldest keys, never the counts.
func TestBounds(t *testing.T) {
	l := newLedger()
	script := &Script{Name: "x", Scenes: []Scene{{reply, reply}}}
	for i := range keptRequests + keptKeys {
		l.begin(&Request{Key: fmt.Sprint(i), Model: "x"}, script, 0)
	}
	r, _ := l.report()
	if r.Total != keptRequests+keptKeys || len(r.Requests) > keptRequests || len(l.played) > keptKeys || len(r.ByKey) > keptKeys {
		t.Errorf("total %d, kept %d, played %d, keys %d", r.Total, len(r.Requests), len(l.played), len(r.ByKey))
	}
	if last := r.Requests[len(r.Requests)-1]; last.Number != r.Total {
		t.Errorf("the newest kept is %d of %d", last.Number, r.Total)
	}
}
