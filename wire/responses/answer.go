package responses

import (
	"encoding/json"
	"strconv"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/retell"
)

// NewWriter implements wire.Server.
func (Codec) NewWriter(_ []byte, whole bool) wire.Writer {
	t := new(teller)
	t.numbered, t.number = true, -1
	return retell.New(t, whole)
}

// teller says an answer in items, and counts its events as a tail does.
type teller struct{ tail }

type counted struct {
	Input    int64 `json:"input_tokens"`
	InDetail struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens,omitempty"`
	} `json:"input_tokens_details"`
	Output    int64 `json:"output_tokens"`
	OutDetail struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int64 `json:"total_tokens"`
}

func counts(u *llm.Usage) *counted {
	if u == nil {
		return nil
	}
	c := counted{Input: u.Input, Output: u.Output, Total: u.Input + u.Output}
	c.InDetail.Cached, c.InDetail.Written, c.OutDetail.Reasoning = u.CacheRead, u.CacheWrite, u.Thinking
	return &c
}

// response is the object at an answer's beginning and end.
func (t *teller) response(a *retell.Answer, status string) object {
	o := object{ID: a.ID, Object: "response", CreatedAt: a.Created, Status: status, Model: a.Model, Output: []json.RawMessage{},
		Parallel: true, Tools: []string{}, ToolChoice: "auto", Metadata: map[string]string{}}
	if status == "in_progress" {
		return o
	}
	for i := range a.Blocks {
		o.Output = append(o.Output, wire.JSON(told(a, i, true)))
	}
	o.Usage = counts(a.Usage)
	if status == "incomplete" {
		reason := "max_output_tokens"
		if a.Stop == llm.StopFiltered {
			reason = "content_filter"
		}
		o.Incomplete = map[string]string{"reason": reason}
	}
	return o
}

func itemID(a *retell.Answer, i int) string {
	prefix := "msg_"
	switch a.Blocks[i].Kind {
	case llm.PartThinking:
		prefix = foreign
	case llm.PartToolCall:
		prefix = "fc_"
	}
	return prefix + a.ID + "_" + strconv.Itoa(i)
}

// told is a block as an item, with what it says or before it says anything.
func told(a *retell.Answer, i int, whole bool) any {
	b, id := &a.Blocks[i], itemID(a, i)
	status := "in_progress"
	if whole {
		status = "completed"
	}
	switch b.Kind {
	case llm.PartThinking:
		t := thought{Type: "reasoning", ID: id, Summary: []content{}}
		if whole {
			t.Summary, t.Encrypted = append(t.Summary, content{Type: "summary_text", Text: b.Text}), id
		}
		return t
	case llm.PartToolCall:
		c := struct {
			ID string `json:"id"`
			call
			Status string `json:"status"`
		}{id, call{"function_call", b.ID, b.Name, ""}, status}
		if whole {
			c.Arguments = b.Text
		}
		return c
	}
	m := struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Role    string `json:"role"`
		Status  string `json:"status"`
		Content []any  `json:"content"`
	}{id, "message", "assistant", status, []any{}}
	if whole {
		m.Content = append(m.Content, text(b.Text))
	}
	return m
}

// text is the content of a message.
func text(s string) any {
	return map[string]any{"type": "output_text", "text": s, "annotations": []string{}, "logprobs": []string{}}
}

func summary(s string) any { return map[string]string{"type": "summary_text", "text": s} }

// Begin implements retell.Teller, as the methods below do.
func (t *teller) Begin(a *retell.Answer) []byte {
	r := t.response(a, "in_progress")
	out := t.say(nil, said{Type: "response.created", Response: r})
	return t.say(out, said{Type: "response.in_progress", Response: r})
}

// at addresses the ith block, whose content is its only one.
func at(a *retell.Answer, i int) said {
	index, zero := int64(i), int64(0)
	s := said{ItemID: itemID(a, i), OutputIndex: &index}
	switch a.Blocks[i].Kind {
	case llm.PartThinking:
		s.SummaryIndex = &zero
	case llm.PartText:
		s.ContentIndex = &zero
	}
	return s
}

func (t *teller) item(out []byte, kind string, a *retell.Answer, i int, whole bool) []byte {
	index := int64(i)
	return t.say(out, said{Type: kind, OutputIndex: &index, Item: told(a, i, whole)})
}

func (t *teller) Open(a *retell.Answer, i int) []byte {
	out := t.item(nil, "response.output_item.added", a, i, false)
	s := at(a, i)
	switch a.Blocks[i].Kind {
	case llm.PartThinking:
		s.Type, s.Part = "response.reasoning_summary_part.added", summary("")
	case llm.PartToolCall:
		return out
	default:
		s.Type, s.Part = "response.content_part.added", text("")
	}
	return t.say(out, s)
}

func (t *teller) Delta(a *retell.Answer, i int, text string) []byte {
	s := at(a, i)
	s.Delta = text
	switch a.Blocks[i].Kind {
	case llm.PartThinking:
		s.Type = "response.reasoning_summary_text.delta"
	case llm.PartToolCall:
		s.Type = "response.function_call_arguments.delta"
	default:
		s.Type = "response.output_text.delta"
	}
	return t.say(nil, s)
}

func (t *teller) Close(a *retell.Answer, i int) (out []byte) {
	b, whole, part := &a.Blocks[i], at(a, i), at(a, i)
	whole.Text = b.Text
	switch b.Kind {
	case llm.PartThinking:
		whole.Type = "response.reasoning_summary_text.done"
		part.Type, part.Part = "response.reasoning_summary_part.done", summary(b.Text)
	case llm.PartToolCall:
		whole.Type, whole.Text, whole.Arguments = "response.function_call_arguments.done", nil, b.Text
	default:
		whole.Type = "response.output_text.done"
		part.Type, part.Part = "response.content_part.done", text(b.Text)
	}
	out = t.say(out, whole)
	if part.Type != "" {
		out = t.say(out, part)
	}
	return t.item(out, "response.output_item.done", a, i, true)
}

func (t *teller) End(a *retell.Answer) []byte {
	status := t.Stop(a.Stop)
	return t.say(nil, said{Type: "response." + status, Response: t.response(a, status)})
}

func (t *teller) Whole(a *retell.Answer) []byte { return wire.JSON(t.response(a, t.Stop(a.Stop))) }

// Stop is the status of the response: an answer is complete, whatever it ends with, or was cut.
func (*teller) Stop(s llm.StopReason) string {
	switch s {
	case llm.StopEnd, llm.StopToolCalls, llm.StopSequence:
		return "completed"
	case llm.StopLength, llm.StopFiltered:
		return "incomplete"
	}
	return ""
}
