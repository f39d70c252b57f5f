package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// register adds every route of the table, and the document that is made of them.
func (h *Handler) register() {
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	schemas.RegisterTypeAlias(reflect.TypeFor[replay.Reasons](), reflect.TypeFor[[]string]())
	schemas.RegisterTypeAlias(reflect.TypeFor[failure.Class](), reflect.TypeFor[class]())
	api := humago.New(h.mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "Reprise",
				Version:     "1",
				Description: "Sessions with language models whose replies recover, and never say or do anything twice.",
			},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer"},
					"login":  {Type: "apiKey", In: "cookie", Name: cookieName, Description: "Set by /auth/launch; its name ends in _ and the port, where the host has one."},
				},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": huma.DefaultJSONFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	})
	for _, r := range h.routes() {
		op := huma.Operation{
			OperationID:   r.id,
			Method:        r.method,
			Path:          r.path,
			Summary:       r.summary,
			DefaultStatus: r.status,
			// ServeHTTP has read the body, within bounds. Huma's own would end slow handlers.
			MaxBodyBytes:    -1,
			BodyReadTimeout: -1,
		}
		if private(r.path) && r.path != loginPath {
			op.Security = []map[string][]string{{"bearer": {}}, {"login": {}}}
		}
		r.add(api, op)
	}
	tolerate(api.OpenAPI())
	document, err := json.MarshalIndent(api.OpenAPI(), "", "  ")
	if err != nil {
		panic(fmt.Sprintf("write the OpenAPI document: %s", err))
	}
	h.document = append(document, '\n')
	if h.o.Metrics != nil {
		h.mux.Handle("GET "+metricsPath, h.o.Metrics)
	}
	h.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Write(h.document)
	})
}

// orDone documents, beside 202, the answer 200 of the same form.
func orDone(add func(huma.API, huma.Operation)) func(huma.API, huma.Operation) {
	return func(api huma.API, op huma.Operation) {
		op.Responses = make(map[string]*huma.Response)
		add(api, op)
		done := *op.Responses["202"]
		done.Description = http.StatusText(http.StatusOK)
		op.Responses["200"] = &done
	}
}

// schemaName names a type's schema: as the type, unless two packages use the name.
func schemaName(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[failure.Failure]():
		return "ProviderFailure"
	case reflect.TypeFor[llm.Event]():
		return "OutputEvent"
	case reflect.TypeFor[envelope]():
		return "ErrorBody"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// class is the schema of a failure's class.
type class string

// Schema lists the classes.
func (class) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, c := range failure.Classes() {
		s.Enum = append(s.Enum, c.String())
	}
	return s
}

// tolerate lets what only answers hold have fields that the document does not know: they
// may be added at any time. In requests an unknown field stays an error.
func tolerate(doc *huma.OpenAPI) {
	strict := make(map[*huma.Schema]bool)
	var keep func(s *huma.Schema)
	keep = func(s *huma.Schema) {
		if s == nil || strict[s] {
			return
		}
		strict[s] = true
		if s.Ref != "" {
			keep(doc.Components.Schemas.SchemaFromRef(s.Ref))
		}
		keep(s.Items)
		for _, p := range s.Properties {
			keep(p)
		}
	}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Post, item.Patch, item.Put, item.Delete} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, m := range op.RequestBody.Content {
				keep(m.Schema)
			}
		}
	}
	for _, s := range doc.Components.Schemas.Map() {
		if strict[s] {
			continue
		}
		if closed, ok := s.AdditionalProperties.(bool); ok && !closed {
			s.AdditionalProperties = nil
		}
	}
}
