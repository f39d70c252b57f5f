package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/reprise-run/reprise/eventlog"
	"github.com/reprise-run/reprise/session"
)

// NATS is how the cluster is used that events names.
type NATS struct {
	Credentials string   `yaml:"credentials"` // files
	NKey        string   `yaml:"nkey"`
	CA          string   `yaml:"ca"`
	Certificate string   `yaml:"certificate"`
	Key         string   `yaml:"key"`
	Stream      string   `yaml:"stream"`
	Replicas    int      `yaml:"replicas"`
	MaxBytes    int64    `yaml:"max_bytes"`
	MaxAge      Duration `yaml:"max_age"`
}

// Bounds of the log on a cluster. A run must find its last record, however long it waited for a person.
const (
	minLogBytes = 64 << 20
	minLogAge   = time.Hour
)

// checkEvents finds what is wrong with the event log's settings. It shows nothing of a URL that could be a secret.
func (c *Config) checkEvents(bad func(key, format string, args ...any)) {
	if c.Events == "" {
		if c.NATS != Defaults().NATS {
			bad("nats", "has no effect without events, which names the cluster")
		}
		return
	}
	if checkReference(c.Events) != nil {
		for server := range strings.SplitSeq(c.Events, ",") {
			u, err := url.Parse(strings.TrimSpace(server))
			if err != nil || u.Host == "" {
				bad("events", "want nats://host:4222, several with commas, or env:NAME or file:PATH where it is a secret")
				break
			}
			if u.User != nil {
				bad("events", "a password or token is named, not written down: use env:NAME or file:PATH, which hold the URL, or nats.credentials")
				break
			}
		}
	}
	n := c.NATS
	if r := n.Replicas; r != 0 && r != 1 && r != 3 && r != 5 {
		bad("nats.replicas", "want 1, 3 or 5; 0 is what the cluster has room for")
	}
	if n.MaxBytes < minLogBytes {
		bad("nats.max_bytes", "want %d or more", minLogBytes)
	}
	if time.Duration(n.MaxAge) < minLogAge {
		bad("nats.max_age", "want %s or more: a run that waits goes on behind its last record", Duration(minLogAge))
	}
	if (n.Certificate == "") != (n.Key == "") {
		bad("nats.certificate", "want nats.certificate and nats.key, or neither")
	}
	if n.Credentials != "" && n.NKey != "" {
		bad("nats.nkey", "want nats.credentials or nats.nkey, not both")
	}
}

// openEvents opens the event log: in the data folder, or on the cluster that is named, for the events of a store.
func (c *Config) openEvents(ctx context.Context, store session.Store, log *slog.Logger) (session.Log, error) {
	if c.Events == "" {
		return eventlog.Open(ctx, eventlog.Options{Dir: filepath.Join(c.Data, "events"), Logger: log})
	}
	servers := c.Events
	if checkReference(servers) == nil {
		var err error
		if servers, err = c.env.secret(servers); err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
	}
	owner, err := ownerOf(ctx, store)
	if err != nil {
		return nil, err
	}
	n := c.NATS
	return eventlog.Connect(ctx, eventlog.Cluster{
		Servers: servers, Owner: owner, Credentials: n.Credentials, NKey: n.NKey, CA: n.CA, Certificate: n.Certificate, Key: n.Key,
		Stream: n.Stream, Replicas: n.Replicas,
	}, eventlog.Options{MaxBytes: n.MaxBytes, MaxAge: time.Duration(n.MaxAge), Logger: log})
}

// ownerOf is the id by which a shared event log knows a store, which makes one at the first use.
func ownerOf(ctx context.Context, store session.Store) (id string, err error) {
	const key = "events_owner"
	err = store.Update(ctx, session.Full, func(tx session.Tx) error {
		if id, err = tx.Meta(key); !errors.Is(err, session.ErrNotFound) {
			return err
		}
		id = strings.ToLower(rand.Text())
		return tx.PutMeta(key, id)
	})
	if err != nil {
		return "", fmt.Errorf("read the event log's owner: %w", err)
	}
	return id, nil
}
