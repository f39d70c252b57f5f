package mcptool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-run/reprise/agent"
)

func (w *world) state() Status { return w.List()[0] }

// The first run starts a server, and later ones use it.
func TestStartedByTheFirstRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{})
		if s := w.state(); s.State != Idle || w.starts() != 0 {
			t.Errorf("before a run: %+v, %d starts", s, w.starts())
		}
		for range 2 {
			tools := w.Tools(t.Context(), nil)
			if got := names(tools); !slices.Equal(got, []string{"s_echo", "s_read", "s_steps", "s_wait"}) {
				t.Fatal(got)
			}
			parts, err := find(t, tools, "s_echo").Run(t.Context(), []byte(`{"a":1}`), nothing)
			if err != nil || text(parts) != `echo {"a":1}` {
				t.Errorf("%v, %v", parts, err)
			}
		}
		if s := w.state(); s.State != Ready || s.Version != "stub 1.0" || w.starts() != 1 {
			t.Errorf("%+v, %d starts", s, w.starts())
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if s := w.state(); s.State != Stopped || len(w.Tools(t.Context(), nil)) != 0 {
			t.Errorf("after the end: %+v", s)
		}
	})
}

// What a server says of its tools counts where the operator trusts it.
func TestTraits(t *testing.T) {
	for name, c := range map[string]struct {
		cfg        Config
		read, echo agent.Traits
	}{
		"not trusted": {Config{}, agent.Traits{Effect: true}, agent.Traits{Effect: true}},
		"trusted":     {Config{ReadOnly: true}, agent.Traits{Parallel: true}, agent.Traits{Effect: true}},
		"parallel":    {Config{Parallel: true}, agent.Traits{Effect: true, Parallel: true}, agent.Traits{Effect: true, Parallel: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tools := inMemory(t, c.cfg).Tools(t.Context(), nil)
				if got := find(t, tools, "s_read").Traits(); got != c.read {
					t.Errorf("read: %+v", got)
				}
				if got := find(t, tools, "s_echo").Traits(); got != c.echo {
					t.Errorf("echo: %+v", got)
				}
			})
		})
	}
}

// A run waits for a server that comes up slowly, and goes without it after that.
func TestRunWaitsNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{StartTimeout: 5 * time.Second})
		up := w.all[0].open
		w.all[0].open = func() (mcp.Transport, stop, error) {
			<-time.After(12 * time.Second)
			return up()
		}
		begun := time.Now()
		if tools := w.Tools(t.Context(), nil); len(tools) != 0 || time.Since(begun) != 5*time.Second {
			t.Errorf("%d tools after %s", len(tools), time.Since(begun))
		}
		if s := w.state(); s.State != Starting {
			t.Errorf("%+v", s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if tools := w.Tools(ctx, nil); len(tools) != 0 || time.Since(begun) != 6*time.Second {
			t.Errorf("cancelled: %d tools after %s", len(tools), time.Since(begun))
		}
		<-time.After(3 * time.Second)
		if tools := w.Tools(t.Context(), nil); len(tools) == 0 || time.Since(begun) != 12*time.Second {
			t.Errorf("later: %d tools after %s", len(tools), time.Since(begun))
		}
		if !strings.Contains(w.log.String(), "a run goes without the tools of this server") {
			t.Error("the log does not say so")
		}
	})
}

// A server that cannot be started is not waited for again until it has rested.
func TestFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{})
		w.fail(errors.New("no such program"))
		for i := range 3 {
			if tools := w.Tools(t.Context(), nil); len(tools) != 0 {
				t.Fatal(names(tools))
			}
			if s := w.state(); s.State != Failed || s.Err != "no such program" || w.starts() != i+1 {
				t.Fatalf("%+v, %d starts", s, w.starts())
			}
			begun := time.Now()
			w.Tools(t.Context(), nil)
			if time.Since(begun) != 0 || w.starts() != i+1 {
				t.Errorf("a run while it rests took %s, with %d starts", time.Since(begun), w.starts())
			}
			<-time.After(longRest)
			if w.starts() != i+1 {
				t.Error("nobody wanted it to be started")
			}
		}
		w.fail(nil)
		if tools := w.Tools(t.Context(), nil); len(tools) != 4 || w.state().Err != "" {
			t.Errorf("%v, %+v", names(tools), w.state())
		}
	})
}

// A server that dies is started again by itself, less often each time, and is left alone after some.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{})
		echo := find(t, w.Tools(t.Context(), nil), "s_echo")
		least := firstRest / 2
		for i := 1; i < inARow; i++ {
			w.die()
			synctest.Wait()
			s := w.state()
			if rest := time.Until(s.Next); s.State != Restarting || s.Err == "" || rest < least || rest > 2*least {
				t.Fatalf("end %d: %+v, rests %s, want %s to %s", i, s, rest, least, 2*least)
			}
			least *= 2
			if parts, err := echo.Run(t.Context(), []byte(`{}`), nothing); err != nil || text(parts) != "echo {}" {
				t.Fatalf("a call meanwhile: %v, %v", parts, err) // it waits
			}
		}
		w.die()
		synctest.Wait()
		if s := w.state(); s.State != Failed || len(s.Tools) != 4 {
			t.Errorf("after %d ends: %+v", inARow, s)
		}
		if _, err := echo.Run(t.Context(), []byte(`{}`), nothing); err == nil || !strings.Contains(err.Error(), "the tool was not run") {
			t.Errorf("a call: %v", err)
		}
		<-time.After(longRest)
		if tools := w.Tools(t.Context(), nil); len(tools) != 4 {
			t.Error("a later run does not start it")
		}
		<-time.After(2 * steady)
		w.die()
		synctest.Wait()
		if s := w.state(); s.State != Restarting || time.Until(s.Next) > firstRest {
			t.Errorf("after a long life: %+v", s)
		}
	})
}

func TestRest(t *testing.T) {
	for ends, most := range map[int]time.Duration{1: firstRest, 2: 2 * firstRest, 6: 32 * firstRest, 7: longRest, 1000: longRest} {
		for range 100 {
			if r := restOf(ends); r < most/2 || r > most {
				t.Fatalf("after %d ends %s, want %s at most and half of it at least", ends, r, most)
			}
		}
	}
}

// The list of tools is followed, and a run keeps the one that it began with.
func TestListChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{})
		before := w.Tools(t.Context(), nil)
		w.stub.add(&mcp.Tool{Name: "new"}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return said("new"), nil })
		w.stub.server.RemoveTools("read")
		<-time.After(3 * time.Second)
		after := w.Tools(t.Context(), nil)
		if got := names(after); !slices.Equal(got, []string{"s_echo", "s_new", "s_steps", "s_wait"}) {
			t.Errorf("after: %v", got)
		}
		if _, err := find(t, before, "s_read").Run(t.Context(), []byte(`{}`), nothing); err == nil || !strings.Contains(err.Error(), "answered with an error") {
			t.Errorf("a tool that is gone: %v", err)
		}
	})
}

// Two servers at a time: one that is not there does not keep the other away.
func TestServersAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{})
		two := Open(map[string]Config{"bad": {Command: []string{"x"}, StartTimeout: 5 * time.Second}, "s": {Command: []string{"x"}, StartTimeout: 5 * time.Second}}, Options{})
		defer two.Close()
		two.all[0].open = func() (mcp.Transport, stop, error) { return nil, nil, errors.New("broken") }
		two.all[1].open = w.all[0].open
		if got := names(two.Tools(t.Context(), func(server string) bool { return server == "s" })); len(got) != 4 || two.List()[0].State != Idle {
			t.Error(got)
		}
		if got := names(two.Tools(t.Context(), nil)); len(got) != 4 {
			t.Error(got)
		}
		if s := two.List(); s[0].State != Failed || s[1].State != Ready {
			t.Errorf("%+v", s)
		}
	})
}

// A list that cannot be used whole is used in part.
func TestToolsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{}, func(s *stub) {
			s.server.RemoveTools("echo", "read", "steps", "wait")
			s.add(&mcp.Tool{Name: "large", InputSchema: map[string]any{"type": "object", "description": strings.Repeat("x", maxSpec)}}, nil)
			s.add(&mcp.Tool{Name: "Datei lesen!", Description: strings.Repeat("ä", maxSpec)}, nil)
			for i := range maxTools {
				s.add(&mcp.Tool{Name: "z" + strings.Repeat("i", i%60) + string(rune('a'+i/60))}, nil)
			}
		})
		tools := w.Tools(t.Context(), nil)
		if len(tools) != maxTools-1 {
			t.Errorf("%d tools", len(tools))
		}
		for _, v := range tools {
			if n := v.Spec().Name; invalid.MatchString(n) || len(n) > maxName || len(v.Spec().Description) > maxSpec+4 {
				t.Errorf("%q", n)
			}
		}
		if log := w.log.String(); !strings.Contains(log, "tool=large") || !strings.Contains(log, "more than 256") {
			t.Error(log)
		}
	})
}
