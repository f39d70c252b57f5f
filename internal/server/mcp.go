package server

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reprise-run/reprise/agent/mcptool"
)

// MCP is one tool server: a command, or an address.
type MCP struct {
	Command      []string          `yaml:"command"`
	Env          map[string]string `yaml:"env"` // values or references
	URL          string            `yaml:"url"`
	Headers      map[string]string `yaml:"headers"` // values or references
	Trust        []string          `yaml:"trust"`
	Parallel     bool              `yaml:"parallel"`
	Timeout      *Duration         `yaml:"timeout"`       // nil: toolTimeout; 0: none
	StartTimeout *Duration         `yaml:"start_timeout"` // nil: toolStartTimeout
}

const (
	toolTimeout      = 60 * time.Second
	toolStartTimeout = 20 * time.Second
)

// toolServerName is what tool servers may be called: tools' names begin with it.
var toolServerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// headerName is a token of RFC 9110, section 5.6.2.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// ownHeaders are the protocol's.
var ownHeaders = regexp.MustCompile(`(?i)^(accept|content-.*|host|connection|transfer-encoding|last-event-id|mcp-.*)$`)

// checkTools finds what is wrong with the tool servers.
func (c *Config) checkTools(bad func(key, format string, args ...any)) {
	for _, n := range slices.Sorted(maps.Keys(c.Tools.MCP)) {
		m, key := c.Tools.MCP[n], "tools.mcp."+n
		if !toolServerName.MatchString(n) {
			bad(key, "a name is a lower-case letter, and up to 31 letters, digits, _ and - after it")
		}
		switch {
		case (len(m.Command) > 0) == (m.URL != ""):
			bad(key, "want either command or url")
		case m.URL == "":
			if m.Command[0] == "" {
				bad(key+".command", "names no program")
			}
			if len(m.Headers) > 0 {
				bad(key+".headers", "belong to url; a command has env")
			}
		default:
			if u, err := url.Parse(m.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
				bad(key+".url", "want http://host/path or https://host/path; secrets belong in headers")
			}
			if len(m.Env) > 0 {
				bad(key+".env", "belongs to command; an address has headers")
			}
		}
		for _, k := range slices.Sorted(maps.Keys(m.Env)) {
			if k == "" || strings.ContainsAny(k, "=\x00") {
				bad(key+".env", "%q is no variable's name", k)
			}
			c.checkPassed(bad, key+".env."+k, m.Env[k])
		}
		for _, k := range slices.Sorted(maps.Keys(m.Headers)) {
			if !headerName.MatchString(k) || ownHeaders.MatchString(k) {
				bad(key+".headers", "%q is no header's name, or one of the protocol's own", k)
			}
			c.checkPassed(bad, key+".headers."+k, m.Headers[k])
		}
		for _, t := range m.Trust {
			switch t {
			case "read_only":
			case "idempotent":
				bad(key+".trust", "idempotent has no use: it says that two calls in a row do what one does, and between a call whose outcome "+
					"is not known and its repetition others may have acted, so a person is asked all the same. Want read_only")
			default:
				bad(key+".trust", "want read_only, not %q", t)
			}
		}
		if m.StartTimeout != nil && *m.StartTimeout == 0 {
			bad(key+".start_timeout", "want a time above 0")
		}
	}
}

// checkPassed refuses what would tell a tool server the key of a provider.
func (c *Config) checkPassed(bad func(key, format string, args ...any), key, value string) {
	if strings.ContainsAny(value, "\x00\r\n") {
		bad(key, "is more than a line")
	}
	for _, n := range slices.Sorted(maps.Keys(c.Providers)) {
		if slices.Contains(c.Providers[n].Keys, value) {
			bad(key, "%s is a key of provider %s, and keys of providers are not passed on: give the tool server one of its own, under another name", value, n)
		}
	}
}

// toolServers are the servers of the configuration.
func (c *Config) toolServers() map[string]mcptool.Config {
	all := make(map[string]mcptool.Config, len(c.Tools.MCP))
	for n, m := range c.Tools.MCP {
		all[n] = mcptool.Config{
			Command: m.Command, URL: m.URL,
			Env:          func() ([]string, error) { return c.environ(m.Env) },
			Header:       func() (http.Header, error) { return c.header(m.Headers) },
			Secrets:      func() []string { return c.secrets(m) },
			ReadOnly:     slices.Contains(m.Trust, "read_only"),
			Parallel:     m.Parallel,
			Timeout:      or(m.Timeout, toolTimeout),
			StartTimeout: or(m.StartTimeout, toolStartTimeout),
		}
	}
	return all
}

func or(d *Duration, unset time.Duration) time.Duration {
	if d == nil {
		return unset
	}
	return time.Duration(*d)
}

// environ is the environment of a command.
func (c *Config) environ(own map[string]string) ([]string, error) {
	env := c.env.base()
	for _, k := range slices.Sorted(maps.Keys(own)) {
		v, err := c.toPass(own[k])
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", k, err)
		}
		env[k] = v
	}
	return env.environ(), nil
}

func (c *Config) header(own map[string]string) (http.Header, error) {
	h := http.Header{}
	for _, k := range slices.Sorted(maps.Keys(own)) {
		v, err := c.toPass(own[k])
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", k, err)
		}
		h.Set(k, v)
	}
	return h, nil
}

// toPass is a value that a tool server is told. What is a provider's key, by whatever name, is not.
func (c *Config) toPass(s string) (string, error) {
	s, err := c.env.value(s)
	if err != nil {
		return "", err
	}
	for n, p := range c.Providers {
		for _, k := range p.Keys {
			if v, err := c.env.secret(k); err == nil && strings.Contains(s, v) {
				return "", fmt.Errorf("this is a key of provider %s, which is not passed on", n)
			}
		}
	}
	return s, nil
}

// secrets are what a tool server's references name.
func (c *Config) secrets(m MCP) []string {
	var list []string
	for _, values := range []map[string]string{m.Env, m.Headers} {
		for _, ref := range values {
			if checkReference(ref) == nil {
				if v, err := c.env.secret(ref); err == nil {
					list = append(list, v)
				}
			}
		}
	}
	return list
}
