package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
)

// longest is how many times its timeout a call may take, whatever progress it makes.
const longest = 10

// tool is one tool of a server, as a run is offered it.
type tool struct {
	s      *server
	name   string // the server's
	spec   llm.Tool
	traits agent.Traits
}

// toolsOf makes tools of a server's list.
func (s *server) toolsOf(list []*mcp.Tool) []agent.Tool {
	tools := make([]agent.Tool, 0, len(list))
	for _, t := range list {
		schema, err := schemaOf(t)
		if err != nil {
			s.log.Warn("a tool is left out", "tool", cut(t.Name, maxName), "why", err.Error())
			continue
		}
		harmless := s.cfg.ReadOnly && t.Annotations != nil && t.Annotations.ReadOnlyHint
		description := t.Description
		if description == "" {
			description = t.Title
		}
		tools = append(tools, &tool{
			s: s, name: t.Name,
			spec:   llm.Tool{Name: s.namer.name(t.Name), Description: cut(description, maxSpec), Schema: schema},
			traits: agent.Traits{Effect: !harmless, Parallel: harmless || s.cfg.Parallel},
		})
	}
	return tools
}

// schemaOf is the schema of a tool's arguments, an object's. Some providers want properties
// named even where there are none.
func schemaOf(t *mcp.Tool) (json.RawMessage, error) {
	schema, ok := t.InputSchema.(map[string]any)
	schema = maps.Clone(schema) // it is the SDK's
	if t.InputSchema == nil {
		schema, ok = map[string]any{"type": "object"}, true
	}
	if !ok || schema["type"] != "object" {
		return nil, errors.New("its schema is not that of an object")
	}
	if _, ok := schema["properties"]; !ok {
		schema["properties"] = map[string]any{}
	}
	b := asJSON(schema)
	if len(b) > maxSpec {
		return nil, fmt.Errorf("its schema is longer than %d bytes", maxSpec)
	}
	return b, nil
}

// Spec implements agent.Tool.
func (t *tool) Spec() llm.Tool { return t.spec }

// Traits implements agent.Tool.
func (t *tool) Traits() agent.Traits { return t.traits }

// Run implements agent.Tool. It waits for a server that is being started again, also where that
// turns out before anything of the call was sent.
func (t *tool) Run(ctx context.Context, arguments json.RawMessage, report func(agent.Progress)) ([]llm.Part, error) {
	for {
		l, err := t.s.await(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%w; the tool was not run", err)
		}
		if !l.begin() {
			continue
		}
		result, err := l.call(ctx, t.name, arguments, report)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			return parts(result)
		case !errors.Is(err, errUnsent) || l.alive():
			return nil, errors.New(t.s.clean(err.Error()))
		}
	}
}

// call is a call in flight.
type call struct {
	timeout time.Duration
	silence *time.Timer // nil: no limit

	mu     sync.Mutex
	left   bool
	report func(agent.Progress)
}

func (c *call) progress(p *mcp.ProgressNotificationParams) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return
	}
	if c.silence != nil {
		c.silence.Reset(c.timeout)
	}
	c.report(agent.Progress{Done: p.Progress, Total: p.Total, Text: cut(p.Message, 200)})
}

// errUnsent: certainly nothing of a call has left.
var errUnsent = errors.New("the tool was not run")

// errLate ends a call that takes too long.
var errLate = errors.New("the call took too long")

// call sends a call that has begun, once. Its error is for the model.
func (l *link) call(ctx context.Context, name string, arguments json.RawMessage, report func(agent.Progress)) (*mcp.CallToolResult, error) {
	left := &sent{}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, sentKey{}, left))
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(errEnded) })()
	c := &call{report: report, timeout: l.s.cfg.Timeout}
	late := func() { cancel(errLate) }
	if c.timeout > 0 {
		c.silence = time.AfterFunc(c.timeout, late)
		defer c.silence.Stop()
		defer time.AfterFunc(longest*c.timeout, late).Stop()
	}
	token := l.watch(c)
	defer l.leave(token)
	params := &mcp.CallToolParams{Name: name, Arguments: arguments}
	params.SetProgressToken(token)

	type answer struct {
		result *mcp.CallToolResult
		err    error
	}
	answers := make(chan answer, 1)
	// Beside this, because a server that reads nothing holds up who writes to it.
	go func() {
		defer l.busy.Done()
		result, err := l.send(ctx, params, c)
		answers <- answer{result, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if a.err != nil {
		return nil, l.explain(ctx, left.Load(), a.err)
	}
	return a.result, nil
}

// send sends a call as its tool wants it.
func (l *link) send(ctx context.Context, params *mcp.CallToolParams, c *call) (*mcp.CallToolResult, error) {
	l.mu.Lock()
	task := l.tasks[params.Name]
	l.mu.Unlock()
	if task {
		return l.task(ctx, params, c)
	}
	return l.session.CallTool(ctx, params)
}

// rejected is the code by which the SDK marks what its transport says, and no server.
const rejected = -32005

// begin counts a call, unless the link is closing.
func (l *link) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.busy.Add(1)
	return true
}

// explain says what is known of a call that has failed.
func (l *link) explain(ctx context.Context, left bool, err error) error {
	var refused *jsonrpc.Error
	var network *net.OpError
	switch {
	case !left && errors.Is(err, mcp.ErrConnectionClosed):
		l.lose()
		return fmt.Errorf("the tool server %s has ended; %w", l.s.name, errUnsent)
	case !left:
		return fmt.Errorf("the tool server %s could not be asked (%w); %w", l.s.name, err, errUnsent)
	case errors.Is(context.Cause(ctx), errLate):
		return fmt.Errorf("the tool took longer than %s and was told to stop; what it does may be done all the same", l.s.cfg.Timeout)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("the tool server %s cannot be reached (%w); the tool was not run", l.s.name, err)
	case errors.As(err, &refused) && refused.Code != rejected:
		return fmt.Errorf("the tool server %s answered with an error: %s", l.s.name, refused.Message)
	case errors.Is(err, mcp.ErrSessionMissing):
		return fmt.Errorf("the tool server %s was started anew and did not take the call; the tool was not run", l.s.name)
	}
	return fmt.Errorf("the tool server %s has ended or broken off during the call (%w): it may have been done or not, and it is not sent again", l.s.name, err)
}

// clean takes secrets out of a text, and what an address may hold of them.
func (s *server) clean(text string) string {
	if u, err := url.Parse(s.cfg.URL); err == nil && u.RawQuery != "" {
		text = strings.ReplaceAll(text, u.RawQuery, "…")
	}
	if s.cfg.Secrets != nil {
		for _, secret := range s.cfg.Secrets() {
			text = strings.ReplaceAll(text, secret, "[secret]")
		}
	}
	return text
}
