package llm

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Money is an amount in billionths of a US dollar. Sums and prices are exact; there are no
// floating-point amounts.
type Money int64

// Dollar is one US dollar.
const Dollar Money = 1_000_000_000

// ParseMoney reads a decimal number of US dollars ("5", "0.0028"), not negative and with nine
// decimals at most.
func ParseMoney(s string) (Money, error) {
	whole, part, _ := strings.Cut(s, ".")
	if len(part) > 9 || whole+part == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not an amount in US dollars, as 5 or 0.25", s)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", 9-len(part)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is more than can be counted", s)
	}
	return Money(n), nil
}

// String writes the amount for a person: cents from a dollar on, and below it two digits that
// count, rounded up so that no cost looks like none.
func (m Money) String() string {
	if m < 0 {
		return "-" + (-m).String()
	}
	unit := Dollar / 100
	for m > 0 && m < unit*10 && unit > 1 {
		unit /= 10
	}
	m = (m + unit - 1) / unit * unit
	s := fmt.Sprintf("$%d.%09d", m/Dollar, m%Dollar)
	s = strings.TrimRight(s, "0")
	whole, part, _ := strings.Cut(s, ".")
	switch {
	case m == 0:
		return "$0"
	case len(part) < 2:
		part += strings.Repeat("0", 2-len(part))
	}
	return whole + "." + part
}

// Rates are prices, in Money for a million tokens. A zero CacheRead or CacheWrite is as much as
// Input.
type Rates struct {
	Input      Money `json:"input"`
	CacheRead  Money `json:"cache_read,omitempty"`
	CacheWrite Money `json:"cache_write,omitempty"`
	Output     Money `json:"output"`
}

// Price is what a model costs.
type Price struct {
	Rates
	// Long are the rates of a call with more than Above tokens of input; nil: the same.
	Long  *Rates `json:"long,omitempty"`
	Above int64  `json:"above,omitempty"`
}

// Of is what a call costs that used so much, rounded up.
func (p *Price) Of(u Usage) Money {
	if p.Long != nil && u.Input > p.Above {
		return p.Long.of(u)
	}
	return p.Rates.of(u)
}

// Most is what a call costs at most that uses no more than so many tokens, wherever its input
// is cached.
func (p *Price) Most(input, output int64) Money {
	most := p.Rates.most(input, output)
	if p.Long != nil && input > p.Above {
		most = max(most, p.Long.most(input, output))
	}
	return most
}

func (r *Rates) of(u Usage) Money {
	fresh := max(u.Input-u.CacheRead-u.CacheWrite, 0)
	return times(fresh, r.Input).plus(times(u.CacheRead, or(r.CacheRead, r.Input))).
		plus(times(u.CacheWrite, or(r.CacheWrite, r.Input))).plus(times(u.Output, r.Output))
}

func (r *Rates) most(input, output int64) Money {
	return times(input, max(r.Input, r.CacheRead, r.CacheWrite)).plus(times(output, r.Output))
}

func or(a, b Money) Money {
	if a == 0 {
		return b
	}
	return a
}

// times is the price of so many tokens at so much a million, rounded up and bounded.
func times(tokens int64, million Money) Money {
	hi, lo := bits.Mul64(uint64(max(tokens, 0)), uint64(max(million, 0)))
	lo, carry := bits.Add64(lo, 999_999, 0)
	if hi += carry; hi >= 1_000_000 {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, 1_000_000)
	return Money(min(q, math.MaxInt64))
}

func (m Money) plus(n Money) Money {
	if m > math.MaxInt64-n {
		return math.MaxInt64
	}
	return m + n
}

// CostKind says how well a cost is known.
type CostKind string

const (
	// CostKnown: the usage that the provider reported, at a price that was known; or nothing,
	// because the provider did not process the request.
	CostKnown CostKind = "known"
	// CostEstimated: no usage was reported; what was sent and what came was counted.
	CostEstimated CostKind = "estimated"
	// CostUnknown: no price is known. The amount is 0.
	CostUnknown CostKind = "unknown"
)

// Cost is what one call cost.
type Cost struct {
	Amount Money    `json:"amount"` // in billionths of a US dollar
	Kind   CostKind `json:"kind"`
}
