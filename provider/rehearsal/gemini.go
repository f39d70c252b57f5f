package rehearsal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// gemini is Google's generateContent. The model and the stream switch are in the path, so
// its caller sets them.
type gemini struct{}

func (gemini) name() string { return "gemini" }

func (gemini) read(c *call, body []byte) error {
	type content struct {
		Role  string `json:"role"`
		Parts []struct {
			Text             string `json:"text"`
			FunctionResponse *struct {
				Response json.RawMessage `json:"response"`
			} `json:"functionResponse"`
		} `json:"parts"`
	}
	var in struct {
		SystemInstruction content   `json:"systemInstruction"`
		Contents          []content `json:"contents"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	for _, p := range in.SystemInstruction.Parts {
		c.size += len(p.Text)
	}
	t := turns{c: c}
	for _, m := range in.Contents {
		text, answered := "", false
		for _, p := range m.Parts {
			if p.FunctionResponse != nil {
				t.add(tool, result(p.FunctionResponse.Response))
				answered = true
			}
			text += p.Text
		}
		switch {
		case answered:
		case m.Role == "model":
			t.add(assistant, text)
		default:
			t.add(user, text)
		}
	}
	return nil
}

// result takes a tool's text out of the object that the API wants around it.
func result(raw json.RawMessage) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) == nil && len(members) == 1 {
		for _, v := range members {
			return plain(v)
		}
	}
	return string(raw)
}

func (gemini) refusal(f *Fault, _ string, now time.Time) (int, json.RawMessage) {
	w := f.vendor(words[f.Kind].gemini)
	extras := f.extras(now)
	switch {
	case f.Kind == AuthFailed:
		extras = `,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]`
	case f.Kind == Quota:
		extras = `,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"20"}]}]`
	}
	object := append(append(fill(`{"code":$,"message":$,"status":$`, w.status, w.message, w.kind), extras...), '}')
	return w.status, fill(`{"error":$}`, object)
}

func (gemini) header(f *Fault, now time.Time) http.Header { return f.header(now, false) }

func (gemini) body(s *stage, parts [][]byte, finish string) json.RawMessage {
	reason := []byte{}
	if finish != "" {
		reason = fill(`"finishReason":$,`, finish)
	}
	out, thought := s.tokens()
	return fill(`{"candidates":[{"content":{"parts":$,"role":"model"},`+string(reason)+`"index":0}],"usageMetadata":{"promptTokenCount":$,"candidatesTokenCount":$,"thoughtsTokenCount":$,"totalTokenCount":$},"modelVersion":$,"responseId":$}`,
		list(parts), s.call.tokens(), out-thought, thought, s.call.tokens()+out, s.call.model, s.id)
}

func (d gemini) chunk(s *stage, part []byte, finish string) {
	s.send("", "$", d.body(s, [][]byte{part}, finish))
}

func (d gemini) start(s *stage) { d.chunk(s, fill(`{"text":""}`), "") }

func (d gemini) open(*stage, *block) {}

func (d gemini) delta(s *stage, b *block, text string) {
	switch b.kind {
	case callBlock: // it comes whole, when it is complete
	case remoteBlock:
		d.chunk(s, d.part(b), "")
	case textBlock:
		d.chunk(s, fill(`{"text":$}`, text), "")
	case thinkingBlock:
		d.chunk(s, fill(`{"text":$,"thought":true}`, text), "")
	case redactedBlock:
		d.chunk(s, fill(`{"text":"","thought":true,"thoughtSignature":$}`, text), "")
	}
}

func (d gemini) shut(s *stage, b *block) {
	switch b.kind {
	case callBlock:
		d.chunk(s, d.part(b), "")
	case remoteBlock:
		d.chunk(s, fill(executionResult), "")
	}
}

// executionResult is what the provider's own tool gave.
const executionResult = `{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"rehearsed"}}`

func (d gemini) ping(s *stage) { d.start(s) }

func (d gemini) broken(s *stage, f *Fault, _ bool) {
	_, body := d.refusal(f, "", time.Now())
	s.send("", "$", body)
}

func (gemini) finish(reason string) string {
	switch reason {
	case "length":
		return "MAX_TOKENS"
	case "filtered":
		return "SAFETY"
	}
	return "STOP"
}

func (d gemini) done(s *stage) { d.chunk(s, fill(`{"text":""}`), d.finish(s.reason())) }

func (gemini) part(b *block) json.RawMessage {
	text := b.text.String()
	switch b.kind {
	case thinkingBlock:
		return fill(`{"text":$,"thought":true}`, text)
	case redactedBlock:
		return fill(`{"text":"","thought":true,"thoughtSignature":$}`, text)
	case remoteBlock:
		return fill(`{"executableCode":{"language":"PYTHON","code":$}}`, fmt.Sprintf("search(%q)", text))
	case callBlock:
		return fill(`{"functionCall":{"id":$,"name":$,"args":$},"thoughtSignature":$}`,
			b.id, b.name, json.RawMessage(text), signature)
	}
	return fill(`{"text":$}`, text)
}

func (d gemini) whole(s *stage) json.RawMessage {
	var parts [][]byte
	for _, b := range s.blocks {
		parts = append(parts, d.part(b))
		if b.kind == remoteBlock {
			parts = append(parts, fill(executionResult))
		}
	}
	return d.body(s, parts, d.finish(s.reason()))
}
