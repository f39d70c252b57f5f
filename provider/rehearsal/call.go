package rehearsal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// call is what the upstream understands of one request.
type call struct {
	model     string // without a provider's name before it
	stream    bool
	usage     bool // chat: the usage was asked for
	array     bool // gemini: a stream that was not asked for as events is an array
	question  string
	result    string // the newest tool result, if one follows the question
	rounds    int    // of tool results after the question
	size      int    // characters of the conversation
	key       string
	script    *Script
	earlier   []Take
	requestID string
}

type speaker uint8

const (
	user speaker = iota
	assistant
	tool
)

// turns collects a conversation in order.
type turns struct {
	c    *call
	last speaker
}

func (t *turns) add(who speaker, text string) {
	t.c.size += len(text)
	switch who {
	case user:
		t.c.question, t.c.result, t.c.rounds = text, "", 0
	case tool:
		if t.last != tool {
			t.c.rounds++
		}
		t.c.result = text
	}
	t.last = who
}

// conversation is the key under which requests are counted: the caller's own, or the model
// and the question.
func (c *call) conversation(header string) string {
	if header != "" {
		return header
	}
	sum := sha256.Sum256([]byte(c.model + "\x00" + c.question))
	return hex.EncodeToString(sum[:6])
}

// bare takes the provider's name off a model's name.
func bare(model string) string {
	return model[strings.LastIndexByte(model, '/')+1:]
}

// plain returns the text in a JSON string, or in a list of parts of which some have text.
func plain(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw) // an object: a tool's structured result
	}
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// tokens estimates the length of the conversation.
func (c *call) tokens() int { return (c.size + 3) / 4 }
