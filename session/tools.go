package session

import (
	"path"
	"strings"

	"github.com/reprise-run/reprise/agent"
)

// NoTools is the pattern of a session that offers its model no tool: none has this name.
const NoTools = "none"

// offered are the tools whose names the patterns match, in their order; all where there is no
// pattern. idle are the patterns that match none.
func offered(tools []agent.Tool, patterns []string) (list []agent.Tool, idle []string) {
	if len(patterns) == 0 {
		return tools, nil
	}
	used := make([]bool, len(patterns))
	for _, t := range tools {
		wanted := false
		for i, p := range patterns {
			if matches(p, t.Spec().Name) {
				used[i], wanted = true, true
			}
		}
		if wanted {
			list = append(list, t)
		}
	}
	for i, p := range patterns {
		if !used[i] && p != NoTools {
			idle = append(idle, p)
		}
	}
	return list, idle
}

// matches reports whether a tool has a name of this pattern: * is any of it, ? one letter,
// [a-c] one of these.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil // one that is malformed was refused when it was set
}

func checkTools(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || strings.TrimSpace(p) == "" {
			return &Refusal{Code: CodeValidation, Message: "A tool is named by its name or by a pattern, as edit_file or read_*; \"" + p + "\" is neither.",
				Details: fields("settings.tools", "want names or patterns")}
		}
	}
	return nil
}
