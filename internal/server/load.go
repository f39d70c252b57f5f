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
	var layers []layer
	file, err := s.file()
	if err != nil {
		return c, err
	}
	layers = append(layers, file...)
	fromEnv, err := envLayers(s.Env)
	if err != nil {
		return c, err
	}
	layers = append(layers, fromEnv...)
	fromFlags, err := flagLayers(s.Flags)
	if err != nil {
		return c, err
	}
	layers = append(layers, fromFlags...)
	endpoint, err := s.endpoint()
	if err != nil {
		return c, err
	}
	layers = append(layers, endpoint...)

	all := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, l := range layers {
		merge(all, l.root)
	}
	if err := all.Decode(&c); err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	c.env, c.Auth.env = s.Env, s.Env
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

// layer is settings of one source.
type layer struct {
	source string // a file, a variable, a flag
	root   *yaml.Node
}

// file reads the configuration file.
func (s Sources) file() ([]layer, error) {
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
	return []layer{{path, root}}, nil
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

// envLayers reads REPRISE_… variables. Others than those of settings are left alone: a
// container's host sets some by itself.
func envLayers(env Env) ([]layer, error) {
	var layers []layer
	for _, key := range Keys() {
		variable := Variable(key)
		v, ok := env[variable]
		if !ok || variable == "" {
			continue
		}
		l, err := single(variable, key, v)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// Variable is the environment variable of a setting: recovery.tier1.base is
// REPRISE_RECOVERY_TIER1_BASE. Settings below a name of one's own have none.
func Variable(key string) string {
	if strings.ContainsAny(key, "<") {
		return ""
	}
	return "REPRISE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func flagLayers(flags []string) ([]layer, error) {
	var layers []layer
	for _, f := range flags {
		key, value, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("--set %s: want key=value", f)
		}
		l, err := single("--set "+key, key, value)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// single is a layer of one setting, whose value is YAML.
func single(source, key, value string) (layer, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(value), &doc); err != nil {
		return layer{}, fmt.Errorf("%s: %q is not a value: %s", source, value, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	at := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	if len(doc.Content) > 0 {
		at = doc.Content[0]
	}
	words := strings.Split(key, ".")
	for _, w := range slices.Backward(words) {
		at = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map",
			Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: w}, at}}
	}
	b, err := yaml.Marshal(at)
	if err != nil {
		return layer{}, fmt.Errorf("%s: %w", source, err)
	}
	if _, err := parse(func(string) string { return source }, b); err != nil {
		return layer{}, err
	}
	return layer{source, at}, nil
}

// endpoint makes a provider of the three flags, or variables, that are enough for one.
func (s Sources) endpoint() ([]layer, error) {
	for _, f := range []struct {
		to       *string
		variable string
	}{{&s.BaseURL, "REPRISE_BASE_URL"}, {&s.Model, "REPRISE_MODEL"}, {&s.Key, "REPRISE_KEY"}} {
		if *f.to == "" {
			*f.to = s.Env[f.variable]
		}
	}
	model := s.Model
	switch {
	case s.BaseURL == "" && s.Key != "":
		return nil, errors.New("--key belongs to --base-url; keys of other providers are named in the configuration file")
	case s.BaseURL == "" && model == "":
		return nil, nil
	case model == "":
		return nil, errors.New("--base-url needs --model, the name of a model there")
	}
	c := map[string]any{}
	if s.BaseURL != "" {
		p := map[string]any{"base_url": s.BaseURL, "models": []string{model}}
		if s.Key != "" {
			p["keys"] = []string{s.Key}
		}
		c["providers"] = map[string]any{endpointName: p}
		model = endpointName + "/" + model
	}
	c["chains"] = map[string]any{defaultChain: []string{model}}
	var root yaml.Node
	if err := root.Encode(c); err != nil {
		return nil, err
	}
	return []layer{{"--base-url", &root}}, nil
}

// merge puts the settings of over into dst: maps are united, everything else is replaced.
func merge(dst, over *yaml.Node) {
	for i := 0; i+1 < len(over.Content); i += 2 {
		key, value := over.Content[i], over.Content[i+1]
		at := -1
		for j := 0; j+1 < len(dst.Content); j += 2 {
			if dst.Content[j].Value == key.Value {
				at = j + 1
			}
		}
		switch {
		case at < 0:
			dst.Content = append(dst.Content, key, value)
		case dst.Content[at].Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			merge(dst.Content[at], value)
		default:
			dst.Content[at] = value
		}
	}
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
		case ft.Kind() == reflect.Map && ft.Elem().Kind() == reflect.Struct:
			keys = append(keys, keysOf(ft.Elem(), key+".<name>.")...)
		case ft.Kind() == reflect.Map && ft.Elem().Kind() == reflect.Slice:
			keys = append(keys, key+".<name>")
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
