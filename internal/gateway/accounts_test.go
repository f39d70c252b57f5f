package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/internal/accounts"
	"github.com/reprise-run/reprise/internal/gateway"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/sqlite"
	"github.com/reprise-run/reprise/transport"
)

// books are a gateway's books with one key, in a store of their own.
type books struct {
	*accounts.Accounts
	store  session.Store
	id     session.ClientKeyID
	secret string
	day    llm.Money
}

// price is a dollar for a thousand tokens of output.
var price = llm.ModelFacts{MaxOutput: 1000, Price: &llm.Price{Rates: llm.Rates{Output: 1000 * llm.Dollar}}}

// kept runs a gateway whose books are kept, with a key of the given terms.
func kept(t *testing.T, terms session.ClientTerms, f func(w *world, b *books)) {
	t.Helper()
	b := &books{}
	runWith(t, func(t *testing.T) gateway.Options {
		var err error
		if b.store, err = sqlite.Open(filepath.Join(t.TempDir(), "db")); err != nil {
			t.Fatal(err)
		}
		b.Accounts, err = accounts.Open(t.Context(), accounts.Options{Store: b.store, Log: slog.New(slog.DiscardHandler), Sole: true,
			About: func(string, string) llm.ModelFacts { return price },
			Day:   func(map[string]string) llm.Money { return b.day }})
		if err != nil {
			t.Fatal(err)
		}
		k, secret, err := b.CreateKey(t.Context(), "ann", "laptop", terms)
		if err != nil {
			t.Fatal(err)
		}
		b.id, b.secret = k.ID, secret
		return gateway.Options{Journal: b, KeepAlive: time.Hour, Admit: func(r *http.Request) (session.ClientKey, error) {
			for _, key := range httpapi.Presented(r) {
				if k, ok := b.Admit(r.Context(), key); ok {
					return k, nil
				}
			}
			return session.ClientKey{}, errors.New("the key is not one of this gateway's")
		}}
	}, func(w *world) {
		defer func() {
			w.client.CloseIdleConnections()
			w.server.Close()
			if err := errors.Join(b.Close(), b.store.Close()); err != nil {
				t.Error(err)
			}
		}()
		f(w, b)
	})
}

// ask posts with the key.
func (b *books) ask(w *world, dialect, model string, stream bool, header ...string) (*http.Response, string, error) {
	w.t.Helper()
	return w.post(dialect, model, stream, append([]string{"Authorization", "Bearer " + b.secret}, header...)...)
}

// of reads the record of the call that was answered so.
func (b *books) of(w *world, resp *http.Response) session.GatewayCall {
	w.t.Helper()
	c, err := b.Call(w.t.Context(), resp.Header.Get(transport.HeaderID))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (b *books) key(t *testing.T) session.ClientKey {
	t.Helper()
	keys, err := b.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v %v", keys, err)
	}
	return keys[0]
}

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

// R11, K-158: every outcome is in the books, the unstreamed form as the same call; usage is the
// answer's, and what other attempts cost is apart.
func TestJournal(t *testing.T) {
	for _, tc := range []struct {
		model    string
		header   []string
		outcome  session.GatewayOutcome
		requests int
		shown    bool
	}{
		{"ok-fast", nil, session.GatewayWhole, 1, true},
		{"overloaded-then-ok-fast", nil, session.GatewayWhole, 2, true},
		{"always-503 then ok-fast", nil, session.GatewayWhole, 4, true},
		{"failed-inside-text-once-fast", []string{gateway.HeaderHold, "whole"}, session.GatewayWhole, 2, true},
		{"cut-after-text-fast", nil, session.GatewayInterrupted, 1, true},
		{"always-503", nil, session.GatewayFailed, 3, false},
		{"auth-failed", nil, session.GatewayFailed, 1, false},
		{"unknown", nil, session.GatewayRefused, 0, false},
	} {
		kept(t, session.ClientTerms{}, func(w *world, b *books) {
			for _, dialect := range names {
				for _, stream := range []bool{true, false} {
					resp, _, _ := b.ask(w, dialect, tc.model, stream, tc.header...)
					c := b.of(w, resp)
					want := tc.outcome
					requests, shown := tc.requests, tc.shown
					if tc.model == "cut-after-text-fast" && !stream { // nothing is shown before it is whole
						want, requests, shown = session.GatewayFailed, 3, false
					}
					if c.ID != resp.Header.Get(transport.HeaderID) || c.Outcome != want || c.Requests != requests || len(c.Attempts) != requests ||
						c.Stream != stream || c.Dialect != dialect || c.Model != tc.model || c.Client != "laptop" || c.KeyID != b.id || c.Status != resp.StatusCode ||
						c.EndedAt < c.BeganAt {
						t.Errorf("%s %s %t: %+v", dialect, tc.model, stream, c)
						continue
					}
					if header := resp.Header.Get(transport.HeaderAttempts); requests > 0 && stream && header != strconv.Itoa(requests) {
						t.Errorf("%s %s: %s attempts", dialect, tc.model, header)
					}
					silent := dialect == "chat" && stream // it did not ask for usage, and none was reported
					var sum, last llm.Money
					for i, a := range c.Attempts {
						sum += a.Cost.Amount
						if whole := want == session.GatewayWhole && i == requests-1; a.OK != whole || !whole && (a.Failure == nil || a.Decision == nil) || a.EndedAt == 0 {
							t.Errorf("%s %s attempt %d: %+v", dialect, tc.model, i, a)
						}
						if shown && i == requests-1 {
							last = a.Cost.Amount
						}
					}
					if c.Cost.Amount != sum || c.Lost != sum-last || want == session.GatewayWhole && c.Failure != nil ||
						want == session.GatewayWhole && !silent && (c.Usage == nil || c.Usage.Output == 0 || last != price.Price.Of(*c.Usage)) || want != session.GatewayWhole && tc.requests > 0 && c.Failure == nil {
						t.Errorf("%s %s %t: cost %+v, lost %d, usage %+v, failure %v", dialect, tc.model, stream, c.Cost, c.Lost, c.Usage, c.Failure)
					}
				}
			}
			k := b.key(w.t)
			list, err := b.Calls(w.t.Context(), session.GatewayQuery{Key: b.id})
			var sum session.ClientUsage
			for _, c := range list {
				sum.Calls++
				sum.Requests += int64(c.Requests)
				sum.Spend.Amount += c.Cost.Amount
				sum.Lost += c.Lost
				if c.Usage != nil {
					sum.Output += c.Usage.Output
				}
			}
			if got := *k.Total; err != nil || got.Calls != sum.Calls || got.Requests != sum.Requests || got.Spend.Amount != sum.Spend.Amount ||
				got.Spend.Reserved != 0 || got.Lost != sum.Lost || got.Output != sum.Output || sum.Calls != 8 {
				t.Errorf("%s: sums %+v, of the calls %+v, %v", tc.model, got, sum, err)
			}
		})
	}
}

// A client that leaves is in the books as such, with what its answer cost so far.
func TestJournalOfClientThatLeaves(t *testing.T) {
	kept(t, session.ClientTerms{}, func(w *world, b *books) {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway.test/v1/chat/completions",
			strings.NewReader(`{"model":"stall-after-text-fast","messages":[],"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.secret)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		synctest.Wait()
		if c := b.of(w, resp); c.Outcome != session.GatewayCancelled || c.Cost.Kind != llm.CostEstimated || c.Cost.Amount == 0 || c.Lost != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// K-155: caps of the key and of the day hold for calls at the same time: what each may cost is set
// aside before its request leaves.
func TestCaps_K155(t *testing.T) {
	const most = llm.Dollar // 1,000 tokens
	for name, set := range map[string]func(*session.ClientTerms, *books){
		"in all":  func(c *session.ClientTerms, _ *books) { c.SpendTotal = 3 * most },
		"a day":   func(c *session.ClientTerms, _ *books) { c.SpendDay = 3 * most },
		"for all": func(_ *session.ClientTerms, b *books) { b.day = 3 * most },
	} {
		t.Run(name, func(t *testing.T) {
			var terms session.ClientTerms
			set(&terms, &books{})
			kept(t, terms, func(w *world, b *books) {
				set(&terms, b)
				<-time.After(3 * time.Second) // until the day's cap is read
				var all sync.WaitGroup
				var mu sync.Mutex
				answers := map[int]int{}
				var refused string
				for range 12 {
					all.Go(func() {
						resp, body, _ := b.ask(w, "messages", "drip", true)
						mu.Lock()
						defer mu.Unlock()
						if answers[resp.StatusCode]++; resp.StatusCode == 400 {
							refused = body + resp.Header.Get("X-Should-Retry") + resp.Header.Get(transport.HeaderAttempts)
						}
					})
				}
				<-time.After(time.Second) // all have begun, none has ended
				list, err := b.Calls(w.t.Context(), session.GatewayQuery{Outcome: session.GatewayOpen})
				if err != nil || len(list) != 3 || list[0].Reserved != most {
					t.Errorf("open: %v %+v", err, list)
				}
				all.Wait()
				if answers[200] != 3 || answers[400] != 9 || w.upstream.Requests().Total != 3 {
					t.Errorf("answers %v, %d requests", answers, w.upstream.Requests().Total)
				}
				for _, want := range []string{"has a limit of $3.00", "of which $0 is left", "may cost up to $1.00", "false0"} {
					if !strings.Contains(refused, want) {
						t.Errorf("refused with %s, want %q", refused, want)
					}
				}
				// What was set aside and not used is free again.
				k := b.key(w.t)
				if k.Total.Spend.Reserved != 0 || k.Total.Spend.Amount == 0 || k.Total.Spend.Amount >= 3*most || k.Total.Calls != 12 || k.Total.Refused != 9 {
					t.Errorf("%+v", k.Total)
				}
				if resp, _, _ := b.ask(w, "messages", "ok-fast", true); resp.StatusCode != 200 {
					t.Errorf("after the end: %d", resp.StatusCode)
				}
				// What is set aside serves every attempt of a call: those that failed have cost nothing.
				total := b.key(w.t).Total.Spend.Amount + 11*most/10
				if _, err := b.ChangeKey(w.t.Context(), "ann", b.id, session.ClientTermsPatch{SpendTotal: &total, SpendDay: new(llm.Money)}); err != nil {
					t.Fatal(err)
				}
				if resp, body, _ := b.ask(w, "messages", "overloaded-then-ok-fast", true); b.of(w, resp).Requests != 2 || resp.StatusCode != 200 {
					t.Errorf("two attempts: %d %s", resp.StatusCode, body)
				}
			})
		})
	}
}

// Each answer that a request asks for may be as long as it allows.
func TestCapOfSeveralAnswers_K155(t *testing.T) {
	kept(t, session.ClientTerms{SpendTotal: 3 * llm.Dollar}, func(w *world, b *books) {
		r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://gateway.test/v1/chat/completions",
			strings.NewReader(`{"model":"ok-fast","n":4,"max_tokens":1000,"messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.secret)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 400 || !strings.Contains(string(body), "may cost up to $4.00") || w.upstream.Requests().Total != 0 {
			t.Errorf("%d %v %s", resp.StatusCode, err, body)
		}
	})
}

// What goes on when its process ends is lost, and stays set aside.
func TestLostCalls(t *testing.T) {
	kept(t, session.ClientTerms{SpendTotal: 3 * llm.Dollar}, func(w *world, b *books) {
		r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://gateway.test/v1/messages",
			strings.NewReader(`{"model":"stall-after-text-fast","max_tokens":1000,"messages":[],"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", b.secret)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		other, err := accounts.Open(w.t.Context(), accounts.Options{Store: b.store, Sole: true})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		c, err := other.Call(w.t.Context(), resp.Header.Get(transport.HeaderID))
		if err != nil || c.Outcome != session.GatewayLost || c.Reserved != llm.Dollar || c.Requests != 1 {
			t.Errorf("%v %+v", err, c)
		}
		if k := b.key(w.t); k.Total.Spend.Reserved != llm.Dollar {
			t.Errorf("%+v", k.Total)
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
