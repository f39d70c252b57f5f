package server

import (
	"context"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/agent/mcptool"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/session"
)

// Toolbox is what models may ask for: tools of this program, and those of tool servers.
type Toolbox struct {
	own       []agent.Tool
	policy    policy
	servers   *mcptool.Servers
	kinds     map[string]string // of servers
	subagents session.Subagents
}

// names lists what tools are called.
func names(tools []agent.Tool) []string {
	var list []string
	for _, t := range tools {
		list = append(list, t.Spec().Name)
	}
	return list
}

// kindsOf says how each tool server is reached.
func kindsOf(servers map[string]MCP) map[string]string {
	kinds := map[string]string{}
	for n, m := range servers {
		kinds[n] = "command"
		if m.URL != "" {
			kinds[n] = "http"
		}
	}
	return kinds
}

// mayName reports whether a session's patterns of tools may mean any of a server; it is not started
// for those that cannot.
func mayName(patterns []string, server string) bool {
	begins := server + "_"
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		if i := strings.IndexAny(p, `*?[\`); i >= 0 {
			return strings.HasPrefix(begins, p[:i]) || strings.HasPrefix(p[:i], begins)
		}
		return strings.HasPrefix(p, begins)
	})
}

// List implements httpapi.Tools.
func (t *Toolbox) List() httpapi.ToolList {
	list := httpapi.ToolList{Tools: t.described("", t.own), Servers: []httpapi.ToolServer{}}
	if s := t.subagents; s.Depth > 0 {
		word := toolAllow
		if s.Ask {
			word = toolAsk
		}
		list.Tools = append(list.Tools, httpapi.Tool{Name: session.DelegateTool, Description: session.DelegateDescription, Effect: true, Parallel: true, Policy: word})
	}
	for _, s := range t.servers.List() {
		list.Tools = append(list.Tools, t.described(s.Name, s.Tools)...)
		list.Servers = append(list.Servers, httpapi.ToolServer{Name: s.Name, Kind: t.kinds[s.Name], State: string(s.State), Error: s.Err,
			Since: session.At(s.Since), NextAt: session.At(s.Next), Version: s.Version, Tools: len(s.Tools)})
	}
	return list
}

// Start implements httpapi.Tools.
func (t *Toolbox) Start(ctx context.Context) httpapi.ToolList {
	t.servers.Start(ctx)
	return t.List()
}

func (t *Toolbox) described(server string, tools []agent.Tool) []httpapi.Tool {
	list := make([]httpapi.Tool, 0, len(tools))
	for _, tool := range tools {
		spec, traits := tool.Spec(), tool.Traits()
		list = append(list, httpapi.Tool{Name: spec.Name, Server: server, Description: spec.Description,
			Effect: traits.Effect, Parallel: traits.Parallel, Policy: t.policy.word(tool)})
	}
	return list
}
