package provider

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reprise-run/reprise/internal/pipe"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/wire"
	"github.com/reprise-run/reprise/wire/chat"
	"github.com/reprise-run/reprise/wire/gemini"
	"github.com/reprise-run/reprise/wire/messages"
	"github.com/reprise-run/reprise/wire/responses"
)

// codecs are the dialects, with the base path that each wants.
var codecs = []struct {
	codec wire.Codec
	path  string
}{
	{chat.Codec{}, "/v1"},
	{responses.Codec{}, "/v1"},
	{messages.Codec{}, ""},
	{gemini.Codec{}, ""},
}

// serve serves h inside the test's bubble and returns what dials it.
func serve(t *testing.T, h http.Handler) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	l := pipe.Listen()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rehearsal.Serve(ctx, l, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Dial
}

// open makes a provider for a test.
func open(t *testing.T, c Config) *Provider {
	t.Helper()
	if c.Name == "" {
		c.Name = "test"
	}
	if c.Codec == nil {
		c.Codec = chat.Codec{}
	}
	if c.BaseURL == "" {
		c.BaseURL = "http://rehearsal.test/v1"
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.CloseIdle)
	return p
}

func newRehearsal(t *testing.T, scripts ...rehearsal.Script) *rehearsal.Server {
	t.Helper()
	s, err := rehearsal.New(scripts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func hello(model string) *llm.Request {
	return &llm.Request{Model: model, MaxOutputTokens: 1000,
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Hello?")}}}}
}

// TestContract runs the suite of llm.Provider over real sockets (F60, N68).
func TestContract(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.codec.Dialect(), func(t *testing.T) {
			llmtest.Run(t, func(t *testing.T) llmtest.Subject {
				s := newRehearsal(t)
				server := httptest.NewServer(s)
				t.Cleanup(server.Close)
				return llmtest.Subject{
					Provider: open(t, Config{Codec: c.codec, BaseURL: server.URL + c.path, Key: "secret", Timeouts: DefaultTimeouts}),
					Requests: func() int { return s.Requests().Total },
					OK:       hello("ok-fast"),
					Cut:      hello("cut-after-text-fast"),
					Refused:  hello("always-503"),
					Stalled:  hello("stall-after-text-fast"),
				}
			})
		})
	}
}
