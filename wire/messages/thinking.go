package messages

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/internal/history"
)

type thinking struct {
	Type    string `json:"type"`
	Budget  int    `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

// leastBudget is the smallest budget that the dialect takes, in tokens.
const leastBudget = 1024

// budgets are the tokens that an effort amounts to.
var budgets = map[string]int{"minimal": leastBudget, "low": 4096, "medium": 12288, "high": 24576}

// think sets what concerns thinking: max_tokens, the thinking itself and the sampling.
//
// Claude 4.6 and later think adaptively: an effort is sent as it is (minimal as low), a budget
// without an effort as the nearest effort, and Show asks for a summary. Every other model gets
// a budget, from Budget or from the effort's table. MaxOutputTokens bounds thinking and answer
// together: a budget that does not fit is cut to half of it, and below 1024 there is none.
//
// A forced tool choice excludes thinking, and so does a tool loop whose assistant turn does not
// begin with thinking (another model began it): the request goes out without. Sources:
// https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking and
// https://docs.anthropic.com/en/docs/build-with-claude/adaptive-thinking.
func (out *request) think(req *llm.Request, turns []history.Turn) error {
	version := claude(req.Model)
	effort, budget := req.Reasoning.Effort, req.Reasoning.Budget
	if _, known := budgets[effort]; !known && effort != "" && effort != "none" &&
		(version < adaptiveFrom || effort != "xhigh" && effort != "max") {
		return fmt.Errorf("reasoning.effort: %q is not known", effort)
	}
	switch {
	case budget == 0:
		budget = budgets[effort]
	case effort == "none":
		effort = "" // the budget wins
	}
	forced := out.ToolChoice != nil && out.ToolChoice.Type != "auto" && out.ToolChoice.Type != "none"
	wanted := !forced && (budget > 0 || effort != "")

	out.MaxTokens = req.MaxOutputTokens
	switch {
	case effort == "none":
		out.Thinking = &thinking{Type: "disabled"}
	case version >= adaptiveFrom:
		out.adapt(wanted, !forced && req.Reasoning.Show, effort, budget)
	case wanted && !foreignLoop(turns):
		budget = max(budget, leastBudget)
		if out.MaxTokens == 0 {
			out.MaxTokens = budget + answerTokens
		} else if budget >= out.MaxTokens {
			budget = out.MaxTokens / 2
		}
		if budget >= leastBudget {
			out.Thinking = &thinking{Type: "enabled", Budget: budget}
		}
	}
	if out.MaxTokens == 0 {
		out.MaxTokens = answerTokens
	}
	if version < unsampledFrom && (out.Thinking == nil || out.Thinking.Type == "disabled") {
		out.Temperature, out.TopP = req.Temperature, req.TopP
	}
	return nil
}

// adapt is think for a model that decides by itself how much to think.
func (out *request) adapt(wanted, show bool, effort string, budget int) {
	if out.MaxTokens == 0 {
		// These models may think unasked, out of the same bound.
		out.MaxTokens = answerTokens + max(budget, budgets["high"])
	}
	if !wanted && !show {
		return
	}
	out.Thinking = &thinking{Type: "adaptive"}
	if show {
		out.Thinking.Display = "summarized"
	}
	switch {
	case effort == "minimal":
		effort = "low"
	case effort == "" && budget > 0:
		effort = nearest(budget)
	}
	if effort != "" {
		out.OutputConfig = &outputConfig{Effort: effort}
	}
}

func nearest(budget int) string {
	for _, effort := range []string{"low", "medium"} {
		if budget <= budgets[effort] {
			return effort
		}
	}
	return "high"
}

// foreignLoop reports whether the request goes on with a tool loop whose assistant turn does
// not begin with thinking.
func foreignLoop(turns []history.Turn) bool {
	if len(turns) < 2 {
		return false
	}
	last, before := turns[len(turns)-1], turns[len(turns)-2]
	if last.Role != llm.RoleUser || last.Parts[0].Kind != llm.PartToolResult {
		return false
	}
	first := before.Parts[0].Kind
	return first != llm.PartThinking && first != llm.PartRedacted
}

// Versions of Claude, as claude gives them.
const (
	adaptiveFrom  = 406
	unsampledFrom = 407
)

// claude returns the version in a model's name, 100 times the major number and the minor one;
// 0 where the name has none: claude-opus-4-7 is 407, claude-sonnet-4-20250514 is 400.
func claude(model string) int {
	_, rest, found := strings.Cut(model, "claude-")
	if !found {
		return 0
	}
	version, numbers := 0, 0
	for _, field := range strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(field); err == nil && len(field) <= 2 && numbers < 2 {
			version = version*100 + n
			numbers++
		} else {
			break
		}
	}
	if numbers == 1 {
		version *= 100
	}
	return version
}
