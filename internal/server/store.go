package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/postgres"
	"github.com/reprise-run/reprise/store/sqlite"
)

// databaseFile is in the data folder where no other database is set.
const databaseFile = "reprise.db"

// sole reports whether no other node can use the database.
func (c *Config) sole() bool { return c.Database == "" }

// unused reports whether nothing was ever stored.
func (c *Config) unused() bool {
	if c.Database != "" {
		return false
	}
	_, err := os.Stat(filepath.Join(c.Data, databaseFile))
	return errors.Is(err, fs.ErrNotExist)
}

// openStore opens the database: the one that is set, or the file in the data folder.
func (c *Config) openStore(ctx context.Context) (session.Store, error) {
	if c.Database == "" {
		return sqlite.Open(filepath.Join(c.Data, databaseFile))
	}
	address, err := c.env.database(c.Database)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return postgres.Open(ctx, address)
}

var errNoDatabase = errors.New("want postgres://user@host/name, or env:NAME or file:PATH where it is a secret")

// checkDatabase says whether s names a database, without a secret in it.
func checkDatabase(s string) error {
	if s == "" || checkReference(s) == nil {
		return nil
	}
	u, err := parseDatabase(s)
	if err != nil {
		return err
	}
	password, ok := u.User.Password()
	if ok && checkReference(password) != nil || u.Query().Has("password") {
		return errors.New("a password is named, not written down: use postgres://user:env:NAME@host/name, PGPASSWORD or a password file")
	}
	return nil
}

func parseDatabase(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errNoDatabase // an error of the parser may show a password
	}
	return u, nil
}

// database is the address that a setting stands for, with its password.
func (e Env) database(s string) (string, error) {
	if checkReference(s) == nil {
		return e.secret(s)
	}
	u, err := parseDatabase(s)
	if err != nil {
		return "", err
	}
	if ref, ok := u.User.Password(); ok {
		password, err := e.secret(ref)
		if err != nil {
			return "", err
		}
		u.User = url.UserPassword(u.User.Username(), password)
	}
	return u.String(), nil
}
