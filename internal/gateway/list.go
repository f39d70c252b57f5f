package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/transport"
	"github.com/reprise-run/reprise/wire"
)

// model is a model as OpenAI's list has it and as Anthropic's does: one path serves both.
type model struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Type        string `json:"type"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

func newModel(name string) model {
	return model{ID: name, Object: "model", OwnedBy: "reprise", Type: "model", DisplayName: name, CreatedAt: "1970-01-01T00:00:00Z"}
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request) {
	names, ok := h.names(w, r)
	if !ok {
		return
	}
	list := struct {
		Object  string  `json:"object"`
		Data    []model `json:"data"`
		HasMore bool    `json:"has_more"`
		FirstID string  `json:"first_id,omitempty"`
		LastID  string  `json:"last_id,omitempty"`
	}{Object: "list", Data: []model{}}
	for _, name := range names {
		list.Data = append(list.Data, newModel(name))
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = list.Data[0].ID, list.Data[n-1].ID
	}
	reply(w, http.StatusOK, list)
}

func (h *Handler) one(w http.ResponseWriter, r *http.Request) {
	names, ok := h.names(w, r)
	if !ok {
		return
	}
	name := r.PathValue("name")
	if !slices.Contains(names, name) {
		reply(w, http.StatusNotFound, json.RawMessage(spoken(r).Refusal(wire.Refusal{Status: http.StatusNotFound,
			Code: "model_not_found", Message: "There is no model " + name + "."})))
		return
	}
	reply(w, http.StatusOK, newModel(name))
}

func (h *Handler) listGemini(w http.ResponseWriter, r *http.Request) {
	names, ok := h.names(w, r)
	if !ok {
		return
	}
	type gemini struct {
		Name        string   `json:"name"`
		DisplayName string   `json:"displayName"`
		Methods     []string `json:"supportedGenerationMethods"`
	}
	all := []gemini{}
	for _, name := range names {
		all = append(all, gemini{"models/" + name, name, []string{"generateContent", "streamGenerateContent", "countTokens"}})
	}
	reply(w, http.StatusOK, map[string]any{"models": all})
}

// names are those that a client may ask. It answers for a request that nobody has let in.
func (h *Handler) names(w http.ResponseWriter, r *http.Request) (names []string, ok bool) {
	key, err := h.o.Admit(r)
	if err != nil {
		reply(w, http.StatusUnauthorized, json.RawMessage(spoken(r).Refusal(wire.Refusal{Status: http.StatusUnauthorized,
			Code: "invalid_api_key", Message: err.Error()})))
		return nil, false
	}
	for _, name := range h.o.Models.Names() {
		if key.Allows(name) {
			names = append(names, name)
		}
	}
	return names, true
}

// unrouted answers for a path, or a method, that the gateway does not have.
func (h *Handler) unrouted(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusNotFound, json.RawMessage(spoken(r).Refusal(wire.Refusal{Status: http.StatusNotFound, Code: "not_found",
		Message: "There is no " + r.Method + " " + r.URL.Path + " here. A stream of Gemini's needs alt=sse."})))
}

// spoken is the dialect that a request without a model call is probably of.
func spoken(r *http.Request) wire.Server {
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1beta/"), r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/models/"):
		return transport.Servers["gemini"]
	case strings.HasPrefix(r.URL.Path, "/v1/messages"), r.Header.Get("Anthropic-Version") != "":
		return transport.Servers["messages"]
	}
	return transport.Servers["chat"]
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may be gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(v)
}
