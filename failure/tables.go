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
// message. Its class is never retryable. unlessWait: the words mean that only where no wait
// is stated beside them.
type wordsRow struct {
	words      string
	class      Class
	unlessWait bool
	source     string
}

type compiledSentence struct {
	sentenceRow
	glob glob
}

type compiledWords struct {
	wordsRow
	all []string
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

func indexWords() []compiledWords {
	all := make([]compiledWords, len(wordsRows))
	for i, r := range wordsRows {
		all[i] = compiledWords{r, strings.Split(r.words, "+")}
	}
	return all
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

// deny finds the row of words that a message, in lower case, contains.
func deny(message string, waits bool) *wordsRow {
	for i := range wordsIndex {
		r := &wordsIndex[i]
		if r.unlessWait && waits {
			continue
		}
		found := true
		for _, w := range r.all {
			if !strings.Contains(message, w) {
				found = false
				break
			}
		}
		if found {
			return &r.wordsRow
		}
	}
	return nil
}

// vendorRow names a vendor: by a configured name (aliases, in canonical spelling), by its
// hosts' suffixes, and by the vendor whose rows also hold for it.
type vendorRow struct {
	vendor, parent string
	names, hosts   string // separated by spaces
}

var (
	vendorByName = make(map[string]string)
	vendorParent = make(map[string]string)
	vendorHosts  [][2]string
)

var _ = func() bool {
	for _, r := range vendorRows {
		vendorParent[r.vendor] = r.parent
		vendorByName[canon(r.vendor)] = r.vendor
		for n := range strings.FieldsSeq(r.names) {
			vendorByName[n] = r.vendor
		}
		for h := range strings.FieldsSeq(r.hosts) {
			vendorHosts = append(vendorHosts, [2]string{h, r.vendor})
		}
	}
	return true
}()

func family(vendor string) string { return vendorParent[vendor] }

// vendorNamed returns the vendor of a name, or "".
func vendorNamed(name string) string { return vendorByName[canon(name)] }

// vendorOf recognises the vendor behind an endpoint: by its host, else by the configured
// name, else by the dialect that only its maker's endpoints speak.
func vendorOf(f *Facts) string {
	host := f.Host
	for _, h := range vendorHosts {
		if host == h[0] || strings.HasSuffix(host, "."+h[0]) {
			return h[1]
		}
	}
	if v := vendorNamed(f.Provider); v != "" {
		return v
	}
	return ""
}
