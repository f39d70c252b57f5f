package gateway

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fingerprint is the hash of what a request asks for: of its body as JSON, whatever the order of
// its fields, its white space and the spelling of its strings and numbers, but for what says how
// the answer is to come. model is for the dialects that name it elsewhere.
func fingerprint(model string, body []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return "", fmt.Errorf("read the request: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("read the request: there is something behind it")
	}
	delete(fields, "stream")
	delete(fields, "stream_options")
	sum := sha256.New()
	w := bufio.NewWriter(sum)
	canonical(w, model)
	canonical(w, fields)
	if err := w.Flush(); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// canonical writes a value as one text, however it was spelt. Errors are w's to keep.
func canonical(w *bufio.Writer, v any) {
	switch v := v.(type) {
	case map[string]any:
		w.WriteByte('{')
		for _, k := range slices.Sorted(maps.Keys(v)) {
			canonical(w, k)
			w.WriteByte(':')
			canonical(w, v[k])
			w.WriteByte(',')
		}
		w.WriteByte('}')
	case []any:
		w.WriteByte('[')
		for _, e := range v {
			canonical(w, e)
			w.WriteByte(',')
		}
		w.WriteByte(']')
	case string:
		w.WriteString(strconv.Quote(v))
	case json.Number:
		w.WriteString(number(string(v)))
	case bool:
		w.WriteString(strconv.FormatBool(v))
	default:
		w.WriteString("null")
	}
}

// number is a JSON number as its digits, without zeros at either end, and a power of ten. It is
// exact; a power that no machine could compute stays as it was written.
func number(s string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(s), "e")
	exp := 0
	if power != "" {
		var err error
		if exp, err = strconv.Atoi(power); err != nil || max(exp, -exp) > 1<<30 {
			return s
		}
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	exp -= len(fraction)
	short := strings.TrimRight(digits, "0")
	exp += len(digits) - len(short)
	if negative {
		short = "-" + short
	}
	return short + "e" + strconv.Itoa(exp)
}
