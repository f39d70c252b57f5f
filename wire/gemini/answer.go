package gemini

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/internal/history"
	"github.com/reprise-run/reprise/wire/internal/retell"
	"github.com/reprise-run/reprise/wire/sse"
)

// NewWriter implements wire.Server.
func (Codec) NewWriter(_ []byte, whole bool) wire.Writer { return retell.New(teller{}, whole) }

// teller says an answer in parts. Nothing begins or ends: the next part is of another kind.
type teller struct{}

type answer struct {
	Candidates []told   `json:"candidates"`
	Usage      *counted `json:"usageMetadata,omitempty"`
	Model      string   `json:"modelVersion,omitempty"`
	ID         string   `json:"responseId"`
}

type told struct {
	Content turn   `json:"content"`
	Finish  string `json:"finishReason,omitempty"`
	Index   int    `json:"index"`
}

type counted struct {
	Prompt     int64 `json:"promptTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"`
	Thoughts   int64 `json:"thoughtsTokenCount,omitempty"`
	Cached     int64 `json:"cachedContentTokenCount,omitempty"`
	Total      int64 `json:"totalTokenCount"`
}

func counts(u *llm.Usage) *counted {
	if u == nil {
		return nil
	}
	return &counted{Prompt: u.Input, Candidates: max(0, u.Output-u.Thinking), Thoughts: u.Thinking, Cached: u.CacheRead,
		Total: u.Input + u.Output}
}

func chunkOf(a *retell.Answer, parts ...any) answer {
	if parts == nil {
		parts = []any{}
	}
	return answer{Candidates: []told{{Content: turn{Role: "model", Parts: parts}}}, Model: a.Model, ID: a.ID}
}

func say(a answer) []byte { return sse.Append(nil, "", wire.JSON(a)) }

// partOf is what a block says. A call carries the word that lets its client send it back to a model
// of the provider, which has not made it.
func partOf(b *retell.Block, text string) outPart {
	if b.Kind == llm.PartToolCall {
		return outPart{FunctionCall: &functionCall{b.ID, b.Name, history.Arguments(text)}, Signature: unsigned}
	}
	return outPart{Text: &text, Thought: b.Kind == llm.PartThinking}
}

// Begin implements retell.Teller, as the methods below do.
func (teller) Begin(*retell.Answer) []byte { return nil }

func (teller) Open(*retell.Answer, int) []byte { return nil }

func (teller) Delta(a *retell.Answer, i int, text string) []byte {
	return say(chunkOf(a, partOf(&a.Blocks[i], text)))
}

func (teller) Close(*retell.Answer, int) []byte { return nil }

func (t teller) end(a *retell.Answer, parts ...any) answer {
	last := chunkOf(a, parts...)
	last.Candidates[0].Finish, last.Usage = t.Stop(a.Stop), counts(a.Usage)
	return last
}

func (t teller) End(a *retell.Answer) []byte { return say(t.end(a)) }

func (t teller) Whole(a *retell.Answer) []byte {
	parts := make([]any, len(a.Blocks))
	for i := range a.Blocks {
		parts[i] = partOf(&a.Blocks[i], a.Blocks[i].Text)
	}
	return wire.JSON(t.end(a, parts...))
}

// Stop has the dialect's words: calls and stop sequences are ends like any other.
func (teller) Stop(s llm.StopReason) string {
	switch s {
	case llm.StopEnd, llm.StopToolCalls, llm.StopSequence:
		return "STOP"
	case llm.StopLength:
		return "MAX_TOKENS"
	case llm.StopFiltered:
		return "SAFETY"
	case llm.StopMalformed:
		return "MALFORMED_FUNCTION_CALL"
	}
	return ""
}
