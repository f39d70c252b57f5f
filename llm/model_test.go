package llm_test

import (
	"math"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
)

func TestMoney(t *testing.T) {
	for text, want := range map[string]llm.Money{"0": 0, "5": 5e9, "0.25": 25e7, ".5": 5e8, "0.0028": 28e5, "1.000000001": 1_000_000_001} {
		if got, err := llm.ParseMoney(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ".", "-1", "1e3", "$5", "1,5", "1.0000000001", "99999999999", " 1"} {
		if got, err := llm.ParseMoney(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for m, want := range map[llm.Money]string{
		0: "$0", 1: "$0.000000001", 2_100_000: "$0.0021", 2_100_001: "$0.0022", 99_900_000: "$0.10", 123_000_000: "$0.13",
		5 * llm.Dollar: "$5.00", 1_234_567_890: "$1.24", -llm.Dollar: "-$1.00",
	} {
		if m.String() != want {
			t.Errorf("%d: %s, want %s", m, m, want)
		}
	}
}

func TestPrice(t *testing.T) {
	p := llm.Price{Rates: llm.Rates{Input: 3e9, CacheRead: 3e8, CacheWrite: 3_750_000_000, Output: 15e9},
		Long: &llm.Rates{Input: 6e9, Output: 22e9}, Above: 200_000}
	for _, c := range []struct {
		u    llm.Usage
		want llm.Money
	}{
		{llm.Usage{}, 0},
		{llm.Usage{Input: 1, Output: 1}, 18_000},
		{llm.Usage{Input: 1000, CacheRead: 600, CacheWrite: 300, Output: 10}, 300_000 + 180_000 + 1_125_000 + 150_000},
		{llm.Usage{Input: 200_000}, 600_000_000},
		{llm.Usage{Input: 200_001}, 1_200_006_000},
		{llm.Usage{Input: 10, CacheRead: 20}, 6_000}, // a provider that counts them apart
	} {
		if got := p.Of(c.u); got != c.want {
			t.Errorf("%+v: %d, want %d", c.u, got, c.want)
		}
	}
	if got := p.Most(1000, 1000); got != 3_750_000+15_000_000 {
		t.Errorf("at most %d", got)
	}
	if got := (&llm.Price{Rates: llm.Rates{Input: math.MaxInt64}}).Of(llm.Usage{Input: math.MaxInt64}); got != math.MaxInt64 {
		t.Errorf("an absurd price: %d", got)
	}
	// Whatever was used within the bounds costs no more than the most.
	for in := int64(0); in <= 400_000; in += 40_000 {
		for cached := int64(0); cached <= in; cached += 20_000 {
			if of, most := p.Of(llm.Usage{Input: in, CacheWrite: cached, Output: 7}), p.Most(in, 7); of > most {
				t.Fatalf("%d tokens, %d cached: %d > %d", in, cached, of, most)
			}
		}
	}
}

func TestNeeds(t *testing.T) {
	r := llm.Request{System: strings.Repeat("s", 400), MaxOutputTokens: 7, Messages: []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(strings.Repeat("a", 400)), {Kind: llm.PartNotice, Text: strings.Repeat("n", 4000)}}},
	}}
	n := r.Needs()
	if n != (llm.Needs{Input: 216, Output: 7}) {
		t.Errorf("%+v", n)
	}
	r.Tools = []llm.Tool{{Name: "t"}}
	r.Messages = append(r.Messages, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{
		{Kind: llm.PartToolResult, Content: []llm.Part{{Kind: llm.PartImage, URL: "u"}}}}})
	if more := r.Needs(); more.Input < n.Input+1600 {
		t.Errorf("%+v", more)
	}
	if raw := (&llm.Request{Raw: make([]byte, 4000)}).Needs(); raw.Input != 1000 {
		t.Errorf("raw: %+v", raw)
	}
}

// The bytes of an image say nothing of its tokens, wherever they begin; a long text does.
func TestText(t *testing.T) {
	prose := strings.Repeat("words and more words. ", 1000)
	for _, before := range []int{0, 1, 4095, 4096, 5000} {
		for _, length := range []int{4096, 8191, 100_000} {
			r := llm.Request{Raw: []byte(prose[:before] + `"` + strings.Repeat("iVBORw0K/+", length)[:length] + `"` + prose)}
			if got, want := r.Text(), int64(before+2+len(prose)+3)/4; got != want {
				t.Errorf("%d before %d: %d, not %d", before, length, got, want)
			}
		}
	}
	if r := (llm.Request{Raw: []byte(strings.Repeat("日本語", 10_000))}); r.Text() != r.Needs().Input {
		t.Error(r.Text())
	}
	if r := (llm.Request{System: prose}); r.Text() != r.Needs().Input {
		t.Error(r.Text())
	}
}

func TestCosts(t *testing.T) {
	m := llm.ModelFacts{MaxOutput: 100, Price: &llm.Price{Rates: llm.Rates{Input: 1e9, Output: 2e9}}}
	if most, ok := m.Most(llm.Needs{Input: 10}); !ok || most != 20_000+200_000 {
		t.Errorf("at most %d, %v", most, ok)
	}
	if most, ok := m.Most(llm.Needs{Input: 10, Output: 5}); !ok || most != 20_000+10_000 {
		t.Errorf("at most %d, %v", most, ok)
	}
	if most, ok := m.Most(llm.Needs{Input: 10, Output: 5, Answers: 3}); !ok || most != 20_000+30_000 {
		t.Errorf("at most %d, %v", most, ok)
	}
	if most, ok := m.Most(llm.Needs{Output: 1 << 62, Answers: 1 << 62}); !ok || most != 1<<63-1 {
		t.Errorf("at most %d, %v", most, ok)
	}
	for _, c := range []struct {
		usage *llm.Usage
		whole bool
		want  llm.Cost
	}{
		{&llm.Usage{Input: 10, Output: 5}, true, llm.Cost{Amount: 20_000, Kind: llm.CostKnown}},
		{&llm.Usage{Input: 8}, true, llm.Cost{Amount: 18_000, Kind: llm.CostEstimated}}, // a report that forgets what came
		{&llm.Usage{Output: 5}, true, llm.Cost{Amount: 16_000, Kind: llm.CostEstimated}},
		{nil, true, llm.Cost{Amount: 16_000, Kind: llm.CostEstimated}},
		{nil, false, llm.Cost{Amount: 16_000, Kind: llm.CostEstimated}},
		{&llm.Usage{Input: 8, Output: 1}, false, llm.Cost{Amount: 18_000, Kind: llm.CostEstimated}}, // what came is more than was counted yet
	} {
		if got := m.Cost(c.usage, c.whole, llm.Needs{Input: 6}, 20); got != c.want {
			t.Errorf("%+v, whole %v: %+v, want %+v", c.usage, c.whole, got, c.want)
		}
	}
	for _, unknown := range []llm.ModelFacts{{}, {MaxOutput: 100}, {Price: &llm.Price{Rates: llm.Rates{Output: 1}}}} {
		if _, ok := unknown.Most(llm.Needs{Input: 10}); ok {
			t.Errorf("the most is known of %+v", unknown)
		}
	}
	if _, ok := (&llm.ModelFacts{Price: &llm.Price{}}).Most(llm.Needs{Input: 10}); !ok {
		t.Error("what costs nothing has no bound")
	}
	if got := new(llm.ModelFacts).Cost(&llm.Usage{Input: 1}, true, llm.Needs{}, 0); got != (llm.Cost{Kind: llm.CostUnknown}) {
		t.Errorf("without a price: %+v", got)
	}
	if got := (&llm.ModelFacts{Price: &llm.Price{}}).Cost(nil, false, llm.Needs{Input: 1}, 9); got != (llm.Cost{Kind: llm.CostKnown}) {
		t.Errorf("at no price: %+v", got)
	}
}
