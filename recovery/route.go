package recovery

import (
	"slices"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
)

// Route is who may answer a run's model calls. It remembers from step to step who did, and
// is used by one goroutine.
type Route struct {
	// Entries returns the models to ask, in order, each with its keys: one at least, and always
	// the same ones. Their secrets may change: it is called at the start of each step, and again
	// when a key was refused.
	Entries func() []Entry
	// State is what cools off; nil: nothing does.
	State CredentialState
	// NoFallback: only the first entry is asked. Key is the label of the only key that is
	// used; empty: any.
	NoFallback bool
	Key        string
	// Person: a person asks, who may send one request although everything cools off. Else a run
	// that begins so sends nothing and fails. Going: the run had begun before, and waits as
	// between two attempts.
	Person, Going bool
	// Repeats: who asks repeats what fails at a pace of its own, so that a model rests that is busy
	// although there is no other.
	Repeats bool
	// Last names the entry that answered before this run, as Entry.Name does; empty: none.
	Last string

	begun  bool   // something was chosen for this run
	stay   string // the entry that answered a step of this run
	why    string // why the first entry did not
	chosen Candidate
}

// Entry is one model, with the keys that it may be asked with.
type Entry struct {
	Provider string // its name in the configuration
	Model    string // the upstream's name
	Dialect  string // that it speaks, for Plan.Translate
	Facts    llm.ModelFacts
	Keys     []Key // in order; one without a hash where the provider needs none
	Large    Ceiling
}

// Name returns provider/model.
func (e *Entry) Name() string { return e.Provider + "/" + e.Model }

// Ceiling bounds how often a provider is asked in one step for a request of at least so many
// bytes, whoever wants it but a person; 0 bytes: no bound of its own.
type Ceiling struct {
	Bytes    int64
	Requests int
}

// Key is one credential of a provider.
type Key struct {
	Label string // its name in the configuration, never the key
	Hash  string // the same for two references to one secret
	// Provider asks with this key. Err says why the key cannot be read; then Provider is nil.
	Provider llm.Provider
	Err      *failure.Failure
}

// Why a candidate was not asked.
const (
	SkipContext    = "context_too_small"
	SkipTools      = "no_tools"
	SkipImages     = "no_images"
	SkipKey        = "key_unreadable"
	SkipRefused    = "key_refused"
	SkipPinned     = "another_key_is_pinned"
	SkipCooling    = "cooling_off"
	SkipProbed     = "being_tried"
	SkipNotReached = "not_reached"
	SkipLarge      = "large_request"
	SkipLoss       = "not_translatable" // Outcome.Message says what would be lost
)

// refuses returns why a model cannot take the request, or nothing. What is not known refuses
// nothing, and an estimate of the size only where it is half as much again too large.
func (w *way) refuses(entry int) string {
	m, req := &w.entries[entry].Facts, w.words(entry)
	no := func(can *bool) bool { return can != nil && !*can }
	switch {
	case no(m.Tools) && len(req.Tools) > 0:
		return SkipTools
	case no(m.Images) && slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return hasImage(m.Parts) }):
		return SkipImages
	case m.Context > 0 && w.input*2/3+int64(req.MaxOutputTokens) > m.Context:
		return SkipContext
	}
	return ""
}

// hasImage reports whether there is an image in the parts.
func hasImage(parts []llm.Part) bool {
	return slices.ContainsFunc(parts, func(p llm.Part) bool { return p.Kind == llm.PartImage || hasImage(p.Content) })
}

// Candidate is one entry with one key.
type Candidate struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Key      string `json:"key,omitempty"` // its label
}

func (c Candidate) String() string {
	name := c.Provider
	if c.Model != "" {
		name += "/" + c.Model
	}
	if c.Key != "" {
		name += " with " + c.Key
	}
	return name
}

// Outcome is what became of a candidate: the class of its failure, or why it was not asked.
type Outcome struct {
	Candidate
	Failed  string    `json:"failed,omitempty"`  // a failure's class
	Skipped string    `json:"skipped,omitempty"` // one of the Skip words
	Until   time.Time `json:"until,omitzero"`    // when a wait that is known of is over
	Message string    `json:"message,omitempty"` // the provider's own, or what SkipLoss means
}

func (o Outcome) String() string {
	if o.Failed != "" {
		return o.Candidate.String() + ": " + o.Failed
	}
	s := o.Candidate.String() + " was not asked: " + o.Skipped
	if o.Message != "" {
		s += " (" + o.Message + ")"
	}
	return s
}

// Choice is who is asked next.
type Choice struct {
	Candidate
	// Switched is set where somebody else was asked before. Instead is set where it is not the
	// route's first entry: which that is, and why it does not answer.
	Switched, Instead *Former
	// Skipped lists who was passed over since the last choice.
	Skipped []Outcome
	// Waited is how long it took until somebody who cools off could be asked; 0: it was at once.
	Waited time.Duration
}

// Former is who is asked no more, and why: the class of a failure, a Skip word, or "recovered".
type Former struct {
	Candidate
	Reason string `json:"reason"`
}

// Recovered is the reason of a switch back to an entry that comes earlier in the chain.
const Recovered = "recovered"

// candidate is a choice that can be carried out.
type candidate struct {
	entry, key int
	lanes      []CoolOff // what it has, and that is over
	probing    bool      // it holds the one probe of an entry's lane
}

// candidates lists the entry's keys that may be used, the preferred one first, those that the
// step has not asked in vain before the others.
func (w *way) candidates(entry, prefer int) []int {
	e := &w.entries[entry]
	var fresh, again []int
	for k := range e.Keys {
		key := &e.Keys[k]
		switch {
		case key.Err != nil, !w.pinned(key), w.refused[key.Hash]:
		case k != prefer && w.asked[Lane{key.Hash, e.Name()}]:
			again = append(again, k)
		case k == prefer:
			fresh = slices.Insert(fresh, 0, k)
		default:
			fresh = append(fresh, k)
		}
	}
	return append(fresh, again...)
}

func (w *way) pinned(k *Key) bool { return w.route.Key == "" || w.route.Key == k.Label }

// pick is the first candidate that may be asked now, or else the one that may be first.
type pick struct {
	candidate
	ok     bool
	at     time.Time // when it may be asked; zero: nobody can take the request
	probed bool      // it waits for somebody else's probe alone
}

// forced reports whether a person's message may use the pick although it cools off.
func (p *pick) forced(w *way) bool {
	return !p.at.IsZero() && w.route.Person && !w.route.begun
}

func (w *way) pick(now time.Time) (p pick) {
	for _, i := range slices.Clone(w.order) {
		w.translate(i)
		if why := w.cannot(i); why != "" {
			w.skip(i, -1, why, time.Time{})
			continue
		}
		prefer := -1
		if i == w.cur.entry && w.verdict == Retry {
			prefer = w.cur.key
		}
		usable := w.candidates(i, prefer)
		if len(usable) == 0 {
			w.skipKeys(i)
		}
		for _, k := range usable {
			until, busy, over := w.ready(i, k, now)
			c := candidate{entry: i, key: k, lanes: over}
			if !until.After(now) && !busy {
				return pick{candidate: c, ok: true, at: now}
			}
			why := SkipCooling
			if !until.After(now) {
				why, until = SkipProbed, now.Add(probePoll)
			}
			w.skip(i, k, why, until)
			if p.at.IsZero() || until.Before(p.at) {
				p = pick{candidate: c, at: until, probed: why == SkipProbed}
			}
		}
	}
	return p
}

// cannot returns why the entry cannot take the request, or nothing. Where there is no other,
// its provider decides.
func (w *way) cannot(entry int) string {
	if w.said[entry].loss != nil {
		return SkipLoss
	}
	if len(w.entries) == 1 {
		return ""
	}
	if w.ceiling(entry) {
		return SkipLarge
	}
	why := w.refuses(entry)
	if w.loose && why == SkipContext {
		return ""
	}
	return why
}

// skip remembers why a candidate was passed over.
func (w *way) skip(entry, key int, why string, until time.Time) {
	o := Outcome{Candidate: w.name(entry, key), Skipped: why, Until: until}
	if why == SkipLoss {
		o.Message = w.said[entry].loss.Error()
	}
	w.skipped = slices.DeleteFunc(w.skipped, func(old Outcome) bool { return old.Candidate == o.Candidate })
	w.skipped = append(w.skipped, o)
}

// skipKeys says which of the entry's keys cannot be used at all.
func (w *way) skipKeys(entry int) {
	for k := range w.entries[entry].Keys {
		switch key := &w.entries[entry].Keys[k]; {
		case key.Err != nil:
			w.skip(entry, k, SkipKey, time.Time{})
		case !w.pinned(key):
			w.skip(entry, k, SkipPinned, time.Time{})
		case w.refused[key.Hash]:
			w.skip(entry, k, SkipRefused, time.Time{})
		}
	}
}

// drop takes an entry out of this step.
func (w *way) drop(entry int) {
	w.order = slices.DeleteFunc(w.order, func(i int) bool { return i == entry })
}

func (w *way) name(entry, key int) Candidate {
	e := &w.entries[entry]
	c := Candidate{Provider: e.Provider, Model: e.Model}
	if key >= 0 {
		c.Key = e.Keys[key].Label
	}
	return c
}
