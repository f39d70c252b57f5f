package arch

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// table says which packages of ours a package may import, tests aside. Imports point down:
// cmd, internal/server, internal/httpapi, session, agent, recovery, llm/replay, llm. failure
// and llm/replay never meet but in recovery and above; wire and provider know neither gate
// nor policy; store and eventlog depend on session, not the reverse.
var table = map[string]string{
	"llm/internal/permit": "",
	"llm":                 "llm/internal/permit",
	"llm/replay":          "llm llm/internal/permit",
	"llm/llmtest":         "llm llm/internal/permit",
	"failure":             "llm",
	"recovery":            "failure llm llm/replay",
	"catalogue":           "llm",

	"wire/sse":               "",
	"wire":                   "llm wire/sse",
	"wire/internal/history":  "llm",
	"wire/internal/rawjson":  "",
	"wire/internal/scan":     "",
	"wire/internal/strict":   "wire",
	"wire/internal/retell":   "llm wire",
	"wire/internal/openai":   "llm wire/internal/history wire/internal/rawjson wire/internal/scan wire/internal/strict",
	"wire/internal/wiretest": "llm wire wire/sse",
	"wire/chat":              "llm wire wire/internal/history wire/internal/openai wire/internal/retell wire/internal/scan wire/internal/strict wire/sse",
	"wire/responses":         "llm wire wire/internal/history wire/internal/openai wire/internal/rawjson wire/internal/retell wire/internal/scan wire/internal/strict wire/sse",
	"wire/messages":          "llm wire wire/internal/history wire/internal/rawjson wire/internal/retell wire/internal/scan wire/internal/strict wire/sse",
	"wire/gemini":            "llm wire wire/internal/history wire/internal/retell wire/internal/scan wire/internal/strict wire/sse",

	"provider":           "failure llm wire wire/sse",
	"provider/rehearsal": "",

	"transport": "failure llm llm/replay provider recovery wire wire/chat wire/gemini wire/messages wire/responses",

	"agent":             "failure llm llm/replay recovery",
	"agent/mcptool":     "agent llm",
	"agent/workspace":   "agent llm",
	"session":           "agent failure llm llm/replay recovery",
	"store":             "failure llm llm/replay recovery session",
	"store/sqlite":      "session store",
	"store/postgres":    "session store",
	"store/storetest":   "failure llm llm/replay recovery session",
	"eventlog":          "session",
	"eventlog/logtest":  "session",
	"eventlog/natstest": "",

	"web":                "",
	"internal/arch":      "",
	"internal/pipe":      "",
	"internal/accounts":  "failure internal/gateway llm llm/replay recovery session transport",
	"internal/gateway":   "failure llm/replay recovery session transport wire",
	"internal/httpapi":   "failure llm llm/replay recovery session wire/sse",
	"internal/client":    "internal/httpapi llm recovery session wire/sse",
	"internal/telemetry": "agent internal/hooks llm llm/replay recovery session",
	"internal/hooks":     "session",
	"internal/pgtest":    "",
	"internal/server": "agent agent/mcptool agent/workspace catalogue eventlog failure internal/accounts internal/client internal/gateway internal/hooks internal/httpapi internal/pipe internal/telemetry llm llm/replay provider provider/rehearsal " +
		"recovery session store store/postgres store/sqlite web wire wire/chat wire/gemini wire/messages wire/responses",
	"bench":       "",
	"e2e/agents":  "provider/rehearsal",
	"cmd/reprise": "failure internal/client internal/httpapi internal/server llm llm/replay provider/rehearsal recovery session",
}

// owners says which package imports a library of others, tests aside.
var owners = map[string]string{
	"github.com/aymanbagabas/go-udiff":                                "agent/workspace",
	"github.com/danielgtaylor/huma/v2":                                "internal/httpapi",
	"github.com/google/jsonschema-go":                                 "agent",
	"github.com/jackc/pgx/v5":                                         "store/postgres",
	"github.com/modelcontextprotocol/go-sdk":                          "agent/mcptool",
	"github.com/nats-io/nats-server/v2":                               "eventlog",
	"github.com/nats-io/nats.go":                                      "eventlog",
	"github.com/prometheus/client_golang":                             "internal/telemetry",
	"github.com/spf13/cobra":                                          "cmd/reprise",
	"go.opentelemetry.io/otel":                                        "internal/telemetry",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp": "internal/telemetry",
	"go.opentelemetry.io/otel/sdk":                                    "internal/telemetry",
	"go.opentelemetry.io/otel/trace":                                  "internal/telemetry",
	"go.yaml.in/yaml/v3":                                              "internal/server",
	"modernc.org/sqlite":                                              "store/sqlite",
}

func TestImportsAreInTheTable(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		allowed, ok := table[s.pkg]
		if !ok {
			t.Errorf("%s: package %s is not in the table", s.path, s.pkg)
			continue
		}
		if used[s.pkg] == nil {
			used[s.pkg] = map[string]bool{}
		}
		for _, i := range s.imports() {
			if _, ours := table[i]; !ours {
				continue
			}
			used[s.pkg][i] = true
			if !slices.Contains(strings.Fields(allowed), i) {
				t.Errorf("%s imports %s, which is not in the table", s.path, i)
			}
		}
	}
	for pkg, allowed := range table {
		if used[pkg] == nil {
			t.Errorf("the table has %s, which is not there", pkg)
			continue
		}
		for _, i := range strings.Fields(allowed) {
			if !used[pkg][i] {
				t.Errorf("the table lets %s import %s, which it does not", pkg, i)
			}
		}
	}
}

// Eligibility and safety are decided apart: not even a test of the one package may lean on
// the other.
func TestFailureAndReplayNeverMeet(t *testing.T) {
	for _, s := range sources(t) {
		other := map[string]string{"failure": "llm/replay", "llm/replay": "failure"}[s.pkg]
		if other != "" && slices.Contains(s.imports(), other) {
			t.Errorf("%s imports %s", s.path, other)
		}
	}
}

func TestEachLibraryIsImportedByOnePackage(t *testing.T) {
	importers := map[string]map[string]bool{}
	required := requirements(t)
	for _, s := range sources(t) {
		for _, i := range s.imports() {
			first, _, _ := strings.Cut(i, "/")
			if s.test || strings.HasSuffix(s.pkg, "test") || !strings.Contains(first, ".") { // tests, and what only they use
				continue
			}
			lib := ""
			for _, m := range required {
				if (i == m || strings.HasPrefix(i, m+"/")) && len(m) > len(lib) {
					lib = m
				}
			}
			if lib == "" {
				t.Errorf("%s imports %s, which go.mod does not require directly", s.path, i)
				continue
			}
			if importers[lib] == nil {
				importers[lib] = map[string]bool{}
			}
			importers[lib][s.pkg] = true
		}
	}
	for lib, by := range importers {
		if got := slices.Sorted(maps.Keys(by)); !slices.Equal(got, []string{owners[lib]}) {
			t.Errorf("%s is imported by %v, want %q alone", lib, got, owners[lib])
		}
	}
	for lib := range owners {
		if importers[lib] == nil {
			t.Errorf("%s has an owner and no importer", lib)
		}
	}
}
