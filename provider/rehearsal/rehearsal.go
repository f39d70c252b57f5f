// Package rehearsal is a provider without a model: a real HTTP upstream that speaks Chat
// Completions, Responses, Messages and Gemini, and plays the script that the model's name
// chooses. A script is a reply, a fault, or one after the other: every way in which a
// provider fails, at the moment in which it fails.
//
// It promises that the same script means the same in every dialect, streamed or not; that it
// counts every request that reaches it, before the answer begins; and that a "-then-ok"
// script counts apart for each question, so that sessions do not disturb each other: by the
// header X-Rehearsal-Key where there is one, else by the script's name and the text of the
// last message of the user. Two sessions that put the same question to the same script
// without that header share its takes. Scripts that rewind (all of the built-in ones that
// have several takes) begin again after their last take, so a regenerate meets the whole
// script again; others go on with their last take.
//
// It refuses no key, remembers no text, and holds at most 10,000 requests.
package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// KeyHeader names the conversation that a request belongs to.
const KeyHeader = "X-Rehearsal-Key"

// maxBody bounds a request's body.
const maxBody = 64 << 20

// Server is the upstream. It is safe for concurrent use.
type Server struct {
	scripts map[string]*Script
	names   []string
	ledger  *ledger
	mux     *http.ServeMux
}

var _ http.Handler = (*Server)(nil)

// New makes an upstream that plays the built-in scripts and the given ones, which replace
// built-in ones of the same name. It fails if a script cannot be played.
func New(scripts ...Script) (*Server, error) {
	s := &Server{scripts: map[string]*Script{}, ledger: newLedger(), mux: http.NewServeMux()}
	for _, script := range append(Scripts(), scripts...) {
		if err := script.Validate(); err != nil {
			return nil, err
		}
		if s.scripts[script.Name] == nil {
			s.names = append(s.names, script.Name)
		}
		s.scripts[script.Name] = &script
	}
	for _, version := range []string{"", "/v1"} {
		s.mux.HandleFunc("POST "+version+"/chat/completions", s.model(chat{}))
		s.mux.HandleFunc("POST "+version+"/responses", s.model(responses{}))
		s.mux.HandleFunc("POST "+version+"/messages", s.model(messages{}))
		s.mux.HandleFunc("POST "+version+"/messages/count_tokens", s.count(messages{}, `{"input_tokens":$}`))
		s.mux.HandleFunc("GET "+version+"/models", s.list)
	}
	s.mux.HandleFunc("POST /v1beta/models/{call...}", s.generate)
	s.mux.HandleFunc("GET /v1beta/models", s.listGemini)
	s.mux.HandleFunc("GET /rehearsal/requests", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Requests()) })
	s.mux.HandleFunc("DELETE /rehearsal/requests", func(w http.ResponseWriter, _ *http.Request) {
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
	s.mux.HandleFunc("GET /rehearsal/scripts", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Scripts()) })
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "This is a rehearsal: a provider without a model. See /rehearsal/scripts and /rehearsal/requests.")
	})
	return s, nil
}

// Scripts returns the scripts that this upstream plays, the built-in ones first.
func (s *Server) Scripts() []Script {
	all := make([]Script, len(s.names))
	for i, n := range s.names {
		all[i] = *s.scripts[n]
	}
	return all
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Serve serves the handler until the context is done, then breaks off what is still being
// answered. It returns nil after such an end, and closes the listener.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- server.Close() })
	err := server.Serve(l)
	if !stop() && errors.Is(err, http.ErrServerClosed) {
		return <-closed
	}
	return err
}

// generate takes the model and the method out of Gemini's path.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	path := r.PathValue("call")
	model, method := path, ""
	if i := strings.LastIndexByte(path, ':'); i >= 0 {
		model, method = path[:i], path[i+1:]
	}
	c := call{model: bare(model)}
	switch method {
	case "generateContent":
	case "streamGenerateContent":
		c.stream = r.URL.Query().Get("alt") == "sse"
		c.array = !c.stream
	case "countTokens":
		s.count(gemini{}, `{"totalTokens":$}`)(w, r)
		return
	default:
		http.NotFound(w, r)
		return
	}
	s.serve(w, r, gemini{}, c)
}

func (s *Server) model(d dialect) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, d, call{}) }
}

// read reads the whole request, so that the server can tell when the client goes.
func read(w http.ResponseWriter, r *http.Request, d dialect, c *call) (int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = d.read(c, body)
	}
	return len(body), err
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, d dialect, c call) {
	n, err := read(w, r, d, &c)
	script, fast := s.script(c.model)
	c.key = c.conversation(r.Header.Get(KeyHeader))
	entry := &Request{Time: time.Now(), Path: r.URL.Path, Dialect: d.name(), Model: c.model, Key: c.key,
		Stream: c.stream, Bytes: n, Header: visible(r.Header)}
	if err != nil {
		script = nil
	}
	scene, take := s.ledger.begin(entry, script, c.rounds)
	id := fmt.Sprintf("%06d", entry.Number)
	c.requestID = "req_rehearsal" + id
	w.Header().Set("X-Request-Id", c.requestID)
	w.Header().Set("Request-Id", c.requestID)

	rc := http.NewResponseController(w)
	p := &play{ctx: r.Context(), rc: rc, pause: time.Duration(DefaultPause),
		stage: &stage{w: w, flush: rc.Flush, call: &c, d: d, id: "rehearsal" + id, at: entry.Time}}
	defer func() { s.ledger.end(entry, p.outcome, p.outcome == left) }()
	switch {
	case err != nil:
		p.refuse(&Fault{Kind: Invalid, Message: "The request's body: " + err.Error()}, 0)
		return
	case script == nil:
		p.refuse(&Fault{Kind: ModelNotFound, Message: fmt.Sprintf("There is no script %q. GET /v1/models lists them.", c.model)}, 0)
		return
	case script.Window > 0 && c.size > script.Window:
		p.refuse(&Fault{Kind: ContextOverflow}, 0)
		return
	case fast:
		p.pause = 0
	case script.Pause > 0:
		p.pause = time.Duration(script.Pause)
	}
	takes := script.Scenes[scene]
	c.script = script
	for i := range take {
		c.earlier = append(c.earlier, takes[min(i, len(takes)-1)])
	}
	p.perform(takes[min(take, len(takes)-1)])
}

// script finds the script that a model's name chooses.
func (s *Server) script(model string) (found *Script, fast bool) {
	if found = s.scripts[model]; found != nil {
		return found, false
	}
	name, fast := strings.CutSuffix(model, "-fast")
	return s.scripts[name], fast
}

func (s *Server) count(d dialect, template string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var c call
		if _, err := read(w, r, d, &c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, fill(template, c.tokens()))
	}
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	all := make([]model, len(s.names))
	for i, n := range s.names {
		all[i] = model{n, "model", 1_700_000_000, "rehearsal"}
	}
	writeJSON(w, map[string]any{"object": "list", "data": all})
}

func (s *Server) listGemini(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		Name        string   `json:"name"`
		DisplayName string   `json:"displayName"`
		Description string   `json:"description"`
		Methods     []string `json:"supportedGenerationMethods"`
	}
	all := make([]model, len(s.names))
	for i, n := range s.names {
		all[i] = model{"models/" + n, n, s.scripts[n].Shows, []string{"generateContent"}}
	}
	writeJSON(w, map[string]any{"models": all})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// The client may be gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(v)
}
