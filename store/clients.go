package store

import (
	"fmt"
	"strings"

	"github.com/reprise-run/reprise/session"
)

// hour is how long what was asked is added up, in milliseconds.
const hour session.Time = 3_600_000

// pruned is how many calls one transaction deletes at most.
const pruned = 1000

const clientKeyColumns = `id, label, hash, terms, created_at, created_by, revoked_at, revoked_by`

func clientKeyFields(k *session.ClientKey) []any {
	return []any{&k.ID, &k.Label, &k.Hash, asJSON(&k.ClientTerms), &k.CreatedAt, &k.CreatedBy, &k.RevokedAt, &k.RevokedBy}
}

func (r *reader) ClientKeys() ([]session.ClientKey, error) {
	return list(r, clientKeyFields, `SELECT `+clientKeyColumns+` FROM client_keys ORDER BY created_at DESC, id DESC`)
}

func (r *reader) ClientKey(id session.ClientKeyID) (session.ClientKey, error) {
	return one(r, clientKeyFields, `SELECT `+clientKeyColumns+` FROM client_keys WHERE id = $1`, id)
}

func (t *tx) InsertClientKey(k session.ClientKey) error {
	return t.change(`INSERT INTO client_keys (`+clientKeyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING`, clientKeyFields(&k)...)
}

func (t *tx) PutClientKey(k session.ClientKey) error {
	return t.change(`UPDATE client_keys SET terms = $2, revoked_at = $3, revoked_by = $4 WHERE id = $1 AND revoked_at = 0`,
		k.ID, asJSON(&k.ClientTerms), k.RevokedAt, k.RevokedBy)
}

const clientUseColumns = `calls, refused, requests, input, output, cache_read, cache_write, amount, reserved, lost, inexact, unpriced`

func clientUseFields(u *session.ClientUse) []any {
	return []any{&u.Calls, &u.Refused, &u.Requests, &u.Input, &u.Output, &u.CacheRead, &u.CacheWrite,
		&u.Spend.Amount, &u.Spend.Reserved, &u.Lost, &u.Inexact, &u.Unpriced}
}

// sums are clientUseColumns, each written as its format says.
func sums(format string) string {
	columns := strings.Split(clientUseColumns, ", ")
	for i, c := range columns {
		columns[i] = strings.ReplaceAll(format, "$", c)
	}
	return strings.Join(columns, ", ")
}

var (
	sumOfUse = sums("CAST(COALESCE(SUM($), 0) AS BIGINT)")
	addUse   = ` ON CONFLICT (key_id, hour) DO UPDATE SET ` + sums("$ = client_usage.$ + excluded.$")
)

func (r *reader) ClientUsage(since session.Time) (map[session.ClientKeyID]session.ClientUsage, error) {
	rows, err := list(r, func(u *session.ClientUse) []any { return append(clientUseFields(u), &u.Key) },
		`SELECT `+sumOfUse+`, key_id FROM client_usage WHERE hour > $1 GROUP BY key_id`, since-hour)
	all := make(map[session.ClientKeyID]session.ClientUsage, len(rows))
	for _, u := range rows {
		u.Spend.AtLeast, u.Spend.Unpriced = u.Inexact > 0, u.Unpriced > 0
		all[u.Key] = u.ClientUsage
	}
	return all, err
}

// spentByClients adds up what calls of the gateway cost.
func (r *reader) spentByClients(where string, args ...any) (session.Spend, error) {
	t, err := one(r, totalFields, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT), CAST(COALESCE(SUM(inexact), 0) AS BIGINT),
CAST(COALESCE(SUM(unpriced), 0) AS BIGINT), CAST(COALESCE(SUM(reserved), 0) AS BIGINT) FROM client_usage WHERE `+where, args...)
	return t.sum(), err
}

func (t *tx) AddClientUse(u session.ClientUse) error {
	return t.change(`INSERT INTO client_usage (`+clientUseColumns+`, key_id, hour)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`+addUse, append(clientUseFields(&u), u.Key, u.Hour)...)
}

// gatewayCallFields are a call's; the columns are its own where the record says otherwise.
func gatewayCallFields(c *session.GatewayCall) []any {
	return []any{asJSON(c), word[session.GatewayOutcome]{&c.Outcome, gatewayOutcomes}}
}

func (r *reader) GatewayCalls(q session.GatewayQuery) ([]session.GatewayCall, error) {
	where := []string{"began_at >= 0"}
	var args []any
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, strings.ReplaceAll(condition, "$", fmt.Sprintf("$%d", len(args))))
	}
	if q.Key != "" {
		add("key_id = $", q.Key)
	}
	if q.Client != "" {
		add("client = $", q.Client)
	}
	if q.Outcome != "" {
		add("outcome = $", q.Outcome)
	}
	if q.Before != "" {
		add("began_at <= $", q.Began)
		args = append(args, q.Before)
		where = append(where, fmt.Sprintf("(began_at < $%d OR id < $%d)", len(args)-1, len(args)))
	}
	args = append(args, atMost(q.Limit))
	return list(r, gatewayCallFields, `SELECT record, outcome FROM gateway_calls WHERE `+strings.Join(where, " AND ")+
		fmt.Sprintf(` ORDER BY began_at DESC, id DESC LIMIT $%d`, len(args)), args...)
}

func (r *reader) GatewayCall(id string) (session.GatewayCall, error) {
	type whole struct {
		session.GatewayCall
		attempts []session.Attempt
	}
	c, err := one(r, func(w *whole) []any { return append(gatewayCallFields(&w.GatewayCall), asJSON(&w.attempts)) },
		`SELECT record, outcome, attempts FROM gateway_calls WHERE id = $1`, id)
	c.Attempts = c.attempts
	return c.GatewayCall, err
}

func (t *tx) PutGatewayCall(c session.GatewayCall) error {
	attempts := c.Attempts
	c.Attempts = nil
	return t.change(`INSERT INTO gateway_calls (record, outcome, attempts, id, key_id, client, began_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET record = excluded.record, outcome = excluded.outcome, attempts = excluded.attempts`,
		append(gatewayCallFields(&c), asJSON(&attempts), c.ID, c.KeyID, c.Client, c.BeganAt)...)
}

func (t *tx) LoseGatewayCalls() error {
	_, err := t.exec(`UPDATE gateway_calls SET outcome = 'lost' WHERE outcome = 'open'`)
	return err
}

func (t *tx) PruneGateway(before session.Time, keep int) (bool, error) {
	if _, err := t.exec(`INSERT INTO client_usage (`+clientUseColumns+`, key_id, hour)
SELECT `+sumOfUse+`, key_id, 0 FROM client_usage WHERE hour > 0 AND hour < $1 GROUP BY key_id`+addUse, before-hour); err != nil {
		return false, err
	}
	if _, err := t.exec(`DELETE FROM client_usage WHERE hour > 0 AND hour < $1`, before-hour); err != nil {
		return false, err
	}
	n, err := t.exec(`DELETE FROM gateway_calls WHERE id IN (SELECT id FROM gateway_calls
WHERE began_at < $1 OR began_at < COALESCE((SELECT began_at FROM gateway_calls ORDER BY began_at DESC, id DESC LIMIT 1 OFFSET $2), 0)
ORDER BY began_at, id LIMIT $3)`, before, atMost(keep)-1, pruned)
	return n == pruned, err
}
