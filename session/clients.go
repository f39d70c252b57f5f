package session

import (
	"strings"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
)

// ClientKeyID names a client key: key_…
type ClientKeyID string

// ClientKey is a key of the gateway's own, given to a program that sends its model calls through
// it. The key itself is known to whoever was given it, and to nobody else.
type ClientKey struct {
	ID    ClientKeyID `json:"id"`
	Label string      `json:"label"` // no two keys that hold have the same
	ClientTerms
	CreatedAt Time   `json:"created_at"`
	CreatedBy string `json:"created_by"`
	RevokedAt Time   `json:"revoked_at,omitempty"` // 0: it holds
	RevokedBy string `json:"revoked_by,omitempty"`
	// Day and Total are what was asked with it, in the last 24 hours (by the full hour) and ever;
	// set where keys are listed.
	Day   *ClientUsage `json:"day,omitempty"`
	Total *ClientUsage `json:"total,omitempty"`

	Hash string `json:"-"` // SHA-256 of the key, in hexadecimal digits
}

// ClientTerms are what the operator allows a client key, and how its requests are treated. What
// is zero does not narrow anything.
type ClientTerms struct {
	// Models are names of models and chains, or patterns with *, that may be asked; a model that a
	// chain or a short name stands for may be asked where the pattern fits it as provider/model.
	Models []string `json:"models,omitempty" maxItems:"100"`
	// SpendDay and SpendTotal cap what its requests may cost, in billionths of a US dollar: in the
	// last 24 hours, and in all.
	SpendDay   llm.Money `json:"spend_day,omitempty" minimum:"0"`
	SpendTotal llm.Money `json:"spend_total,omitempty" minimum:"0"`
	// Rate caps its requests a minute, on each node.
	Rate int `json:"rate,omitempty" minimum:"0" maximum:"1000000"`
	// Hold is a hold policy, as the configuration has it; a request may choose another.
	Hold string `json:"hold,omitempty"`
	// Chain answers whatever model a request names; a request may choose another chain.
	Chain string `json:"chain,omitempty"`
	// MaxAttempts caps the requests to providers for one of its own, and NoFallback lets none but
	// the first model be asked; a request may only narrow them further.
	MaxAttempts int  `json:"max_attempts,omitempty" minimum:"0"`
	NoFallback  bool `json:"no_fallback,omitempty"`
	// NoFences: what broke may be sent again at once, for programs that send the same on purpose.
	NoFences bool `json:"no_fences,omitempty"`
}

// ClientTermsPatch changes what is set in it.
type ClientTermsPatch struct {
	Models      *[]string  `json:"models,omitempty" maxItems:"100"`
	SpendDay    *llm.Money `json:"spend_day,omitempty" minimum:"0"`
	SpendTotal  *llm.Money `json:"spend_total,omitempty" minimum:"0"`
	Rate        *int       `json:"rate,omitempty" minimum:"0" maximum:"1000000"`
	Hold        *string    `json:"hold,omitempty"`
	Chain       *string    `json:"chain,omitempty"`
	MaxAttempts *int       `json:"max_attempts,omitempty" minimum:"0"`
	NoFallback  *bool      `json:"no_fallback,omitempty"`
	NoFences    *bool      `json:"no_fences,omitempty"`
}

// Change does so.
func (p *ClientTermsPatch) Change(t *ClientTerms) {
	set(&t.Models, p.Models)
	set(&t.SpendDay, p.SpendDay)
	set(&t.SpendTotal, p.SpendTotal)
	set(&t.Rate, p.Rate)
	set(&t.Hold, p.Hold)
	set(&t.Chain, p.Chain)
	set(&t.MaxAttempts, p.MaxAttempts)
	set(&t.NoFallback, p.NoFallback)
	set(&t.NoFences, p.NoFences)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Allows reports whether a model or a chain may be asked by this name.
func (t *ClientTerms) Allows(name string) bool {
	for _, pattern := range t.Models {
		if fits(pattern, name) {
			return true
		}
	}
	return len(t.Models) == 0
}

// fits reports whether a name is a pattern's, in which * stands for any text.
func fits(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return name == pattern
	}
	name, ok := strings.CutPrefix(name, head)
	for ok {
		if fits(rest, name) {
			return true
		}
		if ok = name != ""; ok {
			name = name[1:]
		}
	}
	return false
}

// ClientUsage adds up what was asked. Tokens are those of the answers that came whole or in part;
// what attempts used that did not answer is in the cost alone.
type ClientUsage struct {
	Calls    int64 `json:"calls"`    // that were let in
	Refused  int64 `json:"refused"`  // of them, by the gateway itself: nobody was asked
	Requests int64 `json:"requests"` // to providers
	Input    int64 `json:"input"`
	Output   int64 `json:"output"`
	// CacheRead and CacheWrite are parts of Input.
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Spend      Spend `json:"spend"`
	// Lost is what of the spend went to attempts that did not answer.
	Lost llm.Money `json:"lost,omitempty"`
}

// ClientUse is a change of what was asked with a key in an hour.
type ClientUse struct {
	Key  ClientKeyID // empty: with a token
	Hour Time        // its begin
	ClientUsage
	// Inexact and Unpriced count attempts whose cost is not known for certain, or has no price.
	Inexact, Unpriced int64
}

// Plus adds another change of the same hour.
func (u ClientUse) Plus(o ClientUse) ClientUse {
	u.Calls += o.Calls
	u.Refused += o.Refused
	u.Requests += o.Requests
	u.Input += o.Input
	u.Output += o.Output
	u.CacheRead += o.CacheRead
	u.CacheWrite += o.CacheWrite
	u.Lost += o.Lost
	u.Spend = u.Spend.plus(o.Spend)
	u.Inexact += o.Inexact
	u.Unpriced += o.Unpriced
	return u
}

// HourOf is the begin of a moment's hour.
func HourOf(t Time) Time { return t - t%hour }

const hour Time = 3_600_000

// GatewayOutcome is how a gateway's call ended for its client.
type GatewayOutcome string

const (
	GatewayOpen        GatewayOutcome = "open"        // it goes on
	GatewayWhole       GatewayOutcome = "whole"       // the client was sent the whole answer
	GatewayInterrupted GatewayOutcome = "interrupted" // the answer broke after something of it was sent
	GatewayFailed      GatewayOutcome = "failed"      // the client was sent nothing of an answer
	GatewayRefused     GatewayOutcome = "refused"     // by the gateway itself: nobody was asked
	GatewayCancelled   GatewayOutcome = "cancelled"   // the client left
	GatewayLost        GatewayOutcome = "lost"        // the gateway ended before it did
)

// GatewayCall is the record of one call that a client made of the gateway. It has neither prompt
// nor answer.
type GatewayCall struct {
	ID     string      `json:"id"`               // gw_…, as the answer's header has it
	KeyID  ClientKeyID `json:"key_id,omitempty"` // empty: it was made with a token
	Client string      `json:"client"`           // the label of its key or token
	// Dialect and Model are the client's; Asked is what the key's chain, or the request's, made of
	// the model, where that is another name.
	Dialect string `json:"dialect"`
	Model   string `json:"model"`
	Asked   string `json:"asked,omitempty"`
	Stream  bool   `json:"stream,omitempty"`
	Count   bool   `json:"count,omitempty"` // it asks how many tokens a request is
	// Answered is who answered, or was asked last; absent where nobody was.
	Answered *recovery.Candidate `json:"answered,omitempty"`
	BeganAt  Time                `json:"began_at"`
	EndedAt  Time                `json:"ended_at,omitempty"`
	Outcome  GatewayOutcome      `json:"outcome"`
	Status   int                 `json:"status,omitempty"` // that was sent; 0: none
	Requests int                 `json:"requests"`         // to providers
	// Usage is the answer's alone. Cost is what all attempts cost, and Lost what of it went to those
	// that did not answer; Reserved is what may come beside while it goes on, or its end was not seen.
	Usage    *llm.Usage `json:"usage,omitempty"`
	Cost     llm.Cost   `json:"cost"`
	Lost     llm.Money  `json:"lost,omitempty"`
	Reserved llm.Money  `json:"reserved,omitempty"`
	// Code and Message are the gateway's own, where it refused the call.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Failure and Decision are why there is no whole answer, and Tried is who was asked and who was
	// not, where there is more than one.
	Failure  *failure.Failure   `json:"failure,omitempty"`
	Decision *recovery.Decision `json:"decision,omitempty"`
	Tried    []recovery.Outcome `json:"tried,omitempty"`
	WaitedMS int64              `json:"waited_ms,omitempty"` // between attempts
	// Attempts are set where one call is read. Their run is the call, and they belong to no session.
	Attempts []Attempt `json:"attempts,omitempty"`
}

// GatewayQuery says which calls are listed, the newest first; what is zero does not narrow it.
type GatewayQuery struct {
	Key     ClientKeyID
	Client  string
	Outcome GatewayOutcome
	Before  string // only calls older than this one,
	Began   Time   // which began then
	Limit   int    // at most so many; 0: all
}

// Fits reports whether the call is one that is listed.
func (q *GatewayQuery) Fits(c *GatewayCall) bool {
	older := q.Before == "" || c.BeganAt < q.Began || c.BeganAt == q.Began && c.ID < q.Before
	return older && (q.Key == "" || q.Key == c.KeyID) && (q.Client == "" || q.Client == c.Client) && (q.Outcome == "" || q.Outcome == c.Outcome)
}

// ReserveClient sets aside what a client's request may cost beyond what its call has reserved
// (less, where that is negative), in the transaction that lets it out. A cap of the key's, or the
// day's, that might be exceeded, or of which nobody could tell, is a *failure.Failure.
func ReserveClient(tx Tx, k ClientKey, limit llm.Money, use ClientUse, a Attempt, facts llm.ModelFacts, needs llm.Needs) error {
	b := bill{facts, needs}
	most, bounded := facts.Most(needs)
	since := a.OpenedAt - Time(day.Milliseconds())
	for _, c := range []spendCap{
		{k.SpendTotal, "key_limit", "The key " + k.Label, Spending{Key: k.ID}},
		{k.SpendDay, "key_day_limit", "The day of the key " + k.Label, Spending{Key: k.ID, Since: since}},
		{limit, "day_limit", "The day", Spending{Since: since}},
	} {
		if err := c.check(tx, a, b, most, bounded, use.Spend.Reserved); err != nil {
			return err
		}
	}
	return tx.AddClientUse(use)
}
