package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/session"
)

type (
	// Launch is the secret of a launch link.
	Launch struct {
		Secret string `json:"secret" maxLength:"200"`
	}
	// Link is a launch link.
	Link struct {
		URL string `json:"url"`
	}
	// Logout ends this login, or all.
	Logout struct {
		All bool `json:"all,omitempty"`
	}
	// Actor is who one is logged in as.
	Actor struct {
		Actor string `json:"actor"`
	}
	// ModelList is what a session can use.
	ModelList struct {
		Models []Model `json:"models"`
		Chains []Chain `json:"chains"`
	}
	// AuditList lists acts and who did them, the newest first.
	AuditList struct {
		Audit []session.Audit `json:"audit"`
	}
	// Health is the answer of a server that is well.
	Health struct {
		Status string `json:"status" enum:"ok"`
	}
)

type loginIn struct{ Body Launch }

type loginOut struct {
	Cookie http.Cookie `header:"Set-Cookie"`
	Body   Actor
}

func (h *Handler) login(ctx context.Context, in *loginIn) (*loginOut, error) {
	if !h.o.Auth.redeem(in.Body.Secret) {
		return nil, refuse(CodeUnauthenticated, "the launch link is not valid: each works once, for ten minutes")
	}
	c, err := h.o.Auth.login(callerOf(ctx).r)
	if err != nil {
		return nil, err
	}
	if err := h.o.Sessions.Record(ctx, Operator, "log in", ""); err != nil {
		return nil, err
	}
	return &loginOut{*c, Actor{Operator}}, nil
}

// link makes a link to where its request came to. Who follows it is the operator, so nobody
// else may have one.
func (h *Handler) link(ctx context.Context, _ *nothing) (*out[Link], error) {
	c := callerOf(ctx)
	if c.actor != Operator {
		return nil, refuse(CodeForbidden, "launch links are the operator's, and this is %s", c.actor)
	}
	if err := h.o.Sessions.Record(ctx, c.actor, "make link", ""); err != nil {
		return nil, err
	}
	return answered(Link{h.o.Auth.Link(scheme(c.r) + "://" + c.r.Host)}, nil)
}

type logoutIn struct{ Body *Logout }

type logoutOut struct {
	Cookie http.Cookie `header:"Set-Cookie"`
}

func (h *Handler) logout(ctx context.Context, in *logoutIn) (*logoutOut, error) {
	who, act := callerOf(ctx), "log out"
	all := in.Body != nil && in.Body.All
	if all {
		act = "log out all"
	}
	c, err := h.o.Auth.logout(who.r, all)
	if err != nil {
		return nil, err
	}
	return &logoutOut{*c}, h.o.Sessions.Record(ctx, who.actor, act, "")
}

type auditIn struct {
	Session session.ID `query:"session" doc:"Only acts on this session."`
	Limit   int        `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"At most so many."`
}

func (h *Handler) audit(ctx context.Context, in *auditIn) (*out[AuditList], error) {
	list, err := h.o.Sessions.Audit(ctx, in.Session, in.Limit)
	return answered(AuditList{listed(list)}, err)
}

func (h *Handler) listModels(context.Context, *nothing) (*out[ModelList], error) {
	return answered(ModelList{listed(h.o.Models.List()), listed(h.o.Models.Chains())}, nil)
}

func (h *Handler) listTools(context.Context, *nothing) (*out[ToolList], error) {
	return answered(h.o.Tools.List(), nil)
}

func (h *Handler) startTools(ctx context.Context, _ *nothing) (*out[ToolList], error) {
	if err := h.o.Sessions.Record(ctx, callerOf(ctx).actor, "start tool servers", ""); err != nil {
		return nil, err
	}
	return answered(h.o.Tools.Start(ctx), nil)
}

type checkIn struct {
	Name string `path:"name"`
}

// check reports what the provider answered, good or bad. That it could not be reached at all
// is an error.
func (h *Handler) check(ctx context.Context, in *checkIn) (*out[Check], error) {
	c, err := h.o.Models.Check(ctx, in.Name)
	var f *failure.Failure
	if errors.As(err, &f) && f.Class != failure.Network && f.Class != failure.Timeout {
		c.OK, c.Provider, c.Failure = false, in.Name, f
		err = nil
	}
	return answered(c, err)
}

func (h *Handler) system(ctx context.Context, _ *nothing) (*out[session.System], error) {
	return answered(h.o.Sessions.System(ctx))
}

// SettingsChange is all or nothing.
type SettingsChange struct {
	Set   map[string]string `json:"set,omitempty" doc:"New values by key, as the configuration file would have them."`
	Reset []string          `json:"reset,omitempty" maxItems:"100" doc:"Keys whose change is taken back."`
}

type changeSettingsIn struct{ Body SettingsChange }

func (h *Handler) settings(ctx context.Context, _ *nothing) (*out[SettingList], error) {
	return answered(h.o.Settings.List(ctx))
}

func (h *Handler) changeSettings(ctx context.Context, in *changeSettingsIn) (*out[SettingList], error) {
	return answered(h.o.Settings.Change(ctx, callerOf(ctx).actor, in.Body.Set, in.Body.Reset))
}

func (h *Handler) health(context.Context, *nothing) (*out[Health], error) {
	return answered(Health{"ok"}, nil)
}

func (h *Handler) ready(ctx context.Context, _ *nothing) (*out[Health], error) {
	if h.stopping.Err() != nil {
		return nil, session.ErrClosed
	}
	if h.o.Ready != nil {
		if err := h.o.Ready(ctx); err != nil {
			h.o.Log.WarnContext(ctx, "not ready", "error", err)
			return nil, refuse(CodeUnavailable, "the server is not ready; its log says why")
		}
	}
	return answered(Health{"ok"}, nil)
}
