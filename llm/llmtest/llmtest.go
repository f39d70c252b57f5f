// Package llmtest proves that a provider keeps the contract of llm.Provider, mints permits
// for tests, and scripts providers for the tests of whoever calls one. It needs a testing.TB
// for everything that could reach a backend, so that no product code can use it.
package llmtest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/internal/permit"
)

// Scope is the scope of every permit that Permit mints.
var Scope = llm.Scope{Session: "ses_test", Run: "run_test", Lineage: llm.LineageMain, Generation: 1}

// Permit mints a permit that is valid until ctx is done.
func Permit(tb testing.TB) llm.Permit {
	tb.Helper()
	return PermitChecked(tb, func(context.Context) error { return nil })
}

// PermitChecked mints a permit that asks check when it is spent and when it is checked.
func PermitChecked(tb testing.TB, check func(context.Context) error) llm.Permit {
	tb.Helper()
	return permit.Mint(Scope, "att_test", check)
}

// Subject is a provider under test, and requests that make its backend behave.
type Subject struct {
	Provider llm.Provider
	// Requests counts the requests that have reached the backend.
	Requests func() int
	OK       *llm.Request // answered with some text and the terminal event
	Cut      *llm.Request // answered with some text; then the connection breaks
	Refused  *llm.Request // answered with an error status
	Stalled  *llm.Request // answered with some text; then silence
}

// Run checks the contract of llm.Provider. make is called once a check.
func Run(t *testing.T, make func(t *testing.T) Subject) {
	sent := func(t *testing.T, s Subject, want int) {
		t.Helper()
		if got := s.Requests(); got != want {
			t.Errorf("%d requests reached the backend, want %d", got, want)
		}
	}
	refuse := func(t *testing.T, s Subject, ctx context.Context, p llm.Permit, want error) {
		t.Helper()
		before := s.Requests()
		if _, err := s.Provider.Stream(ctx, p, s.OK); !errors.Is(err, want) {
			t.Errorf("Stream: %v, want %v", err, want)
		}
		sent(t, s, before)
	}
	t.Run("a zero permit is refused", func(t *testing.T) {
		refuse(t, make(t), t.Context(), llm.Permit{}, llm.ErrPermitInvalid)
	})
	t.Run("F60 a spent permit is refused", func(t *testing.T) {
		s, p := make(t), Permit(t)
		if _, _, err := Collect(t.Context(), s.Provider, p, s.OK); err != nil {
			t.Fatal(err)
		}
		refuse(t, s, t.Context(), p, llm.ErrPermitSpent)
		sent(t, s, 1)
	})
	t.Run("a cancelled context is refused, with its cause", func(t *testing.T) {
		cause := errors.New("the operator said stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		refuse(t, make(t), ctx, Permit(t), cause)
	})
	t.Run("a permit that is no longer current is refused", func(t *testing.T) {
		stale := errors.New("stale")
		refuse(t, make(t), t.Context(), PermitChecked(t, func(context.Context) error { return stale }), stale)
	})
	t.Run("the permit is checked again before the request is written", func(t *testing.T) {
		stale, calls := errors.New("stale"), 0
		refuse(t, make(t), t.Context(), PermitChecked(t, func(context.Context) error {
			if calls++; calls == 1 {
				return nil
			}
			return stale
		}), stale)
	})
	t.Run("a whole answer ends in Done, then io.EOF", func(t *testing.T) {
		s := make(t)
		out, last, err := Collect(t.Context(), s.Provider, Permit(t), s.OK)
		if err != nil || last.Kind != llm.EventDone || len(out.Parts()) == 0 {
			t.Errorf("parts %v, last event %v, error %v", out.Parts(), last.Kind, err)
		}
		sent(t, s, 1)
	})
	t.Run("a cut answer never ends well, and is not sent again", func(t *testing.T) {
		s := make(t)
		out, _, err := Collect(t.Context(), s.Provider, Permit(t), s.Cut)
		if err == nil || len(out.Parts()) == 0 {
			t.Errorf("parts %v, error %v", out.Parts(), err)
		}
		sent(t, s, 1)
	})
	t.Run("a refusal is an error, and is not sent again", func(t *testing.T) {
		s := make(t)
		if _, _, err := Collect(t.Context(), s.Provider, Permit(t), s.Refused); err == nil {
			t.Error("no error")
		}
		sent(t, s, 1)
	})
	t.Run("a cancel ends a silent stream at once, with its cause", func(t *testing.T) {
		s := make(t)
		cause := errors.New("the operator said stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		stream, err := s.Provider.Stream(ctx, Permit(t), s.Stalled)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for {
			e, err := stream.Next()
			if err != nil {
				t.Fatalf("before the cancel: %v", err)
			}
			if e.Observability() == llm.Content {
				break
			}
		}
		began := time.Now()
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		for err == nil {
			_, err = stream.Next()
		}
		if !errors.Is(err, cause) {
			t.Errorf("Next: %v, want the cause", err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("the stream ended %v after the cancel", d)
		}
	})
	t.Run("closing twice is fine", func(t *testing.T) {
		s := make(t)
		stream, err := s.Provider.Stream(t.Context(), Permit(t), s.Stalled)
		if err != nil {
			t.Fatal(err)
		}
		stream.Close()
		stream.Close()
	})
}

// Collect reads a provider's answer to its end. It returns what the events add up to, the
// last event, and the error that ended the stream; nil at a whole answer.
func Collect(ctx context.Context, p llm.Provider, permit llm.Permit, req *llm.Request) (out llm.Output, last llm.Event, err error) {
	stream, err := p.Stream(ctx, permit, req)
	if err != nil {
		return out, last, err
	}
	defer stream.Close()
	for {
		e, err := stream.Next()
		if errors.Is(err, io.EOF) && last.Kind == llm.EventDone {
			return out, last, nil
		}
		if err != nil {
			return out, last, err
		}
		last = e
		out.Add(&e)
	}
}
