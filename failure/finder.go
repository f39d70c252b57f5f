package failure

import "strings"

// finder looks for many phrases in one pass over a text. Phrases are of at least four bytes.
type finder struct {
	may     [1 << 16]bool // by the first two bytes
	phrases []string
	byFour  map[uint32][]int
}

func newFinder(phrases []string) *finder {
	x := &finder{phrases: phrases, byFour: make(map[uint32][]int, len(phrases))}
	for i, p := range phrases {
		x.may[uint16(p[0])|uint16(p[1])<<8] = true
		k := four(p)
		x.byFour[k] = append(x.byFour[k], i)
	}
	return x
}

func four(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// each calls found with the index of each phrase in s and the offset behind it, in the order
// of their places.
func (x *finder) each(s string, found func(i, end int)) {
	for at := 0; at+4 <= len(s); at++ {
		if !x.may[uint16(s[at])|uint16(s[at+1])<<8] {
			continue
		}
		for _, i := range x.byFour[four(s[at:])] {
			if strings.HasPrefix(s[at:], x.phrases[i]) {
				found(i, at+len(x.phrases[i]))
			}
		}
	}
}

// lowerASCII folds the capitals of ASCII and typographic apostrophes, and nothing else.
func lowerASCII(s string) string {
	if strings.Contains(s, "’") {
		s = strings.ReplaceAll(s, "’", "'")
	}
	i := 0
	for i < len(s) && (s[i] < 'A' || s[i] > 'Z') {
		i++
	}
	if i == len(s) {
		return s
	}
	b := []byte(s)
	for ; i < len(b); i++ {
		if b[i] >= 'A' && b[i] <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}
