package eventlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-run/reprise/session"
)

// JetStream's refusals of a stream.
const (
	codeNoPeers      = 10005
	codeNoMemory     = 10028
	codeNoStorage    = 10047
	codeNameTaken    = 10058
	codeOverlap      = 10065
	codeNotClustered = 10074
)

// ensure makes a stream, or takes the one of that name, which it changes where that loses nothing. Replicas 0 is left to what is there.
func (s *Shared) ensure(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	for {
		old, err := s.js.Stream(ctx, want.Name)
		if err == nil {
			return s.adopt(ctx, old.CachedInfo(), want)
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, err
		}
		made, err := s.create(ctx, want)
		if isCode(err, codeNameTaken) {
			continue // another node was faster
		}
		return made, err
	}
}

// create makes a stream. Without a number of replicas it gets three where there are servers for them.
func (s *Shared) create(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	replicas := want.Replicas
	if replicas == 0 {
		want.Replicas = 3
	}
	made, err := s.js.CreateStream(ctx, want)
	// Of a server that is known and not there it is said so: then this is a cluster of three.
	if replicas == 0 && (isCode(err, codeNotClustered) || isCode(err, codeNoPeers) && !strings.Contains(err.Error(), "offline")) {
		want.Replicas = 1
		made, err = s.js.CreateStream(ctx, want)
	}
	if err != nil {
		return nil, s.refused(ctx, want, err)
	}
	s.o.Logger.Info("event log: the stream was made", "stream", want.Name, "replicas", made.CachedInfo().Config.Replicas)
	return made, nil
}

// refused says what to do about a refusal of the cluster.
func (s *Shared) refused(ctx context.Context, want jetstream.StreamConfig, err error) error {
	switch {
	case isCode(err, codeNoPeers) && strings.Contains(err.Error(), "offline"):
		return fmt.Errorf("%w: servers are missing for %d replicas of stream %s (replicas): %v", session.ErrUnavailable, want.Replicas, want.Name, err)
	case isCode(err, codeNotClustered, codeNoPeers):
		return fmt.Errorf("the cluster has no place for %d replicas of stream %s (replicas): %w", want.Replicas, want.Name, err)
	case isCode(err, codeNoMemory, codeNoStorage):
		return fmt.Errorf("the cluster has no room for stream %s of %d bytes (max_bytes): %w", want.Name, want.MaxBytes, err)
	case isCode(err, codeOverlap):
		for _, subject := range want.Subjects {
			if name, err := s.js.StreamNameBySubject(ctx, subject); err == nil && name != want.Name {
				return fmt.Errorf("stream %s has subjects of %s, which ours would be: name another stream", name, subject)
			}
		}
	}
	return err
}

// adopt takes a stream that is there, changed to what is wanted.
func (s *Shared) adopt(ctx context.Context, info *jetstream.StreamInfo, want jetstream.StreamConfig) (jetstream.Stream, error) {
	have := info.Config
	if err := foreign(have, want); err != nil {
		return nil, fmt.Errorf("stream %s is not ours: %w; name another stream", want.Name, err)
	}
	if err := loses(info, want); err != nil {
		return nil, fmt.Errorf("stream %s has records that it would lose: %w", want.Name, err)
	}
	next := have
	next.MaxBytes, next.MaxAge, next.Duplicates, next.AllowDirect = want.MaxBytes, want.MaxAge, want.Duplicates, want.AllowDirect
	if want.Replicas > 0 {
		next.Replicas = want.Replicas
	}
	next.Metadata = maps.Clone(have.Metadata)
	if next.Metadata == nil {
		next.Metadata = map[string]string{}
	}
	maps.Copy(next.Metadata, want.Metadata)
	if next.MaxBytes == have.MaxBytes && next.MaxAge == have.MaxAge && next.Duplicates == have.Duplicates && next.AllowDirect == have.AllowDirect &&
		next.Replicas == have.Replicas && len(next.Metadata) == len(have.Metadata) {
		return s.js.Stream(ctx, want.Name)
	}
	changed, err := s.js.UpdateStream(ctx, next)
	if err != nil {
		return nil, s.refused(ctx, next, err)
	}
	s.o.Logger.Info("event log: the stream was changed", "stream", want.Name, "replicas", next.Replicas, "max_bytes", next.MaxBytes, "max_age", next.MaxAge)
	return changed, nil
}

// foreign says why a stream cannot be the wanted one.
func foreign(have, want jetstream.StreamConfig) error {
	subjects := slices.Sorted(slices.Values(have.Subjects))
	switch {
	case !slices.Equal(subjects, slices.Sorted(slices.Values(want.Subjects))):
		return fmt.Errorf("its subjects are %q, and ours are %q", have.Subjects, want.Subjects)
	case have.Mirror != nil || len(have.Sources) > 0 || have.RePublish != nil || have.SubjectTransform != nil:
		return errors.New("it is made of, or feeds, another stream")
	case have.Storage != jetstream.FileStorage:
		return errors.New("it is kept in memory")
	case have.Retention != want.Retention || have.Discard != want.Discard:
		return fmt.Errorf("it keeps what the policies %v and %v say, and ours %v and %v", have.Retention, have.Discard, want.Retention, want.Discard)
	case have.Sealed || have.DenyDelete || have.DenyPurge || have.NoAck:
		return errors.New("it is sealed, denies deletion, or acknowledges nothing")
	case want.Metadata[ownerKey] != "" && have.Metadata[ownerKey] != "" && have.Metadata[ownerKey] != want.Metadata[ownerKey]:
		return errors.New("it has the events of another database")
	case have.MaxMsgs > 0 || have.MaxMsgsPerSubject > 0 && have.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		return errors.New("it bounds the number of messages")
	}
	return nil
}

// loses says what a stream would drop under the wanted bounds.
func loses(info *jetstream.StreamInfo, want jetstream.StreamConfig) error {
	have := info.Config
	less := func(want, have int64) bool { return have <= 0 || want < have }
	if less(want.MaxBytes, have.MaxBytes) && info.State.Bytes > uint64(want.MaxBytes) {
		return fmt.Errorf("it holds %d bytes, more than max_bytes: %d", info.State.Bytes, want.MaxBytes)
	}
	if oldest := time.Since(info.State.FirstTime); info.State.Msgs > 0 && less(int64(want.MaxAge), int64(have.MaxAge)) && oldest > want.MaxAge {
		return fmt.Errorf("the oldest is %s old, more than max_age: %s", oldest.Round(time.Second), want.MaxAge)
	}
	return nil
}
