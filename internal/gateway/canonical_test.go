package gateway

import "testing"

// R4: one request is one, however its JSON is spelt, and two are two.
func TestFingerprint(t *testing.T) {
	of := func(body string) string {
		t.Helper()
		h, err := fingerprint("m", []byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return h
	}
	for _, same := range [][]string{
		{`{"a":1,"b":[1,2]}`, `{ "b" : [1,2] , "a" : 1 }`, `{"a":1,"b":[1,2],"stream":true}`, `{"stream_options":{"x":1},"b":[1,2],"a":1.0,"stream":false}`},
		{`{"a":100}`, `{"a":1e2}`, `{"a":1.00E+2}`, `{"a":0.1e3}`, `{"a":100.0}`, `{"a":1000e-1}`},
		{`{"a":0}`, `{"a":-0}`, `{"a":0.000}`, `{"a":0e999}`},
		{`{"a":-0.25}`, `{"a":-25e-2}`},
		{`{"a":"é/\n"}`, `{"a":"\u00e9\/\u000a"}`},
		{`{"a":{"x":1,"y":2}}`, `{"a":{"y":2,"x":1}}`},
	} {
		for _, s := range same[1:] {
			if of(s) != of(same[0]) {
				t.Errorf("%s and %s are two", same[0], s)
			}
		}
	}
	different := []string{`{}`, `{"a":null}`, `{"a":false}`, `{"a":0}`, `{"a":""}`, `{"a":[]}`, `{"a":{}}`, `{"a":"0"}`, `{"a":[[]]}`, `{"a":[0]}`, `{"a":[0,0]}`,
		`{"a":[{}]}`, `{"a":{"stream":true}}`, `{"a":10}`, `{"a":1}`, `{"a":0.1}`, `{"a":-1}`, `{"b":1}`, `{"a":1,"b":1}`, `{"a":9007199254740993}`, `{"a":9007199254740992}`,
		`{"a":1e400}`, `{"a":1e401}`, `{"a":1e99999999999999999999}`, `{"a":"x\",\"b\":\"y"}`, `{"a":"x","b":"y"}`, `{"a":[1,2]}`, `{"a":[2,1]}`}
	seen := map[string]string{}
	for _, s := range different {
		h := of(s)
		if seen[h] != "" {
			t.Errorf("%s and %s are one", s, seen[h])
		}
		seen[h] = s
	}
	if other, err := fingerprint("n", []byte(`{}`)); err != nil || other == of(`{}`) {
		t.Errorf("two models are one: %v", err)
	}
	for _, bad := range []string{``, `[]`, `{`, `{} {}`, `"a"`, `{"a":01}`} {
		if _, err := fingerprint("m", []byte(bad)); err == nil {
			t.Errorf("%q has a fingerprint", bad)
		}
	}
}
