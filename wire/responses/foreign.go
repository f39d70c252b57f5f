package responses

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/reprise-run/reprise/wire/internal/rawjson"
)

// foreign begins the ids and proofs of thoughts that a model of another dialect had. A client sends
// such a thought back, and the provider, which has neither made nor stored it, would refuse the
// request for it.
const foreign = "rs_reprise_"

// forget returns a raw request without the thoughts of others.
func forget(raw []byte) ([]byte, error) {
	var req struct {
		Input []json.RawMessage `json:"input"`
	}
	if !bytes.Contains(raw, []byte(foreign)) || json.Unmarshal(raw, &req) != nil {
		return raw, nil // or the input is a text
	}
	kept := make([]json.RawMessage, 0, len(req.Input))
	for _, item := range req.Input {
		var i struct {
			Type      string `json:"type"`
			ID        string `json:"id"`
			Encrypted string `json:"encrypted_content"`
		}
		if json.Unmarshal(item, &i) == nil && i.Type == "reasoning" && (strings.HasPrefix(i.ID, foreign) || strings.HasPrefix(i.Encrypted, foreign)) {
			continue
		}
		kept = append(kept, item)
	}
	list, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	return rawjson.Set(raw, rawjson.Field{Name: "input", Value: string(list)})
}
