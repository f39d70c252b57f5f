package eventlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster says where a cluster is, how to get in, and what is used of it. Only Servers is required.
type Cluster struct {
	// Servers are URLs, separated by commas: nats://host:4222, tls:// and ws:// too. Any of them leads to all of the
	// cluster. One may carry user:password@ or token@; it is never shown.
	Servers string
	// Credentials and NKey are files that prove who we are: a user's JWT with its seed, or a seed alone.
	Credentials, NKey string
	// CA is a file with the authorities that sign the servers' certificates; empty: the system's. Certificate and Key are
	// files with a certificate of ours, where the servers want one.
	CA, Certificate, Key string
	// Stream is the stream's name and the first token of its subjects; whoever has the same shares it. Default reprise.
	Stream string
	// Owner is the database whose events these are, under an id of its own; empty: nobody's. A stream takes those of one alone, since
	// ids and sessions of two would be mixed up.
	Owner string
	// Replicas is how many servers keep each record: 1, 3 or 5. 0: what the stream has; a new one gets 3 where the cluster has
	// as many servers, else 1.
	Replicas int
}

// Times of a connection to a cluster.
const (
	dialTimeout   = 2 * time.Second
	reconnectWait = 200 * time.Millisecond
	pingEvery     = 2 * time.Second // two without an answer: another server is asked
	tryTimeout    = 3 * time.Second // of what is asked at the start
	// sharedPatience bounds how long an append waits for a cluster that is away.
	sharedPatience = 2 * time.Minute
)

// Shared is a log that several processes have in common. It is a session.Log, and a session.Queue.
type Shared struct {
	*journal
	js       jetstream.JetStream
	cluster  Cluster
	o        Options
	replicas int // of the stream; guarded by mu
	health   health
}

// Connect joins the log on a cluster, and makes it where it is not there yet. o.Dir is not used. It waits half a minute at most for
// the cluster, and says what is wrong with it.
func Connect(ctx context.Context, c Cluster, o Options) (*Shared, error) {
	o = o.withDefaults()
	if c.Stream == "" {
		c.Stream = "reprise"
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errSilent)
	defer cancel()
	nc, err := c.dial(ctx, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", c.where(), err)
	}
	s := &Shared{journal: newJournal(nc, namesOf(c.Stream, c.Stream+"."), o), cluster: c, o: o}
	nc.SetReconnectHandler(func(nc *nats.Conn) {
		o.Logger.Info("event log: connected again", "server", nc.ConnectedServerName())
		s.relink()
	})
	s.patience, s.lifecycle = sharedPatience, o.Lifecycle
	s.renew = s.reopen
	err = s.admit()
	if err == nil {
		err = s.await(ctx, s.open)
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("open the event log on NATS at %s: %w", c.where(), err)
	}
	return s, nil
}

// ownerKey is where a stream's metadata have its owner.
const ownerKey = "reprise-owner"

// streamName is what may be a stream's name and a subject's token.
var streamName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c Cluster) check() error {
	if c.Servers == "" {
		return errors.New("no server of the cluster is named")
	}
	for i, server := range strings.Split(c.Servers, ",") {
		// What url.Parse says would show the secrets in it.
		if u, err := url.Parse(strings.TrimSpace(server)); err != nil || u.Host == "" {
			return fmt.Errorf("server %d of the cluster is not a URL: want nats://host:4222", i+1)
		}
	}
	if !streamName.MatchString(c.Stream) {
		return fmt.Errorf("stream %q: want letters, digits, - and _", c.Stream)
	}
	if c.Replicas < 0 || c.Replicas > 5 {
		return fmt.Errorf("%d replicas: want 1 to 5, or 0 for what the cluster has room for", c.Replicas)
	}
	return nil
}

// where names the servers without secrets.
func (c Cluster) where() string {
	var hosts []string
	for server := range strings.SplitSeq(c.Servers, ",") {
		if u, err := url.Parse(strings.TrimSpace(server)); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return strings.Join(hosts, ", ")
}

// dial connects to any of the servers, and tries again while none is there. An append must not be kept in the client and sent when
// nobody waits for it any more, so nothing is buffered while the connection is lost.
func (c Cluster) dial(ctx context.Context, logger *slog.Logger) (*nats.Conn, error) {
	options := append(connOptions(logger),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(), // a server that starts may not know us yet
		nats.PingInterval(pingEvery),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				logger.Warn("event log: the connection was lost", "error", err)
			}
		}),
	)
	if c.Credentials != "" {
		options = append(options, nats.UserCredentials(c.Credentials))
	}
	if c.NKey != "" {
		o, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("the seed in %s: %w", c.NKey, err)
		}
		options = append(options, o)
	}
	if c.CA != "" {
		options = append(options, nats.RootCAs(c.CA))
	}
	if c.Certificate != "" || c.Key != "" {
		options = append(options, nats.ClientCert(c.Certificate, c.Key))
	}
	for {
		nc, err := nats.Connect(c.Servers, options...)
		if err == nil || !passing(err) {
			return nc, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(reconnectWait):
		}
	}
}

// passing reports whether a failure to connect may be over soon: a server that is starting.
func passing(err error) bool {
	var dial *net.OpError
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &dial) && dial.Op == "dial"
}

// admit looks at what the connection lets through.
func (s *Shared) admit() error {
	limit := s.nc.MaxPayload()
	if limit < minPiece {
		return fmt.Errorf("its max_payload is %d bytes: want %d or more, and 1 MiB is what NATS has by default", limit, minPiece)
	}
	s.piece = int(min(limit, maxPiece)) - pieceHeaders
	return nil
}

// await repeats f while the cluster is not ready for it, until ctx is done. Of several nodes that make a stream at the same moment some get no
// answer, and find it there when they ask again.
func (s *Shared) await(ctx context.Context, f func(context.Context) error) error {
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		try, cancel := context.WithTimeoutCause(ctx, tryTimeout, errSilent)
		err := f(try)
		if err != nil && try.Err() != nil {
			err = context.Cause(try)
		}
		cancel()
		if err == nil || !away(err) || ctx.Err() != nil {
			return err
		}
		if s.pause(ctx, pause) != nil {
			return err // says more than that the time is over
		}
	}
}

// open makes the stream, or takes the one that is there.
func (s *Shared) open(ctx context.Context) (err error) {
	if s.js == nil {
		if s.js, err = jetstream.New(s.nc); err != nil {
			return err
		}
	}
	want := s.o.config(s.names)
	want.Replicas = s.cluster.Replicas
	if s.cluster.Owner != "" {
		want.Metadata = map[string]string{ownerKey: s.cluster.Owner}
	}
	stream, err := s.ensure(ctx, want)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	if limit := int(info.Config.MaxMsgSize); limit > 0 {
		if limit < minPiece {
			return fmt.Errorf("stream %s takes messages of %d bytes at most: want %d or more", want.Name, limit, minPiece)
		}
		s.piece = min(s.piece, limit-pieceHeaders)
	}
	if err := s.openWork(ctx, info.Config.Replicas); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil { // it stands for whatever has the name
		s.stream = stream
	}
	s.incarnation, s.replicas = incarnationOf(info.Created, info.Config.Metadata), info.Config.Replicas
	return nil
}

// incarnationOf is what all nodes know a stream by: the time at which it was made, unless it has lost records since.
func incarnationOf(created time.Time, metadata map[string]string) string {
	if id := metadata[incarnationKey]; id != "" {
		return id
	}
	return strconv.FormatInt(created.UnixNano(), 36)
}

// reopen opens the stream that was made anew, or gives it another incarnation where it is the same and does not have what a follower
// has seen: its servers lost their power together.
func (s *Shared) reopen(ctx context.Context, seen uint64) error {
	before := s.Incarnation()
	if err := s.open(ctx); err != nil {
		return err
	}
	if s.Incarnation() == before {
		info, err := s.js.Stream(ctx, s.names.stream)
		if err != nil {
			return err
		}
		cfg := info.CachedInfo().Config
		cfg.Metadata = maps.Clone(cfg.Metadata)
		if cfg.Metadata == nil {
			cfg.Metadata = map[string]string{}
		}
		cfg.Metadata[incarnationKey] = strings.ToLower(rand.Text()[:12])
		if _, err := s.js.UpdateStream(ctx, cfg); err != nil {
			return err
		}
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	s.o.Logger.Warn("event log: the stream was replaced", "stream", s.names.stream, "seen", seen)
	return nil
}
