package transport

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/gemini"
	"github.com/reprise-run/reprise/wire/messages"
	"github.com/reprise-run/reprise/wire/responses"
)

// Servers are the dialects by their names.
var Servers = map[string]wire.Server{
	"chat": chat.Codec{}, "responses": responses.Codec{}, "messages": messages.Codec{}, "gemini": gemini.Codec{},
}

// MaxBody bounds a request's body in bytes.
const MaxBody = 64 << 20

// Transport is an http.RoundTripper that makes an SDK's model calls replay-safe: calls of the
// four dialects go through the gate to wherever the request is addressed, with the key that it
// carries; everything else goes to Base. The zero value is ready, and is safe for concurrent use.
//
// An answer that breaks after output ends in the dialect's words, and then its body fails with a
// *recovery.Stopped. Failures before output are answers with an error status; they tell the SDK
// not to try again, since what helps was tried.
type Transport struct {
	// Base answers what is no model call; nil: http.DefaultTransport.
	Base http.RoundTripper
	// Policy is what may be repeated; the zero value stands for recovery.DefaultPolicy.
	Policy recovery.Policy
	// Hold says how long output is kept back, so that a call that breaks can be repeated unseen.
	Hold replay.Hold
	// Timeouts bound the waits; the zero value stands for provider.DefaultTimeouts.
	Timeouts provider.Timeouts
	// CoolOffs is what cools off between calls; nil: nothing does.
	CoolOffs recovery.CredentialState
	// TLS and Dial replace the defaults for model calls.
	TLS  *tls.Config
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu        sync.Mutex
	endpoints map[string]*provider.Provider
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	target, ok := Find(r.Method, r.URL)
	if !ok || r.Body == nil {
		return t.base().RoundTrip(r)
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the request: %w", err), r.Body.Close())
	}
	var req *llm.Request
	if len(raw) <= MaxBody {
		req, err = target.Request(raw)
	}
	if req == nil || err != nil { // whoever gets it knows what to say
		other := r.Clone(r.Context())
		other.Body = &rest{io.MultiReader(bytes.NewReader(raw), r.Body), r.Body}
		return t.base().RoundTrip(other)
	}
	if err := r.Body.Close(); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	p, err := t.endpoint(target)
	if err != nil {
		return nil, err
	}
	req.Header, req.Query = http.Header{}, target.Query
	pass(http.Header(req.Header), r.Header)
	entry := []recovery.Entry{{Provider: p.Name(), Model: req.Model, Keys: []recovery.Key{{Provider: p}}}}
	x := &Exchange{ID: "call_" + rand.Text(), Dialect: target.Dialect, Request: req, Policy: t.policy(), Hold: t.Hold, Final: true,
		Route: &recovery.Route{Entries: func() []recovery.Entry { return entry }, State: t.CoolOffs, Going: true}}
	return answer(r, x)
}

// rest is a body of which a part was read, from its beginning.
type rest struct {
	io.Reader
	io.Closer
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

func (t *Transport) policy() recovery.Policy {
	p := t.Policy
	if p == (recovery.Policy{}) {
		p = recovery.DefaultPolicy()
	}
	p.HandOver = false // there is no second tier behind a call
	return p
}

// endpoint returns the provider for an address, and makes it where it is new.
func (t *Transport) endpoint(target Target) (*provider.Provider, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := target.Dialect.Dialect() + " " + target.Base
	if p := t.endpoints[key]; p != nil {
		return p, nil
	}
	u, err := url.Parse(target.Base)
	if err != nil {
		return nil, err
	}
	timeouts := t.Timeouts
	if timeouts == (provider.Timeouts{}) {
		timeouts = provider.DefaultTimeouts
	}
	p, err := provider.New(provider.Config{Name: u.Host, Codec: target.Dialect, BaseURL: target.Base, Timeouts: timeouts,
		TLS: t.TLS, Dial: t.Dial})
	if err != nil {
		return nil, err
	}
	if t.endpoints == nil {
		t.endpoints = map[string]*provider.Provider{}
	}
	t.endpoints[key] = p
	return p, nil
}

// CloseIdleConnections closes the connections that no call uses, and asks Base to do so.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.endpoints {
		p.CloseIdle()
	}
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Target is where a model call goes, by its address.
type Target struct {
	Dialect wire.Server
	Base    string // the address without the dialect's own path
	Query   string // without what the dialect says by it
	Model   string // where the path names it
	Whole   bool   // where the path says so
	Count   bool   // the call asks how many tokens a request is
}

// Find reports whether a request is a model call of one of the dialects.
func Find(method string, u *url.URL) (Target, bool) {
	if method != http.MethodPost {
		return Target{}, false
	}
	root := url.URL{Scheme: u.Scheme, Host: u.Host}
	for _, d := range []struct {
		dialect, path string
		count         bool
	}{{"chat", "/chat/completions", false}, {"responses", "/responses", false}, {"messages", "/v1/messages", false},
		{"messages", "/v1/messages/count_tokens", true}} {
		if prefix, ok := strings.CutSuffix(u.Path, d.path); ok {
			root.Path = prefix
			return Target{Dialect: Servers[d.dialect], Base: root.String(), Query: u.RawQuery, Whole: d.count, Count: d.count}, true
		}
	}
	prefix, call, ok := strings.Cut(u.Path, "/v1beta/")
	i := strings.LastIndexByte(call, ':')
	if !ok || i < 0 {
		return Target{}, false
	}
	query := u.Query()
	t := Target{Dialect: Servers["gemini"], Model: strings.TrimPrefix(call[:i], "models/")}
	switch method := call[i+1:]; {
	case method == "generateContent":
		t.Whole = true
	case method == "countTokens":
		t.Whole, t.Count = true, true
	case method == "streamGenerateContent" && query.Get("alt") == "sse":
	default: // another method, or a stream that is a JSON array
		return Target{}, false
	}
	query.Del("alt")
	root.Path = prefix
	t.Base, t.Query = root.String(), query.Encode()
	return t, true
}

// Request makes the request that a body means at the target. It fails where the body is no JSON
// object.
func (t Target) Request(raw []byte) (*llm.Request, error) {
	h, err := t.Dialect.Head(raw)
	if err != nil {
		return nil, err
	}
	req := &llm.Request{Model: h.Model, MaxOutputTokens: h.MaxOutputTokens, Answers: h.Answers, ProviderTools: h.ProviderTools,
		ProviderState: h.ProviderState, Raw: raw, Whole: !h.Stream || t.Whole}
	if t.Model != "" {
		req.Model, req.Whole = t.Model, t.Whole
	}
	if t.Count { // no model is asked: nothing runs
		req.Count, req.ProviderTools, req.ProviderState = true, nil, false
	}
	return req, nil
}
