package server

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/reprise-run/reprise/internal/hooks"
)

// hosted are variables that Kubernetes sets for a service of our name
// (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
var hosted = regexp.MustCompile(`^REPRISE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// variableLayers reads REPRISE_… variables. Those that it does not know are errors, as unknown
// keys are.
func variableLayers(env Env) ([]*yaml.Node, error) {
	known := map[string]bool{"REPRISE_CONFIG": true, "REPRISE_BASE_URL": true, "REPRISE_MODEL": true, "REPRISE_KEY": true,
		"REPRISE_URL": true, "REPRISE_TOKEN": true} // the last two are for those who ask a server
	for _, v := range hooks.Variables { // we were started by a hook
		known[v] = true
	}
	var layers []*yaml.Node
	for _, key := range Keys() {
		name := variable(key)
		known[name] = true
		v, ok := env[name]
		if !ok {
			continue
		}
		l, err := single(name, key, v)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	for _, v := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(v, "REPRISE_") && !known[v] && !hosted.MatchString(v) {
			return nil, fmt.Errorf("there is no setting for the environment variable %s", v)
		}
	}
	return layers, nil
}

// variable is the environment variable of a setting: recovery.tier1.base is
// REPRISE_RECOVERY_TIER1_BASE. Settings below a name of one's own have none.
func variable(key string) string {
	if strings.Contains(key, "<") {
		return ""
	}
	return "REPRISE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func flagLayers(flags []string) ([]*yaml.Node, error) {
	var layers []*yaml.Node
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
func single(source, key, value string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(value), &doc); err != nil {
		return nil, fmt.Errorf("%s: %q is not a value: %s", source, value, strings.TrimPrefix(err.Error(), "yaml: "))
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
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if _, err := parse(func(string) string { return source }, b); err != nil {
		return nil, err
	}
	return at, nil
}

// endpoint makes a provider of the three flags, or variables, that are enough for one.
func (s Sources) endpoint() ([]*yaml.Node, error) {
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
	return []*yaml.Node{&root}, nil
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
