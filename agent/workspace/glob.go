package workspace

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// glob makes a pattern into a function of names, as in gitignore and shells: * and ? stop at a
// slash, ** does not, [abc] is one of these, {a,b} is either. A pattern without a slash is one of
// a name's last element. The empty one matches everything. It takes time linear in the name,
// whatever the pattern.
func glob(pattern string) (func(name string) bool, error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	source, err := expression(strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/"))
	if err != nil {
		return nil, fmt.Errorf("glob %q: %w", pattern, err)
	}
	re, err := regexp.Compile("^(?:" + source + ")$")
	if err != nil {
		return nil, fmt.Errorf("glob %q: %w", pattern, err)
	}
	if strings.Contains(pattern, "/") {
		return re.MatchString, nil
	}
	return func(name string) bool { return re.MatchString(path.Base(name)) }, nil
}

// expression is a glob as a regular expression.
func expression(glob string) (string, error) {
	var b strings.Builder
	braces := 0
	for rest := glob; rest != ""; {
		c, n := utf8.DecodeRuneInString(rest)
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			n = 3
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			n = 2
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[':
			end := strings.IndexByte(rest[1:], ']') + 1
			if end < 2 {
				return "", errors.New("a [ is not closed")
			}
			class := strings.NewReplacer(`\`, `\\`, `[`, `\[`).Replace(rest[1:end])
			if class[0] == '!' || class[0] == '^' {
				class = "^/" + class[1:]
			}
			b.WriteString("[" + class + "]")
			n = end + 1
		case c == '{':
			b.WriteString("(?:")
			braces++
		case c == '}' && braces > 0:
			b.WriteString(")")
			braces--
		case c == ',' && braces > 0:
			b.WriteString("|")
		case c == '\\' && len(rest) > 1:
			_, next := utf8.DecodeRuneInString(rest[1:])
			b.WriteString(regexp.QuoteMeta(rest[1 : 1+next]))
			n = 1 + next
		default:
			b.WriteString(regexp.QuoteMeta(rest[:n]))
		}
		rest = rest[n:]
	}
	if braces > 0 {
		return "", errors.New("a { is not closed")
	}
	return b.String(), nil
}
