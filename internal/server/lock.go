package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	lockFile  = "lock"
	stateFile = "server.json"
)

// state says who has the data folder, for other processes of the same user.
type state struct {
	PID     int    `json:"pid"`
	URL     string `json:"url,omitempty"`     // empty: it serves nobody else
	Gateway string `json:"gateway,omitempty"` // where it serves a gateway alone
	Version string `json:"version,omitempty"`
}

// Held is returned where another process has the data folder.
type Held struct {
	Dir string
	// URL is where it serves; empty where it does not (yet). PID is 0 where it is not known.
	URL string
	PID int
	// Gateway is where it serves a gateway alone, which has no API.
	Gateway string
}

func (h *Held) Error() string {
	who := "another process"
	if h.PID != 0 {
		who = fmt.Sprintf("process %d", h.PID)
	}
	switch {
	case h.Gateway != "":
		return fmt.Sprintf("the data folder %s is in use by reprise gateway at %s (%s), which has no sessions, page or API: stop it and start reprise serve, which is a gateway too, "+
			"or use another --data. Beside it work reprise keys, fences, cool-offs and explain gw_…", h.Dir, h.Gateway, who)
	case h.URL == "":
		return fmt.Sprintf("the data folder %s is in use by %s, which serves no other: wait for its end, or use another --data", h.Dir, who)
	}
	return fmt.Sprintf("the data folder %s is in use by the server at %s (%s): stop it, or use another --data", h.Dir, h.URL, who)
}

// lock is the right to use a data folder. The system takes it back when the process ends,
// however it ends.
type lock struct {
	dir  string
	file *os.File
}

// acquire makes the folder and takes its lock, or fails with a *Held.
func acquire(dir string) (*lock, error) {
	if err := ensureDir(dir); err != nil {
		return nil, err
	}
	return acquireAt(dir)
}

// acquireAt takes the lock of a folder that is there, which it leaves as it is.
func acquireAt(dir string) (*lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		file.Close()
		held := &Held{Dir: dir}
		if s, err := readState(dir); err == nil {
			held.URL, held.PID, held.Gateway = s.URL, s.PID, s.Gateway
		}
		return nil, held
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	l := &lock{dir: dir, file: file}
	if err := l.announce(state{}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// announce tells other processes where this one serves.
func (l *lock) announce(s state) error {
	s.PID = os.Getpid()
	b, err := json.Marshal(s)
	if err == nil {
		path := filepath.Join(l.dir, stateFile)
		if err = os.WriteFile(path+".new", append(b, '\n'), 0o600); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if err != nil {
		return fmt.Errorf("say where the server is: %w", err)
	}
	return nil
}

// Close gives the folder back.
func (l *lock) Close() error {
	err := os.Remove(filepath.Join(l.dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.file.Close())
}

func readState(dir string) (s state, err error) {
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}
