package messages

import (
	"encoding/json"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/history"
	"github.com/reprise-run/reprise/wire/internal/retell"
	"github.com/reprise-run/reprise/wire/sse"
)

// NewWriter implements wire.Server.
func (Codec) NewWriter(_ []byte, whole bool) wire.Writer { return retell.New(teller{}, whole) }

// teller says an answer in blocks.
type teller struct{}

type answer struct {
	ID       string  `json:"id"`
	Type     string  `json:"type"`
	Role     string  `json:"role"`
	Model    string  `json:"model"`
	Content  []any   `json:"content"`
	Stop     *string `json:"stop_reason"`
	Sequence *string `json:"stop_sequence"`
	Usage    counted `json:"usage"`
}

type counted struct {
	Input   int64 `json:"input_tokens"`
	Written int64 `json:"cache_creation_input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Output  int64 `json:"output_tokens"`
	Details struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func counts(u *llm.Usage) (c counted) {
	if u != nil {
		c = counted{Input: max(0, u.Input-u.CacheRead-u.CacheWrite), Written: u.CacheWrite, Read: u.CacheRead, Output: u.Output}
		c.Details.Thinking = u.Thinking
	}
	return c
}

// event is one event. Its members follow its type.
func event(kind string, members any) []byte {
	data := append([]byte(`{"type":"`+kind+`",`), wire.JSON(members)[1:]...)
	return sse.Append(nil, kind, data)
}

func (teller) message(a *retell.Answer) answer {
	return answer{ID: a.ID, Type: "message", Role: "assistant", Model: a.Model, Content: []any{}, Usage: counts(a.Usage)}
}

// Begin implements retell.Teller, as the methods below do.
func (t teller) Begin(a *retell.Answer) []byte {
	m := t.message(a)
	m.Usage.Output = 0
	return event("message_start", struct {
		Message answer `json:"message"`
	}{m})
}

// blockOf is a block of the answer, with what it says or before it says anything.
func blockOf(b *retell.Block, whole bool) any {
	text, proof := b.Text, unsigned
	if !whole {
		text, proof = "", ""
	}
	switch b.Kind {
	case llm.PartThinking:
		return struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{"thinking", text, proof}
	case llm.PartToolCall:
		input := json.RawMessage("{}")
		if whole {
			input = history.Arguments(text)
		}
		return struct {
			Type  string          `json:"type"`
			ID    string          `json:"id"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}{"tool_use", b.ID, b.Name, input}
	}
	return struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text}
}

func (teller) Open(a *retell.Answer, i int) []byte {
	return event("content_block_start", struct {
		Index int `json:"index"`
		Block any `json:"content_block"`
	}{i, blockOf(&a.Blocks[i], false)})
}

type piece struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	Thinking  string `json:"thinking,omitempty"`
	Partial   string `json:"partial_json,omitempty"`
	Signature string `json:"signature,omitempty"`
}

func delta(i int, p piece) []byte {
	return event("content_block_delta", struct {
		Index int   `json:"index"`
		Delta piece `json:"delta"`
	}{i, p})
}

func (teller) Delta(a *retell.Answer, i int, text string) []byte {
	switch a.Blocks[i].Kind {
	case llm.PartThinking:
		return delta(i, piece{Type: "thinking_delta", Thinking: text})
	case llm.PartToolCall:
		return delta(i, piece{Type: "input_json_delta", Partial: string(history.Arguments(text))})
	}
	return delta(i, piece{Type: "text_delta", Text: text})
}

func (teller) Close(a *retell.Answer, i int) (out []byte) {
	if a.Blocks[i].Kind == llm.PartThinking {
		out = delta(i, piece{Type: "signature_delta", Signature: unsigned})
	}
	return append(out, event("content_block_stop", struct {
		Index int `json:"index"`
	}{i})...)
}

func (t teller) End(a *retell.Answer) []byte {
	type stop struct {
		Stop     string  `json:"stop_reason"`
		Sequence *string `json:"stop_sequence"`
	}
	out := event("message_delta", struct {
		Delta stop    `json:"delta"`
		Usage counted `json:"usage"`
	}{stop{Stop: t.Stop(a.Stop)}, counts(a.Usage)})
	return sse.Append(out, "message_stop", []byte(`{"type":"message_stop"}`))
}

func (t teller) Whole(a *retell.Answer) []byte {
	m := t.message(a)
	for i := range a.Blocks {
		m.Content = append(m.Content, blockOf(&a.Blocks[i], true))
	}
	word := t.Stop(a.Stop)
	m.Stop = &word
	return wire.JSON(m)
}

// Stop has the words of what other dialects end with. Which sequence it was, they do not say.
func (teller) Stop(s llm.StopReason) string {
	switch s {
	case llm.StopEnd:
		return "end_turn"
	case llm.StopToolCalls:
		return "tool_use"
	case llm.StopLength:
		return "max_tokens"
	case llm.StopSequence:
		return "stop_sequence"
	case llm.StopFiltered:
		return "refusal"
	}
	return ""
}
