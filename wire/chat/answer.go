package chat

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/openai"
	"github.com/reprise-run/reprise/wire/internal/retell"
	"github.com/reprise-run/reprise/wire/internal/scan"
	"github.com/reprise-run/reprise/wire/sse"
)

// NewWriter implements wire.Server. Usage comes in a chunk of its own where the client asks for it.
func (Codec) NewWriter(body []byte, whole bool) wire.Writer {
	var t teller
	// A body that is no object asks for nothing.
	_ = scan.Fields(body, func(name, v []byte) error {
		if string(name) != "stream_options" {
			return nil
		}
		return openai.Fields(v, func(name, v []byte) error {
			t.usage = t.usage || string(name) == "include_usage" && string(v) == "true"
			return nil
		})
	})
	return retell.New(t, whole)
}

// teller says an answer in chunks.
type teller struct{ usage bool }

// said is a chunk, or a whole answer.
type said struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choose `json:"choices"`
	Usage   *counted `json:"usage,omitempty"`
}

type choose struct {
	Index   int      `json:"index"`
	Delta   *spoken  `json:"delta,omitempty"`
	Message *spoken  `json:"message,omitempty"`
	Finish  *string  `json:"finish_reason"`
	Probs   *float64 `json:"logprobs"`
}

type spoken struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	Calls     []asked `json:"tool_calls,omitempty"`
}

type asked struct {
	Index    *int      `json:"index,omitempty"`
	ID       string    `json:"id,omitempty"`
	Type     string    `json:"type,omitempty"`
	Function signature `json:"function"`
}

type signature struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type counted struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Read       struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens,omitempty"`
	} `json:"prompt_tokens_details"`
	Thought struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func counts(u *llm.Usage) *counted {
	if u == nil {
		return nil
	}
	c := counted{Prompt: u.Input, Completion: u.Output, Total: u.Input + u.Output}
	c.Read.Cached, c.Read.Written, c.Thought.Reasoning = u.CacheRead, u.CacheWrite, u.Thinking
	return &c
}

func (t teller) chunk(a *retell.Answer, c ...choose) said {
	return said{ID: a.ID, Object: "chat.completion.chunk", Created: a.Created, Model: a.Model, Choices: c}
}

func (t teller) delta(a *retell.Answer, d spoken) []byte {
	return sse.Append(nil, "", wire.JSON(t.chunk(a, choose{Delta: &d})))
}

// Begin implements retell.Teller, as the methods below do.
func (t teller) Begin(a *retell.Answer) []byte {
	return t.delta(a, spoken{Role: "assistant", Content: new(string)})
}

func (t teller) Open(a *retell.Answer, i int) []byte {
	b := &a.Blocks[i]
	if b.Kind != llm.PartToolCall {
		return nil
	}
	n := a.Calls(i)
	return t.delta(a, spoken{Calls: []asked{{Index: &n, ID: b.ID, Type: "function", Function: signature{Name: b.Name}}}})
}

func (t teller) Delta(a *retell.Answer, i int, text string) []byte {
	switch a.Blocks[i].Kind {
	case llm.PartThinking:
		return t.delta(a, spoken{Reasoning: text})
	case llm.PartToolCall:
		n := a.Calls(i)
		return t.delta(a, spoken{Calls: []asked{{Index: &n, Function: signature{Arguments: text}}}})
	}
	return t.delta(a, spoken{Content: &text})
}

func (teller) Close(*retell.Answer, int) []byte { return nil }

func (t teller) End(a *retell.Answer) []byte {
	word := t.Stop(a.Stop)
	out := sse.Append(nil, "", wire.JSON(t.chunk(a, choose{Delta: new(spoken), Finish: &word})))
	if t.usage && a.Usage != nil {
		last := t.chunk(a)
		last.Choices, last.Usage = []choose{}, counts(a.Usage)
		out = sse.Append(out, "", wire.JSON(last))
	}
	return sse.Append(out, "", []byte("[DONE]"))
}

func (t teller) Whole(a *retell.Answer) []byte {
	m := spoken{Role: "assistant"}
	for i := range a.Blocks {
		switch b := &a.Blocks[i]; b.Kind {
		case llm.PartThinking:
			m.Reasoning += b.Text
		case llm.PartToolCall:
			m.Calls = append(m.Calls, asked{ID: b.ID, Type: "function", Function: signature{b.Name, b.Text}})
		default:
			if m.Content == nil {
				m.Content = new(string)
			}
			*m.Content += b.Text
		}
	}
	word := t.Stop(a.Stop)
	all := t.chunk(a, choose{Message: &m, Finish: &word})
	all.Object, all.Usage = "chat.completion", counts(a.Usage)
	return wire.JSON(all)
}

// Stop has the dialect's five words; a stop sequence is one of its ends.
func (teller) Stop(s llm.StopReason) string {
	switch s {
	case llm.StopEnd, llm.StopSequence:
		return "stop"
	case llm.StopToolCalls:
		return "tool_calls"
	case llm.StopLength:
		return "length"
	case llm.StopFiltered:
		return "content_filter"
	}
	return ""
}
