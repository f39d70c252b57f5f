package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// System counts what the server does.
func (m *Manager) System(ctx context.Context) (sys System, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		sys, err = m.system(tx)
		return err
	})
	return sys, err
}

func (m *Manager) system(tx ReadTx) (System, error) {
	now := time.Now()
	runs, err := tx.CountRuns(m.owner)
	if err != nil {
		return System{}, err
	}
	offs, err := cooling(tx, now)
	if err != nil {
		return System{}, err
	}
	spend, err := m.spendInfo(tx, now)
	return System{
		Version: m.cfg.Version, Rehearsal: m.cfg.Rehearsal, ConcurrentRuns: m.cfg.ConcurrentRuns,
		Running: runs.Running, Queued: runs.Queued, Now: At(now), Spend: spend,
		CoolOffs: offs,
	}, err
}

// announceLoop tells observers the counts of the whole server when they have changed, at most
// ten times a second.
func (m *Manager) announceLoop() {
	var told []byte
	for {
		select {
		case <-m.counts:
		case <-m.work.Done():
			return
		}
		if sys, err := m.System(m.work); err == nil {
			told = m.announceCounts(sys, told)
		} else if m.work.Err() == nil {
			m.cfg.Log.Warn("count the runs", "error", err)
		}
		if pause(m.work, 100*time.Millisecond) != nil {
			return
		}
	}
}

// announceCounts tells the counts where they are not those that were told last, and returns them.
func (m *Manager) announceCounts(sys System, told []byte) []byte {
	at := sys.Now
	sys.Now = 0
	now, err := json.Marshal(sys)
	if err != nil {
		panic(fmt.Sprintf("encode counts of our own making: %v", err))
	}
	if sys.Now = at; !bytes.Equal(now, told) {
		m.hub.broadcast(Event{Type: EventSystem, System: &sys, At: at})
	}
	return now
}
