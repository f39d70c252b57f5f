package eventlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-run/reprise/session"
)

const (
	// maxPayload admits a whole reply (16 MiB staged at most) in one record.
	maxPayload = 32 << 20
	// startTimeout bounds the recovery of a large store.
	startTimeout = 30 * time.Second
	// stopFile holds the stream's last sequence after a clean stop and is empty while the log
	// is open.
	stopFile = "stopped-at"
	// The incarnation is kept in the stream's own metadata: it cannot be parted from the
	// sequence numbers that it qualifies.
	incarnationKey = "reprise-incarnation"
)

// Open starts the embedded server in o.Dir and opens the log in it.
func Open(ctx context.Context, o Options) (session.Log, error) {
	o = o.withDefaults()
	e, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open the event log in %s: %w", o.Dir, err)
	}
	return e, nil
}

// embedded is a journal together with its server.
type embedded struct {
	*journal
	srv  *server.Server
	dir  string
	once sync.Once
	err  error // of Close
}

func open(ctx context.Context, o Options) (*embedded, error) {
	if o.Dir == "" {
		return nil, errors.New("no folder given")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	stoppedAt, clean, err := takeStop(o.Dir)
	if err != nil {
		return nil, err
	}
	srv, err := startServer(ctx, o)
	if err != nil {
		return nil, err
	}
	nc, err := connect(srv, o.Logger)
	if err != nil {
		stopServer(srv)
		return nil, err
	}
	// A last sequence other than at the stop means that a power loss took back what the stop
	// had left to the operating system.
	renew := func(lastSeq uint64) bool { return !clean || lastSeq != stoppedAt }
	j := newJournal(nc, namesOf("reprise", ""), o)
	j.alone, j.lifecycle = true, o.Lifecycle // the server lets nobody else in
	err = j.openStream(ctx, o, renew)
	if err == nil {
		err = j.trim(ctx)
	}
	if err != nil {
		nc.Close()
		stopServer(srv)
		return nil, fmt.Errorf("open the event stream: %w", err)
	}
	return &embedded{journal: j, srv: srv, dir: o.Dir}, nil
}

// openStream opens the stream, or makes it. Where renew is true it gets a new incarnation, which its
// metadata keeps.
func (j *journal) openStream(ctx context.Context, o Options, renew func(lastSeq uint64) bool) error {
	js, err := jetstream.New(j.nc)
	if err != nil {
		return err
	}
	j.incarnation = strings.ToLower(rand.Text()[:12])
	cfg := o.config(j.names)
	cfg.Metadata = map[string]string{incarnationKey: j.incarnation}
	old, err := js.Stream(ctx, cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		j.stream, err = js.CreateStream(ctx, cfg)
		return err
	case err != nil:
		return err
	}
	info := old.CachedInfo()
	if id := info.Config.Metadata[incarnationKey]; id != "" && !renew(info.State.LastSeq) {
		j.incarnation = id
	}
	cfg.Metadata = maps.Clone(info.Config.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[incarnationKey] = j.incarnation
	j.stream, err = js.UpdateStream(ctx, cfg)
	return err
}

// Close implements session.Log.
func (e *embedded) Close() error {
	e.once.Do(func() {
		e.drain()
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		info, err := e.stream.Info(ctx)
		e.nc.Close()
		stopServer(e.srv)
		if err != nil {
			e.err = fmt.Errorf("close the event log: %w", err)
			return
		}
		if err := writeStop(e.dir, strconv.AppendUint(nil, info.State.LastSeq, 10)); err != nil {
			e.err = fmt.Errorf("close the event log: %w", err)
		}
	})
	return e.err
}

// takeStop reads where the last clean stop left the log and empties the file, durably, so that
// what is appended from now on cannot be taken for a part of what was there at the stop.
func takeStop(dir string) (seq uint64, clean bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, stopFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, false, err
	}
	if text, ok := bytes.CutSuffix(text, []byte("\n")); ok {
		seq, err = strconv.ParseUint(string(text), 10, 64)
		clean = err == nil
	}
	return seq, clean, writeStop(dir, nil)
}

// writeStop replaces the file's content in place. The newline comes last: a torn write is no stop.
func writeStop(dir string, text []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, stopFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if len(text) > 0 {
		_, err = f.Write(append(text, '\n'))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func startServer(ctx context.Context, o Options) (*server.Server, error) {
	srv, err := server.NewServer(&server.Options{
		ServerName: "reprise",
		DontListen: true, // connections come from inside the process only
		NoSigs:     true, // signals are the program's
		JetStream:  true,
		StoreDir:   o.Dir,
		// Each record is written to the file before it is acknowledged; this is the fsync.
		SyncInterval: time.Second,
		MaxPayload:   maxPayload,
		// The stream bounds itself. Without a figure the server takes a share of the disk, and
		// refuses a stream whose bound, or whose earlier bound, does not fit in.
		JetStreamMaxStore:      1 << 50,
		JetStreamMaxMemory:     64 << 20, // consumers' state only
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, err
	}
	srv.SetLoggerV2(&serverLog{o.Logger}, false, false, false)
	srv.Start()
	timeout := startTimeout
	if at, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(at))
	}
	if !srv.ReadyForConnections(timeout) {
		stopServer(srv)
		return nil, errors.New("the embedded server does not start")
	}
	return srv, nil
}

func stopServer(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

func connect(srv *server.Server, logger *slog.Logger) (*nats.Conn, error) {
	return nats.Connect("", append(connOptions(logger),
		nats.InProcessServer(srv),
		nats.NoReconnect(), // the connection ends with the server
	)...)
}

func connOptions(logger *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name("reprise"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			// A follower's buffer was full: it reads again what was dropped.
			if !errors.Is(err, nats.ErrSlowConsumer) {
				logger.Warn("event log: " + err.Error())
			}
		}),
	}
}

// serverLog passes the server's warnings and errors on.
type serverLog struct{ *slog.Logger }

func (l *serverLog) Warnf(format string, v ...any) {
	// The server advises against payloads above 8 MiB at each start; ours cross no network.
	if !strings.HasPrefix(format, "Maximum payloads over") {
		l.Warn("event log: " + fmt.Sprintf(format, v...))
	}
}
func (l *serverLog) Errorf(format string, v ...any) {
	l.Error("event log: " + fmt.Sprintf(format, v...))
}
func (l *serverLog) Fatalf(format string, v ...any) {
	l.Error("event log: " + fmt.Sprintf(format, v...))
}
func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}
