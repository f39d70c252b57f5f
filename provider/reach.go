package provider

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// Local reports whether the endpoint is on this machine, so that it is reached without a
// network.
func (p *Provider) Local() bool {
	host := p.way().Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// way is the address that a request goes to first: the proxy's, where there is one.
func (p *Provider) way() *url.URL {
	if proxy, err := p.transport.Proxy(&http.Request{URL: p.base}); err == nil && proxy != nil {
		return proxy
	}
	return p.base
}

// Reach reports whether somebody answers on the way to the endpoint. It opens a connection and
// closes it: nothing is sent. A connection that is refused, and a name that does not exist,
// are answers; silence, and no way there, are none.
func (p *Provider) Reach(ctx context.Context) bool {
	u := p.way()
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := p.transport.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err == nil {
		_ = conn.Close() // nothing was written that could be lost
		return true
	}
	var dns *net.DNSError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &dns) && dns.IsNotFound
}
