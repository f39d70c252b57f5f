package server

import (
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/reprise-run/reprise/internal/hooks"
	"github.com/reprise-run/reprise/session"
)

// Hook is a command or a webhook that is told of events.
type Hook struct {
	On      []string          `yaml:"on"`
	Command []string          `yaml:"command"`
	Env     map[string]string `yaml:"env"` // values, or references
	URL     string            `yaml:"url"` // or a reference
	Secret  string            `yaml:"secret"`
	Observe bool              `yaml:"observe"`
	Timeout Duration          `yaml:"timeout"`
}

// checkHooks finds what is wrong with the hooks.
func (c *Config) checkHooks(bad func(key, format string, args ...any)) {
	for _, n := range slices.Sorted(maps.Keys(c.Hooks)) {
		h, key := c.Hooks[n], "hooks."+n
		if !name.MatchString(n) {
			bad(key, "a name is lower-case letters, digits, and _ . - between them")
		}
		if len(h.On) == 0 {
			bad(key+".on", "names no event; there are %s", eventNames())
		}
		for _, pattern := range h.On {
			events := hooks.Events(pattern)
			if len(events) == 0 {
				bad(key+".on", "there is no event %q; there are %s, and patterns as run.* and *", pattern, eventNames())
			}
			for _, e := range events {
				if e.Foretells && !h.Observe {
					bad(key+".on", "%s tells of a repetition that is still to come, which an effect would forbid: it needs observe: true", e.Event)
				}
			}
		}
		switch {
		case (len(h.Command) > 0) == (h.URL != ""):
			bad(key, "want command or url, one of them")
		case h.URL != "" && checkReference(h.URL) != nil && !webAddress(h.URL):
			bad(key+".url", "want http://host/path or https://host/path, or env:NAME or file:PATH where it is a secret")
		case len(h.Command) > 0 && h.Command[0] == "":
			bad(key+".command", "names no program")
		}
		if h.Secret != "" {
			if h.URL == "" {
				bad(key+".secret", "signs what is sent to a url, and there is none")
			}
			if err := checkReference(h.Secret); err != nil {
				bad(key+".secret", "%s", err)
			}
		}
		if len(h.Env) > 0 && len(h.Command) == 0 {
			bad(key+".env", "is for a command, and there is none")
		}
	}
}

func eventNames() string {
	var list []string
	for _, e := range session.HookEvents {
		list = append(list, string(e.Event))
	}
	return strings.Join(list, ", ")
}

func webAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// HookWarnings says, for each hook that has an effect where something fails, what that costs.
func (c *Config) HookWarnings() (list []string) {
	for _, n := range slices.Sorted(maps.Keys(c.Hooks)) {
		var on []string
		for _, pattern := range c.Hooks[n].On {
			for _, e := range hooks.Events(pattern) {
				if e.Vetoes && !c.Hooks[n].Observe && !slices.Contains(on, string(e.Event)) {
					on = append(on, string(e.Event))
				}
			}
		}
		if len(on) > 0 {
			list = append(list, fmt.Sprintf("The hook %s counts as an effect, so that what fails after it was told of %s is not repeated by itself. "+
				"If it changes nothing that a repetition would change again, as a notification, set hooks.%s.observe: true.", n, strings.Join(on, ", "), n))
		}
	}
	return list
}

func (c *Config) warnHooks(log *slog.Logger) {
	for _, w := range c.HookWarnings() {
		log.Warn(w)
	}
}

// hooks are the hooks, in the order of their names.
func (c *Config) hooks() (list []hooks.Hook) {
	for _, n := range slices.Sorted(maps.Keys(c.Hooks)) {
		h := c.Hooks[n]
		out := hooks.Hook{Name: n, On: h.On, Observe: h.Observe, Timeout: time.Duration(h.Timeout), Command: h.Command}
		if len(h.Command) > 0 {
			out.Env = func() (map[string]string, error) { return c.env.values(h.Env) }
		}
		if h.URL != "" {
			out.URL = func() (string, error) { return c.env.value(h.URL) }
		}
		if h.Secret != "" {
			out.Secret = func() (string, error) { return c.env.secret(h.Secret) }
		}
		list = append(list, out)
	}
	return list
}

var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"}

// base is what every program needs to run, of our environment: no key is in it.
func (e Env) base() Env {
	base := Env{}
	for n, v := range e {
		if strings.HasPrefix(n, "LC_") || slices.Contains(passed, n) {
			base[n] = v
		}
	}
	return base
}

// value is a value as it is written, or what it refers to.
func (e Env) value(s string) (string, error) {
	if checkReference(s) != nil {
		return s, nil
	}
	return e.secret(s)
}

func (e Env) values(of map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(of))
	for n, s := range of {
		v, err := e.value(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		out[n] = v
	}
	return out, nil
}
