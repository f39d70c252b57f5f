package provider_test

import (
	"context"
	"net"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/reprise-run/reprise/provider"
	"github.com/reprise-run/reprise/wire/chat"
)

// A network is there as soon as anybody answers, and nothing is sent to find out.
func TestReach(t *testing.T) {
	up := httptest.NewServer(nil)
	defer up.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		url  string
		err  error // of the dial; nil: the real one
		want bool
	}{
		"somebody listens":     {up.URL, nil, true},
		"refused":              {gone.URL, nil, true},
		"no such name":         {"https://api.example", &net.DNSError{Err: "no such host", IsNotFound: true}, true},
		"no name server":       {"https://api.example", &net.DNSError{Err: "server misbehaving", IsTemporary: true}, false},
		"no way there":         {"https://api.example", syscall.ENETUNREACH, false},
		"silence":              {"https://api.example", context.DeadlineExceeded, false},
		"a real way to nobody": {"http://224.0.0.1:9", nil, false}, // a group: TCP has no way to it, and sends nothing
	} {
		t.Run(name, func(t *testing.T) {
			config := provider.Config{Name: "p", Codec: chat.Codec{}, BaseURL: c.url}
			if c.err != nil {
				config.Dial = func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "dial", Err: c.err}
				}
			}
			p, err := provider.New(config)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Reach(t.Context()); got != c.want {
				t.Errorf("reached: %v", got)
			}
		})
	}
}

func TestLocal(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:1/v1": true, "http://[::1]:1": true, "http://localhost:11434/v1": true,
		"http://192.0.2.1": false, "https://api.example": false,
	} {
		p, err := provider.New(provider.Config{Name: "p", Codec: chat.Codec{}, BaseURL: url})
		if err != nil {
			t.Fatal(err)
		}
		if p.Local() != want {
			t.Errorf("%s: %v", url, !want)
		}
	}
}
