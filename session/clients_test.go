package session

import "testing"

// Which names a client key allows.
func TestClientTermsAllow(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		name     string
		want     bool
	}{
		{nil, "anything", true},
		{[]string{"fast"}, "fast", true},
		{[]string{"fast"}, "faster", false},
		{[]string{"openai/*"}, "openai/gpt", true},
		{[]string{"openai/*"}, "openai/org/gpt", true},
		{[]string{"openai/*"}, "azure/gpt", false},
		{[]string{"*"}, "", true},
		{[]string{"*gpt*mini"}, "openai/gpt-5-mini", true},
		{[]string{"*gpt*mini"}, "openai/gpt-5-mini-2", false},
		{[]string{"*/gpt", "fast"}, "fast", true},
		{[]string{"a**b"}, "ab", true},
		{[]string{""}, "x", false},
	} {
		terms := ClientTerms{Models: c.patterns}
		if got := terms.Allows(c.name); got != c.want {
			t.Errorf("%q %q: %t", c.patterns, c.name, got)
		}
	}
}
