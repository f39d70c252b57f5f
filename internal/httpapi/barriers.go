package httpapi

import (
	"context"
	"time"

	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// FenceList lists the gateway's fences, and says the server's time.
type FenceList struct {
	Fences []session.Fence `json:"fences"`
	Now    session.Time    `json:"now"`
}

// CoolOffList lists what cools off, and says the server's time.
type CoolOffList struct {
	CoolOffs []recovery.CoolOff `json:"cool_offs"`
	Now      session.Time       `json:"now"`
}

type fenceIn struct {
	ID session.FenceID `path:"id"`
}

// coolOffIn names a lane as the list does: what is empty there is left out.
type coolOffIn struct {
	Provider string `query:"provider" required:"true"`
	Model    string `query:"model"`
	Key      string `query:"key" doc:"the key's label"`
}

func (h *Handler) fences(ctx context.Context, _ *nothing) (*out[FenceList], error) {
	list, err := h.o.Barriers.Fences(ctx)
	return answered(FenceList{listed(list), session.At(time.Now())}, err)
}

func (h *Handler) liftFence(ctx context.Context, in *fenceIn) (*nothing, error) {
	return nil, h.o.Barriers.LiftFence(ctx, callerOf(ctx).actor, in.ID)
}

func (h *Handler) coolOffs(ctx context.Context, _ *nothing) (*out[CoolOffList], error) {
	list, err := h.o.Barriers.CoolOffs(ctx)
	return answered(CoolOffList{listed(list), session.At(time.Now())}, err)
}

func (h *Handler) liftCoolOff(ctx context.Context, in *coolOffIn) (*nothing, error) {
	return nil, h.o.Barriers.LiftCoolOff(ctx, callerOf(ctx).actor, recovery.Candidate(*in))
}
