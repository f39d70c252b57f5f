package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Sources are where settings come from.
type Sources struct {
	Env Env
	// File is the configuration file; empty: reprise.yaml in the configuration folder, where
	// it is there.
	File string
	// Flags are settings as "key=value" ("recovery.tier1.attempts=1"), the last one wins.
	Flags []string
	// BaseURL and Key describe one more provider, whose only model is Model. Without BaseURL,
	// Model is the default model, as provider/model.
	BaseURL, Model, Key string
}

// endpointName is the provider of Sources.BaseURL.
const endpointName = "endpoint"

// Load reads the configuration: flags over environment over file over defaults. Its error
// lists everything that is wrong.
func Load(s Sources) (Config, error) {
	c := Defaults()
	file, err := s.file()
	if err != nil {
		return c, err
	}
	variables, err := variableLayers(s.Env)
	if err != nil {
		return c, err
	}
	flags, err := flagLayers(s.Flags)
	if err != nil {
		return c, err
	}
	endpoint, err := s.endpoint()
	if err != nil {
		return c, err
	}
	all := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, layer := range slices.Concat(file, variables, flags, endpoint) {
		merge(all, layer)
	}
	if err := all.Decode(&c); err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	c.env, c.Auth.env = s.Env, s.Env
	c.from = origins(map[string][]*yaml.Node{fromFile: file, fromEnvironment: variables, fromFlag: flags})
	if c.Data == "" {
		c.Data = dataDir(s.Env)
	}
	if err := c.absolute(s.Env["HOME"]); err != nil {
		return c, err
	}
	if len(c.Providers) == 0 {
		c.Providers = s.Env.found()
	}
	for n, p := range c.Providers {
		if p.Dialect == "" {
			p.Dialect = "chat"
		}
		if p.BaseURL == "" {
			p.BaseURL = official[p.Dialect]
		}
		c.Providers[n] = p
	}
	return c, c.validate()
}

// file reads the configuration file.
func (s Sources) file() ([]*yaml.Node, error) {
	path, must := s.File, true
	if path == "" {
		path = s.Env["REPRISE_CONFIG"]
	}
	if path == "" {
		dir := configDir(s.Env)
		if dir == "" {
			return nil, nil
		}
		path, must = filepath.Join(dir, "reprise.yaml"), false
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	root, err := parse(inFile(path), b)
	if err != nil || root == nil {
		return nil, err
	}
	return []*yaml.Node{root}, nil
}

// place names a line of a source, in an error.
type place func(line string) string

func inFile(path string) place { return func(line string) string { return path + ":" + line } }

// parse reads one document of settings and finds what does not belong there. An empty one is
// nil.
func parse(at place, b []byte) (*yaml.Node, error) {
	strict := yaml.NewDecoder(bytes.NewReader(b))
	strict.KnownFields(true)
	if err := strict.Decode(new(Config)); err != nil && !errors.Is(err, io.EOF) {
		return nil, located(at, err)
	}
	var more yaml.Node
	if err := strict.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: there is more than one document", at(fmt.Sprint(more.Line)))
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, located(at, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, nil
	}
	return doc.Content[0], nil
}

// located makes each line of a YAML error name its place.
func located(at place, err error) error {
	lines := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) {
		lines = wrong.Errors
	}
	var errs []error
	for _, l := range lines {
		line, what, ok := strings.Cut(strings.TrimPrefix(l, "line "), ": ")
		if !ok || !strings.HasPrefix(l, "line ") {
			line, what = "1", l
		}
		if key, _, unknown := strings.Cut(strings.TrimPrefix(what, "field "), " not found in type "); unknown {
			what = fmt.Sprintf("there is no setting %q here", key)
		}
		errs = append(errs, fmt.Errorf("%s: %s", at(line), what))
	}
	return errors.Join(errs...)
}

// Keys lists every setting, by its place in the file, as docs/configuration.md does. <name>
// stands for a name of one's own.
func Keys() []string { return keysOf(reflect.TypeFor[Config](), "") }

func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("yaml")
		if tag == "" {
			continue
		}
		key, ft := prefix+tag, f.Type
		switch {
		case ft.Kind() == reflect.Struct && ft != reflect.TypeFor[Hold]():
			keys = append(keys, keysOf(ft, key+".")...)
		case ft.Kind() == reflect.Map && (ft.Elem().Kind() == reflect.Slice || ft.Elem() == reflect.TypeFor[Hold]()):
			keys = append(keys, key+".<name>")
		case ft.Kind() == reflect.Map && ft.Elem().Kind() == reflect.Struct:
			keys = append(keys, keysOf(ft.Elem(), key+".<name>.")...)
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

func configDir(env Env) string { return xdg(env, "XDG_CONFIG_HOME", ".config") }

func dataDir(env Env) string { return xdg(env, "XDG_DATA_HOME", ".local", "share") }

// xdg is the program's folder below a base folder of the XDG specification
// (https://specifications.freedesktop.org/basedir-spec/latest/); empty without a home folder.
func xdg(env Env, variable string, below ...string) string {
	if dir := env[variable]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "reprise")
	}
	if env["HOME"] == "" {
		return ""
	}
	return filepath.Join(append(append([]string{env["HOME"]}, below...), "reprise")...)
}
