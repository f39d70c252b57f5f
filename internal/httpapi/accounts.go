package httpapi

import (
	"context"

	"github.com/reprise-run/reprise/session"
)

// Accounts are the books of the gateway: its client keys and the calls that were made with them.
// What is not there is session.ErrNotFound; what changes keys leaves a row in the audit.
type Accounts interface {
	// Keys lists the keys, those that were revoked too, the newest first, with what was asked with
	// each.
	Keys(ctx context.Context) ([]session.ClientKey, error)
	// CreateKey returns the key itself this once.
	CreateKey(ctx context.Context, actor, label string, terms session.ClientTerms) (k session.ClientKey, secret string, err error)
	ChangeKey(ctx context.Context, actor string, id session.ClientKeyID, p session.ClientTermsPatch) (session.ClientKey, error)
	RevokeKey(ctx context.Context, actor string, id session.ClientKeyID) (session.ClientKey, error)
	// Calls lists calls without their attempts, the newest first.
	Calls(ctx context.Context, q session.GatewayQuery) ([]session.GatewayCall, error)
	Call(ctx context.Context, id string) (session.GatewayCall, error)
}

type (
	// NewClientKey is what a client key is made of.
	NewClientKey struct {
		Label string `json:"label" minLength:"1" maxLength:"64"`
		session.ClientTerms
	}
	// CreatedClientKey is a new client key. Key is the key itself, which is shown this once.
	CreatedClientKey struct {
		Key       string            `json:"key"`
		ClientKey session.ClientKey `json:"client_key"`
	}
	// ClientKeyList lists client keys, the newest first.
	ClientKeyList struct {
		ClientKeys []session.ClientKey `json:"client_keys"`
	}
	// GatewayCallList is a page of calls, the newest first.
	GatewayCallList struct {
		Calls []session.GatewayCall `json:"calls"`
	}
)

type (
	createKeyIn struct{ Body NewClientKey }
	clientKeyIn struct {
		ID session.ClientKeyID `path:"id"`
	}
	changeKeyIn struct {
		ID   session.ClientKeyID `path:"id"`
		Body session.ClientTermsPatch
	}
	gatewayCallsIn struct {
		Key     session.ClientKeyID    `query:"key" doc:"Only calls with this client key."`
		Client  string                 `query:"client" doc:"Only calls of the key or token with this label."`
		Outcome session.GatewayOutcome `query:"outcome" enum:"open,whole,interrupted,failed,refused,cancelled,lost" doc:"Only calls that ended so."`
		Before  string                 `query:"before" doc:"Only calls older than this one."`
		Limit   int                    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"At most so many."`
	}
	gatewayCallIn struct {
		ID string `path:"id"`
	}
)

func (h *Handler) createKey(ctx context.Context, in *createKeyIn) (*out[CreatedClientKey], error) {
	k, secret, err := h.o.Accounts.CreateKey(ctx, callerOf(ctx).actor, in.Body.Label, in.Body.ClientTerms)
	return answered(CreatedClientKey{secret, k}, err)
}

func (h *Handler) listKeys(ctx context.Context, _ *nothing) (*out[ClientKeyList], error) {
	list, err := h.o.Accounts.Keys(ctx)
	return answered(ClientKeyList{listed(list)}, err)
}

func (h *Handler) changeKey(ctx context.Context, in *changeKeyIn) (*out[session.ClientKey], error) {
	return answered(h.o.Accounts.ChangeKey(ctx, callerOf(ctx).actor, in.ID, in.Body))
}

func (h *Handler) revokeKey(ctx context.Context, in *clientKeyIn) (*out[session.ClientKey], error) {
	return answered(h.o.Accounts.RevokeKey(ctx, callerOf(ctx).actor, in.ID))
}

func (h *Handler) gatewayCalls(ctx context.Context, in *gatewayCallsIn) (*out[GatewayCallList], error) {
	list, err := h.o.Accounts.Calls(ctx, session.GatewayQuery{Key: in.Key, Client: in.Client, Outcome: in.Outcome, Before: in.Before, Limit: in.Limit})
	return answered(GatewayCallList{listed(list)}, err)
}

func (h *Handler) gatewayCall(ctx context.Context, in *gatewayCallIn) (*out[session.GatewayCall], error) {
	return answered(h.o.Accounts.Call(ctx, in.ID))
}
