package failure

import (
	"strings"
	"time"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func cutHeader(s string) (string, string, bool) { return strings.Cut(s, ": ") }
