package failure

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -run TestDocs -update .

var update = flag.Bool("update", false, "rewrite docs/failures.md from the tables")

const docsFile = "../docs/failures.md"

// TestDocs: docs/failures.md is what the tables say. A row that is added, changed or lost
// shows there as a line of a diff, so none goes wrong unseen.
func TestDocs(t *testing.T) {
	want := docs(t)
	if *update {
		if err := os.WriteFile(docsFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the tables say; go generate ./failure rewrites it", docsFile)
	}
}

func docs(t *testing.T) []byte {
	var b bytes.Buffer
	cell := func(s string) string {
		return strings.NewReplacer("|", `\|`, "\n", "⏎").Replace(s)
	}
	code := func(s string) string {
		s = cell(s)
		if strings.Contains(s, "`") {
			return "`` " + s + " ``"
		}
		return "`" + s + "`"
	}
	row := func(cells ...string) { fmt.Fprintln(&b, "| "+strings.Join(cells, " | ")+" |") }
	table := func(title, text string, columns ...string) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", title, text)
		row(columns...)
		row(strings.Split(strings.TrimSuffix(strings.Repeat("---,", len(columns)), ","), ",")...)
	}
	link := func(s string) string {
		if !strings.HasPrefix(s, "https://") {
			return s
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(s, "https://"), "/")
		return "[" + host + "](" + s + ")"
	}

	b.WriteString("<!-- Generated from the tables in failure/ by go generate ./failure. Do not edit. -->\n\n# Failures\n\n" +
		"What went wrong with a model call becomes one class, by the most specific evidence: the innermost quoted error before\n" +
		"what wraps it; typed details, codes and types; a complete sentence of that very vendor; the status; and last the labels\n" +
		"that vendors put on anything. Words may deny a retry that a code or a status grants. They never grant one.\n\n" +
		"To teach Reprise a new failure, add one line to a table in `failure/tables_*.go`, with its source, and run\n" +
		"`go generate ./failure`. `reprise classify --text` says what these tables make of an error that you paste, and\n" +
		"`reprise classify` what they make of a file of them.\n")

	table("Classes", "*Retryable* means that the same request may pass later with nobody acting. Whether it may be sent again is another question,\nand another package's.",
		"class", "retryable", "what it means", "what Reprise does", "what you can do")
	for _, c := range Classes() {
		means, does, can := c.About()
		retry := "no"
		if c.Retryable() {
			retry = "yes"
		}
		row(code(c.String()), retry, means, does, can)
	}

	table("Score", "Class, eligibility and wait must all be right. *Recorded* failures (`failure/testdata/cases.jsonl`) came from real providers; *further* ones\n"+
		"(`failure/testdata/further.jsonl`) are written after their documentation and clients. Ambiguous cases have more than one fair answer.",
		"provider", "recorded, unambiguous", "recorded, ambiguous", "further, unambiguous", "further, ambiguous")
	scores, all := make(map[string]*[4]tally), &[4]tally{}
	for i, file := range []string{recordedCases, furtherCases} {
		for _, c := range readCases(t, file) {
			column := 2 * i
			if c.Ambiguous {
				column++
			}
			if scores[c.Provider] == nil {
				scores[c.Provider] = &[4]tally{}
			}
			ok := c.right()
			scores[c.Provider][column].add(ok)
			all[column].add(ok)
		}
	}
	score := func(provider string, s *[4]tally) {
		row(provider, s[0].String(), s[1].String(), s[2].String(), s[3].String())
	}
	for _, provider := range slices.Sorted(maps.Keys(scores)) {
		score(provider, scores[provider])
	}
	score("**all**", all)

	table("Vendors", "Whose rows apply: by the endpoint's host, else by the configured name, whose separators and letter case don't count. A vendor's\nfamily lends it its rows.", "vendor", "family", "names", "hosts")
	for _, r := range vendorRows {
		row(r.vendor, r.parent, r.names, r.hosts)
	}

	table("Statuses", "By themselves. 404 and 410 are `model_not_found` where the words are about a model; other 4xx are `invalid_request`, other 5xx\n`server_error`. An HTML page goes by its status alone.", "status", "vendor", "class", "source")
	for _, r := range statusRows {
		row(fmt.Sprint(r.status), name(r.vendor), code(r.class.String()), link(r.source))
	}

	table("Codes and types", "Letter case and separators don't count. *firm* rows hold whatever the words say; *weak* ones decide last.", "code", "vendor", "class", "", "source")
	for _, r := range codeRows {
		note := [...]string{strong: "", weak: "weak", firm: "firm"}[r.strength]
		if r.phase != "" {
			note = strings.TrimSpace(note + " in phase " + string(r.phase))
		}
		row(code(r.code), name(r.vendor), code(r.class.String()), note, link(r.source))
	}

	table("Sentences", "Complete, and of that vendor only; `*` stands for what varies.", "sentence", "vendor", "class", "source")
	for _, r := range sentenceRows {
		row(code(r.pattern), name(r.vendor), code(r.class.String()), link(r.source))
	}

	table("Words that deny", "Of any vendor, all of them in one message, letter case ignored. None grants a retry.", "words", "class", "", "source")
	for _, r := range wordsRows {
		note := [...]string{anyWait: "", unlessWait: "unless a wait is stated", otherWindow: "a short wait is another window's"}[r.wait]
		row(code(strings.ReplaceAll(r.words, "+", "` … `")), code(r.class.String()), note, link(r.source))
	}

	table("Wrappers", "The fixed forms in which clients and relays quote another error. Only these make a number or a name in prose a fact.", "form", "vendor", "source")
	for _, r := range wrapperRows {
		row(code(r.pattern), name(r.vendor), link(r.source))
	}

	table("Transport errors in words", "As network libraries word them, complete. Our own errors go by type.", "words", "kind", "class", "source")
	for _, r := range quotedRows {
		row(code(r.pattern), r.kind, code(r.class.String()), link(r.source))
	}
	for _, r := range textRows {
		row("… "+code(r.words)+" …", r.kind, code(r.class.String()), link(r.source))
	}
	return b.Bytes()
}
