package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/accounts"
	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// Resolve implements gateway.Models. A name is a chain's, provider/model, a model that a provider
// of the dialect lists, or, where one provider alone speaks the dialect, whatever that calls its
// models.
func (m *Models) Resolve(dialect, name string) ([]recovery.Entry, error) {
	var entries []recovery.Entry
	var unread *failure.Failure
	for _, model := range m.named(dialect, name) {
		e, err := m.entry(model)
		if err != nil {
			return nil, err
		}
		e.Dialect = m.providers[e.Provider].dialect
		usable := false
		for _, k := range e.Keys {
			if usable = usable || k.Err == nil; k.Err != nil && unread == nil {
				unread = k.Err
			}
		}
		if usable {
			entries = append(entries, e)
		}
	}
	switch {
	case len(entries) > 0:
		return entries, nil
	case unread != nil:
		return nil, unread
	}
	return nil, m.notFound("", name, fmt.Sprintf("There is no model %q that speaks %s.", name, dialect))
}

// named lists the models that a client's name stands for.
func (m *Models) named(dialect, name string) []string {
	if chain, ok := m.cfg.Chains[name]; ok {
		return chain
	}
	provider, model, _ := strings.Cut(name, "/")
	if provider == rehearsalName && model != "" {
		return []string{rehearsalName + "-" + dialect + "/" + model}
	}
	if m.providers[provider] != nil && model != "" {
		return []string{name}
	}
	var speak, list []string
	for p, e := range m.providers {
		if e.dialect != dialect || isRehearsal(p) {
			continue
		}
		speak = append(speak, p)
		if slices.Contains(m.modelsOf(p), name) {
			list = append(list, p)
		}
	}
	switch {
	case name == "":
	case len(list) == 1:
		return []string{list[0] + "/" + name}
	case len(list) == 0 && len(speak) == 1:
		return []string{speak[0] + "/" + name}
	case m.rehearsing():
		return []string{rehearsalName + "-" + dialect + "/" + name}
	}
	return nil
}

// Names implements gateway.Models.
func (m *Models) Names() []string {
	var names []string
	for _, c := range m.Chains() {
		names = append(names, c.Name)
	}
	for _, model := range m.List() {
		if !isRehearsal(model.Provider) || m.rehearsing() {
			names = append(names, model.Name)
		}
	}
	return names
}

// newGateway makes the gateway of the server's parts.
func (s *Server) newGateway(ctx context.Context, cfg Config, o Options, b *session.Barriers) (*gateway.Handler, error) {
	var fences gateway.Fences
	if window := time.Duration(cfg.Gateway.FenceWindow); window > 0 {
		stored, err := gateway.NewFences(ctx, b, window, cfg.sole())
		if err != nil {
			return nil, fmt.Errorf("read the gateway's fences: %w", err)
		}
		fences = stored
	}
	hosts := httpapi.NewHosts(cfg.hosts())
	cross := http.NewCrossOriginProtection()
	holds := cfg.Recovery.holds()
	return gateway.New(gateway.Options{
		Models:   s.models,
		CoolOffs: b.Credentials(),
		Fences:   fences,
		Log:      o.Log,
		Policy:   s.accounts.Policy,
		Hold: func(model string) replay.Hold {
			if hold, ok := holds[model]; ok {
				return hold
			}
			return cfg.Recovery.Hold.replay()
		},
		Journal: s.accounts,
		Admit: func(r *http.Request) (session.ClientKey, error) {
			if !hosts.Known(r.Host) {
				return session.ClientKey{}, fmt.Errorf("the server does not answer to the host %q; list it under auth.hosts", r.Host)
			}
			if err := cross.Check(r); err != nil {
				return session.ClientKey{}, err
			}
			return s.client(r)
		},
	}), nil
}

// client says who sent a request of the gateway's: a client key that is presented counts, and where
// there is none a token.
func (s *Server) client(r *http.Request) (session.ClientKey, error) {
	for _, secret := range httpapi.Presented(r) {
		if !strings.HasPrefix(secret, accounts.Prefix) {
			continue
		}
		if k, ok := s.accounts.Admit(r.Context(), secret); ok {
			return k, nil
		}
		return session.ClientKey{}, errors.New("the key is not one of this gateway's, or was revoked")
	}
	name, err := s.auth.Client(r)
	return session.ClientKey{Label: name}, err
}

// openAccounts opens the books of the gateway.
func (s *Server) openAccounts(ctx context.Context, cfg Config, o Options, store session.Store) (err error) {
	s.accounts, err = accounts.Open(ctx, accounts.Options{
		Store: store, Log: o.Log, About: cfg.about, Sole: cfg.sole(), Chains: cfg.hasChain,
		Live: cfg.live,
		Keep: time.Duration(cfg.Gateway.KeepCalls), KeepCalls: cfg.Gateway.MaxCalls,
	})
	if err != nil {
		return fmt.Errorf("open the gateway's books: %w", err)
	}
	s.started("gateway's books", s.accounts.Close)
	return nil
}

func (c *Config) hasChain(name string) bool { return len(c.Chains[name]) > 0 }

// with serves the gateway's routes beside the rest.
func with(g *gateway.Handler, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, root := range gateway.Paths {
			if strings.HasPrefix(r.URL.Path, root) {
				g.ServeHTTP(w, r)
				return
			}
		}
		rest.ServeHTTP(w, r)
	})
}

// ServeGateway serves the gateway alone, without sessions and page, until ctx is done. ready is
// told the address.
func ServeGateway(ctx context.Context, cfg Config, o Options, ready func(base string)) (err error) {
	defer tune()()
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return cfg.taken(fmt.Errorf("listen: %w", err))
	}
	s, err := openGateway(ctx, cfg, &o)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return s.run(ctx, httpapi.Bounded(s.gateway, o.Log), listener, func() error {
		base := "http://" + reachable(listener.Addr())
		if err := s.lock.announce(state{Gateway: base, Version: o.Version}); err != nil {
			return err
		}
		s.log.Info("gateway listening", "url", base, "data", cfg.Data, "version", o.Version)
		ready(base)
		return nil
	})
}

// openGateway opens the parts that a gateway alone needs.
func openGateway(ctx context.Context, cfg Config, o *Options) (s *Server, err error) {
	o.defaults()
	s = &Server{log: o.Log}
	defer s.undo(&err)
	store, err := s.open(ctx, cfg, *o)
	if err != nil {
		return s, err
	}
	s.gateway, err = s.newGateway(ctx, cfg, *o, session.NewBarriers(store))
	return s, err
}
