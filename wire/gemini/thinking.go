package gemini

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-run/reprise/llm"
)

type thinking struct {
	Include bool   `json:"includeThoughts,omitempty"`
	Budget  *int   `json:"thinkingBudget,omitempty"`
	Level   string `json:"thinkingLevel,omitempty"`
}

// budgets are the tokens that an effort amounts to where a model takes a number, within the
// bounds of every model of the 2.5 family (https://ai.google.dev/gemini-api/docs/thinking).
var budgets = map[string]int{"none": 0, "minimal": 512, "low": 4096, "medium": 12288, "high": 24576}

// leastOfPro is the smallest budget of a pro model, which cannot stop thinking, in tokens.
const leastOfPro = 128

// thinkingOf translates Reasoning: a budget as the number that it is, an effort as a level for
// Gemini 3 and later and as a budget for others. No effort ("none") is as little as the model
// can: pro models always think. most is MaxOutputTokens, which bounds thinking and answer
// together: a budget that does not fit is cut to half of it.
func thinkingOf(model string, r llm.Reasoning, most int) (*thinking, error) {
	budget, known := budgets[r.Effort]
	if !known && r.Effort != "" {
		return nil, fmt.Errorf("reasoning.effort: %q is not known", r.Effort)
	}
	if r.Budget > 0 {
		budget = r.Budget
	}
	t := thinking{Include: r.Show && (r.Effort != "none" || r.Budget > 0)}
	pro := strings.Contains(model, "-pro")
	switch {
	case r.Effort == "" && r.Budget == 0:
	case r.Budget == 0 && version(model) >= 3:
		t.Level = strings.ToUpper(r.Effort)
		if budget <= budgets["minimal"] {
			t.Level = "MINIMAL"
			if pro {
				t.Level = "LOW"
			}
		}
	default:
		if most > 0 && budget >= most {
			budget = most / 2
		}
		if pro {
			budget = max(budget, leastOfPro)
		}
		t.Budget = &budget
	}
	if t == (thinking{}) {
		return nil, nil
	}
	return &t, nil
}

// version returns the major number in a model's name, 0 where it has none.
func version(model string) int {
	_, rest, _ := strings.Cut(model, "gemini-")
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	n, err := strconv.Atoi(rest[:digits])
	if err != nil {
		return 0
	}
	return n
}
