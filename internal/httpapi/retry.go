package httpapi

import (
	"context"
	"time"

	"github.com/reprise-run/reprise/session"
)

type (
	cancelRetryIn struct {
		SID   session.ID `path:"sid"`
		Token int64      `query:"token" minimum:"0" doc:"The token of the schedule that was seen. Where it has started its run already, that run is cancelled. 0: whatever there is."`
	}
	retryNowIn struct {
		SID  session.ID `path:"sid"`
		Key  string     `header:"Idempotency-Key" maxLength:"200" doc:"Repeating the request with its key gives the first answer again, for 24 hours."`
		Body *struct {
			Token          int64 `json:"token,omitempty" minimum:"0" doc:"Of the schedule that was seen; 0: not checked."`
			ConfirmEffects bool  `json:"confirm_effects,omitempty" doc:"What tools have changed stays changed and may happen again."`
		}
	}
	snoozeIn struct {
		SID  session.ID `path:"sid"`
		Body struct {
			Token int64        `json:"token,omitempty" minimum:"0" doc:"Of the schedule that was seen; 0: not checked."`
			Until session.Time `json:"until" doc:"Not before this time."`
		}
	}
	scheduleIn struct {
		SID  session.ID `path:"sid"`
		Body *struct {
			Token int64 `json:"token,omitempty" minimum:"0" doc:"Of the schedule that was seen; 0: not checked."`
		}
	}
	viewerIn struct {
		SID  session.ID `path:"sid"`
		Body struct {
			Viewer string `json:"viewer" minLength:"1" maxLength:"100" doc:"A name of the viewer's own."`
		}
	}
	noViewerIn struct {
		SID    session.ID `path:"sid"`
		Viewer string     `path:"viewer" maxLength:"100"`
	}
)

// WaitingList lists the retries that wait, and the tool calls that are asked about, with the
// server's clock.
type WaitingList struct {
	Waiting []session.Schedule `json:"waiting"`
	Asked   []session.ToolCall `json:"asked"`
	Now     session.Time       `json:"now"`
}

func (h *Handler) getRetry(ctx context.Context, in *sessionIn) (*out[session.Schedule], error) {
	s, err := h.o.Sessions.Session(ctx, in.SID)
	if err != nil {
		return nil, err
	}
	if s.Schedule == nil {
		return nil, session.ErrNotFound
	}
	return answered(*s.Schedule, nil)
}

func (h *Handler) cancelRetry(ctx context.Context, in *cancelRetryIn) (*out[session.Retired], error) {
	return answered(h.o.Sessions.CancelRetry(ctx, callerOf(ctx).actor, in.SID, in.Token))
}

func (h *Handler) retryNow(ctx context.Context, in *retryNowIn) (*out[session.Receipt], error) {
	var token int64
	var confirmed bool
	if in.Body != nil {
		token, confirmed = in.Body.Token, in.Body.ConfirmEffects
	}
	a, err := act(ctx, in.Key, in.Body)
	if err != nil {
		return nil, err
	}
	return answered(h.o.Sessions.RetryNow(ctx, a, in.SID, token, confirmed))
}

func (h *Handler) snooze(ctx context.Context, in *snoozeIn) (*out[session.Schedule], error) {
	return answered(h.o.Sessions.Snooze(ctx, callerOf(ctx).actor, in.SID, in.Body.Token, in.Body.Until.Std()))
}

func (h *Handler) schedule(ctx context.Context, in *scheduleIn) (*out[session.Schedule], error) {
	var token int64
	if in.Body != nil {
		token = in.Body.Token
	}
	return answered(h.o.Sessions.Schedule(ctx, callerOf(ctx).actor, in.SID, token))
}

func (h *Handler) waiting(ctx context.Context, _ *nothing) (*out[WaitingList], error) {
	list, err := h.o.Sessions.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := h.o.Sessions.Asked(ctx)
	return answered(WaitingList{Waiting: listed(list), Asked: listed(asked), Now: session.At(time.Now())}, err)
}

func (h *Handler) addViewer(ctx context.Context, in *viewerIn) (*nothing, error) {
	return nil, h.o.Sessions.AddViewer(ctx, in.SID, in.Body.Viewer)
}

func (h *Handler) removeViewer(ctx context.Context, in *noViewerIn) (*nothing, error) {
	return nil, h.o.Sessions.RemoveViewer(ctx, in.SID, in.Viewer)
}
