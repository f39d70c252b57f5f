package accounts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// Prefix is what every client key begins with.
const Prefix = "rpk_"

// fresh is how long what was read of the keys counts. What changes through this process counts at
// once.
const fresh = time.Second

// directory is what was read of the keys. It is replaced, never changed.
type directory struct {
	at   time.Time
	keys map[string]session.ClientKey // those that hold, by hash
	live session.Live
}

// hash is what is kept of a key. It is random and long, so that a plain hash protects it.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Admit returns the key that a secret is; false: it is none, or was revoked. Keys are found by
// hash, so the time tells nothing of them.
func (a *Accounts) Admit(ctx context.Context, secret string) (session.ClientKey, bool) {
	k, ok := a.directory(ctx).keys[hash(secret)]
	return k, ok
}

// Policy is how calls are repeated now.
func (a *Accounts) Policy() recovery.Policy { return a.directory(context.Background()).live.Policy }

// directory reads the keys anew where what was read is old. Where they cannot be read, what was
// read before counts.
func (a *Accounts) directory(ctx context.Context) *directory {
	d := a.known.Load()
	if time.Since(d.at) < fresh {
		return d
	}
	a.reading.Lock()
	defer a.reading.Unlock()
	if d = a.known.Load(); time.Since(d.at) < fresh {
		return d
	}
	if err := a.read(context.WithoutCancel(ctx)); err != nil {
		a.log.Error("read the client keys", "error", err)
	}
	return a.known.Load()
}

func (a *Accounts) read(ctx context.Context) error {
	d := &directory{at: time.Now()}
	err := a.store.View(ctx, func(tx session.ReadTx) error {
		keys, err := tx.ClientKeys()
		if err != nil {
			return err
		}
		d.keys = map[string]session.ClientKey{}
		for _, k := range keys {
			if k.RevokedAt == 0 {
				d.keys[k.Hash] = k
			}
		}
		set, err := session.Overrides(tx)
		if a.o.Live != nil {
			d.live = a.o.Live(set)
		}
		return err
	})
	if err == nil {
		a.known.Store(d)
	}
	return err
}

// Keys lists the client keys, also those that were revoked, the newest first, with what was asked
// with each.
func (a *Accounts) Keys(ctx context.Context) (keys []session.ClientKey, err error) {
	if err := a.Flush(ctx); err != nil {
		return nil, err
	}
	err = a.store.View(ctx, func(tx session.ReadTx) error {
		if keys, err = tx.ClientKeys(); err != nil {
			return err
		}
		total, err := tx.ClientUsage(0)
		if err != nil {
			return err
		}
		day, err := tx.ClientUsage(session.At(time.Now().Add(-24 * time.Hour)))
		for i := range keys {
			d, t := day[keys[i].ID], total[keys[i].ID]
			keys[i].Day, keys[i].Total = &d, &t
		}
		return err
	})
	return keys, err
}

// CreateKey makes a key and returns it, this once.
func (a *Accounts) CreateKey(ctx context.Context, actor, label string, terms session.ClientTerms) (k session.ClientKey, secret string, err error) {
	now := time.Now()
	secret = Prefix + rand.Text() + rand.Text()
	k = session.ClientKey{ID: session.NewID[session.ClientKeyID]("key_", now), Label: strings.TrimSpace(label), ClientTerms: terms,
		CreatedAt: session.At(now), CreatedBy: actor, Hash: hash(secret)}
	if k.Label == "" || len(k.Label) > 64 || strings.ContainsFunc(k.Label, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return k, "", invalid("label", "want 1 to 64 letters in one line")
	}
	if err := a.check(&k.ClientTerms); err != nil {
		return k, "", err
	}
	err = a.change(ctx, actor, "create client key", k, func(tx session.Tx) error { return tx.InsertClientKey(k) })
	if errors.Is(err, session.ErrLost) {
		err = &session.Refusal{Code: session.CodeConflict, Message: fmt.Sprintf("There is a key %q already: name another, or revoke that first.", k.Label)}
	}
	return k, secret, err
}

// ChangeKey changes a key's terms. What goes on is not ended.
func (a *Accounts) ChangeKey(ctx context.Context, actor string, id session.ClientKeyID, p session.ClientTermsPatch) (k session.ClientKey, err error) {
	err = a.change(ctx, actor, "change client key", session.ClientKey{ID: id}, func(tx session.Tx) error {
		if k, err = tx.ClientKey(id); err != nil {
			return err
		}
		p.Change(&k.ClientTerms)
		if err := a.check(&k.ClientTerms); err != nil {
			return err
		}
		return tx.PutClientKey(k)
	})
	if errors.Is(err, session.ErrLost) {
		err = &session.Refusal{Code: session.CodeConflict, Message: "The key was revoked: create another."}
	}
	return k, err
}

// RevokeKey ends a key. Calls that go on are not ended. Revoking twice is fine.
func (a *Accounts) RevokeKey(ctx context.Context, actor string, id session.ClientKeyID) (k session.ClientKey, err error) {
	err = a.change(ctx, actor, "revoke client key", session.ClientKey{ID: id}, func(tx session.Tx) error {
		if k, err = tx.ClientKey(id); err != nil || k.RevokedAt != 0 {
			return err
		}
		k.RevokedAt, k.RevokedBy = session.At(time.Now()), actor
		return tx.PutClientKey(k)
	})
	return k, err
}

// change stores a change and who made it, and lets it count at once.
func (a *Accounts) change(ctx context.Context, actor, act string, k session.ClientKey, f func(tx session.Tx) error) error {
	err := a.store.Update(ctx, session.Full, func(tx session.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		now, err := tx.ClientKey(k.ID)
		if err != nil {
			return err
		}
		return tx.InsertAudit(session.Audit{At: session.At(time.Now()), Actor: actor, Act: act, Detail: string(now.ID) + " " + now.Label})
	})
	if err != nil {
		return err
	}
	a.reading.Lock()
	defer a.reading.Unlock()
	return a.read(context.WithoutCancel(ctx))
}

// check finds what is wrong with terms.
func (a *Accounts) check(t *session.ClientTerms) error {
	if slices.ContainsFunc(t.Models, func(m string) bool { return strings.TrimSpace(m) == "" }) {
		return invalid("models", "want names of models or chains, or patterns with *")
	}
	if min(t.SpendDay, t.SpendTotal, llm.Money(t.Rate), llm.Money(t.MaxAttempts)) < 0 {
		return invalid("spend_day, spend_total, rate, max_attempts", "want 0 or more")
	}
	if _, err := replay.ParseHold(t.Hold); err != nil {
		return invalid("hold", err.Error())
	}
	if t.Chain != "" && a.o.Chains != nil && !a.o.Chains(t.Chain) {
		return invalid("chain", fmt.Sprintf("there is no chain %q", t.Chain))
	}
	return nil
}

func invalid(field, message string) error {
	return &session.Refusal{Code: session.CodeValidation, Message: field + ": " + message}
}
