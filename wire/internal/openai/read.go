package openai

import (
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/history"
	"github.com/reprise-run/reprise/wire/internal/strict"
)

// Instruct adds to the instructions what o says.
func Instruct(req *llm.Request, o *strict.Object, text string) {
	if !history.Instruct(req, text) {
		o.LoseAll("", "instructions behind an answer")
	}
}

// ReadTool reads an entry of the tools; under names the field that holds a function's own, and is
// empty where the entry does.
func ReadTool(req *llm.Request, o *strict.Object, under string) {
	switch kind := o.String("type"); kind {
	case "function":
	case "custom", "namespace", "local_shell", "shell", "apply_patch":
		o.LoseAll("type", kind+" has no word in other dialects")
		return
	default:
		o.LoseAll("type", kind+" is a tool of the provider")
		return
	}
	read := func(f *strict.Object) {
		req.Tools = append(req.Tools, llm.Tool{Name: f.String("name"), Description: f.String("description"), Schema: f.Raw("parameters")})
		f.Only("strict", "false")
	}
	o.Skip("cache_control")
	if under == "" {
		read(o)
	} else {
		o.Object(under, read)
	}
}

// ReadChoice reads the choice of a tool; under is as in ReadTool.
func ReadChoice(o *strict.Object, under string) (choice string) {
	if o.Kind("tool_choice") != '{' {
		return o.String("tool_choice")
	}
	read := func(f *strict.Object) { choice = f.String("name") }
	o.Object("tool_choice", func(c *strict.Object) {
		if c.Only("type", `"function"`); under == "" {
			read(c)
		} else {
			c.Object(under, read)
		}
	})
	return choice
}
