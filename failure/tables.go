package failure

import "strings"

// strength says how much a row decides.
type strength uint8

const (
	// strong: the row decides; other wording may only deny the retry that it grants.
	strong strength = iota
	// weak: a label that its vendor puts on much; a sentence, other wording or a telling
	// status decides before it.
	weak
	// firm: the row decides, whatever the words beside it say.
	firm
)

// codeRow gives a code or type its class. vendor "" is any vendor; phase "" is both.
type codeRow struct {
	vendor, code string
	class        Class
	strength     strength
	phase        Phase
	source       string
}

// sentenceRow gives a complete sentence of one vendor its class. The pattern covers the whole
// message: * stands for what varies.
type sentenceRow struct {
	vendor, pattern string
	class           Class
	source          string
}

// wordsRow denies a retry: every phrase of words (separated by +, in lower case) is in the
// message. Its class is never retryable.
type wordsRow struct {
	words  string
	class  Class
	wait   waitRule
	source string
}

// waitRule says what a wait stated beside the words means.
type waitRule uint8

const (
	anyWait     waitRule = iota // it is the wait of what the words speak of
	unlessWait                  // the words do not hold beside it
	otherWindow                 // if short, it is another window's
)

type compiledSentence struct {
	sentenceRow
	glob glob
}

var (
	codeIndex     = indexCodes()
	sentenceIndex = indexSentences()
	wordsIndex    = indexWords()
)

func indexCodes() map[string][]*codeRow {
	m := make(map[string][]*codeRow, len(codeRows))
	for i := range codeRows {
		r := &codeRows[i]
		k := canonCode(r.code)
		m[k] = append(m[k], r)
	}
	return m
}

func indexSentences() map[string][]compiledSentence {
	m := make(map[string][]compiledSentence)
	for _, r := range sentenceRows {
		m[r.vendor] = append(m[r.vendor], compiledSentence{r, compile(r.pattern)})
	}
	return m
}

type wordsFinder struct {
	*finder
	rest [][]string // the phrases behind each row's first
}

func indexWords() wordsFinder {
	first := make([]string, len(wordsRows))
	x := wordsFinder{rest: make([][]string, len(wordsRows))}
	for i, r := range wordsRows {
		all := strings.Split(r.words, "+")
		first[i], x.rest[i] = all[0], all[1:]
	}
	x.finder = newFinder(first)
	return x
}

// canonCode folds the spellings of a code: letter case, separators, AWS namespaces before #
// and URLs behind a colon.
func canonCode(code string) string {
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	if code == windowDay || code == windowMinute {
		return code
	}
	if i := strings.IndexByte(code, ':'); i > 0 {
		code = code[:i]
	}
	return canon(code)
}

// lookup finds the row of a code: the vendor's own, then its family's, then anybody's.
func lookup(code, vendor string, phase Phase) *codeRow {
	rows := codeIndex[canonCode(code)]
	for v := vendor; ; v = family(v) {
		for _, r := range rows {
			if r.vendor == v && (r.phase == "" || r.phase == phase) {
				return r
			}
		}
		if v == "" {
			return nil
		}
	}
}

// known finds the vendor's sentence that the message is.
func known(message, vendor string) *sentenceRow {
	if len(message) > 1500 {
		return nil
	}
	for v := vendor; ; v = family(v) {
		rows := sentenceIndex[v]
		for i := range rows {
			if rows[i].glob.match(message, nil) {
				return &rows[i].sentenceRow
			}
		}
		if v == "" {
			return nil
		}
	}
}

// deny finds the first row whose words a message, in lower case, contains.
func deny(message string, waits bool) *wordsRow {
	best := len(wordsRows)
	wordsIndex.each(message, func(i, _ int) {
		if i >= best || waits && wordsRows[i].wait == unlessWait {
			return
		}
		for _, w := range wordsIndex.rest[i] {
			if !strings.Contains(message, w) {
				return
			}
		}
		best = i
	})
	if best == len(wordsRows) {
		return nil
	}
	return &wordsRows[best]
}

// vendorRow names a vendor: by a configured name (aliases, in canonical spelling), by its
// hosts' suffixes, and by the vendor whose rows also hold for it.
type vendorRow struct {
	vendor, parent string
	names, hosts   string // separated by spaces
}

var vendors = indexVendors()

type vendorIndex struct {
	byName, parent map[string]string
	hosts          []vendorHost
}

type vendorHost struct{ suffix, vendor string }

func indexVendors() vendorIndex {
	x := vendorIndex{byName: make(map[string]string), parent: make(map[string]string)}
	for _, r := range vendorRows {
		x.parent[r.vendor] = r.parent
		x.byName[canon(r.vendor)] = r.vendor
		for n := range strings.FieldsSeq(r.names) {
			x.byName[n] = r.vendor
		}
		for h := range strings.FieldsSeq(r.hosts) {
			x.hosts = append(x.hosts, vendorHost{h, r.vendor})
		}
	}
	return x
}

func family(vendor string) string { return vendors.parent[vendor] }

// vendorNamed returns the vendor of a name, or "".
func vendorNamed(name string) string { return vendors.byName[canon(name)] }

// vendorOf recognises the vendor behind an endpoint: by its host, else by the configured
// name. The dialect says nothing: everybody speaks everybody's.
func vendorOf(f *Facts) string {
	host := f.Host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	for _, h := range vendors.hosts {
		if rest, ok := strings.CutSuffix(host, h.suffix); ok && (rest == "" || strings.HasSuffix(rest, ".") || strings.HasSuffix(rest, "-")) {
			return h.vendor
		}
	}
	return vendorNamed(f.Provider)
}
