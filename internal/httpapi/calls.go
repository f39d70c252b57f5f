package httpapi

import (
	"context"

	"github.com/reprise-run/reprise/session"
)

type (
	callIn struct {
		SID  session.ID `path:"sid"`
		Call string     `path:"call" maxLength:"200"`
	}
	denyIn struct {
		SID  session.ID `path:"sid"`
		Call string     `path:"call" maxLength:"200"`
		Body *DenyCall
	}
	resolveIn struct {
		SID  session.ID `path:"sid"`
		Call string     `path:"call" maxLength:"200"`
		Body struct {
			Action session.Resolution `json:"action" enum:"use_as_is,mark_done,run_again" doc:"What the model is told, or whether the tool may start once more."`
		}
	}
)

// DenyCall says why a tool call may not start.
type DenyCall struct {
	Reason string `json:"reason,omitempty" maxLength:"2000" doc:"Told to the model."`
}

// CallList is the body of an answer.
type CallList struct {
	ToolCalls []session.ToolCall `json:"tool_calls"`
}

func (h *Handler) toolCalls(ctx context.Context, in *runIn) (*out[CallList], error) {
	list, err := h.o.Sessions.ToolCalls(ctx, in.SID, in.RID)
	return answered(CallList{listed(list)}, err)
}

func (h *Handler) approveCall(ctx context.Context, in *callIn) (*out[session.ToolCall], error) {
	return answered(h.o.Sessions.AnswerCall(ctx, callerOf(ctx).actor, in.SID, in.Call, session.Answer{Approve: true}))
}

func (h *Handler) denyCall(ctx context.Context, in *denyIn) (*out[session.ToolCall], error) {
	var a session.Answer
	if in.Body != nil {
		a.Reason = in.Body.Reason
	}
	return answered(h.o.Sessions.AnswerCall(ctx, callerOf(ctx).actor, in.SID, in.Call, a))
}

func (h *Handler) resolveCall(ctx context.Context, in *resolveIn) (*out[session.ToolCall], error) {
	return answered(h.o.Sessions.ResolveCall(ctx, callerOf(ctx).actor, in.SID, in.Call, in.Body.Action))
}
