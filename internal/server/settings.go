package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/session"
)

// Where a configured setting is from. A flag and an environment variable belong to this start
// of the process: what they say cannot be changed while it works.
const (
	fromDefault     = "default"
	fromFile        = "file"
	fromEnvironment = "environment"
	fromFlag        = "flag"
)

// changeable are the settings that may be changed while the server works, with their values
// as the configuration file would have them.
var changeable = []struct {
	key   string
	value func(*Config) string
}{
	{"recovery.tier2.mode", func(c *Config) string { return c.Recovery.Tier2.Mode }},
	{"recovery.tier2.ask", func(c *Config) string { return strconv.FormatBool(c.Recovery.Tier2.Ask) }},
	{"recovery.tier2.base", func(c *Config) string { return c.Recovery.Tier2.Base.String() }},
	{"recovery.tier2.cap", func(c *Config) string { return c.Recovery.Tier2.Cap.String() }},
	{"recovery.tier2.max_attempts", func(c *Config) string { return strconv.Itoa(c.Recovery.Tier2.MaxAttempts) }},
	{"recovery.tier2.max_elapsed", func(c *Config) string { return c.Recovery.Tier2.MaxElapsed.String() }},
	{"recovery.tier2.max_spend", func(c *Config) string { return c.Recovery.Tier2.MaxSpend.String() }},
	{"spend.session", func(c *Config) string { return c.Spend.Session.String() }},
	{"spend.day", func(c *Config) string { return c.Spend.Day.String() }},
}

// origins says which source each changeable setting is from; the strongest one counts.
func origins(layers map[string][]*yaml.Node) map[string]string {
	from := map[string]string{}
	for _, source := range []string{fromFile, fromEnvironment, fromFlag} {
		for _, layer := range layers[source] {
			for _, s := range changeable {
				if has(layer, strings.Split(s.key, ".")) {
					from[s.key] = source
				}
			}
		}
	}
	return from
}

func has(n *yaml.Node, path []string) bool {
	if len(path) == 0 {
		return true
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == path[0] {
			return has(n.Content[i+1], path[1:])
		}
	}
	return false
}

// source is where a changeable setting of the configuration is from.
func (c *Config) source(key string) string { return cmp.Or(c.from[key], fromDefault) }

// fixed reports whether a setting cannot be changed while this process works.
func (c *Config) fixed(key string) bool {
	return c.from[key] == fromFlag || c.from[key] == fromEnvironment
}

// with is the configuration with the changed settings, where they are valid in it. Those that
// are fixed stay.
func (c Config) with(set map[string]string) (Config, error) {
	all := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, s := range changeable {
		value, ok := set[s.key]
		if !ok || c.fixed(s.key) {
			continue
		}
		layer, err := single(s.key, s.key, value)
		if err != nil {
			return c, err
		}
		merge(all, layer)
	}
	if err := all.Decode(&c); err != nil {
		return c, err
	}
	return c, c.validate()
}

// retry implements session.Config.Override. Changes that the configuration of this start does
// not allow any more do not count: check has told of them.
func (c Config) live(set map[string]string) session.Live {
	with := c
	if len(set) > 0 { // it is asked at every run's start
		if changed, err := c.with(set); err == nil {
			with = changed
		}
	}
	t := with.Recovery.Tier2
	return session.Live{Policy: with.Recovery.policy(), Unattended: t.Mode == "unattended", Ask: t.Ask, Spend: with.Spend.limits()}
}

// Settings are what may be changed while the server works. They are safe for concurrent use.
type Settings struct {
	cfg      Config
	sessions *session.Manager
}

// check tells of changed settings that do not count.
func (s *Settings) check(ctx context.Context, log *slog.Logger) error {
	set, err := s.sessions.Overrides(ctx)
	if err != nil {
		return err
	}
	if _, err := s.cfg.with(set); err != nil {
		log.Warn("the settings that were changed on the page do not fit the configuration and are not used", "error", err)
	}
	return nil
}

// List implements httpapi.Settings.
func (s *Settings) List(ctx context.Context) (httpapi.SettingList, error) {
	set, err := s.sessions.Overrides(ctx)
	if err != nil {
		return httpapi.SettingList{}, err
	}
	return s.list(set), nil
}

func (s *Settings) list(set map[string]string) (out httpapi.SettingList) {
	with, err := s.cfg.with(set)
	if err != nil {
		with, out.Problem = s.cfg, err.Error()
	}
	for _, c := range changeable {
		one := httpapi.Setting{Key: c.key, Value: c.value(&with), Configured: c.value(&s.cfg),
			From: s.cfg.source(c.key), Fixed: s.cfg.fixed(c.key)}
		_, one.Set = set[c.key]
		out.Settings = append(out.Settings, one)
	}
	return out
}

// Change implements httpapi.Settings.
func (s *Settings) Change(ctx context.Context, actor string, change map[string]string, reset []string) (httpapi.SettingList, error) {
	var wrong []httpapi.Field
	for _, key := range slices.Sorted(maps.Keys(change)) {
		switch {
		case !isChangeable(key):
			wrong = append(wrong, httpapi.Field{Path: key, Message: "cannot be changed while the server works"})
		case s.cfg.fixed(key):
			wrong = append(wrong, httpapi.Field{Path: key, Message: fmt.Sprintf("is fixed by the %s that the server was started with", sourceWords[s.cfg.from[key]])})
		}
	}
	if len(wrong) > 0 {
		return httpapi.SettingList{}, invalid(wrong)
	}
	set, err := s.sessions.Override(ctx, actor, change, reset, func(set map[string]string) error {
		if _, err := s.cfg.with(set); err != nil {
			return invalid(fieldsOf(err))
		}
		return nil
	})
	if err != nil {
		return httpapi.SettingList{}, err
	}
	return s.list(set), nil
}

var sourceWords = map[string]string{fromFlag: "flag", fromEnvironment: "environment variable"}

func isChangeable(key string) bool {
	for _, c := range changeable {
		if c.key == key {
			return true
		}
	}
	return false
}

// fieldsOf takes an error of the configuration apart: a line each, its key first.
func fieldsOf(err error) (fields []httpapi.Field) {
	for line := range strings.Lines(err.Error()) {
		key, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
		fields = append(fields, httpapi.Field{Path: key, Message: what})
	}
	return fields
}

func invalid(fields []httpapi.Field) error {
	return &session.Refusal{Code: session.CodeValidation, Message: fields[0].Path + ": " + fields[0].Message, Details: httpapi.Fields{Fields: fields}}
}
