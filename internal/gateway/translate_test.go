package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/transport"
	"github.com/reprise-run/reprise/wire/sse"
)

// heard decodes what a client of the dialect was sent.
func heard(t *testing.T, dialect, body string, whole bool) *llm.Output {
	t.Helper()
	d := transport.Servers[dialect].NewDecoder()
	out := new(llm.Output)
	take := func(events []llm.Event, err error) {
		if err != nil {
			t.Errorf("%s: %v\n%s", dialect, err, body)
		}
		for i := range events {
			out.Add(&events[i])
		}
	}
	if whole {
		take(d.Decode(nil, sse.Frame{Raw: []byte(body)}))
	} else {
		r := sse.NewReader(strings.NewReader(body))
		for f, err := r.Next(); err == nil; f, err = r.Next() {
			take(d.Decode(nil, f))
		}
	}
	if events, err := d.End(nil); err == nil {
		take(events, nil)
	} else if out.Stop == "" {
		take(nil, err)
	}
	return out
}

// said is what an output says, as far as a rehearsed reply is always the same, and whether it says
// what it took.
func said(o *llm.Output) string {
	var all strings.Builder
	for _, p := range o.Parts() {
		if p.Kind == llm.PartToolCall {
			fmt.Fprintf(&all, "[%s %s]", p.Name, p.Arguments)
			continue
		}
		text, _, _ := strings.Cut(p.Text, "## What just")
		fmt.Fprintf(&all, "%s: %s", p.Kind, text)
	}
	return fmt.Sprintf("%s %s %t", all.String(), o.Stop, o.Usage != nil && o.Usage.Input > 0 && o.Usage.Output > 0)
}

// Every dialect is answered by a model of every other one as by its own.
func TestTranslated(t *testing.T) {
	run(t, gateway.Options{}, func(w *world) {
		for _, dialect := range names {
			for _, other := range names {
				for _, stream := range []bool{true, false} {
					for _, script := range []string{"ok-fast", "thinking-fast", "tool-fast", "length-fast", "filtered-fast"} {
						name := fmt.Sprintf("%s for %s, stream %t, %s", other, dialect, stream, script)
						_, own, _ := w.post(dialect, script, stream)
						resp, body, err := w.post(dialect, "always-503 then "+other+":"+script, stream)
						if err != nil || resp.StatusCode != 200 || resp.Header.Get(transport.HeaderModel) != other+"/"+script {
							t.Errorf("%s: %d %v %v\n%s", name, resp.StatusCode, err, resp.Header, body)
							continue
						}
						got, want := said(heard(t, dialect, body, !stream)), said(heard(t, dialect, own, !stream))
						if got != want {
							t.Errorf("%s: %q, by its own %q", name, got, want)
						}
					}
				}
			}
		}
		for _, said := range w.shown {
			if strings.Contains(said, "client") || !strings.Contains(said, "operator's") {
				t.Errorf("the provider was sent %s", said)
			}
		}
	})
}

// R1-R4: what breaks in another dialect before output is repeated unseen, in an answer of one piece
// also after it, and one that was shown ends in the words of the client's and is fenced.
func TestTranslatedAndBroken(t *testing.T) {
	f := &fences{}
	run(t, gateway.Options{Fences: f}, func(w *world) {
		for i, dialect := range names {
			other := names[(i+1)%len(names)]
			total := w.upstream.Requests().Total
			_, body, err := w.post(dialect, other+":cut-after-text-fast", true)
			end, worded := ends[dialect]
			if (err == nil) != worded || worded && !strings.Contains(body, end) || strings.Contains(body, terminal[dialect]) || !strings.Contains(body, "rehearsed") {
				t.Errorf("%s by %s: %v\n%s", dialect, other, err, body)
			}
			if dialect == "messages" && strings.Index(body, "content_block_stop") > strings.Index(body, "event: error") {
				t.Errorf("an error inside a block\n%s", body)
			}
			if len(f.raised) != i+1 {
				t.Errorf("%s: raised %q", dialect, f.raised)
			}
			for _, c := range []struct {
				script string
				stream bool
			}{{"failed-inside-text-once-fast", false}, {"half-call-then-ok-fast", true}, {"call-failed-then-ok-fast", true}, {"overloaded-after-start-then-ok-fast", true}} {
				resp, body, err := w.post(dialect, other+":"+c.script, c.stream)
				if err != nil || resp.StatusCode != 200 || strings.Contains(body, "clock") {
					t.Errorf("%s by %s, %s: %d %v\n%s", dialect, other, c.script, resp.StatusCode, err, body)
				}
			}
			if n := w.upstream.Requests().Total - total; n != 1+4*2 {
				t.Errorf("%s by %s: %d requests", dialect, other, n)
			}
		}
	})
}

// What another dialect is told is what the client has said, and nothing that only the client's own
// provider can read.
func TestToldToAnotherDialect(t *testing.T) {
	run(t, gateway.Options{}, func(w *world) {
		const body = `{"model":"%s:ok-fast","max_tokens":77,"temperature":0.5,"system":"Be exact.","tools":[{"name":"clock","description":"tells","input_schema":{"type":"object"}}],"messages":[
			{"role":"user","content":[{"type":"text","text":"Time?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aW1n"}}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"a secret thought","signature":"c2lnbmVk"},{"type":"redacted_thinking","data":"cmVkYWN0"},{"type":"tool_use","id":"toolu_1","name":"clock","input":{"zone":"UTC"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"noon"}]}]}`
		for _, other := range []string{"chat", "responses", "gemini"} {
			resp, said, err := w.send("/v1/messages", fmt.Sprintf(body, other), "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "some")
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: %d %v %s", other, resp.StatusCode, err, said)
			}
			n := len(w.bodies) - 1
			told := fmt.Sprint(w.headers[n], w.bodies[n])
			for _, want := range []string{"77", "0.5", "Be exact.", "clock", "tells", "Time?", "aW1n", "zone", "UTC", "toolu_1", "noon"} {
				if !strings.Contains(told, want) {
					t.Errorf("%s is not told %q: %s", other, want, told)
				}
			}
			for _, never := range []string{"secret thought", "c2lnbmVk", "cmVkYWN0", "Anthropic"} {
				if strings.Contains(told, never) {
					t.Errorf("%s is told %q: %s", other, never, told)
				}
			}
		}
	})
}

// first is an answer's first frame without its numbers.
func first(body string) string {
	frame, _, _ := strings.Cut(body, "\n\n")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, frame)
}

// An answer that broke before output leaves nothing to the one that follows it in another dialect,
// in either order.
func TestDialectsInTurn(t *testing.T) {
	run(t, gateway.Options{}, func(w *world) {
		for i, dialect := range names {
			other := names[(i+1)%len(names)]
			for _, model := range []string{"overloaded-after-start then " + other + ":ok-fast", other + ":overloaded-after-start then ok-fast"} {
				resp, body, err := w.post(dialect, model, true)
				own := resp.Header.Get(transport.HeaderModel) == dialect+"/ok-fast"
				if err != nil || resp.StatusCode != 200 || (resp.Header.Get("X-Request-Id") != "") != own {
					t.Errorf("%s of %s: %d %v %v", dialect, model, resp.StatusCode, err, resp.Header)
				}
				if _, passed, _ := w.post(dialect, "ok-fast", true); own && first(body) != first(passed) {
					t.Errorf("%s of %s does not pass as it is: %s", dialect, model, first(body))
				}
				if out := heard(t, dialect, body, false); out.Stop != llm.StopEnd || !strings.Contains(said(out), "You asked") {
					t.Errorf("%s of %s: %s", dialect, model, body)
				}
			}
		}
	})
}

// lost are requests that no other dialect can be told, with the field that is lost.
var lost = map[string][3]string{
	"chat":      {"/v1/chat/completions", `{"model":%q,"stream":true,"messages":[{"role":"user","content":"x"}],"logprobs":true}`, "logprobs"},
	"responses": {"/v1/responses", `{"model":%q,"stream":true,"input":"x","truncation":"auto"}`, "truncation"},
	"messages":  {"/v1/messages", `{"model":%q,"stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}],"top_k":3}`, "top_k"},
	"gemini":    {"/v1beta/models/%s:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"x"}]}],"cachedContent":"c"}`, "cachedContent"},
}

// What cannot be told to a model of another dialect is not: it is refused by the field's name
// where nobody else is left, and nothing is read where somebody else answers.
func TestLost(t *testing.T) {
	run(t, gateway.Options{}, func(w *world) {
		for i, dialect := range names {
			other := names[(i+1)%len(names)]
			send := func(model string) (*http.Response, string) {
				path, body := lost[dialect][0], lost[dialect][1]
				if dialect == "gemini" {
					path = fmt.Sprintf(path, strings.ReplaceAll(model, " ", "%20"))
				} else {
					body = fmt.Sprintf(body, model)
				}
				resp, said, _ := w.send(path, body)
				return resp, said
			}
			total := w.upstream.Requests().Total
			resp, body := send(other + ":ok-fast")
			if resp.StatusCode != 400 || resp.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, lost[dialect][2]) || !strings.Contains(strings.ToLower(body), "not_translatable") {
				t.Errorf("%s: %d %s", dialect, resp.StatusCode, body)
			}
			if resp, body = send("quota then " + other + ":ok-fast"); resp.StatusCode != 400 || !strings.Contains(body, lost[dialect][2]) {
				t.Errorf("%s after a failure: %d %s", dialect, resp.StatusCode, body)
			}
			if resp, body = send("always-503 then " + other + ":ok-fast"); resp.StatusCode < 500 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, lost[dialect][2]) {
				t.Errorf("%s after what may pass: %d %s", dialect, resp.StatusCode, body)
			}
			if resp, body = send("ok-fast then " + other + ":ok-fast"); resp.StatusCode != 200 {
				t.Errorf("%s by its own: %d %s", dialect, resp.StatusCode, body)
			}
			if resp, body = send(other + ":ok-fast then ok-fast"); resp.StatusCode != 200 || resp.Header.Get(transport.HeaderModel) != dialect+"/ok-fast" {
				t.Errorf("%s by its own in the second place: %d %s", dialect, resp.StatusCode, body)
			}
			if n := w.upstream.Requests().Total - total; n != 1+3+1+1 {
				t.Errorf("%s: %d requests", dialect, n)
			}
		}
		resp, body, _ := w.send("/v1/chat/completions", `{"model":"responses:ok-fast","messages":[{"role":"user","content":"x"}],"stop":"END"}`)
		if resp.StatusCode != 400 || !strings.Contains(body, "no stop sequences") || !strings.Contains(body, "not_translatable") {
			t.Errorf("stop: %d %s", resp.StatusCode, body)
		}
		resp, body, _ = w.send("/v1/messages/count_tokens", `{"model":"chat:ok-fast","messages":[{"role":"user","content":"x"}]}`)
		if resp.StatusCode != 400 || !strings.Contains(body, "tokens") {
			t.Errorf("count: %d %s", resp.StatusCode, body)
		}
	})
}
