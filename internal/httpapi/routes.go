package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
)

// route is one row of the table.
type route struct {
	method, path string
	id, summary  string
	status       int // of success
	add          func(huma.API, huma.Operation)
}

// routes is every route that there is.
func (h *Handler) routes() []route {
	const (
		all = "/api/v1/sessions"
		one = all + "/{sid}"
		msg = one + "/messages"
		pen = one + "/pending/{mid}"
		run = one + "/runs/{rid}"
	)
	return []route{
		{"POST", all, "create-session", "Create a session", 201, to(h, h.createSession)},
		{"GET", all, "list-sessions", "List sessions by last change, newest first, or those of a session's subagents", 200, to(h, h.listSessions)},
		{"GET", one, "get-session", "Read a session", 200, to(h, h.getSession)},
		{"PATCH", one, "change-session", "Change a session", 200, to(h, h.patchSession)},
		{"DELETE", one, "archive-session", "Archive a session", 200, to(h, h.archiveSession)},

		{"POST", msg, "post-message", "Post a message; it is answered now, or queued", 202, to(h, h.post)},
		{"GET", msg, "list-messages", "Read the history, with superseded messages if wanted", 200, to(h, h.listMessages)},
		{"POST", msg + "/{mid}/regenerate", "regenerate", "Answer an operator message anew", 202, to(h, h.regenerate)},
		{"GET", msg + "/{mid}/regenerate", "preview-regenerate", "What answering an operator message anew would supersede", 200, to(h, h.previewRegenerate)},
		{"PATCH", pen, "edit-pending", "Edit a pending message", 200, to(h, h.editPending)},
		{"DELETE", pen, "remove-pending", "Remove a pending message", 204, to(h, h.removePending)},
		{"POST", pen + "/send-now", "send-now", "Move a pending message to the head, and release a paused queue", 202, to(h, h.sendNow)},

		{"GET", one + "/runs", "list-runs", "A session's runs, oldest first", 200, to(h, h.listRuns)},
		{"GET", run, "get-run", "Read a run", 200, to(h, h.getRun)},
		{"POST", run + "/cancel", "cancel-run", "Cancel a run: 202 until it is acknowledged, 200 with its state when it has ended", 202, orDone(to(h, h.cancel))},
		{"POST", run + "/start", "start-run", "Start a run that waits for the operator", 202, to(h, h.start)},
		{"POST", run + "/resume", "resume-run", "Go on after a run's last committed step", 202, to(h, h.resume)},
		{"GET", run + "/attempts", "list-attempts", "Every attempt of a run, with its failure and decision", 200, to(h, h.attempts)},
		{"GET", one + "/retry", "get-retry", "What the second tier will do, or why it will not", 200, to(h, h.getRetry)},
		{"DELETE", one + "/retry", "cancel-retry", "End a wait, or dismiss one that has ended; a retry that has started is cancelled", 200, to(h, h.cancelRetry)},
		{"POST", one + "/retry/now", "retry-now", "Start the retry at once", 202, to(h, h.retryNow)},
		{"POST", one + "/retry/snooze", "snooze-retry", "Put the retry off", 200, to(h, h.snooze)},
		{"POST", one + "/retry/schedule", "schedule-retry", "Schedule what is not repeated by itself at the time that the provider stated", 200, to(h, h.schedule)},
		{"GET", "/api/v1/waiting", "list-waiting", "What waits: every retry, the next to start first, and every tool call that is asked about, the oldest first", 200, to(h, h.waiting)},
		{"POST", one + "/viewers", "add-viewer", "Count as watching for 150 seconds although no stream is open", 204, to(h, h.addViewer)},
		{"DELETE", one + "/viewers/{viewer}", "remove-viewer", "Count no longer as watching", 204, to(h, h.removeViewer)},

		{"GET", run + "/tool-calls", "list-tool-calls", "The tool calls of a run, with what was asked and answered about them", 200, to(h, h.toolCalls)},
		{"POST", one + "/tool-calls/{call}/approve", "approve-call", "Let a tool call start that is asked about; the first answer stands", 200, to(h, h.approveCall)},
		{"POST", one + "/tool-calls/{call}/deny", "deny-call", "Let a tool call that is asked about never start; the first answer stands", 200, to(h, h.denyCall)},
		{"POST", one + "/tool-calls/{call}/resolve", "resolve-call", "Settle a tool call whose outcome nobody knows", 200, to(h, h.resolveCall)},
		{"GET", "/api/v1/runs/{rid}", "find-run", "Find a run of any session", 200, to(h, h.findRun)},

		{"GET", "/api/v1/events", "events", "Follow the list's changes and, where asked, one session", 200, h.addEvents},
		{"GET", "/api/v1/models", "list-models", "The models and chains that a session can use", 200, to(h, h.listModels)},
		{"POST", "/api/v1/providers/{name}/check", "check-provider", "Send a provider one tiny request", 200, to(h, h.check)},
		{"GET", "/api/v1/tools", "list-tools", "The tools that models may ask for, and the servers that offer them", 200, to(h, h.listTools)},
		{"POST", "/api/v1/tools/start", "start-tools", "Start the tool servers that are not there, and list the tools", 200, to(h, h.startTools)},
		{"GET", "/api/v1/system", "get-system", "What the server does, and its clock", 200, to(h, h.system)},
		{"GET", "/api/v1/fences", "list-fences", "The gateway's requests that broke and are not repeated by themselves, the newest first", 200, to(h, h.fences)},
		{"DELETE", "/api/v1/fences/{id}", "lift-fence", "Let a request be asked again that broke", 204, to(h, h.liftFence)},
		{"GET", "/api/v1/cool-offs", "list-cool-offs", "The keys and models that are left alone at present, the first to end first", 200, to(h, h.coolOffs)},
		{"DELETE", "/api/v1/cool-offs", "lift-cool-off", "Let a key or model be asked again before its time, named as in the list", 204, to(h, h.liftCoolOff)},
		{"POST", "/api/v1/client-keys", "create-client-key", "Make a key for a program that sends its model calls through the gateway", 201, to(h, h.createKey)},
		{"GET", "/api/v1/client-keys", "list-client-keys", "The gateway's client keys, and what was asked with each", 200, to(h, h.listKeys)},
		{"PATCH", "/api/v1/client-keys/{id}", "change-client-key", "Change what a client key allows", 200, to(h, h.changeKey)},
		{"DELETE", "/api/v1/client-keys/{id}", "revoke-client-key", "Revoke a client key; calls that go on are not ended", 200, to(h, h.revokeKey)},
		{"GET", "/api/v1/gateway/calls", "list-gateway-calls", "The calls that clients made of the gateway, the newest first", 200, to(h, h.gatewayCalls)},
		{"GET", "/api/v1/gateway/calls/{id}", "get-gateway-call", "Read a call of the gateway, with its attempts", 200, to(h, h.gatewayCall)},
		{"GET", "/api/v1/audit", "list-audit", "Who did what, the newest first", 200, to(h, h.audit)},
		{"GET", "/api/v1/settings", "get-settings", "The settings that may be changed while the server works", 200, to(h, h.settings)},
		{"PATCH", "/api/v1/settings", "change-settings", "Change settings at once, or take changes back", 200, to(h, h.changeSettings)},

		{"POST", loginPath, "login", "Exchange the secret of a launch link for a login", 200, to(h, h.login)},
		{"POST", "/auth/link", "make-link", "Make a launch link, as the operator", 201, to(h, h.link)},
		{"POST", "/auth/logout", "logout", "End this login, or all of them", 204, to(h, h.logout)},
		{"GET", "/healthz", "health", "The process lives", 200, to(h, h.health)},
		{"GET", "/readyz", "ready", "The server can serve", 200, to(h, h.ready)},
	}
}

// to adds a route: what f returns is the answer, and its error is explained.
func to[I, O any](h *Handler, f func(context.Context, *I) (*O, error)) func(huma.API, huma.Operation) {
	return func(api huma.API, op huma.Operation) {
		huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
			out, err := f(ctx, in)
			if err != nil {
				return nil, h.explain(ctx, err)
			}
			return out, nil
		})
	}
}

// nothing is the input or output of a route that has none.
type nothing struct{}

// out is the body of an answer.
type out[T any] struct{ Body T }

func answered[T any](v T, err error) (*out[T], error) {
	if err != nil {
		return nil, err
	}
	return &out[T]{v}, nil
}

// listed makes an empty list of none, so that it is never null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
