package gemini_test

import (
	"testing"

	"github.com/reprise-run/reprise/wire/gemini"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
)

// What decides where a request goes, and whether the provider may act for it.
func TestHead(t *testing.T) {
	s := gemini.Codec{}
	for body, want := range map[string]string{
		`{"contents":[],"generationConfig":{"maxOutputTokens":7}}`:                          " false 7",
		`{"generation_config":{"max_output_tokens":8}}`:                                     " false 8",
		`{"tools":[{"functionDeclarations":[]},{"computerUse":{}}]}`:                        " false 0",
		`{"tools":[{"function_declarations":[]},{"googleSearch":{}},{"codeExecution":{}}]}`: " false 0 googleSearch (reads) codeExecution",
		`{"generationConfig":{"candidateCount":3,"maxOutputTokens":9}}`:                     " false 9x3",
	} {
		wiretest.Head(t, s, body, want)
	}
	wiretest.NoHead(t, s)
}
