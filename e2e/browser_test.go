package e2e

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/reprise-run/reprise/provider/rehearsal"
)

var only = flag.String("scenario", "", "run the page's scenarios whose name matches this `regexp`")

// chromium is where Debian's package of that name puts the browser.
const chromium = "/usr/bin/chromium"

// browserTime bounds the whole browser part, also on a machine that is busy with other tests.
const browserTime = 12 * time.Minute

// TestPage runs browser/scenarios/*.mjs, one subtest a scenario. A scenario brings its scripts
// and its server's settings along; what it needs of this process it asks the stage for.
func TestPage(t *testing.T) {
	t.Parallel() // beside what mostly waits
	g := &stage{t: t}
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	node := browser(t, ctx, "browser/run.mjs", map[string]any{"stage": g.open(), "only": *only})
	var stderr bytes.Buffer
	node.Stderr = &stderr
	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	ran := 0
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 10<<20)
	for lines.Scan() {
		var r struct {
			Name, Error, Note string
			MS                int64
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("%v: %s", err, lines.Bytes())
			continue
		}
		ran++
		t.Run(r.Name, func(t *testing.T) {
			t.Logf("%d ms in the browser %s", r.MS, r.Note)
			if r.Error != "" {
				t.Error(r.Error)
			}
		})
	}
	if err := node.Wait(); err != nil || ran == 0 {
		t.Errorf("%d scenarios, then %v: %s", ran, err, stderr.String())
	}
}

// browser is a script that drives a browser: its input is its argument.
func browser(t testing.TB, ctx context.Context, script string, input map[string]any) *exec.Cmd {
	t.Helper()
	for path, what := range map[string]string{chromium: "There is no browser", "browser/node_modules/playwright-core": "The browser's driver is missing"} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%s (%v): `make test` installs it.", what, err)
		}
	}
	input["executablePath"] = chromium
	argument, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(ctx, "node", script, string(argument))
	node.WaitDelay = 10 * time.Second
	node.Env = append(os.Environ(), "HOME="+t.TempDir())
	return node
}

// stage is what the scenarios ask for over HTTP: an upstream that plays their scripts, and
// servers, each the whole binary with a data folder of its own.
type stage struct {
	t testing.TB

	mu      sync.Mutex
	up      *upstream
	models  []string
	servers []*server
}

// place says where a server is.
type place struct {
	ID   int    `json:"id"`
	Link string `json:"link"` // launch link
	Base string `json:"base"`
	Home string `json:"home"`
}

func (g *stage) open() (url string) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /upstream", act(g.play))
	mux.HandleFunc("POST /serve", act(g.serve))
	mux.HandleFunc("POST /kill", act(g.on(func(s *server) { s.proc.kill() })))
	mux.HandleFunc("POST /start", act(g.on(func(s *server) { s.listen(strings.TrimPrefix(s.Base, "http://")) })))
	mux.HandleFunc("POST /forget", act(g.on(g.forget)))
	mux.HandleFunc("POST /reprise", act(g.run))
	h := httptest.NewServer(mux)
	g.t.Cleanup(h.Close)
	return h.URL
}

// act answers a request with what f makes of its body.
func act[In, Out any](f func(In) Out) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// Whoever asked is gone if this fails, and says so.
		_ = json.NewEncoder(w).Encode(f(in))
	}
}

// play starts the upstream. models are scripts that every upstream has, to be listed too.
func (g *stage) play(in struct {
	Scripts []rehearsal.Script
	Models  []string
}) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.up, g.models = newUpstream(g.t, in.Scripts...), in.Models
	for _, s := range in.Scripts {
		g.models = append(g.models, s.Name)
	}
	return g.up.URL
}

func (g *stage) serve(in struct{ Config string }) place {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := serve(g.t, fmt.Sprintf("providers:\n  up: {dialect: responses, base_url: %s/v1, models: [%s]}\n%s", g.up.URL, strings.Join(g.models, ", "), in.Config))
	g.servers = append(g.servers, s)
	return place{len(g.servers) - 1, s.link, s.Base, s.home}
}

func (g *stage) server(id int) *server {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.servers[id]
}

// on does something to a server, which stays where it was.
func (g *stage) on(f func(*server)) func(struct{ ID int }) struct{} {
	return func(in struct{ ID int }) struct{} { f(g.server(in.ID)); return struct{}{} }
}

// forget removes every attempt from the store of a server that does not run.
func (g *stage) forget(s *server) {
	db, err := sql.Open("sqlite", filepath.Join(s.home, ".local", "share", "reprise", "reprise.db"))
	if err != nil {
		g.t.Error(err)
		return
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM attempts"); err != nil {
		g.t.Error(err)
	}
}

type said struct {
	Code   int    `json:"code"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// run runs a verb of the command line beside a server.
func (g *stage) run(in struct {
	ID   int
	Args []string
}) (out said) {
	out.Code, out.Stdout, out.Stderr = reprise(g.t, g.server(in.ID).home, in.Args...)
	return out
}
