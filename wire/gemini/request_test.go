package gemini_test

import (
	"testing"

	"github.com/reprise-run/reprise/wire/gemini"
	"github.com/reprise-run/reprise/wire/internal/wiretest"
)

// What was encoded is read as it was, and what no other dialect can be told is lost by its name.
func TestReadRequest(t *testing.T) {
	wiretest.Reads(t, gemini.Codec{}, map[string]string{
		"opaque":                "contents[1].parts[0]: it has no word in other dialects; contents[1].parts[1]: it has no word in other dialects",
		"provider_tool_by_name": "tools[0].googleSearch",
		"provider_tools":        "tools[1].maxUses; tools[1].name; tools[1].type",
	})
	for _, c := range [][2]string{
		{`{"system_instruction":{"parts":[{"text":"a"}]},"contents":[{"parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{"q":1}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"y"}}}]}],"generation_config":{"max_output_tokens":5,"topK":64},"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"type":{"type":"STRING","enum":["A"]}}}}]}]}`,
			""},
		{`{"contents":[{"parts":[{"text":"x"},{"inlineData":{"mimeType":"audio/wav","data":""}}]}],"tools":[{"googleSearch":{}}],"cachedContent":"c","generationConfig":{"topK":5,"responseSchema":{},"seed":1}}`,
			"contents[0].parts[1]: audio/wav has no word in other dialects; tools[0].googleSearch; generationConfig.topK; generationConfig.responseSchema; generationConfig.seed; and 1 more"},
	} {
		wiretest.Loses(t, gemini.Codec{}, c[0], c[1])
	}
}

// No body breaks the reading, and what is read can be said or is refused.
func FuzzReadRequest(f *testing.F) {
	wiretest.FuzzReads(f, gemini.Codec{})
}
