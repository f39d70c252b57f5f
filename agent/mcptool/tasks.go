package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tool may demand that its call begins a task, whose result is fetched when it is there. That is part of one version of
// the protocol (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks), as an experiment, and the
// SDK does not know it. It lets us send methods of our own, but none by a name of the protocol's: such names bear a
// prefix, which the transports take off.
const (
	taskVersion = "2025-11-25"
	prefix      = "reprise:"

	listMethod   = prefix + "tools/list"
	beginMethod  = prefix + "tools/call"
	pollMethod   = "tasks/get"
	resultMethod = "tasks/result"
	stopMethod   = "tasks/cancel"

	leastPoll  = 100 * time.Millisecond
	mostPoll   = 5 * time.Second
	unsaidPoll = time.Second // where the server does not say how often
	stopTime   = 2 * time.Second
)

// What is sent and what comes back.
type (
	listing struct {
		mcp.ParamsBase
		Cursor string `json:"cursor,omitempty"`
	}
	listed struct {
		mcp.ResultBase
		Tools []struct {
			Name      string `json:"name"`
			Execution struct {
				TaskSupport string `json:"taskSupport"`
			} `json:"execution"`
		} `json:"tools"`
		NextCursor string `json:"nextCursor"`
	}
	beginning struct {
		mcp.ParamsBase
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Task      struct{}        `json:"task"`
	}
	begun struct {
		mcp.ResultBase
		Task task `json:"task"`
	}
	ofTask struct {
		mcp.ParamsBase
		TaskID string `json:"taskId"`
	}
	polled struct {
		mcp.ResultBase
		task
	}
	task struct {
		TaskID        string  `json:"taskId"`
		Status        string  `json:"status"`
		StatusMessage string  `json:"statusMessage"`
		PollInterval  float64 `json:"pollInterval"` // milliseconds
	}
)

// knowTasks lets a client send what tasks need.
func knowTasks(c *mcp.Client) error {
	return errors.Join(
		mcp.AddSendingCustomMethod[*listing, *listed](c, listMethod),
		mcp.AddSendingCustomMethod[*beginning, *begun](c, beginMethod),
		mcp.AddSendingCustomMethod[*ofTask, *polled](c, pollMethod),
		mcp.AddSendingCustomMethod[*ofTask, *mcp.CallToolResult](c, resultMethod),
		mcp.AddSendingCustomMethod[*ofTask, *polled](c, stopMethod),
	)
}

// taskTools lists the tools whose calls must begin a task.
func (l *link) taskTools(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	if r := l.session.InitializeResult(); r == nil || r.ProtocolVersion != taskVersion {
		return all, nil
	}
	page := &listing{}
	for range maxTools {
		r, err := mcp.CallCustomMethod[*listing, *listed](ctx, l.session, listMethod, page)
		if err != nil {
			return nil, err
		}
		for _, t := range r.Tools {
			if t.Execution.TaskSupport == "required" {
				all[t.Name] = true
			}
		}
		if r.NextCursor == "" {
			break
		}
		page = &listing{Cursor: r.NextCursor}
	}
	return all, nil
}

// task begins a task, once, and returns its result when it is there. Where ctx ends first, the server is asked to stop.
func (l *link) task(ctx context.Context, params *mcp.CallToolParams, c *call) (*mcp.CallToolResult, error) {
	arguments, _ := params.Arguments.(json.RawMessage)
	begin := &beginning{Name: params.Name, Arguments: arguments}
	begin.SetMeta(params.GetMeta())
	r, err := mcp.CallCustomMethod[*beginning, *begun](ctx, l.session, beginMethod, begin)
	if err != nil {
		return nil, err
	}
	is, which := r.Task, &ofTask{TaskID: r.Task.TaskID}
	defer func() {
		if ctx.Err() == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		_, _ = mcp.CallCustomMethod[*ofTask, *polled](ctx, l.session, stopMethod, which) // nobody hears of it
	}()
	for said := ""; ; {
		switch is.Status {
		case "completed", "failed":
			return mcp.CallCustomMethod[*ofTask, *mcp.CallToolResult](ctx, l.session, resultMethod, which)
		case "working":
		default:
			return nil, &jsonrpc.Error{Message: fmt.Sprintf("the task is %q: %s", is.Status, is.StatusMessage)}
		}
		if is.StatusMessage != said {
			said = is.StatusMessage
			c.progress(&mcp.ProgressNotificationParams{Message: said})
		}
		poll := unsaidPoll
		if is.PollInterval > 0 {
			poll = min(max(time.Duration(is.PollInterval)*time.Millisecond, leastPoll), mostPoll)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(poll):
		}
		p, err := mcp.CallCustomMethod[*ofTask, *polled](ctx, l.session, pollMethod, which)
		if err != nil {
			return nil, err
		}
		is = p.task
	}
}

// plain takes the prefix off a request's name.
func plain(m jsonrpc.Message) jsonrpc.Message {
	if r, ok := m.(*jsonrpc.Request); ok && strings.HasPrefix(r.Method, prefix) {
		named := *r
		named.Method = strings.TrimPrefix(r.Method, prefix)
		return &named
	}
	return m
}
