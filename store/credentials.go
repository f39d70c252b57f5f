package store

import (
	"strings"

	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

const coolOffColumns = `key_hash, model, provider, label, reason, until, stated, failures, probed, generation`

// coolOff is a row; its times are milliseconds.
type coolOff struct {
	recovery.CoolOff
	reason        string
	until, probed session.Time
}

func coolOffFields(c *coolOff) []any {
	return []any{&c.Lane.Key, &c.Lane.Model, &c.Provider, &c.Key, &c.reason, &c.until, &c.Stated, &c.Failures, &c.probed, &c.Generation}
}

func (r *reader) CoolOffs() ([]recovery.CoolOff, error) {
	rows, err := list(r, coolOffFields, `SELECT `+coolOffColumns+` FROM credential_state ORDER BY until, key_hash, model`)
	if err != nil {
		return nil, err
	}
	offs := make([]recovery.CoolOff, len(rows))
	for i, c := range rows {
		if err := c.Reason.UnmarshalText([]byte(c.reason)); err != nil {
			return nil, err
		}
		c.Until, c.Probed = c.until.Std(), c.probed.Std()
		c.Model = strings.TrimPrefix(c.Lane.Model, c.Provider+"/")
		offs[i] = c.CoolOff
	}
	return offs, nil
}

// generation is the next one of all lanes.
func (t *tx) generation() (int64, error) {
	return t.returning(`UPDATE counters SET value = value + 1 WHERE name = 'credential_state' RETURNING value`)
}

func (t *tx) PutCoolOff(c recovery.CoolOff) error {
	row := coolOff{CoolOff: c, reason: c.Reason.String(), until: session.At(c.Until)}
	var err error
	if row.Generation, err = t.generation(); err != nil {
		return err
	}
	return t.change(`INSERT INTO credential_state (`+coolOffColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (key_hash, model) DO UPDATE SET provider = excluded.provider, label = excluded.label,
reason = excluded.reason, failures = excluded.failures, probed = 0, generation = excluded.generation,
stated = CASE WHEN excluded.until > credential_state.until THEN excluded.stated ELSE credential_state.stated END,
until = CASE WHEN excluded.until > credential_state.until THEN excluded.until ELSE credential_state.until END`,
		coolOffFields(&row)...)
}

func (t *tx) ProbeCoolOff(c recovery.CoolOff, until session.Time) (int64, error) {
	next, err := t.generation()
	if err != nil {
		return 0, err
	}
	return next, t.change(`UPDATE credential_state SET probed = $4, generation = $5
WHERE key_hash = $1 AND model = $2 AND generation = $3`, c.Lane.Key, c.Lane.Model, c.Generation, until, next)
}

func (t *tx) DeleteCoolOff(c recovery.Candidate) error {
	model := c.Model
	if model != "" {
		model = c.Provider + "/" + model
	}
	return t.change(`DELETE FROM credential_state WHERE provider = $1 AND model = $2 AND label = $3`, c.Provider, model, c.Key)
}

func (t *tx) SettleCoolOff(c recovery.CoolOff, answered bool) error {
	if answered {
		return t.change(`DELETE FROM credential_state WHERE key_hash = $1 AND model = $2 AND generation = $3`,
			c.Lane.Key, c.Lane.Model, c.Generation)
	}
	_, err := t.ProbeCoolOff(c, 0)
	return err
}
