package session

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reprise-run/reprise/llm"
)

// NewSession is what a session is created from. Empty fields have defaults.
type NewSession struct {
	Title    string   `json:"title,omitempty"`
	Model    string   `json:"model,omitempty"`
	Settings Settings `json:"settings,omitzero"`
}

// maxTitle bounds a title, in characters.
const maxTitle = 200

// SessionPatch changes the fields that are set.
type SessionPatch struct {
	Title    *string   `json:"title,omitempty"`
	Model    *string   `json:"model,omitempty"`
	Settings *Settings `json:"settings,omitempty"`
	Archived *bool     `json:"archived,omitempty"`
}

// changes names what would be another than it is, but for archived, which is an act of its own.
func (p SessionPatch) changes(s Session) (list []string) {
	if p.Title != nil && *p.Title != s.Title {
		list = append(list, "title")
	}
	if p.Model != nil && *p.Model != s.Model {
		list = append(list, "model "+*p.Model)
	}
	if p.Settings != nil && !reflect.DeepEqual(*p.Settings, s.Settings) {
		list = append(list, "settings")
	}
	return list
}

// CreateSession makes an idle session. A model that nobody serves is refused.
func (m *Manager) CreateSession(ctx context.Context, actor string, n NewSession) (Session, error) {
	now := time.Now()
	s := Session{
		ID: NewID[ID]("ses_", now), Title: n.Title, Model: n.Model, Settings: n.Settings,
		Actor: actor, CreatedAt: At(now), UpdatedAt: At(now), State: Idle,
	}
	if s.Model == "" {
		s.Model = m.cfg.Model
	}
	if err := m.checkModel(s.Model); err != nil {
		return Session{}, err
	}
	if err := s.Settings.check(); err != nil {
		return Session{}, err
	}
	err := m.update(ctx, Full, func(tx Tx) error {
		if err := tx.InsertSession(s); err != nil {
			return err
		}
		if err := audit(tx, actor, "create session", s.ID, "", s.Model); err != nil {
			return err
		}
		if err := emit(tx, s.ID, Event{Type: EventSession}); err != nil {
			return err
		}
		if err := tx.(*telling).tell(); err != nil { // what is returned has the revision
			return err
		}
		var err error
		s, err = tx.Session(s.ID)
		return err
	})
	return s, err
}

func (s *Settings) check() error {
	if s.SpendLimit != nil && *s.SpendLimit < 0 {
		return &Refusal{Code: CodeValidation, Message: "A limit on cost is not negative; 0 is none.",
			Details: fields("settings.spend_limit", "want 0 or more")}
	}
	if s.MaxSteps < 0 {
		return &Refusal{Code: CodeValidation, Message: "A run has at least one step; 0 leaves it to the server.",
			Details: fields("settings.max_steps", "want 0 or more")}
	}
	return checkTools(s.Tools)
}

func (m *Manager) checkModel(model string) error {
	if _, err := m.models.Entries(model); err != nil {
		return &Refusal{Code: CodeValidation, Message: err.Error(), Details: fields("model", err.Error())}
	}
	return nil
}

// fields is what a refused body says about one of its fields.
func fields(path, message string) any {
	return map[string]any{"fields": []map[string]string{{"path": "body." + path, "message": message}}}
}

// Sessions lists the sessions that have changed after a time (0: all) by last change, newest
// first.
func (m *Manager) Sessions(ctx context.Context, archived bool, after Time) (list []Session, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		list, err = tx.Sessions(archived, after, 0)
		return err
	})
	return list, err
}

// Session reads one session.
func (m *Manager) Session(ctx context.Context, id ID) (s Session, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		s, err = tx.Session(id)
		return err
	})
	return s, err
}

// PatchSession changes a session.
func (m *Manager) PatchSession(ctx context.Context, actor string, id ID, p SessionPatch) (s Session, err error) {
	if p.Model != nil {
		if err := m.checkModel(*p.Model); err != nil {
			return Session{}, err
		}
	}
	if p.Title != nil {
		line := strings.Join(strings.Fields(*p.Title), " ")
		if utf8.RuneCountInString(line) > maxTitle {
			text := fmt.Sprintf("A title has at most %d characters.", maxTitle)
			return Session{}, &Refusal{Code: CodeValidation, Message: text, Details: fields("title", text)}
		}
		p.Title = &line
	}
	if p.Settings != nil {
		if err := p.Settings.check(); err != nil {
			return Session{}, err
		}
	}
	err = m.update(ctx, Full, func(tx Tx) error {
		if s, err = tx.Session(id); err != nil {
			return err
		}
		ends := "" // what would end a wait
		if p.Model != nil && *p.Model != s.Model {
			ends = EndedByModel
		}
		if p.Archived != nil && *p.Archived != s.Archived {
			act := MoveRestore
			if *p.Archived {
				act = MoveArchive
			}
			st, err := status(tx, s)
			if err != nil {
				return err
			}
			if st, _, err = Next(st, act); err != nil {
				return err
			}
			if s.Archived = st.Archived; s.Archived {
				ends = EndedByArchive
			}
			if err := audit(tx, actor, act.String(), id, "", ""); err != nil {
				return err
			}
		}
		if changed := p.changes(s); len(changed) > 0 {
			if err := audit(tx, actor, "change session", id, "", strings.Join(changed, ", ")); err != nil {
				return err
			}
		}
		if err := endSchedule(tx, s, ends); err != nil {
			return err
		}
		if p.Title != nil {
			s.Title = *p.Title
		}
		if p.Model != nil {
			s.Model = *p.Model
		}
		if p.Settings != nil {
			s.Settings = *p.Settings
		}
		s.UpdatedAt = At(time.Now())
		if err := tx.PutSession(s); err != nil {
			return err
		}
		if err := emit(tx, id, Event{Type: EventSession}); err != nil {
			return err
		}
		if err := tx.(*telling).tell(); err != nil { // what is returned has the revision
			return err
		}
		s, err = tx.Session(id)
		return err
	})
	return s, err
}

// endSchedule cancels what a session's schedule waits for, and removes one that has stopped.
// Without a reason it does neither.
func endSchedule(tx Tx, s Session, reason string) error {
	switch {
	case reason == "":
		return nil
	case s.Schedule != nil && s.Schedule.State.Waiting():
		_, err := endWait(tx, *s.Schedule, reason)
		return err
	}
	return retire(tx, s)
}

// Messages reads a session's messages by position: those in the model's context, or all.
func (m *Manager) Messages(ctx context.Context, id ID, superseded bool, after int64, limit int) (list []Message, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		if _, err := tx.Session(id); err != nil {
			return err
		}
		if list, err = tx.Messages(id, superseded, after, limit); err != nil {
			return err
		}
		return spendOf(tx, id, list)
	})
	return list, err
}

// Run reads one run of a session.
func (m *Manager) Run(ctx context.Context, id ID, rid RunID) (r Run, err error) {
	r, err = m.FindRun(ctx, rid)
	if err == nil && r.SessionID != id {
		return Run{}, ErrNotFound
	}
	return r, err
}

// Runs lists a session's runs, oldest first, each with what it cost.
func (m *Manager) Runs(ctx context.Context, id ID) (list []Run, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		if _, err := tx.Session(id); err != nil {
			return err
		}
		if list, err = tx.Runs(id); err != nil {
			return err
		}
		steps, err := tx.SpentBySteps(id)
		if err != nil {
			return err
		}
		spent := map[RunID]Spend{}
		for of, s := range steps {
			spent[of.Run] = spent[of.Run].plus(s)
		}
		for i := range list {
			s := spent[list[i].ID]
			list[i].Spend = &s
		}
		return nil
	})
	return list, err
}

// FindRun reads one run.
func (m *Manager) FindRun(ctx context.Context, rid RunID) (r Run, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		if r, err = tx.Run(rid); err != nil {
			return err
		}
		spent, err := tx.Spent(Spending{Session: r.SessionID, Run: rid})
		r.Spend = &spent
		return err
	})
	return r, err
}

// Attempts lists a run's attempts, each with its failure and decision.
func (m *Manager) Attempts(ctx context.Context, id ID, rid RunID) (list []Attempt, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		if r, err := tx.Run(rid); err != nil || r.SessionID != id {
			return cmp.Or(err, ErrNotFound)
		}
		list, err = tx.Attempts(rid)
		return err
	})
	return list, err
}

// title makes a session's title of its first message.
func title(parts []llm.Part) string {
	for _, p := range parts {
		line, _, _ := strings.Cut(strings.TrimSpace(p.Text), "\n")
		if line == "" {
			continue
		}
		if utf8.RuneCountInString(line) > 60 {
			line = string([]rune(line)[:59]) + "…"
		}
		return line
	}
	return "Untitled"
}
