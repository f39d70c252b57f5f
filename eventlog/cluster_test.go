package eventlog

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/eventlog/natstest"
	"github.com/reprise-run/reprise/session"
)

var streams atomic.Int64

// freshStream is a stream's name that no other test has.
func freshStream() string { return fmt.Sprintf("log%d", streams.Add(1)) }

func joinCluster(t testing.TB, c *natstest.Cluster, stream string) *Shared {
	t.Helper()
	log, err := Connect(t.Context(), Cluster{Servers: c.URL(), Stream: stream}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return log
}

func TestSuiteOnCluster(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint("servers=", n), func(t *testing.T) {
			c := natstest.Start(t, n)
			logtest.Run(t, func(t *testing.T) session.Log {
				log := joinCluster(t, c, freshStream())
				if r := log.stream.CachedInfo().Config.Replicas; r != n {
					t.Fatalf("%d replicas on %d servers", r, n)
				}
				return log
			})
		})
	}
}

// startWith starts one server that lets messages of a size through.
func startWith(t *testing.T, payload int32) *natstest.Cluster {
	return natstest.Start(t, 1, func(o *server.Options) { o.MaxPayload = payload })
}

func refuses(t *testing.T, c Cluster, o Options, want string) {
	t.Helper()
	began := time.Now()
	log, err := Connect(t.Context(), c, o)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("refused after %v: %v", took, err)
	}
	if err == nil {
		log.Close()
		t.Fatalf("opened, want %q", want)
	}
	if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %q, want %q", err, want)
	}
}

// Nodes that start at the same moment agree on the incarnation, and keep it over their restarts; a stream that is made anew has another.
func TestIncarnationOfCluster(t *testing.T) {
	c := natstest.Start(t, 3)
	stream := freshStream()
	const n = 8
	logs := make([]*Shared, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() { logs[i] = joinCluster(t, c, stream) })
	}
	starting.Wait()
	first := logs[0].Incarnation()
	for _, log := range append(logs, joinCluster(t, c, stream)) {
		if log.Incarnation() != first || first == "" {
			t.Errorf("incarnations %q and %q", first, log.Incarnation())
		}
	}

	w := logtest.Claim(t, logs[0], "run_a", 1)
	logtest.Append(t, w, "1")
	followed := make(chan error, n)
	caught := make(chan struct{}, n)
	for _, log := range logs {
		go func() {
			followed <- log.Follow(t.Context(), func(session.Record) error { return nil }, func() { caught <- struct{}{} })
		}()
	}
	for range n {
		<-caught
	}
	if err := logs[0].js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-followed; !errors.Is(err, session.ErrReplaced) {
			t.Errorf("Follow of a log that is gone: %v", err)
		}
	}
	second := logs[0].Incarnation()
	for _, log := range logs {
		if log.Incarnation() != second || second == first {
			t.Errorf("incarnations %q, then %q and %q", first, second, log.Incarnation())
		}
	}
	if err := w.Append(t.Context(), []byte("2")); err == nil {
		t.Error("a writer went on in another log")
	}
	logtest.Append(t, logtest.Claim(t, logs[0], "run_a", 2), "again")
	logtest.Want(t, "followed", logtest.Follow(t, logs[1]).Take(t, 1), "run_a again")
}

// A stream that does not have what was followed gets another incarnation, which all nodes learn.
func TestStreamThatLostRecords(t *testing.T) {
	c := natstest.Start(t, 1)
	a, b := joinCluster(t, c, "log"), joinCluster(t, c, "log")
	first := a.Incarnation()
	fo := &follower{journal: a.journal, f: func(session.Record) error { return nil }, last: 1000} // of which the stream knows nothing
	err := errLost
	for errors.Is(err, errLost) {
		err = fo.consume(t.Context())
	}
	if !errors.Is(err, session.ErrReplaced) || a.Incarnation() == first {
		t.Fatalf("%v, incarnation %q after %q", err, a.Incarnation(), first)
	}
	if err := (&follower{journal: b.journal}).consume(t.Context()); !errors.Is(err, session.ErrReplaced) || b.Incarnation() != a.Incarnation() {
		t.Errorf("%v, incarnations %q and %q", err, a.Incarnation(), b.Incarnation())
	}
	if again := joinCluster(t, c, "log"); again.Incarnation() != a.Incarnation() {
		t.Error("a node that starts has the old incarnation")
	}
}

// What is ours is changed to what the configuration says; what is not, or would lose records, is refused.
func TestExistingStream(t *testing.T) {
	c := natstest.Start(t, 1)
	log := joinCluster(t, c, "mine")
	changed, err := Connect(t.Context(), Cluster{Servers: c.URL(), Stream: "mine"}, Options{MaxBytes: 2 << 30, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, changed)
	if cfg := changed.stream.CachedInfo().Config; cfg.MaxBytes != 2<<30 || cfg.MaxAge != time.Hour || changed.Incarnation() != log.Incarnation() {
		t.Errorf("changed to %d bytes, %s", cfg.MaxBytes, cfg.MaxAge)
	}
	w := logtest.Claim(t, log, "run_a", 1)
	for range 64 {
		logtest.Append(t, w, strings.Repeat("x", 64<<10))
	}
	at := Cluster{Servers: c.URL()}
	with := func(name string, f func(*Cluster)) Cluster {
		at := at
		at.Stream = name
		if f != nil {
			f(&at)
		}
		return at
	}
	refuses(t, with("mine", nil), Options{MaxBytes: 1 << 20}, "would lose: it holds")
	refuses(t, with("mine", func(c *Cluster) { c.Replicas = 3 }), Options{}, "no place for 3 replicas")
	refuses(t, with("fresh", func(c *Cluster) { c.Replicas = 3 }), Options{}, "no place for 3 replicas")
	for name, cfg := range map[string]jetstream.StreamConfig{
		"its subjects are":      {Subjects: []string{"else.>"}},
		"kept in memory":        {Storage: jetstream.MemoryStorage},
		"it keeps what":         {Retention: jetstream.WorkQueuePolicy},
		"denies deletion":       {DenyDelete: true},
		"bounds the number":     {MaxMsgs: 5},
		"of 1000 bytes at most": {MaxMsgSize: 1000},
	} {
		cfg.Name = freshStream()
		if cfg.Subjects == nil {
			cfg.Subjects = namesOf(cfg.Name, cfg.Name+".").subjects()
		}
		if _, err := log.js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		refuses(t, with(cfg.Name, nil), Options{}, name)
	}
	if _, err := log.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "other", Subjects: []string{"taken.>"}}); err != nil {
		t.Fatal(err)
	}
	owned := with("owned", func(c *Cluster) { c.Owner = "a" })
	for range 2 {
		log, err := Connect(t.Context(), owned, Options{})
		if err != nil {
			t.Fatal(err)
		}
		closeLog(t, log)
	}
	owned.Owner = "b"
	refuses(t, owned, Options{}, "it has the events of another database")
	refuses(t, with("taken", nil), Options{}, "stream other has subjects of taken")
	refuses(t, with("large", nil), Options{MaxBytes: 1 << 60}, "no room for stream large")
	refuses(t, with("a.b", nil), Options{}, `stream "a.b"`)
	refuses(t, Cluster{Servers: "nats://me:hush@[::1"}, Options{}, "server 1 of the cluster is not a URL")
	refuses(t, Cluster{}, Options{}, "no server")
	refuses(t, Cluster{Servers: startWith(t, 1000).URL()}, Options{}, "its max_payload is 1000 bytes")
}

// Who we are is proven as NATS does, and a secret is never shown.
func TestCredentials(t *testing.T) {
	seed, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := seed.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := seed.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	withUser := func(user string, url string) string { return strings.Replace(url, "nats://", "nats://"+user+"@", 1) }
	password := natstest.Start(t, 1, func(o *server.Options) { o.Username, o.Password = "me", "hush" })
	token := natstest.Start(t, 1, func(o *server.Options) { o.Authorization = "hush" })
	nkey := natstest.Start(t, 1, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	for name, c := range map[string]Cluster{
		"password": {Servers: withUser("me:hush", password.URL())},
		"token":    {Servers: withUser("hush", token.URL())},
		"nkey":     {Servers: nkey.URL(), NKey: file},
	} {
		log, err := Connect(t.Context(), c, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		logtest.Append(t, logtest.Claim(t, log, "run_a", 1), "1")
		closeLog(t, log)
	}
	refuses(t, Cluster{Servers: withUser("me:hush2", password.URL())}, Options{}, "Authorization Violation")
	refuses(t, Cluster{Servers: nkey.URL(), NKey: file + "x"}, Options{}, "the seed in")
	refuses(t, Cluster{Servers: password.URL(), Credentials: file + "x"}, Options{}, "no such file")
	refuses(t, Cluster{Servers: password.URL(), CA: file}, Options{}, "root certificate")
}

// Servers with certificates of an authority of their own, which want one of ours.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certificate, key := selfSigned(t, dir)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	c := natstest.Start(t, 1, func(o *server.Options) {
		o.TLSTimeout = 5
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert}
	})
	url := strings.Replace(c.URL(), "nats://", "tls://", 1)
	log, err := Connect(t.Context(), Cluster{Servers: url, CA: certificate, Certificate: certificate, Key: key}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, log)
	refuses(t, Cluster{Servers: url}, Options{}, "certificate")
	refuses(t, Cluster{Servers: url, CA: certificate}, Options{}, "tls")
	refuses(t, Cluster{Servers: url, CA: certificate, Certificate: certificate, Key: key + "x"}, Options{}, "no such file")
}

// selfSigned writes a certificate for loopback and its key.
func selfSigned(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}
