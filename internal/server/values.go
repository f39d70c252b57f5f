package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider/rehearsal"
)

// Duration is written as 30s, 5m or 1h30m; 0 needs no unit. It is not negative.
type Duration time.Duration

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 0 {
		return wrong(n, "%q is not a duration; write it as 500ms, 30s or 1h30m", n.Value)
	}
	*d = Duration(v)
	return nil
}

// USD is an amount in US dollars, written as 5 or 0.25. It is exact, and not negative.
type USD llm.Money

// UnmarshalYAML reads an amount.
func (u *USD) UnmarshalYAML(n *yaml.Node) error {
	m, err := llm.ParseMoney(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return wrong(n, "%q is not an amount in US dollars; write it as 5 or 0.25", n.Value)
	}
	*u = USD(m)
	return nil
}

// String writes an amount as the configuration does, exactly.
func (u USD) String() string {
	text := fmt.Sprintf("%d.%09d", llm.Money(u)/llm.Dollar, llm.Money(u)%llm.Dollar)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// String writes a duration as a person would: without parts that are zero.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Hold is written as replay.ParseHold reads it, or as a map of one: {for: 250ms}.
type Hold replay.Hold

// UnmarshalYAML reads a hold policy.
func (h *Hold) UnmarshalYAML(n *yaml.Node) error {
	text := n.Value
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 {
		text = n.Content[0].Value + ": " + n.Content[1].Value
	}
	v, err := replay.ParseHold(text)
	if err != nil {
		return wrong(n, "%s", err)
	}
	*h = Hold(v)
	return nil
}

// levels are the names of log.level.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// Logger writes what is at least so important as the configuration says; where it says
// nothing, as unset says.
func (l Log) Logger(w io.Writer, unset slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: unset}
	if level, ok := levels[l.Level]; ok {
		o.Level = level
	}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// wrong is an error at a place in the file.
func wrong(n *yaml.Node, format string, args ...any) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s", n.Line, fmt.Sprintf(format, args...))}}
}

// ReadScripts reads a file of rehearsal scripts, a YAML list. Keys are those of the scripts'
// JSON.
func ReadScripts(path string) ([]rehearsal.Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the scripts: %w", err)
	}
	var list []any
	if err := yaml.Unmarshal(b, &list); err != nil {
		return nil, located(inFile(path), err)
	}
	if b, err = json.Marshal(list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var scripts []rehearsal.Script
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&scripts); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return scripts, nil
}
