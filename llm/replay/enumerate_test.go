package replay_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
)

var length = flag.Int("length", 4, "events of the longest stream that is enumerated")

var errBroke = errors.New("the stream broke")

// letters are the alphabet of the enumeration: one letter is one thing that a stream does.
var letters = map[byte]llmtest.Step{
	's': {Event: llm.Event{Kind: llm.EventStart, ID: "resp"}},
	'0': {Event: llm.Event{Kind: llm.EventText}}, // an empty delta
	't': {Event: llm.Event{Kind: llm.EventText, Text: "hello"}},
	'h': {Event: llm.Event{Kind: llm.EventThinking, Text: "hm"}},
	'e': {Event: llm.Event{Kind: llm.EventPartEnd}},
	'c': {Event: llm.Event{Kind: llm.EventCallStart, Part: 1, ID: "call", Name: "tool"}},
	'd': {Event: llm.Event{Kind: llm.EventCallDelta, Part: 1, Text: "{}"}},
	'p': {Event: llm.Event{Kind: llm.EventProviderTool, Name: "web_search"}},
}

const (
	endDone = 'D'
	endFail = 'F'
	endCut  = 'X' // the stream ends without its terminal event
	endStop = 'C' // the operator cancels
)

// expectation is what the documents say about a sequence, worked out without the
// transaction: a second opinion.
type expectation struct {
	published string // letters that reach the sink before the end
	atEnd     string // letters that reach it with the terminal event
	safe      bool
}

// expect decides for one sequence under one policy.
func expect(seq string, hold replay.Hold) expectation {
	body, end := seq[:len(seq)-1], seq[len(seq)-1]
	content := func(c byte) bool { return c == 't' || c == 'h' || c == 'p' }
	open := -1 // index of the letter that opens the flow
	seen, bytes := -1, 0
	for i := range len(body) {
		c := body[i]
		if content(c) && seen < 0 {
			seen = i
		}
		switch c {
		case 't':
			bytes += 5
		case 'h', 'd':
			bytes += 2
		}
		if seen < 0 || open >= 0 {
			continue
		}
		switch hold.Mode {
		case replay.HoldFirstContent:
			open = i
		case replay.HoldBytes:
			if bytes >= hold.Bytes {
				open = i
			}
		case replay.HoldFirstBlock:
			if c == 'e' || c == 'c' || c == 'd' { // the part ended, or a later one began
				open = i
			}
		}
	}
	call := strings.IndexAny(body, "cd")
	x := expectation{safe: !strings.Contains(body, "p")}
	if open >= 0 && (call < 0 || open < call) {
		upTo := len(body)
		if call >= 0 {
			upTo = call
		}
		x.published = body[:upTo]
	}
	x.atEnd = body[len(x.published):]
	for i := range len(x.published) {
		x.safe = x.safe && !content(x.published[i])
	}
	if end == endDone {
		for i := range len(body) {
			x.safe = x.safe && !content(body[i]) && body[i] != 'c' && body[i] != 'd'
		}
	}
	return x
}

// recorder is a sink that checks, at every append, that the ledger had the mark first.
type recorder struct {
	t      *testing.T
	ledger replay.Ledger
	scope  llm.Scope
	id     *string
	got    []llm.Event
	fail   error
}

func (r *recorder) Append(ctx context.Context, events []llm.Event) error {
	for _, e := range events {
		if o := e.Observability(); o == llm.Content || o == llm.ToolCall || o == llm.Effect {
			ev, err := r.ledger.Evidence(ctx, r.scope, *r.id)
			if ok, _ := ev.Safe(); ok || ev.Marks == 0 || err != nil {
				r.t.Errorf("%v was published before its mark: %+v, %v", e.Kind, ev, err)
			}
		}
	}
	if r.fail != nil {
		return r.fail
	}
	r.got = append(r.got, events...)
	return nil
}

// text spells events in the letters of the enumeration, merged deltas letter by letter.
func text(events []llm.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch e.Kind {
		case llm.EventStart:
			b.WriteByte('s')
		case llm.EventText:
			if e.Text == "" {
				b.WriteByte('0')
			}
			b.WriteString(strings.Repeat("t", len(e.Text)/5))
		case llm.EventThinking:
			b.WriteString(strings.Repeat("h", len(e.Text)/2))
		case llm.EventPartEnd:
			b.WriteByte('e')
		case llm.EventCallStart:
			b.WriteByte('c')
		case llm.EventCallDelta:
			b.WriteString(strings.Repeat("d", len(e.Text)/2))
		case llm.EventProviderTool:
			b.WriteByte('p')
		case llm.EventCallCut:
			b.WriteByte('!')
		case llm.EventInterrupted:
			b.WriteByte('I')
		case llm.EventDone:
			b.WriteByte('D')
		}
	}
	return b.String()
}

// visible leaves out empty deltas, which merge with their neighbours.
func visible(s string) string { return strings.ReplaceAll(s, "0", "") }

// TestEveryShortStream runs the gate and the transaction over every sequence of up to four
// events (or -length) and every end, under every hold policy, and compares with the second opinion.
// F03–F07, F12–F14, F21, F47, F48, F51–F54, F61; N01–N09, N16, N25, N84.
func TestEveryShortStream(t *testing.T) {
	holds := []replay.Hold{{}, {Mode: replay.HoldWhole}, {Mode: replay.HoldFirstBlock},
		{Mode: replay.HoldBytes, Bytes: 6}, {Mode: replay.HoldFor, For: time.Hour}}
	count := 0
	var walk func(prefix string, f func(string))
	walk = func(prefix string, f func(string)) {
		for _, end := range []byte{endDone, endFail, endCut, endStop} {
			f(prefix + string(end))
		}
		if len(prefix) < *length {
			for c := range letters {
				walk(prefix+string(c), f)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		walk("", func(seq string) {
			for _, hold := range holds {
				count++
				one(t, seq, hold)
			}
		})
	})
	t.Logf("%d streams", count)
}

func one(t *testing.T, seq string, hold replay.Hold) {
	name := fmt.Sprintf("%s under %s", seq, hold)
	body, end := seq[:len(seq)-1], seq[len(seq)-1]
	var script []llmtest.Step
	for i := range len(body) {
		script = append(script, letters[body[i]])
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stopped := errors.New("stopped")
	switch end {
	case endDone:
		script = append(script, llmtest.Done(llm.StopEnd))
	case endFail:
		script = append(script, llmtest.Fail(errBroke))
	case endCut: // nothing more: Next gives io.EOF
	case endStop:
		script = append(script, llmtest.Step{Stall: true})
	}
	ledger := replay.NewMemory()
	scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: ledger.Claim("run")}
	provider := llmtest.Script(script)
	gate := replay.New(scope, ledger, replay.Operator{Actor: "ann", Message: "msg"})
	att, err := gate.Open(ctx, nil, provider, &llm.Request{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	id := att.ID()
	sink := &recorder{t: t, ledger: ledger, scope: scope, id: &id}
	if end == endStop {
		go func() { synctest.Wait(); cancel(stopped) }()
	}
	out, broken := att.Run(sink, replay.Terms{Hold: hold})
	want := expect(seq, hold)
	if end == endDone {
		if broken != nil {
			t.Errorf("%s: broke with %v", name, broken.Err)
			return
		}
		if got := visible(text(sink.got)); got != visible(body)+"D" {
			t.Errorf("%s: published %q", name, got)
		}
		ev, _ := ledger.Evidence(ctx, scope, id)
		if ok, why := ev.Safe(); ok != want.safe {
			t.Errorf("%s: safe %v (%v), want %v", name, ok, why, want.safe)
		}
		if out.Stop != llm.StopEnd {
			t.Errorf("%s: output %+v", name, out)
		}
		return
	}
	if broken == nil {
		t.Errorf("%s: ended well", name)
		return
	}
	if end == endStop && !errors.Is(broken.Err, stopped) || end == endFail && !errors.Is(broken.Err, errBroke) {
		t.Errorf("%s: %v", name, broken.Err)
	}
	if got := visible(text(sink.got)); got != visible(want.published) {
		t.Errorf("%s: published %q, want %q", name, got, want.published)
	}
	if ok, why := broken.Evidence.Safe(); ok != want.safe {
		t.Errorf("%s: safe %v (%v), want %v", name, ok, why, want.safe)
	}
	shown := strings.ContainsAny(want.published, "thp")
	if (broken.Held == nil) != shown {
		t.Errorf("%s: held %v although shown is %v", name, broken.Held != nil, shown)
	}
	if end == endStop {
		if shown {
			if _, err := broken.Cut("cancelled"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := visible(text(sink.got)); got != visible(want.published)+"I" {
				t.Errorf("%s: after the cut %q", name, got)
			}
		}
		return
	}
	if broken.Held != nil {
		// Discarded, it may be repeated exactly where it is safe.
		broken.Held.Discard()
		_, err := gate.Open(ctx, att, provider, &llm.Request{})
		var no *replay.Refused
		if want.safe != (err == nil) || err != nil && !errors.As(err, &no) {
			t.Errorf("%s: a second attempt: %v, safe is %v", name, err, want.safe)
		}
		if len(sink.got) != 0 {
			t.Errorf("%s: a discarded attempt left %q", name, text(sink.got))
		}
		return
	}
	if _, err := gate.Open(ctx, att, provider, &llm.Request{}); err == nil {
		t.Errorf("%s: a second attempt after something was shown", name)
	}
	// Kept, everything but the calls is shown once, and the end is marked.
	if _, err := broken.Keep("broke"); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	kept := body
	if i := strings.IndexAny(kept, "cd"); i >= 0 {
		calls := strings.NewReplacer("c", "", "d", "")
		kept = kept[:i] + "!" + calls.Replace(kept[i:])
	}
	got := visible(text(sink.got))
	got = strings.Replace(got, "!", "", -1)
	if want := visible(strings.ReplaceAll(kept, "!", "")) + "I"; got != want {
		t.Errorf("%s: kept %q, want %q", name, got, want)
	}
	if n := len(provider.Requests()); n != 1 {
		t.Errorf("%s: %d requests", name, n)
	}
}
