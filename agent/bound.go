package agent

import (
	"fmt"

	"github.com/reprise-run/reprise/llm"
)

// Bounds of one call's result. A model gets all of it with every request that follows.
const (
	maxText   = 256 << 10 // bytes
	maxImages = 8 << 20   // bytes, encoded
	maxParts  = 100
)

// bounded returns what may be kept of a result, and says in it what was left out. A text that is
// too long loses its middle.
func bounded(parts []llm.Part) []llm.Part {
	kept := make([]llm.Part, 0, min(len(parts), maxParts+1))
	text, images := maxText, maxImages
	for i, p := range parts {
		if i == maxParts || text == 0 {
			return append(kept, llm.Text(fmt.Sprintf("[%d more parts of the result were left out: it is too long]", len(parts)-i)))
		}
		switch p.Kind {
		case llm.PartText:
			if len(p.Text) > text {
				p.Text = middleOut(p.Text, text)
				text = 0
			} else {
				text -= len(p.Text)
			}
		case llm.PartImage:
			if len(p.Data) > images {
				p = llm.Text(fmt.Sprintf("[an image of %d bytes was left out: it is too large]", len(p.Data)))
			}
			images -= len(p.Data)
		}
		kept = append(kept, p)
	}
	return kept
}

// middleOut shortens a text to so many bytes, and says how much is missing.
func middleOut(s string, size int) string {
	head, tail := ends(s, size)
	return fmt.Sprintf("%s\n[… %d bytes were left out here …]\n%s", s[:head], tail-head, s[tail:])
}
