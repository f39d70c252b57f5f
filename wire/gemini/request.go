package gemini

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/history"
	"github.com/reprise-run/reprise/wire/internal/strict"
)

// ReadRequest implements wire.Server. Model and stream are in the path. Of the sampling only topK
// has no word elsewhere; 64 is what the provider's own models take by themselves.
func (Codec) ReadRequest(body []byte) (*llm.Request, error) {
	req := new(llm.Request)
	err := strict.ReadCamel(body, func(o *strict.Object) {
		o.Object("systemInstruction", func(s *strict.Object) {
			s.Skip("role")
			s.Each("parts", func(p *strict.Object) { history.Instruct(req, p.String("text")) })
		})
		r := reader{req: req}
		o.Each("contents", r.turn)
		if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == llm.RoleAssistant {
			o.Lose("contents", "the last is the answer's own beginning")
		}
		o.Each("tools", func(t *strict.Object) { readTool(req, t) })
		o.Object("toolConfig", func(c *strict.Object) {
			c.Object("functionCallingConfig", func(c *strict.Object) { req.ToolChoice = readChoice(c) })
		})
		o.Object("generationConfig", func(c *strict.Object) {
			req.Temperature, req.TopP, req.MaxOutputTokens = c.Float("temperature"), c.Float("topP"), c.Int("maxOutputTokens")
			req.Stop = c.Strings("stopSequences")
			c.Object("thinkingConfig", func(t *strict.Object) { readThinking(&req.Reasoning, t) })
			c.Only("topK", "64")
			c.Only("candidateCount", "1")
			c.Only("responseMimeType", `"text/plain"`)
			c.Only("responseModalities", `["TEXT"]`)
		})
		o.Only("safetySettings", "[]")
		o.Skip("labels", "model")
	})
	return req, err
}

// reader finds the call that a result answers where neither has an id.
type reader struct {
	req   *llm.Request
	calls []llm.Part // not yet answered
	made  int
}

func (r *reader) turn(o *strict.Object) {
	role := llm.RoleUser
	switch said := o.String("role"); said {
	case "", "user", "function":
	case "model":
		role = llm.RoleAssistant
	default:
		o.Lose("role", said)
	}
	add := func(p llm.Part) {
		speaker := role
		if p.Kind == llm.PartToolResult {
			speaker = llm.RoleTool
		}
		m := &r.req.Messages
		if n := len(*m); n > 0 && (*m)[n-1].Role == speaker {
			(*m)[n-1].Parts = append((*m)[n-1].Parts, p)
			return
		}
		*m = append(*m, llm.Message{Role: speaker, Parts: []llm.Part{p}})
	}
	o.Each("parts", func(p *strict.Object) { r.part(add, p) })
}

func (r *reader) part(add func(llm.Part), o *strict.Object) {
	proof := o.String("thoughtSignature")
	if proof == unsigned {
		proof = ""
	}
	switch {
	case o.Has("functionCall"):
		p := llm.Part{Kind: llm.PartToolCall, Signature: proof}
		o.Object("functionCall", func(c *strict.Object) {
			p.CallID, p.Name, p.Arguments = c.String("id"), c.String("name"), string(c.Raw("args"))
		})
		o.Skip("thought")
		if p.CallID == "" {
			p.CallID = "call_" + strconv.Itoa(r.made)
			r.made++
		}
		r.calls = append(r.calls, p)
		add(p)
	case o.Has("functionResponse"):
		o.Object("functionResponse", func(f *strict.Object) { add(r.result(f)) })
	case o.Has("inlineData"), o.Has("fileData"):
		if p, ok := readImage(o); ok {
			add(p)
		}
	case o.Has("text"):
		p := llm.Text(o.String("text"))
		if p.Signature = proof; o.Bool("thought") {
			p.Kind = llm.PartThinking
		}
		add(p)
	default:
		o.LoseAll("", "it has no word in other dialects")
	}
}

func (r *reader) result(o *strict.Object) llm.Part {
	p := llm.Part{Kind: llm.PartToolResult, CallID: o.String("id"), Name: o.String("name")}
	for i, c := range r.calls {
		if c.CallID == p.CallID || p.CallID == "" && c.Name == p.Name {
			p.CallID = c.CallID
			r.calls = append(r.calls[:i:i], r.calls[i+1:]...)
			break
		}
	}
	if said := o.Raw("response"); said != nil {
		var text string
		text, p.IsError = readResult(said)
		p.Content = append(p.Content, llm.Text(text))
	}
	o.Each("parts", func(c *strict.Object) {
		if img, ok := readImage(c); ok {
			p.Content = append(p.Content, img)
		}
	})
	o.Only("willContinue", "false")
	return p
}

// readResult returns what result made an object of. Any other object is its own text.
func readResult(said []byte) (text string, failed bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(said, &fields) == nil && len(fields) == 1 {
		for _, name := range []string{"output", "error"} {
			if v := fields[name]; v != nil && json.Unmarshal(v, &text) == nil {
				return text, name == "error"
			}
		}
	}
	return string(said), false
}

func readImage(o *strict.Object) (llm.Part, bool) {
	p := llm.Part{Kind: llm.PartImage}
	o.Object("inlineData", func(d *strict.Object) {
		p.MediaType, p.Data = d.String("mimeType"), d.Bytes("data")
		d.Skip("displayName")
	})
	o.Object("fileData", func(d *strict.Object) {
		p.MediaType, p.URL = d.String("mimeType"), d.String("fileUri")
		d.Skip("displayName")
	})
	kind := p.MediaType
	if p.URL != "" && kind == "" {
		return p, true // what it is, its address says
	}
	if !strings.HasPrefix(kind, "image/") {
		o.LoseAll("", kind+" has no word in other dialects")
		return p, false
	}
	return p, true
}

func readTool(req *llm.Request, o *strict.Object) {
	o.Each("functionDeclarations", func(d *strict.Object) {
		t := llm.Tool{Name: d.String("name"), Description: d.String("description"), Schema: d.Raw("parametersJsonSchema")}
		if d.Has("parameters") {
			schema, err := lower(d.Raw("parameters"))
			if err != nil {
				d.Lose("parameters", err.Error())
			}
			t.Schema = schema
		}
		d.Only("behavior", `"BLOCKING"`)
		req.Tools = append(req.Tools, t)
	})
}

// lower makes JSON Schema of the dialect's own form of it, whose types are in capitals.
func lower(schema json.RawMessage) (json.RawMessage, error) {
	var v any
	if err := json.Unmarshal(schema, &v); err != nil {
		return nil, err
	}
	var walk func(v any, names bool)
	walk = func(v any, names bool) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e, false)
			}
		case map[string]any:
			if s, ok := v["type"].(string); ok && !names {
				v["type"] = strings.ToLower(s)
			}
			for name, e := range v {
				if name != "enum" && name != "default" && name != "example" || names {
					walk(e, name == "properties" && !names)
				}
			}
		}
	}
	walk(v, false)
	return json.Marshal(v)
}

func readChoice(o *strict.Object) string {
	mode, allowed := strings.ToLower(o.String("mode")), o.Strings("allowedFunctionNames")
	switch {
	case len(allowed) == 1 && mode == "any":
		return allowed[0]
	case len(allowed) > 0:
		o.Lose("allowedFunctionNames", "")
	case mode == "any":
		return "required"
	case mode == "validated":
		o.Lose("mode", "VALIDATED")
	}
	return mode
}

// readThinking reads what thinkingOf writes. A budget of -1 leaves it to the model.
func readThinking(r *llm.Reasoning, o *strict.Object) {
	r.Show = o.Bool("includeThoughts")
	r.Effort = strings.ToLower(o.String("thinkingLevel"))
	if o.Has("thinkingBudget") {
		switch n := o.Int("thinkingBudget"); {
		case n > 0:
			r.Budget = n
		case n == 0:
			r.Effort = "none"
		}
	}
}
