// Package provider reaches a model over HTTP, in whichever dialect its codec speaks.
//
// It promises that a request is sent at most once: the body cannot be read twice, redirects
// are not followed, nothing is repeated after a reset, a GOAWAY or a stale connection. It asks
// the permit as the last act before the first byte of the request is written (over HTTP/2,
// where connections are shared: before the first byte of the body). It says of every failure
// how far the request came, and errs on the side of maybe_accepted. A stream ends in io.EOF
// only behind its dialect's terminal event. A done context closes the connection at once.
//
// It refuses to retry, to wait, to know why a request is made, or to read an answer that is
// no event stream where one was asked for.
package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire"
)

// Timeouts bound how long a call may wait for the provider; 0 turns one off. Only waiting
// counts: the time that our own reader takes between two calls of Next does not.
type Timeouts struct {
	// Connect bounds name lookup, dial, proxy and TLS.
	Connect time.Duration
	// FirstEvent runs from the connection to the first event that is not a comment.
	FirstEvent time.Duration
	// FirstContent runs from the connection to the first text, thinking, tool call or effect.
	FirstContent time.Duration
	// Idle bounds the silence between two events once content has come, or once an event has
	// come where FirstContent is off. Pings, comments, empty deltas and usage are silence.
	Idle time.Duration
}

// DefaultTimeouts are the limits of a provider whose operator sets none.
var DefaultTimeouts = Timeouts{Connect: 30 * time.Second, FirstEvent: 100 * time.Second,
	FirstContent: 300 * time.Second, Idle: 120 * time.Second}

// idleConn is how long a connection without a request is kept.
const idleConn = 30 * time.Second

// Config describes one endpoint. Name, Codec and BaseURL are required.
type Config struct {
	Name    string
	Codec   wire.Codec
	BaseURL string // absolute; the codec's paths are below it
	Key     string
	// Header is sent with every request, and wins over what the codec sets.
	Header   http.Header
	Timeouts Timeouts
	// HTTP2 lets a TLS server choose HTTP/2, where one broken connection ends every stream on
	// it. Off, every request has a connection of its own.
	HTTP2 bool
	// TLS replaces the default configuration, for a certificate authority of one's own.
	TLS *tls.Config
	// Dial replaces the system's dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Provider is an llm.Provider over HTTP. It is safe for concurrent use.
type Provider struct {
	config    Config
	base      *url.URL
	transport *http.Transport
}

var (
	_ llm.Provider = (*Provider)(nil)
	_ llm.Patient  = (*Provider)(nil)
)

// New makes a provider. It fails where the configuration is incomplete; it reaches nobody.
func New(c Config) (*Provider, error) {
	if c.Name == "" || c.Codec == nil {
		return nil, errors.New("provider without a name or a codec")
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("provider %s: base URL: %w", c.Name, err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("provider %s: base URL %q is not scheme, host and path", c.Name, base.Redacted())
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	return &Provider{config: c, base: base, transport: newTransport(&c)}, nil
}

// Name implements llm.Provider.
func (p *Provider) Name() string { return p.config.Name }

// WithKey returns the same provider with another key. They share their connections.
func (p *Provider) WithKey(key string) *Provider {
	other := *p
	other.config.Key = key
	return &other
}

// WithGrace implements llm.Patient.
func (p *Provider) WithGrace(d time.Duration) llm.Provider { return p.Patient(d) }

// Patient returns the same provider with each limit longer by d; one that is off stays off.
// They share their connections.
func (p *Provider) Patient(d time.Duration) *Provider {
	other := *p
	t := &other.config.Timeouts
	for _, limit := range []*time.Duration{&t.Connect, &t.FirstEvent, &t.FirstContent, &t.Idle} {
		if *limit > 0 {
			*limit += d
		}
	}
	return &other
}

// Timeouts are the limits of the provider's calls.
func (p *Provider) Timeouts() Timeouts { return p.config.Timeouts }

// CloseIdle closes the connections that no request uses, this provider's and those of every
// one that shares them.
func (p *Provider) CloseIdle() { p.transport.CloseIdleConnections() }

// newTransport makes a transport that sends a request once. That holds together with a body
// that has no GetBody (see transfer): what net/http repeats by itself it first rewinds.
func newTransport(c *Config) *http.Transport {
	dial := c.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(c.HTTP2)
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &guarded{Conn: conn}, nil
		},
		TLSClientConfig:        c.TLS.Clone(),
		Protocols:              protocols,
		IdleConnTimeout:        idleConn,
		MaxIdleConnsPerHost:    64,
		WriteBufferSize:        1 << 10, // one request, once: its body goes around it
		DisableCompression:     true,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// newRequest makes the one request of a call.
func (p *Provider) newRequest(ctx context.Context, call *llm.Request, t *transfer) (*http.Request, error) {
	address := p.config.BaseURL + p.config.Codec.Path(call)
	if call.Query != "" {
		sep := "?"
		if strings.Contains(address, sep) {
			sep = "&"
		}
		address += sep + call.Query
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, t)
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(t.data))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if call.Whole {
		req.Header.Set("Accept", "application/json")
	}
	req.Header.Set("User-Agent", "reprise")
	for k, v := range call.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	p.config.Codec.Authorize(req.Header, p.config.Key)
	for k, v := range p.config.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	return req, nil
}
