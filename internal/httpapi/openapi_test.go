package httpapi_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The document is served as it is in testdata: a change of the API is seen in review.
func TestOpenAPI(t *testing.T) {
	w := start(t)
	resp, got := w.send(t, "GET", "/openapi.json", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/openapi+json" {
		t.Fatalf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	const golden = "testdata/openapi.json"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Error("the document differs from testdata/openapi.json; run with -update and review the difference")
	}
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct{ AdditionalProperties *bool }
		}
	}
	if err := json.Unmarshal([]byte(got), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("OpenAPI %s", doc.OpenAPI)
	}
	for _, name := range []string{"Event", "Output", "OutputEvent", "Snapshot", "Attempt", "ProviderFailure", "Decision"} {
		if _, ok := doc.Components.Schemas[name]; !ok {
			t.Errorf("there is no schema of %s", name)
		}
	}
	// Answers may grow, requests are exact.
	for name, closed := range map[string]bool{"Session": false, "Event": false, "PostMessage": true, "Part": true, "Settings": true} {
		if got := doc.Components.Schemas[name].AdditionalProperties; (got != nil) != closed {
			t.Errorf("%s is closed: %v, want %v", name, got != nil, closed)
		}
	}
	if !strings.Contains(string(doc.Paths["/api/v1/events"]["get"]), `"text/event-stream"`) {
		t.Error("the event stream is not described")
	}
}
