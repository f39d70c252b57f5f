package postgres

import (
	"context"
	"database/sql/driver"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/stdlib"
)

// connector makes connections that send no text which the server does not take for one.
type connector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return connection{made.(*stdlib.Conn)}, nil
}

type connection struct{ *stdlib.Conn }

// CheckNamedValue implements driver.NamedValueChecker.
func (connection) CheckNamedValue(v *driver.NamedValue) error {
	if valuer, ok := v.Value.(driver.Valuer); ok {
		value, err := valuer.Value()
		if err != nil {
			return err
		}
		v.Value = value
	}
	text := reflect.ValueOf(v.Value)
	if text.Kind() == reflect.Pointer {
		text = text.Elem()
	}
	if text.Kind() == reflect.String {
		v.Value = cleaned(text.String())
	}
	return nil
}

// cleaned is a text with U+FFFD in place of what is none.
func cleaned(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
