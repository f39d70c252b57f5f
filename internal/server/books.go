package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/internal/accounts"
	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// Books are the gateway's client keys and calls of a data folder, and what it keeps back, as a client
// has them.
type Books interface {
	ClientKeys(ctx context.Context) (httpapi.ClientKeyList, error)
	CreateClientKey(ctx context.Context, n httpapi.NewClientKey) (httpapi.CreatedClientKey, error)
	ChangeClientKey(ctx context.Context, id session.ClientKeyID, p session.ClientTermsPatch) (session.ClientKey, error)
	RevokeClientKey(ctx context.Context, id session.ClientKeyID) (session.ClientKey, error)
	GatewayCall(ctx context.Context, id string) (session.GatewayCall, error)
	Fences(ctx context.Context) (httpapi.FenceList, error)
	LiftFence(ctx context.Context, id session.FenceID) error
	CoolOffs(ctx context.Context) (httpapi.CoolOffList, error)
	LiftCoolOff(ctx context.Context, c recovery.Candidate) error
}

// OpenBooks reaches the books: as a client of the server that has the data folder, or else in the
// folder itself, which a gateway alone may be using meanwhile. close ends what was opened.
func OpenBooks(ctx context.Context, cfg Config) (b Books, close func() error, err error) {
	l, err := acquire(cfg.Data)
	var held *Held
	switch {
	case errors.As(err, &held) && held.URL != "":
		c, err := clientOf(cfg.Data, held.URL)
		return c, func() error { return nil }, err
	case err == nil:
		err = l.Close() // the store allows for others
	case held != nil:
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	store, err := cfg.openStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	a, err := accounts.Open(ctx, accounts.Options{Store: store, Chains: cfg.hasChain})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return books{a, session.NewBarriers(store)}, func() error { return errors.Join(a.Close(), store.Close()) }, nil
}

var _ Books = (*client.Client)(nil)

// books are those of this process; who acts is the operator.
type books struct {
	a        *accounts.Accounts
	barriers *session.Barriers
}

func (b books) Fences(ctx context.Context) (httpapi.FenceList, error) {
	list, err := b.barriers.Fences(ctx)
	return httpapi.FenceList{Fences: list, Now: session.At(time.Now())}, err
}

func (b books) LiftFence(ctx context.Context, id session.FenceID) error {
	return b.barriers.LiftFence(ctx, httpapi.Operator, id)
}

func (b books) CoolOffs(ctx context.Context) (httpapi.CoolOffList, error) {
	list, err := b.barriers.CoolOffs(ctx)
	return httpapi.CoolOffList{CoolOffs: list, Now: session.At(time.Now())}, err
}

func (b books) LiftCoolOff(ctx context.Context, c recovery.Candidate) error {
	return b.barriers.LiftCoolOff(ctx, httpapi.Operator, c)
}

func (b books) ClientKeys(ctx context.Context) (httpapi.ClientKeyList, error) {
	list, err := b.a.Keys(ctx)
	return httpapi.ClientKeyList{ClientKeys: list}, err
}

func (b books) CreateClientKey(ctx context.Context, n httpapi.NewClientKey) (httpapi.CreatedClientKey, error) {
	k, secret, err := b.a.CreateKey(ctx, httpapi.Operator, n.Label, n.ClientTerms)
	return httpapi.CreatedClientKey{Key: secret, ClientKey: k}, err
}

func (b books) ChangeClientKey(ctx context.Context, id session.ClientKeyID, p session.ClientTermsPatch) (session.ClientKey, error) {
	return b.a.ChangeKey(ctx, httpapi.Operator, id, p)
}

func (b books) RevokeClientKey(ctx context.Context, id session.ClientKeyID) (session.ClientKey, error) {
	return b.a.RevokeKey(ctx, httpapi.Operator, id)
}

func (b books) GatewayCall(ctx context.Context, id string) (session.GatewayCall, error) {
	return b.a.Call(ctx, id)
}

// InspectCall reads the record of a gateway's call.
func InspectCall(ctx context.Context, cfg Config, id string) (c session.GatewayCall, err error) {
	if cfg.unused() {
		return c, fmt.Errorf("there are no calls in %s", cfg.Data)
	}
	b, end, err := OpenBooks(ctx, cfg)
	if err != nil {
		return c, err
	}
	c, err = b.GatewayCall(ctx, id)
	return c, errors.Join(err, end())
}
