package httpapi

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// logins are the hashes of the cookies that are logged in, and when they came. Reading takes
// no lock; a change is in the file before it counts, so that a logout survives a crash.
type logins struct {
	path  string
	now   atomic.Pointer[map[digest]time.Time] // never changed, only replaced
	write sync.Mutex                           // one writer of the file at a time
}

func openLogins(path string) (*logins, error) {
	l := &logins{path: path}
	all := make(map[digest]time.Time)
	err := readLines(path, func(first, second string) error {
		d, err := parseDigest(first)
		if err != nil {
			return err
		}
		ms, err := strconv.ParseInt(second, 10, 64)
		if err != nil {
			return err
		}
		all[d] = time.UnixMilli(ms)
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("logins: %w", err)
	}
	l.now.Store(&all)
	return l, nil
}

// has reports whether the login is known and not too old. The map is searched by hash, so
// the time tells nothing about the secret.
func (l *logins) has(d digest, now time.Time) bool {
	since, ok := (*l.now.Load())[d]
	return ok && now.Sub(since) < loginLife
}

func (l *logins) add(d digest, now time.Time) error {
	return l.change(func(all map[digest]time.Time) {
		maps.DeleteFunc(all, func(_ digest, since time.Time) bool { return now.Sub(since) >= loginLife })
		for len(all) >= maxLogins {
			var oldest digest
			for d, since := range all {
				if least, ok := all[oldest]; !ok || since.Before(least) {
					oldest = d
				}
			}
			delete(all, oldest)
		}
		all[d] = now
	})
}

func (l *logins) remove(d digest) error {
	return l.change(func(all map[digest]time.Time) { delete(all, d) })
}

func (l *logins) clear() error {
	return l.change(func(all map[digest]time.Time) { clear(all) })
}

func (l *logins) change(f func(map[digest]time.Time)) error {
	l.write.Lock()
	defer l.write.Unlock()
	all := maps.Clone(*l.now.Load())
	f(all)
	var b bytes.Buffer
	for d, since := range all {
		fmt.Fprintf(&b, "%x %d\n", d, since.UnixMilli())
	}
	if err := writeFile(l.path, b.Bytes()); err != nil {
		return fmt.Errorf("logins: %w", err)
	}
	l.now.Store(&all)
	return nil
}

// token is a bearer token and the actor that it stands for.
type token struct {
	name string
	hash digest
}

// readTokens reads "name sha256hex" lines.
func readTokens(path string) ([]token, error) {
	var tokens []token
	names := make(map[string]bool)
	err := readLines(path, func(name, hex string) error {
		d, err := parseDigest(hex)
		if err != nil {
			return err
		}
		if names[name] {
			return fmt.Errorf("the name %q is there twice", name)
		}
		names[name] = true
		tokens = append(tokens, token{name, d})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return tokens, nil
}

// readLines calls f with the two words of each line that is not empty or a comment.
func readLines(path string, f func(first, second string) error) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			return fmt.Errorf("%s:%d: want two words, there are %d", path, n, len(words))
		}
		if err := f(words[0], words[1]); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func parseDigest(s string) (digest, error) {
	var d digest
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("want a SHA-256 in 64 hexadecimal digits")
	}
	return digest(b), nil
}

// writeFile replaces a file whole, readable by its owner alone.
func writeFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already, once renamed
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
