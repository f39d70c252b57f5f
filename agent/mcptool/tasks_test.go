package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-run/reprise/agent"
)

// tasked is a server of the version that has tasks, line by line. Its tool "research" must be a task, which
// takes on the statuses in turn.
type tasked struct {
	statuses []string
	result   string // JSON

	mu   sync.Mutex
	seen []string // methods, and what is asked of them
}

func (s *tasked) serve(c net.Conn) {
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	polls := 0
	for {
		var r struct {
			ID     any
			Method string
			Params struct {
				Name   string
				Task   any
				TaskID string
			}
		}
		if in.Decode(&r) != nil {
			return
		}
		if r.Method == "tools/call" || strings.HasPrefix(r.Method, "tasks/") {
			s.mu.Lock()
			s.seen = append(s.seen, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.Params.Name, r.Params.TaskID)))
			s.mu.Unlock()
		}
		result := ""
		status := func() string {
			polls++
			at := s.statuses[min(polls, len(s.statuses))-1]
			return fmt.Sprintf(`{"taskId":"t1","status":%q,"statusMessage":"poll %d","pollInterval":10}`, at, polls)
		}
		switch r.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"tasked","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"research","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"plain","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			if result = `{"content":[{"type":"text","text":"plain"}]}`; r.Params.Task != nil {
				result = `{"task":` + status() + `}`
			}
		case "tasks/get", "tasks/cancel":
			result = status()
		case "tasks/result":
			result = s.result
		}
		switch {
		case r.ID == nil:
		case result == "":
			_ = out.Encode(map[string]any{"jsonrpc": "2.0", "id": r.ID, "error": map[string]any{"code": -32601, "message": "no such method"}})
		default:
			_ = out.Encode(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": json.RawMessage(result)})
		}
	}
}

func (s *tasked) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *tasked) open(t *testing.T, cfg Config) *world {
	w := inMemory(t, cfg)
	w.all[0].open = func() (mcp.Transport, stop, error) {
		ours, theirs := net.Pipe()
		w.theirs = theirs
		go s.serve(theirs)
		return marking{&mcp.IOTransport{Reader: ours, Writer: ours}}, func(end func()) error { end(); return nil }, nil
	}
	return w
}

// A tool that must be a task is begun once, and its result is fetched when it is there.
func TestTask(t *testing.T) {
	done := `{"content":[{"type":"text","text":"found"}]}`
	for name, c := range map[string]struct {
		statuses []string
		result   string
		want     string
		err      string
		fetched  bool
	}{
		"completed":      {statuses: []string{"working", "working", "completed"}, result: done, want: "found", fetched: true},
		"at once":        {statuses: []string{"completed"}, result: done, want: "found", fetched: true},
		"failed":         {statuses: []string{"working", "failed"}, result: `{"isError":true,"content":[{"type":"text","text":"no"}]}`, want: "no", err: agent.ErrResult.Error(), fetched: true},
		"wants input":    {statuses: []string{"working", "input_required"}, err: `the task is "input_required": poll 2`},
		"cancelled":      {statuses: []string{"working", "cancelled"}, err: `the task is "cancelled"`},
		"result is lost": {statuses: []string{"working", "completed"}, err: "answered with an error: no such method", fetched: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &tasked{statuses: c.statuses, result: c.result}
				w := s.open(t, Config{Timeout: time.Minute})
				tools := w.Tools(t.Context(), nil)
				var told []string
				parts, err := find(t, tools, "s_research").Run(t.Context(), []byte(`{}`), func(p agent.Progress) { told = append(told, p.Text) })
				if text(parts) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, %v", text(parts), err)
				}
				want := []string{"tools/call research"}
				var progress []string
				for i := range c.statuses {
					if i > 0 {
						want = append(want, "tasks/get t1")
					}
					if c.statuses[i] == "working" {
						progress = append(progress, fmt.Sprint("poll ", i+1))
					}
				}
				if c.fetched {
					want = append(want, "tasks/result t1")
				}
				if got := s.asked(); !slices.Equal(got, want) || !slices.Equal(told, progress) {
					t.Errorf("asked %v, want %v; told %v, want %v", got, want, told, progress)
				}
				if parts, err := find(t, tools, "s_plain").Run(t.Context(), []byte(`{}`), nothing); err != nil || text(parts) != "plain" {
					t.Errorf("a plain tool: %v, %v", parts, err)
				}
			})
		})
	}
}

// Who cancels a task's call does not wait, and the server is asked to stop the task.
func TestTaskCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tasked{statuses: []string{"working"}}
		w := s.open(t, Config{})
		tools := w.Tools(t.Context(), nil)
		stop := errors.New("the operator")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second+leastPoll/2, func() { cancel(stop) })
		begun := time.Now()
		if _, err := find(t, tools, "s_research").Run(ctx, []byte(`{}`), nothing); !errors.Is(err, stop) || time.Since(begun) != time.Second+leastPoll/2 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		synctest.Wait()
		// Ten polls, as the server's wish for a hundred is too much.
		if got := s.asked(); len(got) != 12 || got[11] != "tasks/cancel t1" {
			t.Errorf("%v", got)
		}
	})
}

// A server that dies while a task works: nobody knows what came of it, and it is not begun again.
func TestTaskOfAServerThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tasked{statuses: []string{"working"}}
		w := s.open(t, Config{})
		tools := w.Tools(t.Context(), nil)
		time.AfterFunc(time.Second, w.die)
		if _, err := find(t, tools, "s_research").Run(t.Context(), []byte(`{}`), nothing); err == nil || !strings.Contains(err.Error(), "may have been done or not") {
			t.Error(err)
		}
		<-time.After(longRest)
		if n := strings.Count(strings.Join(s.asked(), "\n"), "tools/call"); n != 1 || w.state().State != Ready {
			t.Errorf("%d calls, %+v", n, w.state())
		}
	})
}
