package rawjson

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
)

func TestSet(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		fields []Field
		want   string
	}{
		"replaces in place":   {" {\"a\" : 1 , \"b\":[1,{\"a\":2}]}\n", []Field{{"a", `"x"`}}, " {\"a\" : \"x\" , \"b\":[1,{\"a\":2}]}\n"},
		"replaces twice":      {`{"a":1,"b":2,"a":3}`, []Field{{"a", "0"}}, `{"a":0,"b":2,"a":0}`},
		"sees through escape": {`{"\u0061":1}`, []Field{{"a", "0"}}, `{"\u0061":0}`},
		"adds":                {`{"b":2}`, []Field{{"a", "1"}, {"c", "3"}}, `{"a":1,"c":3,"b":2}`},
		"adds to nothing":     {`{ }`, []Field{{"a", "1"}, {"c", "3"}}, `{"a":1,"c":3 }`},
		"adds and replaces":   {`{"b":"}\\\""}`, []Field{{"b", "1"}, {"a", "2"}}, `{"a":2,"b":1}`},
		"is not misled":       {`{"x":"\"a\":1","y":{"a":1},"a":null}`, []Field{{"a", "5"}}, `{"x":"\"a\":1","y":{"a":1},"a":5}`},
	} {
		got, err := Set([]byte(c.body), c.fields...)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}

func TestSetReturnsTheSameBytes(t *testing.T) {
	body := []byte(`{"a":1}`)
	if got, err := Set(body, Field{"a", "1"}); err != nil || &got[0] != &body[0] {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSetRefuses(t *testing.T) {
	for _, body := range []string{"", " ", "[]", "1", `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`,
		`{"a":1}x`, `{"a":1}{}`, `{"a":}`, `{"a":[1}`, `{"a":{"b":"}`, `{"a":tru}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":"\"}`, `{"a":]}`} {
		if got, err := Set([]byte(body), Field{"a", "0"}); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %s, %v", body, got, err)
		}
	}
}

// FuzzSet: of a valid object, what is set is set, and nothing else has changed.
func FuzzSet(f *testing.F) {
	for _, body := range []string{`{"a":1,"b":{"c":[true,"\\\"}"]}}`, `{}`, `{"a":"x","a":{}}`, `[]`, `{"a":[[{"a":"\u0022"}]]}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		got, err := Set(body, Field{"a", `"A"`}, Field{"stream", "true"})
		if string(body) != before {
			t.Fatal("the body was written to")
		}
		var want, have map[string]any
		if json.Unmarshal(body, &want) != nil || want == nil {
			return
		}
		if err != nil {
			t.Fatalf("valid object refused: %v", err)
		}
		if err := json.Unmarshal(got, &have); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		maps.Copy(want, map[string]any{"a": "A", "stream": true})
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("got %s", got)
		}
	})
}

func BenchmarkSet100kB(b *testing.B) {
	body := []byte(`{"messages":[{"content":"` + strings.Repeat(`some \"text\" {x}\n`, 6000) + `"}],"model":"a"}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Set(body, Field{"model", `"b"`}, Field{"stream", "true"}); err != nil {
			b.Fatal(err)
		}
	}
}
