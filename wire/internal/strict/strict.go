// Package strict reads JSON of which nothing may be overlooked: a field that nobody asks for, or
// that is not what it should be, is lost, by the path that names it.
//
// It promises that Read fails wherever a field was lost, and that absent, null and an object's
// repeated fields read as encoding/json reads them. It refuses to know what a field means.
package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/wire"
)

// reading is one text and what was lost of it.
type reading struct {
	lost  wire.Loss
	camel bool
}

// Object is an object that is being read. Each method that reads a field takes it: what nobody
// has taken in the end is lost.
type Object struct {
	*reading
	path   string // with a dot behind it, where it is not the whole text
	fields map[string]json.RawMessage
}

// Read reads a text that is one object. Its error is a wire.Loss, or says that it is none.
func Read(body []byte, f func(*Object)) error { return read(body, f, false) }

// ReadCamel is Read for a dialect whose names may be written in snake_case as well.
func ReadCamel(body []byte, f func(*Object)) error { return read(body, f, true) }

func read(body []byte, f func(*Object), camel bool) error {
	o := &Object{reading: &reading{camel: camel}}
	if err := json.Unmarshal(body, &o.fields); err != nil {
		return err
	}
	o.rename()
	f(o)
	o.rest()
	if len(o.lost) > 0 {
		return o.lost
	}
	return nil
}

// rename writes every name in camelCase, where that is asked for.
func (o *Object) rename() {
	if !o.camel {
		return
	}
	for name, v := range o.fields {
		words := strings.Split(name, "_")
		for i, w := range words[1:] {
			if w != "" {
				words[i+1] = strings.ToUpper(w[:1]) + w[1:]
			}
		}
		if better := strings.Join(words, ""); better != name {
			delete(o.fields, name)
			o.fields[better] = v
		}
	}
}

// rest loses what nobody took.
func (o *Object) rest() {
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if o.take(name) != nil {
			o.Lose(name, "")
		}
	}
}

// take returns a field's value; nil where it is absent or null.
func (o *Object) take(name string) json.RawMessage {
	v := o.fields[name]
	delete(o.fields, name)
	if string(v) == "null" {
		return nil
	}
	return v
}

// Path names a field of the object; with no name, the object.
func (o *Object) Path(name string) string { return strings.TrimSuffix(o.path+name, ".") }

// LoseAll says that the whole object is lost, for what the field says where one is named.
func (o *Object) LoseAll(name, why string) {
	o.Lose(name, why)
	o.fields = nil
}

// Lose says that a field is lost, and why.
func (o *Object) Lose(name, why string) {
	said := o.Path(name)
	if why != "" {
		said += ": " + why
	}
	o.lost = append(o.lost, said)
}

// into decodes a field, and reports whether there is one that is what it should be.
func (o *Object) into(name string, v any, what string) bool {
	raw := o.take(name)
	if raw == nil {
		return false
	}
	if json.Unmarshal(raw, v) != nil {
		o.Lose(name, "it is not "+what)
		return false
	}
	return true
}

// Kind is the first byte of a field's value, which says what it is; 0: there is none. It does not
// take it.
func (o *Object) Kind(name string) byte {
	if !o.Has(name) {
		return 0
	}
	return o.fields[name][0]
}

// Has reports whether there is a field that is not null. It does not take it.
func (o *Object) Has(name string) bool {
	v, ok := o.fields[name]
	return ok && string(v) != "null"
}

// Skip takes fields that change nothing in an answer.
func (o *Object) Skip(names ...string) {
	for _, name := range names {
		delete(o.fields, name)
	}
}

// Only takes a field that changes nothing where it has one of the values, given as JSON.
func (o *Object) Only(name string, values ...string) {
	raw := o.take(name)
	if raw == nil {
		return
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || !slices.Contains(values, b.String()) {
		o.Lose(name, "")
	}
}

// String takes a text.
func (o *Object) String(name string) (s string) {
	o.into(name, &s, "a string")
	return s
}

// Strings takes a list of texts, or one.
func (o *Object) Strings(name string) (list []string) {
	if o.Kind(name) == '"' {
		return []string{o.String(name)}
	}
	o.into(name, &list, "a list of strings")
	return list
}

// Int takes a whole number.
func (o *Object) Int(name string) (n int) {
	o.into(name, &n, "a whole number")
	return n
}

// Float takes a number.
func (o *Object) Float(name string) *float64 {
	var n float64
	if !o.into(name, &n, "a number") {
		return nil
	}
	return &n
}

// Bool takes true or false.
func (o *Object) Bool(name string) (b bool) {
	o.into(name, &b, "true or false")
	return b
}

// Bytes takes bytes in base64.
func (o *Object) Bytes(name string) (b []byte) {
	o.into(name, &b, "base64")
	return b
}

// Raw takes a field as it is, without white space.
func (o *Object) Raw(name string) json.RawMessage {
	var b bytes.Buffer
	if v := o.take(name); v == nil || json.Compact(&b, v) != nil {
		return nil
	}
	return b.Bytes()
}

// Object takes an object and reads it with f.
func (o *Object) Object(name string, f func(*Object)) {
	if v := o.take(name); v != nil {
		o.child(name, v, f)
	}
}

// Each takes a list of objects and reads each with f.
func (o *Object) Each(name string, f func(*Object)) {
	var list []json.RawMessage
	o.into(name, &list, "a list")
	for i, v := range list {
		o.child(fmt.Sprintf("%s[%d]", name, i), v, f)
	}
}

// Content takes a text, or a list of objects.
func (o *Object) Content(name string, text func(string), part func(*Object)) {
	if o.Kind(name) == '"' {
		text(o.String(name))
		return
	}
	o.Each(name, part)
}

func (o *Object) child(name string, v json.RawMessage, f func(*Object)) {
	c := &Object{reading: o.reading, path: o.path + name + "."}
	if json.Unmarshal(v, &c.fields) != nil || c.fields == nil {
		o.Lose(name, "it is not an object")
		return
	}
	c.rename()
	f(c)
	c.rest()
}
