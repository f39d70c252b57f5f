package session

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/llm"
)

// Output is encoded as encoding/json does it, whatever fields the types have.
func TestAppendOutput(t *testing.T) {
	texts := []string{"", " plain ~", "a\nb", "\"\\", "<&>", "\x7f", "π \u2028 \U0001f600", "\xff", strings.Repeat("x", 5000)}
	events := []llm.Event{{}}
	for _, s := range texts {
		events = append(events, llm.Event{Kind: llm.EventText, Text: s}, llm.Event{Kind: 200, Part: 7, Text: s})
	}
	e := reflect.TypeFor[llm.Event]()
	for i := range e.NumField() {
		var one llm.Event
		switch f := reflect.ValueOf(&one).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("set")
		case reflect.Uint8:
			f.SetUint(5)
		case reflect.Int:
			f.SetInt(-3)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.SetBytes([]byte("set"))
		default:
			t.Fatalf("the field %s is of a kind that is not tried", e.Field(i).Name)
		}
		events = append(events, one)
	}
	for _, o := range []Output{
		{Events: []llm.Event{}},
		{RunID: "run_1", Step: 3, AttemptID: "att_<1>", Generation: 1 << 60, Seq: -1, Events: events},
	} {
		want, err := json.Marshal(Event{Type: EventOutput, SessionID: "ses_1", Output: &o})
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendOutput(nil, "ses_1", &o)
		if err != nil || string(got) != string(want) {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}
