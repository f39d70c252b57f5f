package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Mode says who may use the API.
type Mode string

const (
	// ModeLaunch wants a login by launch link, a bearer token, or the word of a trusted
	// proxy. It is also the zero value's meaning.
	ModeLaunch Mode = "launch"
	// ModeNone lets everybody in who comes from this machine, and marks every response.
	ModeNone Mode = "none"
)

// Operator is the actor of launch links, of the local token and of ModeNone.
const Operator = "operator"

const (
	linkLife   = 10 * time.Minute
	loginLife  = 30 * 24 * time.Hour
	maxLinks   = 16  // outstanding at a time; the oldest goes first
	maxLogins  = 256 // the oldest goes first
	cookieName = "reprise"
)

// AuthOptions configure who may use the API.
type AuthOptions struct {
	Mode Mode
	// Dir is the data folder: the logins and the local token are kept there, readable by
	// its owner alone.
	Dir string
	// Tokens is a file of bearer tokens, "name sha256hex" a line; empty: there are none.
	Tokens string
	// ProxyNonce is the secret by which a proxy proves that it may name the user; empty:
	// none may.
	ProxyNonce string
}

// Auth knows who may use the API. Secrets are compared in constant time and kept as hashes;
// logins survive a restart, launch links do not. It is safe for concurrent use.
type Auth struct {
	mode   Mode
	nonce  digest // of the proxy; zero: there is none
	tokens []token
	logins *logins

	mu    sync.Mutex
	links []link
}

type link struct {
	secret digest
	until  time.Time
}

// digest is the SHA-256 of a secret. Secrets of ours are random and long, so that a plain
// hash protects them.
type digest [sha256.Size]byte

func hash(secret string) digest { return sha256.Sum256([]byte(secret)) }

func (d digest) equal(e digest) bool { return subtle.ConstantTimeCompare(d[:], e[:]) == 1 }

// OpenAuth reads the tokens and logins, and makes the local token where there is none yet.
func OpenAuth(o AuthOptions) (*Auth, error) {
	a := &Auth{mode: o.Mode}
	switch o.Mode {
	case "":
		a.mode = ModeLaunch
	case ModeLaunch, ModeNone:
	default:
		return nil, fmt.Errorf("auth mode %q: it is %q or %q", o.Mode, ModeLaunch, ModeNone)
	}
	if o.ProxyNonce != "" {
		a.nonce = hash(o.ProxyNonce)
	}
	if o.Tokens != "" {
		var err error
		if a.tokens, err = readTokens(o.Tokens); err != nil {
			return nil, err
		}
	}
	local, err := LocalToken(o.Dir)
	if err != nil {
		return nil, err
	}
	a.tokens = append(a.tokens, token{Operator, hash(local)})
	if a.logins, err = openLogins(filepath.Join(o.Dir, "logins")); err != nil {
		return nil, err
	}
	return a, nil
}

// LocalToken reads the bearer token by which commands of this user reach the server of a
// data folder. It makes one where there is none.
func LocalToken(dir string) (string, error) {
	path := filepath.Join(dir, "token")
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		b = []byte(secret() + "\n")
		err = writeFile(path, b)
	}
	if err != nil {
		return "", fmt.Errorf("local token: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if t == "" {
		return "", fmt.Errorf("local token: %s is empty; remove it", path)
	}
	return t, nil
}

// secret is a new random secret of 256 bits.
func secret() string { return rand.Text() + rand.Text() }

// Link returns a launch link below base ("http://127.0.0.1:7337"). Its secret is in the
// fragment, which no request carries; the page exchanges it, once, within ten minutes.
func (a *Auth) Link(base string) string {
	s := secret()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.links) == maxLinks {
		a.links = a.links[1:]
	}
	a.links = append(a.links, link{hash(s), time.Now().Add(linkLife)})
	return strings.TrimSuffix(base, "/") + "/#launch=" + s
}

// redeem uses a link up.
func (a *Auth) redeem(secret string) bool {
	given, now, ok := hash(secret), time.Now(), false
	a.mu.Lock()
	defer a.mu.Unlock()
	left := make([]link, 0, maxLinks)
	for _, l := range a.links {
		fits, fresh := l.secret.equal(given), now.Before(l.until)
		ok = ok || fits && fresh
		if fresh && !fits {
			left = append(left, l)
		}
	}
	a.links = left
	return ok
}

// actor names who sent the request. Credentials that are given and wrong are refused, also
// where others would do.
func (a *Auth) actor(r *http.Request) (string, *envelope) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, given, _ := strings.Cut(header, " ")
		if name := a.bearer(strings.TrimSpace(given)); name != "" && strings.EqualFold(scheme, "Bearer") {
			return name, nil
		}
		return "", refuse(CodeUnauthenticated, "the bearer token is not valid")
	}
	if user := a.proxied(r); user != "" {
		return user, nil
	}
	if c, err := r.Cookie(cookie(r)); err == nil && a.logins.has(hash(c.Value), time.Now()) {
		return Operator, nil
	}
	if a.mode == ModeNone {
		if !local(r.RemoteAddr) {
			return "", refuse(CodeForbidden, "without authentication the server answers this machine alone")
		}
		return Operator, nil
	}
	return "", refuse(CodeUnauthenticated, "log in with a launch link, or send a bearer token")
}

// Presented lists what a request shows as its key, in the forms that clients of models use.
func Presented(r *http.Request) (keys []string) {
	_, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	all := []string{given, r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.Header.Get("Api-Key")}
	if strings.Contains(r.URL.RawQuery, "key=") {
		all = append(all, r.URL.Query().Get("key"))
	}
	for _, key := range all {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Client names who sent a request that presents a token. Where there is no authentication any key
// will do, from this machine.
func (a *Auth) Client(r *http.Request) (string, error) {
	if a.mode == ModeNone {
		if !local(r.RemoteAddr) {
			return "", errors.New("without authentication the gateway answers this machine alone")
		}
		return Operator, nil
	}
	for _, key := range Presented(r) {
		if name := a.bearer(key); name != "" {
			return name, nil
		}
	}
	return "", errors.New("the key is not one of this gateway's")
}

// bearer compares with every token, so that the time tells nothing.
func (a *Auth) bearer(given string) (name string) {
	d := hash(given)
	for _, t := range a.tokens {
		if t.hash.equal(d) {
			name = t.name
		}
	}
	return name
}

// proxied is the user whom a trusted proxy names. Without the right nonce the header means
// nothing.
func (a *Auth) proxied(r *http.Request) string {
	if a.nonce == (digest{}) || !a.nonce.equal(hash(r.Header.Get("X-Reprise-Nonce"))) {
		return ""
	}
	user := r.Header.Get("X-Reprise-User")
	if len(user) > 128 {
		return ""
	}
	return user
}

// login makes a login and its cookie.
func (a *Auth) login(r *http.Request) (*http.Cookie, error) {
	s := secret()
	if err := a.logins.add(hash(s), time.Now()); err != nil {
		return nil, err
	}
	c := bake(r, s)
	c.MaxAge = int(loginLife / time.Second)
	return c, nil
}

// logout ends the request's login, or all of them, and returns the cookie that clears the
// browser's.
func (a *Auth) logout(r *http.Request, all bool) (*http.Cookie, error) {
	var err error
	if all {
		err = a.logins.clear()
	} else if c, cerr := r.Cookie(cookie(r)); cerr == nil {
		err = a.logins.remove(hash(c.Value))
	}
	c := bake(r, "")
	c.MaxAge = -1
	return c, err
}

// cookie is the name of the login's cookie. Cookies ignore ports, so the name has the port:
// two servers on one host keep apart.
func cookie(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return cookieName + "_" + port
	}
	return cookieName
}

func bake(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name:     cookie(r),
		Value:    value,
		Path:     "/",
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   scheme(r) == "https",
	}
}

// scheme is the one by which a request reached us. A browser's POST says it, also through a
// proxy.
func scheme(r *http.Request) string {
	if r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://") {
		return "https"
	}
	return "http"
}

// local reports whether an address of a connection is of this machine.
func local(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}
