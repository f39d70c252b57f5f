package server

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/session"
)

// A hook is what the configuration says; what it needs of our environment is no key.
func TestHooksOfTheConfiguration(t *testing.T) {
	env := Env{"PATH": "/bin", "OPENAI_API_KEY": "very-secret", "AT": "http://b.test/in", "SIGN": "s", "DISPLAY": ":0"}
	c := load(t, sourcesOf(t, `
hooks:
  bell: {on: ["*"], command: [notify, all], env: {DISPLAY: env:DISPLAY, MODE: loud}, observe: true, timeout: 5s}
  chat: {on: [run.failed], url: env:AT, secret: env:SIGN}
`, env))
	list := c.hooks()
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	bell, chat := list[0], list[1]
	if bell.Name != "bell" || !bell.Observe || bell.Timeout != 5*time.Second || !slices.Equal(bell.Command, []string{"notify", "all"}) || bell.URL != nil {
		t.Errorf("%+v", bell)
	}
	if own, err := bell.Env(); err != nil || own["DISPLAY"] != ":0" || own["MODE"] != "loud" || len(own) != 2 {
		t.Errorf("%v, %v", own, err)
	}
	if at, err := chat.URL(); err != nil || at != "http://b.test/in" || chat.Observe || chat.Command != nil {
		t.Errorf("%s, %v", at, err)
	}
	if s, err := chat.Secret(); err != nil || s != "s" {
		t.Errorf("%s, %v", s, err)
	}
	if base := env.base(); len(base) != 1 || base["PATH"] != "/bin" {
		t.Errorf("%v", base)
	}
	// F10: what a hook without observe costs is said, and of the others nothing.
	w := c.HookWarnings()
	if len(w) != 1 || !strings.Contains(w[0], "The hook chat counts as an effect") || !strings.Contains(w[0], "told of run.failed is") || !strings.Contains(w[0], "hooks.chat.observe: true") {
		t.Errorf("%q", w)
	}
}

// A command of a hook may call ours: what it is told of its event by is no unknown setting.
func TestHookVariablesAreNoSettings(t *testing.T) {
	load(t, sourcesOf(t, "", Env{"REPRISE_HOOK": "bell", "REPRISE_EVENT": "run.failed", "REPRISE_SESSION": "ses_1", "REPRISE_RUN": "run_1", "REPRISE_ATTEMPT": "",
		"REPRISE_STEP": "0", "REPRISE_GENERATION": "1", "REPRISE_LINEAGE": "main", "REPRISE_DELIVERY": "d"}))
}

// docs/hooks.md has every event, in the words of the code.
func TestHooksDocument(t *testing.T) {
	b, err := os.ReadFile("../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range session.HookEvents {
		if line := "| `" + string(e.Event) + "` | " + e.When + " |\n"; !strings.Contains(string(b), line) {
			t.Errorf("it has no line %s", line)
		}
	}
}
