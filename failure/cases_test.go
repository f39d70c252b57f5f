package failure

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

type wanted struct {
	Case
	Ambiguous bool   `json:"ambiguous"`
	Trap      string `json:"trap"`
	Expect    struct {
		Retryable bool    `json:"retryable"`
		Class     Class   `json:"class"`
		MS        *int64  `json:"retry_after_ms"`
		Until     *string `json:"retry_after_until"`
	} `json:"expect"`
}

func readCases(t testing.TB) []wanted {
	t.Helper()
	f, err := os.Open("testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []wanted
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		c, err := ParseCase(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		w := wanted{}
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			t.Fatal(err)
		}
		w.Case = c
		all = append(all, w)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	return all
}

// right reports whether class, eligibility and wait are what the case expects.
func (c *wanted) right() bool {
	out, got := c.Classify()
	if got.Class != c.Expect.Class || got.Retryable != c.Expect.Retryable {
		return false
	}
	if c.Expect.MS == nil && c.Expect.Until == nil {
		return got.RetryAfterMS == nil && got.RetryAfterUntil == ""
	}
	if c.Expect.MS != nil && (got.RetryAfterMS == nil || *got.RetryAfterMS != *c.Expect.MS) {
		return false
	}
	if c.Expect.Until == nil {
		return true
	}
	want, err := time.Parse(time.RFC3339, *c.Expect.Until)
	return err == nil && out.NotBefore.Truncate(time.Second).Equal(want) && got.RetryAfterUntil == *c.Expect.Until
}

// TestCases: every recorded failure gets its class, its eligibility and its wait. F23, F27,
// F28, F30, F33, N55, N82. Ambiguous ones are scored: four of five must be right.
func TestCases(t *testing.T) {
	ambiguous, right := 0, 0
	for _, c := range readCases(t) {
		ok := c.right()
		if c.Ambiguous {
			ambiguous++
			if ok {
				right++
			}
		}
		if ok {
			continue
		}
		out, got := c.Classify()
		line, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		report := t.Errorf
		if c.Ambiguous {
			report = t.Logf
		}
		report("%s (%s)\n got %s hint %s\nwant %+v", c.ID, c.Trap, line, out.Hint, c.Expect)
	}
	if right*5 < ambiguous*4 {
		t.Errorf("only %d of %d ambiguous cases are right", right, ambiguous)
	}
}
