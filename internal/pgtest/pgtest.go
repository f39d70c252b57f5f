// Package pgtest runs real Postgres servers for tests, from the machine's own package.
//
// A test binary that needs databases calls Run in its TestMain, and NewDatabase in each test: all of
// them share one server, which is started when the first is asked for and does not sync, so that a
// crash of the machine would cost its data. A test of what survives starts a server of its own, with
// Start, and stops, kills and restarts it as it likes.
//
// It promises: a server ends with the test binary, however that ends; each database is new and
// empty; a server keeps its port over a restart. It listens on loopback alone, with no password for
// its one user, and runs as another user where the tests run as root, whom Postgres refuses.
//
// It refuses to skip: a machine without Postgres fails the test.
package pgtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	superuser = "reprise"
	startTime = 30 * time.Second
)

// Server is a Postgres server. It is safe for concurrent use, but for Stop, Kill and Restart.
type Server struct {
	dir  string // of its own
	bin  string // where Postgres's programs are
	port int
	args []string
	as   *syscall.Credential // nil: as ourselves

	mu        sync.Mutex
	databases int

	process *exec.Cmd // the guard, in whose hands the server is
	hold    io.Closer // closing it, by us or by our end, lets the guard stop the server
}

// shared is the server of Run.
var shared struct {
	sync.Mutex
	ready  bool // Run was called
	server *Server
}

// Run runs a binary's tests with a server that they share, and returns the code to exit with.
func Run(m *testing.M) int {
	shared.ready = true
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.end(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			return max(code, 1)
		}
	}
	return code
}

// NewDatabase makes an empty database on the server that the binary's tests share, and returns its
// URL.
func NewDatabase(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.ready {
		t.Fatal("pgtest: the package's TestMain must call pgtest.Run")
	}
	if shared.server == nil {
		s, err := start("fsync=off", "full_page_writes=off")
		if err != nil {
			t.Fatal("pgtest: ", err)
		}
		shared.server = s
	}
	return shared.server.NewDatabase(t)
}

// Start starts a server of the test's own, which syncs as one in use does.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatal("pgtest: ", err)
	}
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error("pgtest: ", err)
		}
	})
	return s
}

// NewDatabase makes an empty database and returns its URL.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	s.databases++
	name := fmt.Sprint("test_", s.databases)
	s.mu.Unlock()
	s.Exec(t, s.url("postgres"), "CREATE DATABASE "+name)
	return s.url(name)
}

// Exec runs SQL in one of the server's databases, beside whoever uses it, and returns what it
// answers: rows as lines, columns apart by a bar.
func (s *Server) Exec(t testing.TB, url, query string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.bin, "psql"), "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", query)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("pgtest: %s: %v\n%s", query, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Addr is where the server listens, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, s.Addr(), database)
}

// Stop stops the server as an operator does: what runs is undone, what was committed is kept.
// Stopping twice is fine.
func (s *Server) Stop(t testing.TB) { s.signal(t, syscall.SIGINT) }

// Kill stops the server as a crash does: what it had not yet written is lost.
func (s *Server) Kill(t testing.TB) { s.signal(t, syscall.SIGQUIT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if s.process == nil {
		return
	}
	pid, err := s.pid()
	if err == nil {
		err = syscall.Kill(pid, sig)
	}
	if err = errors.Join(err, s.ended()); err != nil {
		t.Fatal("pgtest: stop: ", err)
	}
}

// Restart starts the server again, stopping it first where it runs.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	if err := s.run(); err != nil {
		t.Fatal("pgtest: restart: ", err)
	}
}

// start makes a server in a folder of its own, with settings as name=value.
func start(settings ...string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin}
	if os.Geteuid() == 0 {
		if s.as, err = unprivileged(); err != nil {
			return nil, err
		}
	}
	if s.dir, err = os.MkdirTemp("", "reprise-postgres-"); err != nil {
		return nil, err
	}
	if err := s.create(settings); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

func (s *Server) create(settings []string) error {
	if s.as != nil {
		if err := os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), "--no-sync", "-D", s.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C")
	s.own(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return err
	}
	s.args = []string{filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, set := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=" + s.dir, "max_connections=300",
		"shared_buffers=16MB", "autovacuum_naptime=600"}, settings...) {
		s.args = append(s.args, "-c", set)
	}
	return s.run()
}

// guard runs its arguments as a child until that ends, or its own standard input does: then the
// child is told to stop.
const guard = `"$@" </dev/null & child=$!
{ read -r _; kill -INT $child 2>/dev/null; } <&3 &
wait $child; code=$?; kill $! 2>/dev/null; exit $code`

// run starts the server and waits until it answers.
func (s *Server) run() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Join(err, write.Close())
	}
	defer log.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", guard, "guard"}, s.args...)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{read}
	s.own(cmd)
	if err := cmd.Start(); err != nil {
		return errors.Join(err, write.Close())
	}
	s.process, s.hold = cmd, write
	for end := time.Now().Add(startTime); ; time.Sleep(10 * time.Millisecond) {
		status, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
		if err == nil && strings.Contains(string(status), "\nready") {
			return nil
		}
		if time.Now().After(end) || syscall.Kill(cmd.Process.Pid, 0) != nil {
			said, err := os.ReadFile(s.log())
			return errors.Join(fmt.Errorf("the server does not start:\n%s", said), err, s.ended())
		}
	}
}

// ended waits for the server's end, which it brings about where nobody else has.
func (s *Server) ended() error {
	if s.process == nil {
		return nil
	}
	err := s.hold.Close()
	_ = s.process.Wait() // it says how the server ended, which who stopped it knows
	s.process = nil
	return err
}

// end stops the server for good.
func (s *Server) end() error { return errors.Join(s.ended(), os.RemoveAll(s.dir)) }

// pid is the server's first process.
func (s *Server) pid() (int, error) {
	b, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strconv.Atoi(first)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }
func (s *Server) log() string  { return filepath.Join(s.dir, "log") }

// own lets a command run as the server's user, in its folder.
func (s *Server) own(cmd *exec.Cmd) {
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
}

// programs finds the folder of the newest server: in the path, or where Debian has it.
func programs() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	newest, version := "", -1
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	for _, path := range found {
		dir := filepath.Dir(path)
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && n > version {
			newest, version = dir, n
		}
	}
	if newest == "" {
		err = errors.Join(err, errors.New("there is no Postgres on this machine: run .ci/setup"))
	}
	return newest, err
}

// unprivileged is the user that a server runs as where we are root.
func unprivileged() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}
