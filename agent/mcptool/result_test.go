package mcptool

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

func TestParts(t *testing.T) {
	size := int64(7)
	png := llm.Part{Kind: llm.PartImage, MediaType: "image/png", Data: []byte{1, 2}}
	for name, c := range map[string]struct {
		in   mcp.CallToolResult
		want []llm.Part
		err  error
	}{
		"text":         {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"}, &mcp.TextContent{}, &mcp.TextContent{Text: "b"}}}, want: []llm.Part{llm.Text("a"), llm.Text("b")}},
		"nothing":      {want: []llm.Part{llm.Text("(The tool has ended and says nothing.)")}},
		"image":        {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/PNG", Data: []byte{1, 2}}}}, want: []llm.Part{png}},
		"vector image": {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/svg+xml", Data: []byte{1, 2}}}}, want: []llm.Part{llm.Text("(Image that is not shown here: image/svg+xml, 2 bytes)")}},
		"audio":        {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.AudioContent{Data: []byte{1}}}}, want: []llm.Part{llm.Text("(Audio that is not shown here: kind unknown, 1 bytes)")}},
		"link": {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.ResourceLink{URI: "demo://1", Name: "one", MIMEType: "text/plain", Size: &size, Description: "The first."}}},
			want: []llm.Part{llm.Text("Link to a resource one: demo://1 (text/plain, 7 bytes)\nThe first.")}},
		"resource": {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "demo://1", Text: "hello"}}, &mcp.EmbeddedResource{}}},
			want: []llm.Part{llm.Text("Resource: demo://1\nhello")}},
		"resource image": {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "demo://1", MIMEType: "image/png", Blob: []byte{1, 2}}}}}, want: []llm.Part{png}},
		"resource bytes": {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "demo://1", MIMEType: "application/gzip", Blob: []byte{1, 2}}}}},
			want: []llm.Part{llm.Text("(Resource demo://1 that is not shown here: application/gzip, 2 bytes)")}},
		"structured": {in: mcp.CallToolResult{StructuredContent: map[string]any{"a": 1.0}}, want: []llm.Part{llm.Text(`{"a":1}`)}},
		"structured, told": {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: `{ "a": 1 }`}}, StructuredContent: map[string]any{"a": 1.0}},
			want: []llm.Part{llm.Text(`{ "a": 1 }`)}},
		"structured, wrapped": {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "one"}}, StructuredContent: map[string]any{"content": "one"}},
			want: []llm.Part{llm.Text("one")}},
		"structured, other text": {in: mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "one"}}, StructuredContent: []any{"x"}}, want: []llm.Part{llm.Text("one"), llm.Text(`["x"]`)}},
		"error":                  {in: mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}}, want: []llm.Part{llm.Text("no")}, err: agent.ErrResult},
	} {
		got, err := parts(&c.in)
		if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := parts(&mcp.CallToolResult{IsError: true}); got != nil || err == nil || errors.Is(err, agent.ErrResult) {
		t.Errorf("an error without words: %v, %v", got, err)
	}
}

func TestNames(t *testing.T) {
	n := namer{server: "a", servers: []string{"a", "a_b", "z"}, taken: []string{"a_clock"}}
	for tool, plain := range map[string]bool{"x": true, "b": true, "read-File_2": true, strings.Repeat("x", 62): true,
		strings.Repeat("x", 63): false, "b_c": false, "clock": false, "a.b": false, "ä": false, "": false} {
		got := n.name(tool)
		if invalid.MatchString(got) || len(got) > maxName || got == "" {
			t.Errorf("%q is %q, which is not valid", tool, got)
		}
		if (got == "a_"+tool) != plain {
			t.Errorf("%q is %q", tool, got)
		}
		if got != n.name(tool) {
			t.Errorf("%q has two names", tool)
		}
	}
	if n.name("a.b") == n.name("a:b") || n.name(strings.Repeat("x", 70)) == n.name(strings.Repeat("x", 71)) {
		t.Error("two tools have one name")
	}
	if got := (namer{server: "a_b", servers: n.servers}).name("c"); got != "a_b_c" {
		t.Error(got)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, x, y string) {
		n := namer{server: "s", servers: []string{"s", "s_t"}}
		a, b := n.name(x), n.name(y)
		if invalid.MatchString(a) || len(a) > maxName || x != y && a == b {
			t.Errorf("%q is %q, %q is %q", x, a, y, b)
		}
	})
}
