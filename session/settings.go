package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-run/reprise/recovery"
)

// Live is what may be changed while a server works.
type Live struct {
	Policy     recovery.Policy
	Unattended bool // a due retry starts although nobody watches
	Ask        bool // none starts: each waits for the operator's click
	Spend      Limits
}

// asks reports whether no retry starts by itself.
func (l Live) asks() bool { return l.Ask || !l.Policy.HandOver }

// settingsKey is where the store keeps what was changed.
const settingsKey = "settings"

// live is what holds now. It is read in the transaction that acts on it, so that a change
// counts at once, on every server of the store.
func (m *Manager) live(tx ReadTx) (Live, error) {
	if m.cfg.Override == nil {
		return Live{Policy: m.cfg.Policy, Unattended: m.cfg.Unattended, Ask: m.cfg.Ask, Spend: m.cfg.Spend}, nil
	}
	set, err := Overrides(tx)
	if err != nil {
		return Live{}, err
	}
	return m.cfg.Override(set), nil
}

// Overrides reads the settings that were changed while a server worked, by their key in the
// configuration.
func Overrides(tx ReadTx) (map[string]string, error) {
	set := map[string]string{}
	text, err := tx.Meta(settingsKey)
	if errors.Is(err, ErrNotFound) {
		return set, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &set)
	}
	if err != nil {
		return nil, fmt.Errorf("read the changed settings: %w", err)
	}
	return set, nil
}

// Overrides reads the settings that were changed.
func (m *Manager) Overrides(ctx context.Context) (set map[string]string, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		set, err = Overrides(tx)
		return err
	})
	return set, err
}

// Override changes settings, and takes back the changes of those in reset. check is given all
// that would be changed then; its error changes nothing and is returned.
func (m *Manager) Override(ctx context.Context, actor string, change map[string]string, reset []string, check func(map[string]string) error) (set map[string]string, err error) {
	err = m.update(ctx, Full, func(tx Tx) error {
		if set, err = Overrides(tx); err != nil {
			return err
		}
		var done []string
		for _, key := range slices.Sorted(slices.Values(reset)) {
			if _, there := set[key]; there {
				delete(set, key)
				done = append(done, "reset "+key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(change)) {
			set[key] = change[key]
			done = append(done, key+"="+change[key])
		}
		if err := check(set); err != nil {
			return err
		}
		text, err := json.Marshal(set)
		if err != nil {
			return fmt.Errorf("write the changed settings: %w", err)
		}
		if err := tx.PutMeta(settingsKey, string(text)); err != nil || len(done) == 0 {
			return err
		}
		return audit(tx, actor, "change settings", "", "", strings.Join(done, ", "))
	})
	kick(m.clock)
	return set, err
}
