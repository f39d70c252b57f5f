package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// document is a column that holds the JSON of *v; NULL is its zero.
type document[T any] struct{ v *T }

func asJSON[T any](v *T) document[T] { return document[T]{v} }

// Value implements driver.Valuer.
func (d document[T]) Value() (driver.Value, error) {
	b, err := json.Marshal(*d.v)
	if err != nil || string(b) == "null" {
		return nil, err
	}
	return string(b), nil
}

// Scan implements sql.Scanner.
func (d document[T]) Scan(src any) error {
	var zero T
	*d.v = zero
	switch src := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(src), d.v)
	case []byte:
		return json.Unmarshal(src, d.v)
	}
	return fmt.Errorf("a JSON column holds a %T", src)
}

// optional is a column that holds a text, NULL where it is empty.
type optional[T ~string] struct{ v *T }

func orNull[T ~string](v *T) optional[T] { return optional[T]{v} }

// Value implements driver.Valuer.
func (o optional[T]) Value() (driver.Value, error) {
	if *o.v == "" {
		return nil, nil
	}
	return string(*o.v), nil
}

// Scan implements sql.Scanner.
func (o optional[T]) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		*o.v = ""
	case string:
		*o.v = T(src)
	case []byte:
		*o.v = T(src)
	default:
		return fmt.Errorf("a column of text holds a %T", src)
	}
	return nil
}

// word is a column that holds one of a closed set of words.
type word[T ~string] struct {
	v     *T
	known []T
}

// Value implements driver.Valuer.
func (w word[T]) Value() (driver.Value, error) { return string(*w.v), w.check() }

// Scan implements sql.Scanner.
func (w word[T]) Scan(src any) error {
	switch src := src.(type) {
	case string:
		*w.v = T(src)
	case []byte:
		*w.v = T(src)
	default:
		return fmt.Errorf("a column of words holds a %T", src)
	}
	return w.check()
}

func (w word[T]) check() error {
	if !slices.Contains(w.known, *w.v) {
		return fmt.Errorf("%q is not a %T that this program knows", string(*w.v), *w.v)
	}
	return nil
}

var (
	roles     = []session.Role{session.RoleOperator, session.RoleReply, session.RoleTool, session.RoleNotice}
	runStates = []session.RunState{session.Queued, session.Running, session.Succeeded,
		session.Failed, session.Cancelled}
	triggers       = []session.Trigger{session.TriggerMessage, session.TriggerRegenerate, session.TriggerResume, session.TriggerRetry}
	scheduleStates = []session.ScheduleState{session.ScheduleArmed, session.ScheduleScheduled, session.ScheduleHeld,
		session.ScheduleCancelled, session.ScheduleExhausted, session.ScheduleNever}
	gatewayOutcomes = []session.GatewayOutcome{session.GatewayOpen, session.GatewayWhole, session.GatewayInterrupted, session.GatewayFailed,
		session.GatewayRefused, session.GatewayCancelled, session.GatewayLost}
	costKinds  = []llm.CostKind{llm.CostKnown, llm.CostEstimated, llm.CostUnknown}
	callStates = []session.CallState{session.CallAsked, session.CallApproved, session.CallDenied, session.CallRefused, session.CallStarted,
		session.CallEnded, session.CallCancelled, session.CallUnknown, session.CallAgain}
)

// atMost is the argument of a LIMIT; 0 is none.
func atMost(n int) int64 {
	if n <= 0 {
		return math.MaxInt64
	}
	return int64(n)
}
