package gateway_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/accounts"
	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/transport"
)

// A key is taken in every way in which clients send one, goes no further, and counts no more once it
// was revoked.
func TestClientKeys(t *testing.T) {
	kept(t, session.ClientTerms{}, func(w *world, b *books) {
		for _, dialect := range names {
			for _, header := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", ""} {
				value, query := b.secret, "?"
				switch header {
				case "Authorization":
					value = "Bearer " + value
				case "":
					query = "?key=" + b.secret
				}
				path, body := "/v1/chat/completions", `{"model":"ok-fast","messages":[]}`
				switch dialect {
				case "responses":
					path, body = "/v1/responses", `{"model":"ok-fast","input":"Hello?"}`
				case "messages":
					path, body = "/v1/messages", `{"model":"ok-fast","max_tokens":9,"messages":[]}`
				case "gemini":
					path, body = "/v1beta/models/ok-fast:generateContent", `{"contents":[]}`
				}
				r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://gateway.test"+path+query, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if header != "" {
					r.Header.Set(header, value)
				}
				resp, err := w.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Errorf("%s %q: %d", dialect, header, resp.StatusCode)
				}
			}
		}
		if len(w.shown) != 16 || strings.Contains(strings.Join(w.shown, ""), accounts.Prefix) {
			t.Errorf("the provider was sent %q", w.shown)
		}
		if k := b.key(w.t); k.Total.Calls != 16 || k.Day.Requests != 16 {
			t.Errorf("%+v", k.Total)
		}
		if _, err := b.RevokeKey(w.t.Context(), "bob", b.id); err != nil {
			t.Fatal(err)
		}
		for _, dialect := range names {
			resp, body, _ := b.ask(w, dialect, "ok-fast", true)
			if resp.StatusCode != 401 || !strings.Contains(body, `"error":{`) || resp.Header.Get("X-Should-Retry") != "false" || strings.Contains(body, b.secret) {
				t.Errorf("%s, revoked: %d %s", dialect, resp.StatusCode, body)
			}
		}
	})
}

// What a key may ask: the names that its patterns fit, and of a chain the models that they fit.
func TestModelsOfKey(t *testing.T) {
	kept(t, session.ClientTerms{Models: []string{"ok*", "*/always-503"}}, func(w *world, b *books) {
		for _, dialect := range names {
			if resp, _, _ := b.ask(w, dialect, "ok-fast", false); resp.StatusCode != 200 {
				t.Errorf("%s: %d", dialect, resp.StatusCode)
			}
			total := w.upstream.Requests().Total
			resp, body, _ := b.ask(w, dialect, "steady-fast", false)
			if resp.StatusCode != 404 || !strings.Contains(body, "laptop may not ask") || w.upstream.Requests().Total != total {
				t.Errorf("%s, not allowed: %d %s", dialect, resp.StatusCode, body)
			}
			if c := b.of(w, resp); c.Outcome != session.GatewayRefused || c.Status != 404 || c.Code != "model_not_found" || c.Model != "steady-fast" {
				t.Errorf("%+v", c)
			}
			// The chain goes on to nobody whom the key may not ask.
			if resp, _, _ := b.ask(w, dialect, "always-503 then ok-fast", false, gateway.HeaderAttempts, "2"); resp.StatusCode < 500 ||
				resp.Header.Get(transport.HeaderModel) != dialect+"/always-503" {
				t.Errorf("%s, a chain: %d %v", dialect, resp.StatusCode, resp.Header)
			}
		}
		long := strings.Repeat("ä", 100_000)
		resp, _, _ := b.ask(w, "chat", long, false)
		if c := b.of(w, resp); resp.StatusCode != 404 || len(c.Model) > 1010 || len(c.Message) > 1010 {
			t.Errorf("a long name: %d, %d and %d bytes", resp.StatusCode, len(c.Model), len(c.Message))
		}
		resp, err := w.client.Get("http://gateway.test/v1/models?key=" + b.secret)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), `"id":"ok"`) || strings.Contains(string(body), "chat/ok") {
			t.Errorf("%v %s", err, body)
		}
	})
}

// A key's own hold, chain, attempts and fallback; a request may choose hold and chain, and only
// narrow the others.
func TestTermsOfKey(t *testing.T) {
	kept(t, session.ClientTerms{Hold: "whole", Chain: "failed-inside-text-once-fast"}, func(w *world, b *books) {
		resp, body, err := b.ask(w, "chat", "gpt-unheard", true)
		if err != nil || !strings.Contains(body, terminal["chat"]) || resp.Header.Get(transport.HeaderModel) != "chat/failed-inside-text-once-fast" {
			t.Errorf("%v %v\n%s", err, resp.Header, body)
		}
		if c := b.of(w, resp); c.Model != "gpt-unheard" || c.Asked != "failed-inside-text-once-fast" || c.Requests != 2 || c.Outcome != session.GatewayWhole {
			t.Errorf("%+v", c)
		}
		if resp, _, _ := b.ask(w, "chat", "gpt-unheard", true, gateway.HeaderChain, "ok-fast"); resp.Header.Get(transport.HeaderModel) != "chat/ok-fast" {
			t.Errorf("%v", resp.Header)
		}
		if _, body, _ := b.ask(w, "chat", "x", true, gateway.HeaderChain, "cut-after-text-fast", gateway.HeaderHold, "first_content"); !strings.Contains(body, ends["chat"]) {
			t.Errorf("%s", body)
		}
	})
	kept(t, session.ClientTerms{NoFallback: true}, func(w *world, b *books) {
		resp, _, _ := b.ask(w, "messages", "always-503 then ok-fast", true)
		if n := w.upstream.Requests().Total; resp.StatusCode < 500 || n != 3 {
			t.Errorf("without fallback: %d, %d requests", resp.StatusCode, n)
		}
	})
	kept(t, session.ClientTerms{MaxAttempts: 2}, func(w *world, b *books) {
		for header, want := range map[string]int{"": 2, "1": 1, "9": 2} {
			var add []string
			if header != "" {
				add = []string{gateway.HeaderAttempts, header}
			}
			total := w.upstream.Requests().Total
			if resp, _, _ := b.ask(w, "messages", "always-503 then ok-fast", true, add...); resp.StatusCode != 529 && resp.StatusCode != 503 {
				t.Errorf("%q: %d", header, resp.StatusCode)
			}
			if n := w.upstream.Requests().Total - total; n != want {
				t.Errorf("%q: %d requests, want %d", header, n, want)
			}
		}
	})
}

// R6, R7: what comes too fast is told when to come back, where that is soon, and else not to.
func TestRate(t *testing.T) {
	kept(t, session.ClientTerms{Rate: 3}, func(w *world, b *books) {
		for _, dialect := range names {
			for range 3 {
				if resp, _, _ := b.ask(w, dialect, "ok-fast", false); resp.StatusCode != 200 {
					t.Fatalf("%s: %d", dialect, resp.StatusCode)
				}
			}
			resp, body, _ := b.ask(w, dialect, "ok-fast", false)
			after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			if resp.StatusCode != 429 || err != nil || after < 1 || after > 20 || resp.Header.Get("X-Should-Retry") != "" || !strings.Contains(body, "3 requests a minute") {
				t.Errorf("%s: %d %v %s", dialect, resp.StatusCode, resp.Header, body)
			}
			if c := b.of(w, resp); c.Outcome != session.GatewayRefused || c.Code != "rate_limit_exceeded" || c.Status != 429 || c.Model != "ok-fast" {
				t.Errorf("%+v", c)
			}
			<-time.After(time.Duration(after) * time.Second)
			if resp, _, _ := b.ask(w, dialect, "ok-fast", false); resp.StatusCode != 200 {
				t.Errorf("%s, after the wait: %d", dialect, resp.StatusCode)
			}
			<-time.After(10 * time.Minute) // no more than a minute's add up
		}
		if n := w.upstream.Requests().Total; n != 4*len(names) {
			t.Errorf("%d requests", n)
		}
		rate := 1
		if _, err := b.ChangeKey(w.t.Context(), "ann", b.id, session.ClientTermsPatch{Rate: &rate}); err != nil {
			t.Fatal(err)
		}
		b.ask(w, "chat", "ok-fast", false)
		resp, _, _ := b.ask(w, "chat", "ok-fast", false)
		at, err := time.Parse(time.RFC3339, resp.Header.Get(transport.HeaderRetryAt))
		if resp.StatusCode != 400 || resp.Header.Get("X-Should-Retry") != "false" || err != nil || time.Until(at) < 50*time.Second || time.Until(at) > 61*time.Second {
			t.Errorf("a long wait: %d %v %v", resp.StatusCode, resp.Header, err)
		}
	})
}

// A key is kept as a hash, and what is done with keys leaves its rows.
func TestKeysAtRest(t *testing.T) {
	kept(t, session.ClientTerms{}, func(w *world, b *books) {
		if _, _, err := b.CreateKey(w.t.Context(), "ann", "laptop", session.ClientTerms{}); err == nil {
			t.Error("two keys have the same label")
		}
		for _, bad := range []session.ClientTerms{{Hold: "odd"}, {Rate: -1}, {Models: []string{" "}}, {SpendDay: -1}} {
			var no *session.Refusal
			if _, _, err := b.CreateKey(w.t.Context(), "ann", "other", bad); !errors.As(err, &no) || no.Code != session.CodeValidation {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		for range 2 {
			if _, err := b.RevokeKey(w.t.Context(), "bob", b.id); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.ChangeKey(w.t.Context(), "bob", b.id, session.ClientTermsPatch{}); err == nil {
			t.Error("a revoked key was changed")
		}
		if _, err := b.RevokeKey(w.t.Context(), "bob", "key_none"); !errors.Is(err, session.ErrNotFound) {
			t.Error(err)
		}
		err := b.store.View(w.t.Context(), func(tx session.ReadTx) error {
			keys, err := tx.ClientKeys()
			if err != nil {
				return err
			}
			said, err := json.Marshal(keys)
			if len(keys) != 1 || len(keys[0].Hash) != 64 || strings.Contains(string(said), keys[0].Hash) || strings.Contains(string(said), b.secret) {
				t.Errorf("stored %+v, said %s", keys, said)
			}
			acts, aerr := tx.Audit("", 9)
			if len(acts) != 3 || acts[2].Actor != "ann" || acts[2].Act != "create client key" || acts[0].Act != "revoke client key" || acts[0].Detail != string(b.id)+" laptop" {
				t.Errorf("%+v", acts)
			}
			return errors.Join(err, aerr)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
