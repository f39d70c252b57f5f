package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	facts  llm.ModelFacts // of every model
	away   atomic.Bool    // the database is
}

// remote is a store whose database may be away.
type remote struct {
	session.Store
	away *atomic.Bool
}

func (r remote) Update(ctx context.Context, d session.Durability, f func(session.Tx) error) error {
	if r.away.Load() {
		return fmt.Errorf("%w: dial secret-host", session.ErrUnavailable)
	}
	return r.Store.Update(ctx, d, f)
}

// price is a dollar for a thousand tokens of output.
var price = llm.ModelFacts{MaxOutput: 1000, Price: &llm.Price{Rates: llm.Rates{Output: 1000 * llm.Dollar}}}

// kept runs a gateway whose books are kept, with a key of the given terms.
func kept(t *testing.T, terms session.ClientTerms, f func(w *world, b *books)) {
	t.Helper()
	b := &books{facts: price}
	runWith(t, func(t *testing.T) gateway.Options {
		var err error
		if b.store, err = sqlite.Open(filepath.Join(t.TempDir(), "db")); err != nil {
			t.Fatal(err)
		}
		b.store = remote{b.store, &b.away}
		b.Accounts, err = accounts.Open(t.Context(), accounts.Options{Store: b.store, Log: slog.New(slog.DiscardHandler), Sole: true,
			About: func(string, string) llm.ModelFacts { return b.facts },
			Live:  func(map[string]string) session.Live { return session.Live{Spend: session.Limits{Day: b.day}} }})
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

// Where nothing can be set aside nothing is sent, and the client may come again.
func TestCapWithoutDatabase_K155(t *testing.T) {
	kept(t, session.ClientTerms{SpendDay: 5 * llm.Dollar}, func(w *world, b *books) {
		b.away.Store(true)
		for _, dialect := range names {
			for _, stream := range []bool{true, false} {
				resp, body, err := b.ask(w, dialect, "ok-fast", stream)
				if err != nil || resp.StatusCode != 503 || !strings.Contains(body, "try again in a moment") || strings.Contains(body, "secret") {
					t.Errorf("%s: %v %d %s", dialect, err, resp.StatusCode, body)
				}
			}
		}
		if n := w.upstream.Requests().Total; n != 0 {
			t.Errorf("%d requests", n)
		}
		b.away.Store(false)
		if resp, body, err := b.ask(w, "chat", "ok-fast", false); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v %d %s", err, resp.StatusCode, body)
		}
	})
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

// Without a price nothing is sent under a cap, and without a cap the cost is not known. Counting
// tokens is free.
func TestCostsThatAreNotKnown(t *testing.T) {
	count := func(w *world, b *books) *http.Response {
		r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://gateway.test/v1/messages/count_tokens",
			strings.NewReader(`{"model":"ok-fast","messages":[{"role":"user","content":"Hello?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", b.secret)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	kept(t, session.ClientTerms{SpendTotal: llm.Dollar}, func(w *world, b *books) {
		b.facts = llm.ModelFacts{}
		resp, body, _ := b.ask(w, "messages", "ok-fast", false)
		if resp.StatusCode != 400 || !strings.Contains(body, "What messages/ok-fast costs is not known") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		resp = count(w, b)
		if c := b.of(w, resp); resp.StatusCode != 200 || !c.Count || c.Cost != (llm.Cost{Kind: llm.CostKnown}) || c.Outcome != session.GatewayWhole {
			t.Errorf("%d %+v", resp.StatusCode, c)
		}
	})
	kept(t, session.ClientTerms{}, func(w *world, b *books) {
		b.facts = llm.ModelFacts{}
		resp, _, _ := b.ask(w, "messages", "ok-fast", false)
		k := b.key(w.t)
		if c := b.of(w, resp); resp.StatusCode != 200 || c.Cost != (llm.Cost{Kind: llm.CostUnknown}) || c.Usage == nil || !k.Total.Spend.AtLeast || !k.Total.Spend.Unpriced {
			t.Errorf("%d %+v %+v", resp.StatusCode, c, k.Total)
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
