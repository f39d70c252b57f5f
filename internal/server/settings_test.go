package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// settingsOf is the settings of a server that was started with a file, variables and flags.
func settingsOf(t *testing.T, dir, file string, env Env, flags ...string) (*Server, *Settings) {
	t.Helper()
	path := filepath.Join(dir, "reprise.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	all := Env{"HOME": dir}
	for k, v := range env {
		all[k] = v
	}
	cfg, err := Load(Sources{Env: all, File: path, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, &Settings{cfg: cfg, sessions: s.sessions}
}

func find(t *testing.T, list httpapi.SettingList, key string) httpapi.Setting {
	t.Helper()
	for _, s := range list.Settings {
		if s.Key == key {
			return s
		}
	}
	t.Fatalf("%s is not listed in %+v", key, list)
	return httpapi.Setting{}
}

// A setting shows what counts, what it would be, and where that is from; a change wins over the
// file, a flag and a variable over the change.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	_, settings := settingsOf(t, dir, "spend: {session: 5}\nrecovery: {tier2: {base: 3s, cap: 10m, max_attempts: 4, max_spend: 0.25}}",
		Env{"REPRISE_RECOVERY_TIER2_MAX_ATTEMPTS": "5"}, "recovery.tier2.cap=90m")
	list, err := settings.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]httpapi.Setting{
		"recovery.tier2.mode":         {Value: "interactive", Configured: "interactive", From: "default"},
		"recovery.tier2.ask":          {Value: "false", Configured: "false", From: "default"},
		"recovery.tier2.base":         {Value: "3s", Configured: "3s", From: "file"},
		"recovery.tier2.cap":          {Value: "1h30m", Configured: "1h30m", From: "flag", Fixed: true},
		"recovery.tier2.max_attempts": {Value: "5", Configured: "5", From: "environment", Fixed: true},
		"recovery.tier2.max_elapsed":  {Value: "0s", Configured: "0s", From: "default"},
		"recovery.tier2.max_spend":    {Value: "0.25", Configured: "0.25", From: "file"},
		"spend.session":               {Value: "5", Configured: "5", From: "file"},
		"spend.day":                   {Value: "0", Configured: "0", From: "default"},
	} {
		want.Key = key
		if got := find(t, list, key); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if len(list.Settings) != 9 || list.Problem != "" {
		t.Errorf("%+v", list)
	}
	list, err = settings.Change(t.Context(), "ann", map[string]string{"recovery.tier2.base": "4s", "recovery.tier2.mode": "unattended", "recovery.tier2.max_elapsed": "12h", "spend.day": "0.5"}, nil)
	if got := find(t, list, "recovery.tier2.base"); err != nil || got.Value != "4s" || got.Configured != "3s" || !got.Set || got.Fixed {
		t.Errorf("%+v, %v", got, err)
	}
	set, err := settings.sessions.Overrides(t.Context())
	if r := settings.cfg.live(set); err != nil || r.Policy.Tier2.Base != 4*time.Second || !r.Unattended || r.Policy.Tier2.MaxElapsed != 12*time.Hour || r.Policy.Tier2.Cap != 90*time.Minute ||
		r.Spend != (session.Limits{Session: 5 * llm.Dollar, Day: llm.Dollar / 2}) {
		t.Errorf("%+v, %v", r, err)
	}
	list, err = settings.Change(t.Context(), "ann", nil, []string{"recovery.tier2.base"})
	if got := find(t, list, "recovery.tier2.base"); err != nil || got.Value != "3s" || got.Set {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is not valid changes nothing, and says which setting it is.
func TestSettingsRefused(t *testing.T) {
	_, settings := settingsOf(t, t.TempDir(), "", nil, "recovery.tier2.cap=5m")
	for name, c := range map[string]struct {
		set   map[string]string
		field string
	}{
		"not a duration":      {map[string]string{"recovery.tier2.base": "soon"}, "recovery.tier2.base"},
		"not positive":        {map[string]string{"recovery.tier2.base": "0"}, "recovery.tier2.base"},
		"more than the cap":   {map[string]string{"recovery.tier2.base": "10m"}, "recovery.tier2.cap"},
		"no ceiling":          {map[string]string{"recovery.tier2.mode": "unattended"}, "recovery.tier2.max_elapsed"},
		"no such mode":        {map[string]string{"recovery.tier2.mode": "always"}, "recovery.tier2.mode"},
		"another setting":     {map[string]string{"listen": "0.0.0.0:80"}, "listen"},
		"fixed by a flag":     {map[string]string{"recovery.tier2.cap": "10m"}, "recovery.tier2.cap"},
		"more than one value": {map[string]string{"recovery.tier2.mode": "{interactive: {}}"}, "recovery.tier2.mode"},
		"no YAML":             {map[string]string{"recovery.tier2.mode": "["}, "recovery.tier2.mode"},
		"one good, one bad":   {map[string]string{"recovery.tier2.ask": "true", "recovery.tier2.mode": "x"}, "recovery.tier2.mode"},
	} {
		_, err := settings.Change(t.Context(), "ann", c.set, nil)
		var no *session.Refusal
		if !errors.As(err, &no) || no.Code != session.CodeValidation {
			t.Errorf("%s: %v", name, err)
			continue
		}
		fields, _ := no.Details.(httpapi.Fields)
		if len(fields.Fields) == 0 || fields.Fields[0].Path != c.field || !strings.HasPrefix(no.Message, c.field+": ") || fields.Fields[0].Message == "" {
			t.Errorf("%s: %q %+v", name, no.Message, no.Details)
		}
	}
	if set, err := settings.sessions.Overrides(t.Context()); err != nil || len(set) != 0 {
		t.Errorf("%v, %v", set, err)
	}
}

// Changes outlive a restart. Where the configuration of the next start does not allow them,
// it counts, and the list says why.
func TestSettingsOfAnotherStart(t *testing.T) {
	dir := t.TempDir()
	s, settings := settingsOf(t, dir, "", nil)
	if _, err := settings.Change(t.Context(), "ann", map[string]string{"recovery.tier2.base": "1m"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, settings = settingsOf(t, dir, "", nil)
	list, err := settings.List(t.Context())
	if got := find(t, list, "recovery.tier2.base"); err != nil || got.Value != "1m" || !got.Set {
		t.Errorf("%+v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, settings = settingsOf(t, dir, "", nil, "recovery.tier2.base=3s")
	list, err = settings.List(t.Context())
	if got := find(t, list, "recovery.tier2.base"); err != nil || got.Value != "3s" || !got.Fixed || list.Problem != "" {
		t.Errorf("%+v, %q, %v", got, list.Problem, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, settings = settingsOf(t, dir, "recovery: {tier2: {base: 2s, cap: 30s}}", nil)
	list, err = settings.List(t.Context())
	if got := find(t, list, "recovery.tier2.base"); err != nil || got.Value != "2s" || !got.Set || !strings.Contains(list.Problem, "recovery.tier2.cap") {
		t.Errorf("%+v, %q, %v", got, list.Problem, err)
	}
	if _, err := settings.Change(t.Context(), "ann", nil, []string{"recovery.tier2.base"}); err != nil {
		t.Error(err)
	}
}

// What is on this machine needs no network.
func TestRemote(t *testing.T) {
	cfg, err := Load(Sources{Env: Env{"HOME": t.TempDir()}, Flags: []string{
		"providers={far: {base_url: 'http://224.0.0.1:9/v1'}, near: {base_url: 'http://127.0.0.1:9/v1'}}", "chains={default: [far/m]}"}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenModels(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for model, want := range map[string]bool{"far/m": true, "default": true, "near/m": false, "rehearsal/ok": false, "nobody/m": false} {
		if m.Remote(model) != want {
			t.Errorf("%s: %v", model, !want)
		}
	}
	if m.Reach(t.Context()) {
		t.Error("reached nobody")
	}
	delete(m.providers, "far")
	if !m.Reach(t.Context()) {
		t.Error("with nobody on another machine there is nothing to miss")
	}
}
