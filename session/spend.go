package session

import (
	"fmt"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
)

// day is the rolling window of the cap that all sessions, and the gateway, share.
const day = 24 * time.Hour

// Limits caps cost; 0: no cap.
type Limits struct {
	Session llm.Money // each session with its subagents, over its whole life
	Day     llm.Money // all sessions, over the last 24 hours
}

// Spend adds up what attempts cost, in billionths of a US dollar.
type Spend struct {
	Amount llm.Money `json:"amount"`
	// AtLeast: of some attempt no usage was reported, or no price is known, so that it was more.
	AtLeast bool `json:"at_least"`
	// Unpriced: of some attempt no price is known.
	Unpriced bool `json:"unpriced,omitempty"`
	// Reserved is what attempts may cost beyond the amount that have not ended, or whose end
	// nobody saw. It counts against the caps.
	Reserved llm.Money `json:"reserved,omitempty"`
}

func (s Spend) plus(o Spend) Spend {
	return Spend{
		Amount:   s.Amount + o.Amount,
		AtLeast:  s.AtLeast || o.AtLeast,
		Unpriced: s.Unpriced || o.Unpriced,
		Reserved: s.Reserved + o.Reserved,
	}
}

// Spending says whose attempts add up; what is zero does not narrow it. A Session stands for those
// of the tree below it too, where it is the first one. Run and Step belong to a Session. Without
// one the gateway's calls count too, by the full hour; with a Key those made with it alone.
type Spending struct {
	Key     ClientKeyID
	Session ID
	Run     RunID
	Step    int // of the run, from 1; 0: all of them
	Since   Time
}

// SpendInfo is what all sessions and the gateway cost in the last 24 hours, and the caps.
type SpendInfo struct {
	Day Spend `json:"day"`
	// DayLimit and SessionLimit are what holds now, absent where there is none; a session
	// may have a limit of its own.
	DayLimit     llm.Money `json:"day_limit,omitempty"`
	SessionLimit llm.Money `json:"session_limit,omitempty"`
}

func (m *Manager) spendInfo(tx ReadTx, now time.Time) (SpendInfo, error) {
	live, err := m.live(tx)
	if err != nil {
		return SpendInfo{}, err
	}
	d, err := tx.Spent(Spending{Since: At(now.Add(-day))})
	return SpendInfo{Day: d, DayLimit: live.Spend.Day, SessionLimit: live.Spend.Session}, err
}

// bill is what decides the cost of an open attempt: the model's price at the time that it was
// opened, and what its request asks for.
type bill struct {
	facts llm.ModelFacts
	needs llm.Needs
}

// spendCap is a limit on what somebody's attempts cost.
type spendCap struct {
	limit llm.Money // 0: none
	code  string
	of    string
	who   Spending
}

// capsOf lists the limits that hold for the run: that of its tree, where it is a subagent's its
// own, and that of the day.
func (x *execution) capsOf(tx ReadTx, set Settings, limits Limits) ([]spendCap, error) {
	tree := Spending{Session: x.run.SessionID}
	var caps []spendCap
	if x.parent != nil {
		own := spendCap{code: "subagent_limit", of: "The subagent", who: tree}
		if set.SpendLimit != nil {
			own.limit = *set.SpendLimit
		}
		caps, tree.Session = append(caps, own), x.parent.Root
		var err error
		if set, _, err = tx.Settings(x.parent.Root); err != nil {
			return nil, err
		}
	}
	if set.SpendLimit != nil {
		limits.Session = *set.SpendLimit
	}
	return append(caps, spendCap{limits.Session, "session_limit", "The session", tree},
		spendCap{limits.Day, "day_limit", "The day", Spending{}}), nil
}

// reserve sets aside what an attempt may cost at most, in the transaction that opens it. A
// cap that might be exceeded, or of which nobody could tell, is a *failure.Failure.
func (x *execution) reserve(tx Tx, a Attempt, b bill) error {
	most, bounded := b.facts.Most(b.needs)
	for _, c := range x.caps {
		if c.who.Session == "" {
			c.who.Since = a.OpenedAt - Time(day.Milliseconds())
		}
		if err := c.check(tx, a, b, most, bounded, most); err != nil {
			return err
		}
	}
	sent := b.facts.Cost(nil, false, b.needs, 0)
	a.Cost, a.Price = &sent, b.facts.Price
	return tx.Reserve(a, max(most-sent.Amount, 0))
}

// check refuses a request that may cost so much, and for which more is to be set aside, where that
// is more than the cap leaves.
func (c spendCap) check(tx ReadTx, a Attempt, b bill, most llm.Money, bounded bool, more llm.Money) error {
	if c.limit == 0 {
		return nil
	}
	spent, err := tx.Spent(c.who)
	if err != nil {
		return err
	}
	if left := c.limit - spent.Amount - spent.Reserved; !bounded || more > left {
		return failure.NewSpendLimit(c.code, fmt.Sprintf("%s has a limit of %s, of which %s is left. %s",
			c.of, c.limit, max(left, 0), tooMuch(a, b, most, bounded)))
	}
	return nil
}

// tooMuch says why a request is not let out under a cap, and what to do.
func tooMuch(a Attempt, b bill, most llm.Money, bounded bool) string {
	name := a.Provider + "/" + a.Model
	switch {
	case bounded:
		return fmt.Sprintf("The next request may cost up to %s: raise the limit, or bound the answer with max_output_tokens.", most)
	case b.facts.Price == nil:
		return fmt.Sprintf("What %s costs is not known: set models.%s.input and output, 0 where it costs nothing.", name, name)
	}
	return fmt.Sprintf("How long an answer of %s may get is not known: set models.%s.max_output, or bound it with max_output_tokens.", name, name)
}

// CostOf is what a sealed attempt cost. A request that was not processed costs nothing.
func CostOf(facts llm.ModelFacts, needs llm.Needs, s replay.Seal) llm.Cost {
	if s.Delivery != llm.MaybeAccepted {
		return llm.Cost{Kind: llm.CostKnown}
	}
	return facts.Cost(s.Usage, s.OK, needs, s.Received)
}

// spentOn completes a new row by what the attempts of its step cost.
func spentOn(tx ReadTx, m *Message) error {
	if m.Role != RoleReply {
		return nil
	}
	spent, err := tx.Spent(Spending{Session: m.SessionID, Run: m.RunID, Step: m.Step + 1})
	m.Spend = &spent
	return err
}

// spendOf completes rows by what the attempts of their steps cost.
func spendOf(tx ReadTx, id ID, rows []Message) error {
	spent, err := tx.SpentBySteps(id)
	if err != nil {
		return err
	}
	for i := range rows {
		m := &rows[i]
		if s, ok := spent[StepOf{m.RunID, m.Step}]; ok && m.Role == RoleReply {
			m.Spend = &s
		}
	}
	return nil
}

// StepOf names a step of a run.
type StepOf struct {
	Run  RunID
	Step int
}
