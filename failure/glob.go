package failure

import "strings"

// glob is an anchored pattern over a whole text: literal text with holes. A hole takes the
// shortest text that lets the literal behind it follow, and never nothing. {rest}, at the
// end, takes all that is left.
type glob []piece

// piece is a hole followed by literal text; hole is "" where the pattern begins with text.
type piece struct{ hole, text string }

// compile reads a pattern; * is a hole without a name.
func compile(pattern string) glob {
	var g glob
	p := piece{}
	for pattern != "" {
		i := strings.IndexAny(pattern, "*{")
		if i < 0 {
			p.text += pattern
			break
		}
		p.text += pattern[:i]
		name, width := "*", 1
		if pattern[i] == '{' {
			end := strings.IndexByte(pattern[i:], '}')
			name, width = pattern[i+1:i+end], end+1
		}
		if p.hole != "" || p.text != "" {
			g = append(g, p)
		}
		p = piece{hole: name}
		pattern = pattern[i+width:]
	}
	return append(g, p)
}

// match reports whether the pattern covers s, and calls take for each hole. take may refuse
// what a hole took, and then there is no match.
func (g glob) match(s string, take func(hole, text string) bool) bool {
	for i, p := range g {
		switch {
		case p.hole == "":
			if !strings.HasPrefix(s, p.text) {
				return false
			}
			s = s[len(p.text):]
			if i == len(g)-1 {
				return s == ""
			}
			continue
		case p.text == "": // the pattern ends in a hole
			return s != "" && (take == nil || take(p.hole, s))
		}
		var at int
		if i == len(g)-1 {
			at = len(s) - len(p.text)
			if at < 0 || s[at:] != p.text {
				return false
			}
		} else {
			at = strings.Index(s, p.text)
		}
		if at <= 0 || take != nil && !take(p.hole, s[:at]) {
			return false
		}
		s = s[at+len(p.text):]
	}
	return s == ""
}
