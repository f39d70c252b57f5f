package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

type (
	sessionIn struct {
		SID session.ID `path:"sid"`
	}
	messageIn struct {
		SID session.ID        `path:"sid"`
		MID session.MessageID `path:"mid"`
	}
	runIn struct {
		SID session.ID    `path:"sid"`
		RID session.RunID `path:"rid"`
	}

	createIn struct {
		Body session.NewSession
	}
	listSessionsIn struct {
		Archived     bool         `query:"archived" doc:"The archived sessions instead of the others."`
		ChangedAfter session.Time `query:"changed_after" minimum:"0" doc:"Only sessions that have changed after this time."`
		Parent       session.ID   `query:"parent" doc:"Only the sessions of this one's subagents, oldest first; the other parameters do not count then."`
	}
	patchIn struct {
		SID  session.ID `path:"sid"`
		Body session.SessionPatch
	}
	listMessagesIn struct {
		SID        session.ID `path:"sid"`
		Superseded bool       `query:"superseded" doc:"Also what has left the model's context."`
		After      int64      `query:"after" minimum:"0" doc:"Only messages with a greater position."`
		Limit      int        `query:"limit" minimum:"0" doc:"At most so many; 0: all."`
	}
	postIn struct {
		SID  session.ID `path:"sid"`
		Key  string     `header:"Idempotency-Key" maxLength:"200" doc:"Repeating the request with its key gives the first answer again, for 24 hours."`
		Body PostMessage
	}
	regenerateIn struct {
		SID  session.ID        `path:"sid"`
		MID  session.MessageID `path:"mid"`
		Key  string            `header:"Idempotency-Key" maxLength:"200" doc:"Repeating the request with its key gives the first answer again, for 24 hours."`
		Body *session.RegenerateRequest
	}
	resumeIn struct {
		SID session.ID    `path:"sid"`
		RID session.RunID `path:"rid"`
		Key string        `header:"Idempotency-Key" maxLength:"200" doc:"Repeating the request with its key gives the first answer again, for 24 hours."`
	}
	editPendingIn struct {
		SID  session.ID        `path:"sid"`
		MID  session.MessageID `path:"mid"`
		Body EditMessage
	}
)

// PostMessage is what an operator says, and what may not be done by itself for it.
type PostMessage struct {
	Parts []llm.Part `json:"parts" minItems:"1" maxItems:"100" doc:"Text and images."`
	session.Routing
}

// EditMessage is what an operator says instead.
type EditMessage struct {
	Parts []llm.Part `json:"parts" minItems:"1" maxItems:"100" doc:"Text and images."`
}

// The bodies of answers that are lists.
type (
	SessionList struct {
		Sessions []session.Session `json:"sessions"`
	}
	MessageList struct {
		Messages []session.Message `json:"messages"`
	}
	PendingList struct {
		Pending []session.Pending `json:"pending"`
	}
	RunList struct {
		Runs []session.Run `json:"runs"`
	}
	AttemptList struct {
		Attempts []session.Attempt `json:"attempts"`
	}
)

func (h *Handler) createSession(ctx context.Context, in *createIn) (*out[session.Session], error) {
	return answered(h.o.Sessions.CreateSession(ctx, callerOf(ctx).actor, in.Body))
}

func (h *Handler) listSessions(ctx context.Context, in *listSessionsIn) (*out[SessionList], error) {
	if in.Parent != "" {
		list, err := h.o.Sessions.Children(ctx, in.Parent)
		return answered(SessionList{listed(list)}, err)
	}
	list, err := h.o.Sessions.Sessions(ctx, in.Archived, in.ChangedAfter)
	return answered(SessionList{listed(list)}, err)
}

func (h *Handler) getSession(ctx context.Context, in *sessionIn) (*out[session.Session], error) {
	return answered(h.o.Sessions.Session(ctx, in.SID))
}

func (h *Handler) patchSession(ctx context.Context, in *patchIn) (*out[session.Session], error) {
	return answered(h.o.Sessions.PatchSession(ctx, callerOf(ctx).actor, in.SID, in.Body))
}

func (h *Handler) archiveSession(ctx context.Context, in *sessionIn) (*out[session.Session], error) {
	archived := true
	return answered(h.o.Sessions.PatchSession(ctx, callerOf(ctx).actor, in.SID, session.SessionPatch{Archived: &archived}))
}

func (h *Handler) listMessages(ctx context.Context, in *listMessagesIn) (*out[MessageList], error) {
	list, err := h.o.Sessions.Messages(ctx, in.SID, in.Superseded, in.After, in.Limit)
	return answered(MessageList{listed(list)}, err)
}

func (h *Handler) post(ctx context.Context, in *postIn) (*out[session.Receipt], error) {
	if err := checkParts(in.Body.Parts); err != nil {
		return nil, err
	}
	a, err := act(ctx, in.Key, in.Body)
	if err != nil {
		return nil, err
	}
	return answered(h.o.Sessions.Post(ctx, a, in.SID, in.Body.Parts, in.Body.Routing))
}

func (h *Handler) regenerate(ctx context.Context, in *regenerateIn) (*out[session.Receipt], error) {
	var body session.RegenerateRequest
	if in.Body != nil {
		body = *in.Body
	}
	a, err := act(ctx, in.Key, body)
	if err != nil {
		return nil, err
	}
	return answered(h.o.Sessions.Regenerate(ctx, a, in.SID, in.MID, body))
}

func (h *Handler) previewRegenerate(ctx context.Context, in *messageIn) (*out[session.Preview], error) {
	p, err := h.o.Sessions.PreviewRegenerate(ctx, in.SID, in.MID)
	p.Effects = listed(p.Effects)
	return answered(p, err)
}

func (h *Handler) resume(ctx context.Context, in *resumeIn) (*out[session.Receipt], error) {
	a, err := act(ctx, in.Key, nil)
	if err != nil {
		return nil, err
	}
	return answered(h.o.Sessions.Resume(ctx, a, in.SID, in.RID))
}

func (h *Handler) editPending(ctx context.Context, in *editPendingIn) (*out[PendingList], error) {
	if err := checkParts(in.Body.Parts); err != nil {
		return nil, err
	}
	list, err := h.o.Sessions.EditPending(ctx, callerOf(ctx).actor, in.SID, in.MID, in.Body.Parts)
	return answered(PendingList{listed(list)}, err)
}

func (h *Handler) removePending(ctx context.Context, in *messageIn) (*nothing, error) {
	return nil, h.o.Sessions.RemovePending(ctx, callerOf(ctx).actor, in.SID, in.MID)
}

func (h *Handler) sendNow(ctx context.Context, in *messageIn) (*out[session.Receipt], error) {
	return answered(h.o.Sessions.SendNow(ctx, callerOf(ctx).actor, in.SID, in.MID))
}

func (h *Handler) listRuns(ctx context.Context, in *sessionIn) (*out[RunList], error) {
	list, err := h.o.Sessions.Runs(ctx, in.SID)
	return answered(RunList{listed(list)}, err)
}

func (h *Handler) getRun(ctx context.Context, in *runIn) (*out[session.Run], error) {
	return answered(h.o.Sessions.Run(ctx, in.SID, in.RID))
}

type cancelOut struct {
	Status int
	Body   session.Run
}

func (h *Handler) cancel(ctx context.Context, in *runIn) (*cancelOut, error) {
	run, err := h.o.Sessions.Cancel(ctx, callerOf(ctx).actor, in.SID, in.RID)
	if err != nil {
		return nil, err
	}
	if run.State.Terminal() {
		return &cancelOut{http.StatusOK, run}, nil
	}
	return &cancelOut{http.StatusAccepted, run}, nil
}

func (h *Handler) start(ctx context.Context, in *runIn) (*out[session.Run], error) {
	return answered(h.o.Sessions.StartRun(ctx, callerOf(ctx).actor, in.SID, in.RID))
}

func (h *Handler) attempts(ctx context.Context, in *runIn) (*out[AttemptList], error) {
	list, err := h.o.Sessions.Attempts(ctx, in.SID, in.RID)
	return answered(AttemptList{listed(list)}, err)
}

type findRunIn struct {
	RID session.RunID `path:"rid"`
}

func (h *Handler) findRun(ctx context.Context, in *findRunIn) (*out[session.Run], error) {
	return answered(h.o.Sessions.FindRun(ctx, in.RID))
}

// act is a request that may be repeated with its key. The hash is of what the body means:
// its white space and the order of its fields don't count.
func act(ctx context.Context, key string, body any) (session.Act, error) {
	c := callerOf(ctx)
	a := session.Act{Actor: c.actor, Route: c.route(), Key: key}
	b, err := json.Marshal(body)
	if err != nil {
		return a, fmt.Errorf("hash the request: %w", err)
	}
	sum := sha256.Sum256(b)
	a.Hash = hex.EncodeToString(sum[:])
	return a, nil
}

// checkParts lets through what an operator can say; the other kinds of parts are a model's,
// and some of them go to the provider as they are.
func checkParts(parts []llm.Part) error {
	for i, p := range parts {
		field := func(name string) string { return fmt.Sprintf("body.parts[%d].%s", i, name) }
		rest := p
		rest.Kind = ""
		switch p.Kind {
		case llm.PartText:
			if p.Text == "" {
				return invalid(field("text"), "there is no text")
			}
			rest.Text = ""
		case llm.PartImage:
			if (len(p.Data) == 0) == (p.URL == "") {
				return invalid(field("data"), "an image has either data or a url")
			}
			if len(p.Data) > 0 && p.MediaType == "" {
				return invalid(field("media_type"), "data needs a media type")
			}
			rest.Data, rest.URL, rest.MediaType = nil, "", ""
		default:
			return invalid(field("kind"), "a message holds text and images, not %q", string(p.Kind))
		}
		if !reflect.ValueOf(rest).IsZero() {
			return invalid(field("kind"), "there are fields that do not belong to %q", string(p.Kind))
		}
	}
	return nil
}
