package scan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/wire/internal/scan"
)

func TestFieldsRefuse(t *testing.T) {
	for _, s := range []string{
		"", " ", "{", "}", "[]", "1", `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":1}}`,
		`{"a":[1,]}`, `{"a":[}`, `{"a":{]}`, `{"a":tru}`, `{"a":"x}`, `{"a":"x\"}`, `{"\x":1}`, `{"a":1} x`,
		`{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
	} {
		if err := scan.Fields([]byte(s), func(_, _ []byte) error { return nil }); err == nil {
			t.Errorf("accepts %.40q", s)
		}
	}
}

func TestString(t *testing.T) {
	for in, want := range map[string]string{
		`"a"`: "a", `""`: "", `null`: "", `1`: "", `"a\nb\t\"\\\/\b\f\r"`: "a\nb\t\"\\/\b\f\r",
		`"\u00e9\u4e2d"`: "é中", `"\ud83d\ude00"`: "😀", `"\ud83d"`: "\uFFFD", `"\ud83dx"`: "\uFFFDx",
		`"\ud83d\u0041"`: "\uFFFDA", "\"\xff\"": "\uFFFD", `"é"`: "é",
	} {
		if got, err := scan.String([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{`"\x"`, `"\u12"`, `"\u12gh"`} {
		if s, err := scan.String([]byte(in)); err == nil {
			t.Errorf("%s: %q", in, s)
		}
	}
}

func TestInt(t *testing.T) {
	for in, want := range map[string]int64{"1": 1, "-3": -3, "12.9": 12, "1e3": 1000, "null": 0, `"7"`: 0, "1e300": 0, "": 0} {
		if got := scan.Int([]byte(in)); got != want {
			t.Errorf("%s: %d, want %d", in, got, want)
		}
	}
}

// What encoding/json reads, the scanner reads alike.
func FuzzAgainstJSON(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[{"c":"d\u0041\\"},null,true,-1.5e3],"a":{}}`, `{ "x" : "\ud83d\ude00" }`, `{"a":"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := map[string]string{}
		err := scan.Fields([]byte(s), func(name, value []byte) error {
			if !strings.HasPrefix(s, "{") && len(value) == 0 {
				t.Error("empty value")
			}
			got[strings.ToValidUTF8(string(name), "\uFFFD")] = string(value)
			return nil
		})
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &want) != nil || want == nil {
			return
		}
		if err != nil {
			t.Fatalf("%v for %q", err, s)
		}
		if strings.ContainsRune(s, '\uFFFD') || strings.ToValidUTF8(s, "") != s {
			return // how many replacements a run of bad bytes gives is not specified
		}
		if len(got) != len(want) {
			t.Fatalf("%d fields, want %d", len(got), len(want))
		}
		for k, v := range want {
			if got[k] != string(v) {
				t.Errorf("%q: %s, want %s", k, got[k], v)
			}
			var text string
			if json.Unmarshal(v, &text) == nil {
				if have, err := scan.String([]byte(got[k])); err != nil || have != text {
					t.Errorf("%s: %q, %v, want %q", v, have, err, text)
				}
			}
		}
	})
}
