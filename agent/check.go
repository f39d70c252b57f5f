package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// arguments are those of the call; a model that gives none means an empty object.
func (t *task) arguments() json.RawMessage {
	if t.Arguments == "" {
		return json.RawMessage("{}")
	}
	return json.RawMessage(t.Arguments)
}

// check says why a call cannot be carried out, in words by which its model can mend it.
func (r *Run) check(t *task) error {
	if t.tool == nil {
		return fmt.Errorf("there is no tool named %q", t.Name)
	}
	var arguments any
	if err := json.Unmarshal(t.arguments(), &arguments); err != nil {
		return fmt.Errorf("the arguments are not valid JSON; the tool was not run: %w", err)
	}
	schema, known := r.schemas[t.Name]
	if !known {
		var err error
		if schema, err = resolve(t.tool.Spec().Schema); err != nil {
			r.unchecked(t, err)
		}
		if r.schemas == nil {
			r.schemas = map[string]*jsonschema.Resolved{}
		}
		r.schemas[t.Name] = schema
	}
	if schema == nil {
		return nil
	}
	misfit, err := fit(schema, arguments)
	if err != nil {
		r.unchecked(t, err)
	}
	if misfit != nil {
		return fmt.Errorf("the arguments do not fit the tool's schema; the tool was not run: %w", misfit)
	}
	return nil
}

// unchecked tells the operator that a tool is left to look at its arguments itself.
func (r *Run) unchecked(t *task, err error) {
	r.Log.Warn("the arguments of a tool are not checked: its schema cannot be used", "tool", t.Name, "error", err)
}

// resolve prepares a schema; nil where there is nothing to check. Schemas come from elsewhere:
// one of a dialect that is not known is read as the newest, and nothing is fetched.
func resolve(schema json.RawMessage) (resolved *jsonschema.Resolved, err error) {
	if len(schema) == 0 {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			resolved, err = nil, fmt.Errorf("resolve the schema: %v", p)
		}
	}()
	var s *jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil || s == nil {
		return nil, err
	}
	if !strings.Contains(s.Schema, "draft-07") {
		s.Schema = ""
	}
	if resolved, err = s.Resolve(nil); err != nil {
		return nil, err
	}
	return resolved, nil
}

// fit says how a value does not fit a schema; err: that cannot be told.
func fit(schema *jsonschema.Resolved, value any) (misfit, err error) {
	defer func() {
		if p := recover(); p != nil {
			misfit, err = nil, fmt.Errorf("use the schema: %v", p)
		}
	}()
	return schema.Validate(value), nil
}
