package mcptool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// streamTime is how long a server may take to open the stream of its own messages, which is
// optional. Some answer nothing before they have a message.
const streamTime = 10 * time.Second

// carrier sends the requests of one server.
type carrier struct {
	header   func() (http.Header, error)
	calls    *http.Transport
	messages *http.Transport
}

func newCarrier(header func() (http.Header, error)) *carrier {
	base := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     30 * time.Second,
	}
	messages := base.Clone()
	messages.ResponseHeaderTimeout = streamTime
	return &carrier{header: header, calls: base, messages: messages}
}

// client follows no redirect: it would send a call again, and our headers to somebody else.
func (c *carrier) client() *http.Client {
	return &http.Client{Transport: c, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// RoundTrip implements http.RoundTripper.
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.GetBody = nil // without it, a broken connection is an error and not a second send
	if c.header != nil {
		header, err := c.header()
		if err != nil {
			return refused(req, err)
		}
		for k, v := range header {
			out.Header[http.CanonicalHeaderKey(k)] = v
		}
	}
	if err := mark(req.Context()); err != nil {
		return refused(req, err)
	}
	if err := rename(out); err != nil {
		return nil, err
	}
	if req.Method != http.MethodGet {
		return bounded(c.calls.RoundTrip(out))
	}
	resp, err := c.messages.RoundTrip(out)
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() && req.Context().Err() == nil && req.Header.Get("Last-Event-ID") == "" {
		// It is taken to have no such stream, which this status says.
		return &http.Response{Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1",
			ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	}
	return bounded(resp, err)
}

// rename gives the message that a request carries its plain name.
func rename(req *http.Request) error {
	if req.Body == nil || req.Method != http.MethodPost {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err = errors.Join(err, req.Body.Close()); err != nil {
		return err
	}
	if bytes.Contains(body, []byte(prefix)) {
		m, err := jsonrpc.DecodeMessage(body)
		if err != nil {
			return err
		}
		if body, err = jsonrpc.EncodeMessage(plain(m)); err != nil {
			return err
		}
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// refused is the end of a request that is not sent; http.RoundTripper wants its body closed.
func refused(req *http.Request, err error) (*http.Response, error) {
	if req.Body != nil {
		err = errors.Join(err, req.Body.Close())
	}
	return nil, err
}

func (c *carrier) close() {
	c.calls.CloseIdleConnections()
	c.messages.CloseIdleConnections()
}

// bounded bounds a body that is read as a whole; the SDK bounds the events of a stream.
func bounded(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != "text/event-stream" {
		resp.Body = &limited{resp.Body, maxMessage + 1}
	}
	return resp, nil
}

// limited is a body that fails beyond its limit.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	if l.left -= n; l.left == 0 {
		return n, fmt.Errorf("the server's answer is longer than %d bytes", maxMessage)
	}
	return n, err
}
