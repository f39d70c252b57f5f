package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/session"
)

// Several journals on one stream share its incarnation.
func TestJournalsShareAnIncarnation(t *testing.T) {
	j, _, more := joined(t)
	if a, b := j.Incarnation(), more().Incarnation(); a != b || a == "" {
		t.Fatalf("incarnations %q and %q", a, b)
	}
}

// The suite holds at the end of a cable that loses acknowledgements and appends, whichever way
// records reach a follower.
func TestSuiteOverLossyCable(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprint("alone=", alone), func(t *testing.T) {
			logtest.Run(t, func(t *testing.T) session.Log {
				j, c, _ := joined(t)
				j.alone = alone
				every := func(match func(line, payload string) bool) func(line, payload string) bool {
					var seen atomic.Int64
					return func(line, payload string) bool { return !match(line, payload) || seen.Add(1)%1999 != 4 }
				}
				c.filter(every(isAppend), every(isAck))
				return j
			})
		})
	}
}

func TestLostAcknowledgement(t *testing.T) {
	j, c, _ := joined(t)
	var sent atomic.Int64
	count := func(line, payload string) bool {
		if isAppend(line, payload) {
			sent.Add(1)
		}
		return true
	}
	wantSent := func(what string, n int64) {
		t.Helper()
		if got := sent.Swap(0); got != n {
			t.Errorf("%s was sent %d times, want %d", what, got, n)
		}
		c.filter(count, lose(1, isAck))
	}
	wantSent("nothing", 0)
	w := logtest.Claim(t, j, "run_a", 1)
	wantSent("a marker", 2)
	logtest.Append(t, w, "1")
	wantSent("a record", 2)
	if err := j.Publish(t.Context(), "ses_a", "e1", []byte("life")); err != nil {
		t.Fatal(err)
	}
	wantSent("an event", 2)
	c.filter(count, nil)
	logtest.Append(t, w, "2")
	wantSent("an acknowledged record", 1)
	c.filter(lose(3, isAppend), nil)
	logtest.Append(t, w, "3")
	fo := logtest.Follow(t, j)
	logtest.Want(t, "followed", fo.Take(t, 4), "run_a 1", "ses_a life", "run_a 2", "run_a 3")
}

// An acknowledgement that comes after its append was repeated is not taken for the next one's.
func TestLateAcknowledgement(t *testing.T) {
	j, c, _ := joined(t)
	w := logtest.Claim(t, j, "run_a", 1)
	repeated := make(chan struct{})
	var sent atomic.Int64
	c.filter(func(line, payload string) bool {
		if isAppend(line, payload) && sent.Add(1) == 2 {
			close(repeated)
		}
		return true
	}, func() func(line, payload string) bool {
		var once sync.Once
		return func(line, payload string) bool {
			if isAck(line, payload) {
				once.Do(func() { <-repeated })
			}
			return true
		}
	}())
	logtest.Append(t, w, "1", "2", "3")
	logtest.Want(t, "output", logtest.Output(t, j, "run_a"), "1", "2", "3")
}

// The acknowledgement of a publication that was given up is not taken for that of an append.
func TestAcknowledgementOfAnother(t *testing.T) {
	j, c, _ := joined(t)
	w := logtest.Claim(t, j, "run_a", 1)
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan struct{})
	var acks, appends atomic.Int64
	c.filter(func(line, _ string) bool {
		if strings.HasPrefix(line, "HPUB out.") && appends.Add(1) == 1 {
			close(lost)
			return false
		}
		return true
	}, func(line, payload string) bool {
		if isAck(line, payload) && acks.Add(1) == 1 {
			cancel()
			<-lost
		}
		return true
	})
	if err := j.Publish(ctx, "ses_a", "e1", []byte("life")); !errors.Is(err, context.Canceled) {
		t.Fatalf("Publish: %v", err)
	}
	logtest.Append(t, w, "1")
	logtest.Want(t, "output", logtest.Output(t, j, "run_a"), "1")
}

// A newer generation claims between an append and its repetition: the append is acknowledged if
// it was stored, and fenced if it was not.
func TestClaimDuringRepetition(t *testing.T) {
	for _, stored := range []bool{true, false} {
		t.Run(fmt.Sprint("stored=", stored), func(t *testing.T) {
			j, c, more := joined(t)
			other := more()
			w := logtest.Claim(t, j, "run_a", 1)
			logtest.Append(t, w, "0")
			var once sync.Once
			claim := func() { // in the middle of the append
				if _, err := other.Claim(context.Background(), "ses_a", "run_a", 2); err != nil {
					t.Error(err)
				}
			}
			first := func(match func(line, payload string) bool) func(line, payload string) bool {
				return func(line, payload string) (pass bool) {
					pass = true
					if match(line, payload) {
						once.Do(func() { claim(); pass = false })
					}
					return pass
				}
			}
			if stored {
				c.filter(nil, first(isAck))
				logtest.Append(t, w, "1")
			} else {
				c.filter(first(isAppend), nil)
				if err := w.Append(t.Context(), []byte("1")); !errors.Is(err, session.ErrFenced) {
					t.Fatalf("Append: %v", err)
				}
			}
			if err := w.Append(t.Context(), []byte("2")); !errors.Is(err, session.ErrFenced) {
				t.Fatalf("Append: %v", err)
			}
			want := []string{"0"}
			if stored {
				want = append(want, "1")
			}
			logtest.Want(t, "output", logtest.Output(t, j, "run_a"), want...)
		})
	}
}

// A cancelled append is in the log once, before the next one, whether it had reached the log or not.
func TestCancelInFlight(t *testing.T) {
	for _, reached := range []bool{true, false} {
		t.Run(fmt.Sprint("reached=", reached), func(t *testing.T) {
			j, c, _ := joined(t)
			w := logtest.Claim(t, j, "run_a", 1)
			logtest.Append(t, w, "0")
			reason := errors.New("stopped by the operator")
			ctx, cancel := context.WithCancelCause(t.Context())
			swallow := func(match func(line, payload string) bool) func(line, payload string) bool {
				return func(line, payload string) bool {
					if match(line, payload) {
						cancel(reason)
						return false
					}
					return true
				}
			}
			if reached {
				c.filter(nil, swallow(isAck))
			} else {
				c.filter(swallow(isAppend), nil)
			}
			data := []byte("1")
			if err := w.Append(ctx, data); !errors.Is(err, reason) {
				t.Fatalf("Append: %v", err)
			}
			data[0] = 'x' // the caller may use its buffer again
			if err := w.Append(ctx, []byte("never")); !errors.Is(err, reason) {
				t.Fatalf("Append: %v", err)
			}
			c.filter(nil, nil)
			logtest.Append(t, w, "2", "3")
			logtest.Want(t, "output", logtest.Output(t, j, "run_a"), "0", "1", "2", "3")
		})
	}
}

// A claim whose outcome its owner did not learn can be repeated by it and by nobody else.
func TestUnheardClaim(t *testing.T) {
	j, c, more := joined(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.filter(nil, func(line, payload string) bool {
		if isAck(line, payload) {
			cancel()
			return false
		}
		return true
	})
	if _, err := j.Claim(ctx, "ses_a", "run_a", 7); !errors.Is(err, context.Canceled) {
		t.Fatalf("Claim: %v", err)
	}
	c.filter(nil, nil)
	if _, err := more().Claim(t.Context(), "ses_a", "run_a", 7); !errors.Is(err, session.ErrFenced) {
		t.Fatalf("another's claim: %v", err)
	}
	logtest.Append(t, logtest.Claim(t, j, "run_a", 7), "1")
	logtest.Want(t, "output", logtest.Output(t, j, "run_a"), "1")
}

// A journal that closes while nothing answers gives up after one timeout.
func TestCloseWithoutAnswer(t *testing.T) {
	j, c, _ := joined(t)
	w := logtest.Claim(t, j, "run_a", 1)
	sent := make(chan struct{}, 1000)
	c.filter(func(line, payload string) bool {
		if !isAppend(line, payload) {
			return true
		}
		sent <- struct{}{}
		return false
	}, nil)
	failed := make(chan error)
	go func() { failed <- w.Append(context.Background(), []byte("x")) }()
	<-sent
	<-sent // repeated
	closed := make(chan error)
	go func() { closed <- j.Close() }()
	if err := <-failed; !errors.Is(err, session.ErrClosed) {
		t.Fatalf("Append: %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

// Close lets an append under way hear its acknowledgement.
func TestCloseWaits(t *testing.T) {
	j, c, _ := joined(t)
	j.ackTimeout = time.Minute
	w := logtest.Claim(t, j, "run_a", 1)
	held := make(chan struct{})
	c.filter(nil, func(line, payload string) bool {
		if isAck(line, payload) {
			close(held)
			<-j.stopping
		}
		return true
	})
	appended := make(chan error, 1)
	go func() { appended <- w.Append(context.Background(), []byte("1")) }()
	<-held
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-appended; err != nil {
		t.Fatalf("Append: %v", err)
	}
}

func isDelivery(line, _ string) bool {
	return strings.HasPrefix(line, "HMSG ") && strings.Contains(line, "$JS.ACK.")
}

// What is lost on the way to a follower is read again, without a gap and without a repetition.
func TestFollowerLosesMessages(t *testing.T) {
	j, c, _ := joined(t)
	fo := logtest.Follow(t, j)
	<-fo.CaughtUp
	w := logtest.Claim(t, j, "run_a", 1)
	var want []string
	for i := range 200 {
		var seen atomic.Int64
		if i%50 == 25 {
			c.filter(nil, func(line, payload string) bool { return !isDelivery(line, payload) || seen.Add(1) != 1 })
		}
		logtest.Append(t, w, fmt.Sprint(i))
		want = append(want, fmt.Sprint("run_a ", i))
	}
	logtest.Want(t, "followed", fo.Take(t, len(want)), want...)
	// The very last one: only a heartbeat can tell.
	c.filter(nil, lose(1, isDelivery))
	logtest.Append(t, w, "last")
	logtest.Want(t, "followed", fo.Take(t, 1), "run_a last")
}

// A consumer that is gone falls silent, and another goes on.
func TestConsumerIsGone(t *testing.T) {
	j, _, _ := joined(t)
	w := logtest.Claim(t, j, "run_a", 1)
	logtest.Append(t, w, "1", "2")
	fo := logtest.Follow(t, j)
	logtest.Want(t, "followed", fo.Take(t, 2), "run_a 1", "run_a 2")
	for name := range j.stream.ConsumerNames(t.Context()).Name() {
		if err := j.stream.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	logtest.Append(t, w, "3", "4")
	logtest.Want(t, "followed", fo.Take(t, 2), "run_a 3", "run_a 4")
}

// The last record that a follower awaits to have caught up is purged before it comes.
func TestCaughtUpAfterPurge(t *testing.T) {
	j, c, _ := joined(t)
	logtest.Append(t, logtest.Claim(t, j, "run_a", 1), "1")
	logtest.Append(t, logtest.Claim(t, j, "run_b", 1), "1")
	lost := make(chan struct{})
	c.filter(nil, func() func(line, payload string) bool {
		var seen atomic.Int64
		return func(line, payload string) bool {
			if !isDelivery(line, payload) || seen.Add(1) != 4 {
				return true
			}
			close(lost)
			return false
		}
	}())
	fo := logtest.Follow(t, j)
	logtest.Want(t, "followed", fo.Take(t, 1), "run_a 1")
	<-lost
	if err := j.Purge(t.Context(), "ses_a", "run_b"); err != nil {
		t.Fatal(err)
	}
	<-fo.CaughtUp

	called := false
	idle := &follower{journal: j, caughtUp: func() { called = true }, target: 9}
	heartbeat := &nats.Msg{Header: nats.Header{"Status": {"100"}, "Nats-Last-Consumer": {"3"}, "Nats-Last-Stream": {"9"}}}
	if err := idle.control(t.Context(), heartbeat, 3); err != nil || !called {
		t.Fatalf("an idle consumer: error %v, caught up %v", err, called)
	}
}

// A request is answered twice where a paused server wakes and takes itself for the leader. What comes second is nobody's answer, whenever
// it comes.
func TestAnsweredTwice(t *testing.T) {
	j, _, more := joined(t)
	server := more().nc
	for subject, answers := range map[string][]string{"twice": {"a", "b"}, "once": {"c"}} {
		_, err := server.Subscribe(subject, func(m *nats.Msg) {
			for _, text := range answers {
				if err := m.Respond([]byte(text)); err != nil {
					t.Error(err)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		for subject, want := range map[string]string{"twice": "a", "once": "c"} {
			m, _, err := j.request(t.Context(), &nats.Msg{Subject: subject})
			if err != nil || string(m.Data) != want {
				t.Fatalf("%s was answered with %q, %v", subject, m.Data, err)
			}
		}
	}
}
