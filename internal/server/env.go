package server

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// Env is an environment by name.
type Env map[string]string

// ParseEnv reads what os.Environ returns.
func ParseEnv(environ []string) Env {
	env := Env{}
	for _, e := range environ {
		if k, v, ok := strings.Cut(e, "="); ok {
			env[k] = v
		}
	}
	return env
}

// environ is the environment as os.Environ has it.
func (e Env) environ() []string {
	list := make([]string, 0, len(e))
	for name, value := range e {
		list = append(list, name+"="+value)
	}
	return list
}

// checkReference says whether s names a secret. A secret itself is refused without showing it.
func checkReference(s string) error {
	for _, kind := range []string{"env:", "file:"} {
		if rest, ok := strings.CutPrefix(s, kind); ok && rest != "" {
			return nil
		}
	}
	return fmt.Errorf("a key is named, not written down: use env:NAME or file:PATH")
}

// secret reads what a reference names.
func (e Env) secret(ref string) (string, error) {
	if err := checkReference(ref); err != nil {
		return "", err
	}
	if n, ok := strings.CutPrefix(ref, "env:"); ok {
		if v := strings.TrimSpace(e[n]); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the environment variable %s is not set", n)
	}
	path := strings.TrimPrefix(ref, "file:")
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = e["HOME"] + "/" + rest
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if v := strings.TrimSpace(string(b)); v != "" {
		return v, nil
	}
	return "", fmt.Errorf("the file %s is empty", path)
}

// official are the addresses of those who made the dialects.
var official = map[string]string{
	"responses": "https://api.openai.com/v1",
	"messages":  "https://api.anthropic.com",
	"gemini":    "https://generativelanguage.googleapis.com",
}

// found makes providers of the keys and addresses that the official SDKs look for.
func (e Env) found() map[string]Provider {
	all := map[string]Provider{}
	add := func(name, dialect, model, address string, keys ...string) {
		p := Provider{Dialect: dialect, BaseURL: e[address]}
		for _, k := range keys {
			if e[k] != "" {
				p.Keys = []string{"env:" + k}
				break
			}
		}
		if p.Keys == nil && p.BaseURL == "" {
			return
		}
		if p.BaseURL == "" {
			p.BaseURL, p.Models = official[dialect], []string{model}
		}
		all[name] = p
	}
	add("openai", "responses", "gpt-5.2", "OPENAI_BASE_URL", "OPENAI_API_KEY")
	if p, ok := all["openai"]; ok && e["OPENAI_BASE_URL"] != "" {
		if u, err := url.Parse(p.BaseURL); err != nil || u.Host != "api.openai.com" {
			p.Dialect = "chat" // what every compatible server speaks
			all["openai"] = p
		}
	}
	add("claude", "messages", "claude-sonnet-5", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
	add("gemini", "gemini", "gemini-flash-latest", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "GOOGLE_API_KEY")
	if host := e["OLLAMA_HOST"]; host != "" {
		all["ollama"] = Provider{Dialect: "chat", BaseURL: ollama(host)}
	}
	return all
}

// ollama turns OLLAMA_HOST into the address of its Chat Completions: scheme and port may be
// missing, and the address on which a server listens may be every one.
func ollama(host string) string {
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil {
		return host // validate says what is wrong with it
	}
	name, port := u.Hostname(), u.Port()
	if name == "0.0.0.0" || name == "::" || name == "" {
		name = "127.0.0.1"
	}
	if port == "" {
		port = map[string]string{"http": "11434", "https": "443"}[u.Scheme]
	}
	u.Host = net.JoinHostPort(name, port)
	u.Path = strings.TrimRight(u.Path, "/") + "/v1"
	return u.String()
}
