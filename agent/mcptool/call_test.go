//lint:file-ignore SA1019 servers of older versions sample and log

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

// A cancelled call returns at once, with the cause, and the server is told.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{Timeout: time.Minute})
		wait := find(t, w.Tools(t.Context(), nil), "s_wait")
		stop := errors.New("the operator")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-w.stub.started
			cancel(stop)
		}()
		begun := time.Now()
		if _, err := wait.Run(ctx, []byte(`{}`), nothing); !errors.Is(err, stop) || time.Since(begun) != 0 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if got := <-w.stub.cancelled; got != "wait" {
			t.Error(got)
		}
		if s := w.state(); s.State != Ready {
			t.Errorf("%+v", s)
		}
	})
}

// Progress is reported, and keeps a call alive that would be late without.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{Timeout: time.Minute})
		var reports []agent.Progress
		parts, err := find(t, w.Tools(t.Context(), nil), "s_steps").Run(t.Context(), []byte(`{}`), func(p agent.Progress) { reports = append(reports, p) })
		if err != nil || text(parts) != "done" {
			t.Fatalf("%v, %v", parts, err)
		}
		if want := []agent.Progress{{Done: 1, Total: 3, Text: "step 1"}, {Done: 2, Total: 3, Text: "step 2"}, {Done: 3, Total: 3, Text: "step 3"}}; !slices.Equal(reports, want) {
			t.Errorf("%+v", reports)
		}
	})
}

// Nothing is reported after a call has returned.
func TestLateProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{}, func(s *stub) {
			s.add(&mcp.Tool{Name: "late"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				time.AfterFunc(time.Second, func() {
					_ = r.Session.NotifyProgress(context.WithoutCancel(ctx), &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
					s.started <- "late"
				})
				return said("done"), nil
			})
		})
		reports := 0
		if _, err := find(t, w.Tools(t.Context(), nil), "s_late").Run(t.Context(), []byte(`{}`), func(agent.Progress) { reports++ }); err != nil {
			t.Error(err)
		}
		<-w.stub.started
		synctest.Wait()
		if reports != 0 {
			t.Errorf("%d reports", reports)
		}
	})
}

// A silent call ends after its timeout, and a busy one after ten.
func TestTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		tool    string
		timeout time.Duration
		after   time.Duration
	}{
		"silent": {"s_wait", 30 * time.Second, 30 * time.Second},
		"busy":   {"s_busy", time.Minute, longest * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inMemory(t, Config{Timeout: c.timeout}, func(s *stub) {
					s.add(&mcp.Tool{Name: "busy"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						for i := 0; ; i++ {
							select {
							case <-ctx.Done():
								s.cancelled <- "busy"
								return nil, ctx.Err()
							case <-time.After(45 * time.Second):
							}
							_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i)})
						}
					})
				})
				v := find(t, w.Tools(t.Context(), nil), c.tool)
				begun := time.Now()
				_, err := v.Run(t.Context(), []byte(`{}`), nothing)
				if err == nil || !strings.Contains(err.Error(), "may be done all the same") || time.Since(begun) != c.after {
					t.Errorf("%v after %s", err, time.Since(begun))
				}
				<-w.stub.cancelled
			})
		})
	}
}

// A server that dies in the middle of a call: its outcome is not known, and nobody repeats it.
func TestDeathDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{}, func(s *stub) {
			s.add(&mcp.Tool{Name: "die"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				s.started <- "die"
				<-ctx.Done()
				return nil, ctx.Err()
			})
		})
		die := find(t, w.Tools(t.Context(), nil), "s_die")
		go func() {
			<-w.stub.started
			w.die()
		}()
		_, err := die.Run(t.Context(), []byte(`{}`), nothing)
		if err == nil || !strings.Contains(err.Error(), "it may have been done or not, and it is not sent again") {
			t.Error(err)
		}
		<-time.After(10 * time.Second)
		if got := w.stub.called(); len(got) != 1 || w.state().State != Ready {
			t.Errorf("calls %v, %+v", got, w.state())
		}
	})
}

// Closing ends calls in flight.
func TestCloseDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{})
		wait := find(t, w.Tools(t.Context(), nil), "s_wait")
		go func() {
			<-w.stub.started
			_ = w.Close()
		}()
		if _, err := wait.Run(t.Context(), []byte(`{}`), nothing); err == nil || !strings.Contains(err.Error(), "it may have been done or not") {
			t.Error(err)
		}
		<-w.stub.cancelled
	})
}

// What a server asks of its client is refused, and so is the call that needs it.
func TestRequestsOfTheServerAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{}, func(s *stub) {
			s.add(&mcp.Tool{Name: "sample"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				_, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}})
				return nil, err
			})
			s.add(&mcp.Tool{Name: "elicit"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				_, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who?", RequestedSchema: map[string]any{"type": "object"}})
				return nil, err
			})
			s.add(&mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"1": &mcp.ElicitParams{Message: "who?"}}}, nil
			})
			s.add(&mcp.Tool{Name: "later"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil
			})
		})
		tools := w.Tools(t.Context(), nil)
		for _, name := range []string{"sample", "elicit", "ask", "later"} {
			if parts, err := find(t, tools, "s_"+name).Run(t.Context(), []byte(`{}`), nothing); err == nil {
				t.Errorf("%s: %v", name, text(parts))
			}
		}
		if got := w.stub.called(); !slices.Equal(got, []string{"sample", "elicit", "ask", "later"}) {
			t.Errorf("calls: %v", got) // each once
		}
	})
}

// A server may say much; the log takes some of it.
func TestWordsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, Config{Secrets: func() []string { return []string{"hunter2"} }}, func(s *stub) {
			s.add(&mcp.Tool{Name: "talk"}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				for range 10 * linesAt {
					if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "hunter2 " + strings.Repeat("x", 10*maxLine)}); err != nil {
						return nil, err
					}
				}
				return nil, errors.New("the password is hunter2")
			})
		})
		_, err := find(t, w.Tools(t.Context(), nil), "s_talk").Run(t.Context(), []byte(`{}`), nothing)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
		link, err := w.all[0].await(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := link.session.CallTool(t.Context(), &mcp.CallToolParams{Meta: mcp.Meta{mcp.MetaKeyLogLevel: "debug"}, Name: "talk"}); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		log := w.log.String()
		if n := strings.Count(log, "the server says"); n != linesAt || len(log) > (linesAt+20)*2*maxLine || strings.Contains(log, "hunter2") {
			t.Errorf("%d messages, %d bytes\n%.500s", n, len(log), log)
		}
	})
}
