package mcptool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// seen are the images that models see; every provider takes these.
var seen = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// parts makes parts of a result. What a model cannot be told is named, with its kind and size.
func parts(r *mcp.CallToolResult) ([]llm.Part, error) {
	if r.NeedsInput() {
		return nil, fmt.Errorf("the tool asks for input in the middle of the call, which is not offered here; it did not come to its end")
	}
	var out []llm.Part
	for _, c := range r.Content {
		if p := part(c); p.Kind != llm.PartText || p.Text != "" {
			out = append(out, p)
		}
	}
	if r.StructuredContent != nil && !told(r.Content, r.StructuredContent) {
		out = append(out, llm.Text(string(asJSON(r.StructuredContent))))
	}
	switch {
	case r.IsError && len(out) == 0:
		return nil, fmt.Errorf("the tool failed and does not say why")
	case r.IsError:
		return out, agent.ErrResult
	case len(out) == 0:
		return []llm.Part{llm.Text("(The tool has ended and says nothing.)")}, nil
	}
	return out, nil
}

func part(c mcp.Content) llm.Part {
	switch c := c.(type) {
	case *mcp.TextContent:
		return llm.Text(c.Text)
	case *mcp.ImageContent:
		return blob("Image", c.MIMEType, c.Data)
	case *mcp.AudioContent:
		return blob("Audio", c.MIMEType, c.Data)
	case *mcp.ResourceLink:
		about := []string{c.MIMEType}
		if c.Size != nil {
			about = append(about, fmt.Sprintf("%d bytes", *c.Size))
		}
		name := c.Title
		if name == "" {
			name = c.Name
		}
		return llm.Text(joined("Link to a resource", name, c.URI, about, c.Description))
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return llm.Part{Kind: llm.PartText}
		}
		r := c.Resource
		if len(r.Blob) > 0 {
			return blob("Resource "+r.URI, r.MIMEType, r.Blob)
		}
		return llm.Text(joined("Resource", "", r.URI, []string{r.MIMEType}, "") + "\n" + r.Text)
	}
	return llm.Text(fmt.Sprintf("(Content of a kind that is not known: %s)", cut(string(asJSON(c)), maxLine)))
}

// blob is an image where models see its like, and else named.
func blob(what, media string, data []byte) llm.Part {
	media = strings.ToLower(media)
	if seen[media] && len(data) > 0 {
		return llm.Part{Kind: llm.PartImage, MediaType: media, Data: data}
	}
	return llm.Text(fmt.Sprintf("(%s that is not shown here: %s, %d bytes)", what, orUnknown(media), len(data)))
}

func orUnknown(media string) string {
	if media == "" {
		return "kind unknown"
	}
	return media
}

// joined is a line about a resource.
func joined(what, name, uri string, about []string, description string) string {
	line := what
	if name != "" {
		line += " " + name
	}
	line += ": " + uri
	var known []string
	for _, a := range about {
		if a != "" {
			known = append(known, a)
		}
	}
	if len(known) > 0 {
		line += " (" + strings.Join(known, ", ") + ")"
	}
	if description != "" {
		line += "\n" + description
	}
	return line
}

// told reports whether a text says the structured result already, as servers do for clients
// that know no other; many wrap a text, or a list, in an object of one property.
func told(content []mcp.Content, structured any) bool {
	var wrapped any
	if object, ok := structured.(map[string]any); ok && len(object) == 1 {
		for _, wrapped = range object {
		}
	}
	for _, c := range content {
		t, ok := c.(*mcp.TextContent)
		if !ok {
			continue
		}
		if wrapped == t.Text {
			return true
		}
		var v any
		if json.Unmarshal([]byte(t.Text), &v) == nil && v != nil && (reflect.DeepEqual(v, structured) || reflect.DeepEqual(v, wrapped)) {
			return true
		}
	}
	return false
}
