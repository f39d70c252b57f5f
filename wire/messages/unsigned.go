package messages

import (
	"bytes"
	"encoding/json"

	"github.com/reprise-run/reprise/wire/internal/rawjson"
)

// unsigned stands for the signature of a thought that a model of another dialect had. A client
// sends the thought back with it, and the provider would refuse the request for it.
const unsigned = "cmVwcmlzZS11bnNpZ25lZC10aG91Z2h0"

// forget returns a raw request without the thoughts that nobody signed.
func forget(raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte(unsigned)) {
		return raw, nil
	}
	var req struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(raw, &req); err != nil {
		return nil, err
	}
	kept := make([]json.RawMessage, 0, len(req.Messages))
	for _, m := range req.Messages {
		m, err := signed(m)
		if err != nil {
			return nil, err
		}
		if m != nil {
			kept = append(kept, m)
		}
	}
	list, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	return rawjson.Set(raw, rawjson.Field{Name: "messages", Value: string(list)})
}

// signed returns a message without such thoughts; nil where nothing else was in it. One without
// blocks stays as it is.
func signed(message json.RawMessage) (json.RawMessage, error) {
	var m struct {
		Content json.RawMessage `json:"content"`
	}
	var blocks []json.RawMessage
	if !bytes.Contains(message, []byte(unsigned)) || json.Unmarshal(message, &m) != nil || json.Unmarshal(m.Content, &blocks) != nil {
		return message, nil
	}
	kept := make([]json.RawMessage, 0, len(blocks))
	for _, b := range blocks {
		var t struct {
			Type      string `json:"type"`
			Signature string `json:"signature"`
		}
		if json.Unmarshal(b, &t) == nil && t.Type == "thinking" && t.Signature == unsigned {
			continue
		}
		kept = append(kept, b)
	}
	if len(kept) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	return rawjson.Set(message, rawjson.Field{Name: "content", Value: string(list)})
}
