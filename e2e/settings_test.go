package e2e

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
)

// A setting that is changed while the server works counts for the next failure, outlives kill -9,
// and yields to a flag of the next start.
func TestSettings(t *testing.T) {
	up := newUpstream(t, outlives("never"))
	s := serve(t, up.config("outlives", retryAfter(time.Minute)))
	const key = "recovery.tier2.base"
	value := func() httpapi.Setting {
		t.Helper()
		list, err := s.Settings(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Settings {
			if one.Key == key {
				return one
			}
		}
		t.Fatalf("%+v", list)
		return httpapi.Setting{}
	}
	wait := func(text string) time.Duration {
		t.Helper()
		o := watch(s, s.session(""))
		defer o.stop()
		_, sch := o.waiting(s, text)
		if _, err := s.CancelRetry(within(t), o.id, sch.Token); err != nil {
			t.Error(err)
		}
		return time.Duration(sch.NextAt-sch.Since) * time.Millisecond
	}
	if w := wait("one"); w != time.Minute {
		t.Errorf("as configured, it waits %s", w)
	}
	if _, err := s.ChangeSettings(within(t), map[string]string{key: "2m"}, nil); err != nil {
		t.Fatal(err)
	}
	if w := wait("two"); w != 2*time.Minute {
		t.Errorf("as changed, it waits %s", w)
	}
	s.restart()
	if now, want := value(), (httpapi.Setting{Key: key, Value: "2m", Configured: "1m", From: "file", Set: true}); now != want {
		t.Errorf("after kill -9 %+v, want %+v", now, want)
	}
	s.stop()
	s.args = []string{"--set", key + "=90s"}
	s.start()
	if now := value(); now.Value != "1m30s" || now.From != "flag" || !now.Fixed {
		t.Errorf("with a flag %+v", now)
	}
	if w := wait("three"); w != 90*time.Second {
		t.Errorf("with a flag, it waits %s", w)
	}
	var no *client.Error
	if _, err := s.ChangeSettings(within(t), map[string]string{key: "3m"}, nil); !errors.As(err, &no) || no.Status != http.StatusBadRequest {
		t.Errorf("a fixed one was changed: %v", err)
	}
	acts, err := s.Audit(within(t), "", 0)
	changed := 0
	for _, a := range acts {
		if a.Act == "change settings" && a.Detail == key+"=2m" && a.Actor != "" && a.SessionID == "" {
			changed++
		}
	}
	if err != nil || changed != 1 {
		t.Errorf("%d audit entries of the change, %v", changed, err)
	}
}
