package failure

import "strings"

// What stands where a secret stood. redact leaves these alone, so redacting twice changes
// nothing more.
const (
	hiddenKey  = "[key]"
	hiddenID   = "[id]"
	hiddenMail = "[email]"
)

// secretPrefixes begin keys and tokens; the number is how much must follow. Case counts.
var secretPrefixes = byFirst(map[string]int{
	"sk-": 6, "sk_": 6, "pk-": 8, "pk_": 8, "rk_": 8, "gsk_": 8, "xai-": 10, "AIza": 10, "ya29.": 8, "AKIA": 12,
	"ASIA": 12, "ABSK": 12, "bedrock-api-key-": 8, "ghp_": 8, "gho_": 8, "ghu_": 8, "ghs_": 8, "ghr_": 8,
	"github_pat_": 8, "hf_": 12, "r8_": 12, "pplx-": 10, "fw_": 12, "fpk_": 12, "csk-": 10, "tgp_": 8, "ak-": 5,
	"ak_": 8, "nvapi-": 8, "eyJ": 12, "sess-": 10, "xoxb-": 8, "xoxp-": 8, "tvly-": 8, "AQ.": 12, "1//": 12,
})

// idPrefixes begin ids of people and accounts. Those that also begin plain words need a digit
// or a capital behind them.
var idPrefixes = byFirst(map[string]int{
	"org-": 4, "org_": 4, "proj-": 4, "proj_": 4, "acct_": 4, "acct-": 4, "cus_": 6, "usr_": 4, "wrkspc_": 4, "gcp-project-": 3,
	"user-": -4, "user_": -4, "team-": -4, "team_": -4, "account-": -4, "account_": -4, "tenant-": -4, "tenant_": -4,
	"workspace-": -4, "workspace_": -4, "project-": -4, "project_": -4, "customer-": -4, "customer_": -4,
})

// requestPrefixes begin ids that a person needs when asking the provider.
var requestPrefixes = byFirst(map[string]int{
	"req_": 1, "req-": 1, "resp_": 1, "msg_": 1, "chatcmpl-": 1, "cmpl-": 1, "gen-": 1, "call_": 1, "toolu_": 1, "rs_": 1, "fc_": 1,
})

// nameKind says what a word tells of the value behind it.
type nameKind uint8

const (
	secretName nameKind = 1 << iota // a key follows
	schemeName                      // and no colon need be between ("Bearer …")
	wordName                        // or something else: only a colon tells ("provided: …")
	idName                          // an id of a person or an account follows
	pathName                        // also behind a slash
	sureName                        // whatever it looks like
)

// names are folded: api_key, apiKey and API-Key are one.
var names = func() map[string]nameKind {
	m := make(map[string]nameKind)
	for kind, list := range map[nameKind]string{
		secretName | schemeName: "bearer basic",
		secretName | wordName:   "provided",
		secretName: "authorization proxyauthorization apikey xapikey xgoogapikey key token accesstoken refreshtoken idtoken secret " +
			"clientsecret password passwd secretaccesskey awssecretaccesskey sessiontoken cookie setcookie signature apitoken authtoken " +
			"privatekey credential awsaccesskeyid accesskeyid accesskey",
		idName | pathName: "projects",
		idName | sureName: "projectnumber",
		idName: "organization organisation org orgid organizationid openaiorganization account accountid accountuuid project projectid " +
			"user userid username team teamid tenant tenantid customer customerid workspace workspaceid subscription subscriptionid " +
			"consumer ownerid email organizationuuid organizations accounts teams tenants billingaccounts billingaccount users workspaces " +
			"subscriptions enterprise enterpriseid enduserid chatgptaccountid xgooguserproject",
	} {
		for n := range strings.FieldsSeq(list) {
			m[n] = kind
		}
	}
	return m
}()

// kindOf looks a word up without allocating.
func kindOf(word string) nameKind {
	var folded [24]byte
	n := 0
	for i := range len(word) {
		c := word[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if isAlnum(c) {
			if n == len(folded) {
				return 0
			}
			folded[n] = c
			n++
		}
	}
	return names[string(folded[:n])]
}

type prefix struct {
	text string
	min  int
}

type prefixes [256][]prefix

func byFirst(m map[string]int) *prefixes {
	var p prefixes
	for text, n := range m {
		p[text[0]] = append(p[text[0]], prefix{text, n})
	}
	return &p
}

// begins reports whether the token begins with one of the prefixes and goes on long enough.
func (p *prefixes) begins(token string) bool {
	for _, x := range p[token[0]] {
		rest, ok := strings.CutPrefix(token, x.text)
		if ok && (x.min >= 0 && len(rest) >= x.min || x.min < 0 && len(rest) >= -x.min && telling(rest)) {
			return true
		}
	}
	return false
}

// redact takes keys, tokens, addresses and ids of accounts out of a text.
func redact(s string) string { return hide(s, true) }

// redactID does the same for a request id, which looks like a key and is none: it hides what
// says by its form or name that it is a secret.
func redactID(s string) string { return hide(s, false) }

// hide goes from token to token: each is judged by its own form and by the word before it.
func hide(s string, opaques bool) string {
	s = plainEscapes(s)
	var b strings.Builder
	kept := 0
	name, gapAt := nameKind(0), 0
	for i := 0; i < len(s); {
		if !tokenByte[s[i]] {
			i++
			continue
		}
		start := i
		for i < len(s) && tokenByte[s[i]] {
			i++
		}
		if start > 0 && s[start-1] == '[' && i < len(s) && s[i] == ']' && isMark(s[start-1:i+1]) {
			name = 0
			continue
		}
		end, mark := address(s, start, i)
		if mark == "" {
			end = start + len(strings.TrimRight(s[start:i], ".-"))
			gap := "\n"
			if name != 0 && start-gapAt <= 6 {
				gap = s[gapAt:start]
			}
			mark = judge(s[start:end], name, gap, s[max(0, start-20):start], opaques)
			if mark == hiddenKey {
				for end < len(s) && (tokenByte[s[end]] || s[end] == '/' || s[end] == '=' || s[end] == '+') {
					end++ // base64 goes on
				}
			}
			if q := gap[len(gap)-1]; mark != "" && (q == '"' || q == '\'') && strings.ContainsAny(gap, ":=") {
				for end < len(s) && s[end] != q && s[end] != '\n' && s[end] != '\\' {
					end++ // a member's value is hidden whole
				}
			}
		}
		if mark != "" {
			if kept == 0 {
				b.Grow(len(s) + len(mark))
			}
			b.WriteString(s[kept:start])
			b.WriteString(mark)
			kept, i, name = end, max(i, end), 0
			continue
		}
		name, gapAt = kindOf(s[start:i]), i
	}
	if kept == 0 {
		return s
	}
	b.WriteString(s[kept:])
	return b.String()
}

var tokenByte = func() (t [256]bool) {
	for c := range 256 {
		t[c] = isAlnum(byte(c)) || strings.IndexByte("-_.~%*", byte(c)) >= 0
	}
	return t
}()

func isMark(s string) bool { return s == hiddenKey || s == hiddenID || s == hiddenMail }

// address recognises an e-mail address, or the password of a URL, whose local part is the
// token s[start:i].
func address(s string, start, i int) (int, string) {
	if i+1 >= len(s) || s[i] != '@' && s[i] != '+' {
		if at := strings.Index(s[start:i], "%40"); at > 0 && at+3 < i-start {
			return i, hiddenMail
		}
		return 0, ""
	}
	for i < len(s) && (s[i] == '+' || tokenByte[s[i]]) {
		i++
	}
	if i+1 >= len(s) || s[i] != '@' || !isAlnum(s[i+1]) {
		return 0, ""
	}
	end := i + 1
	for end < len(s) && tokenByte[s[end]] {
		end++
	}
	for s[end-1] == '.' {
		end--
	}
	return end, hiddenMail
}

// judge says what a token is to be replaced with, "" to keep it. name is what the word before
// it tells, gap the text between the two ("\n" where no such word is near), and before the
// last of what precedes the token.
func judge(token string, name nameKind, gap, before string, opaques bool) string {
	if token == "" || requestPrefixes.begins(token) {
		return ""
	}
	if secretPrefixes.begins(token) {
		return hiddenKey
	}
	if idPrefixes.begins(token) {
		return hiddenID
	}
	if gap != "\n" {
		// A member's value, or a parameter's, whatever it looks like.
		value := strings.Contains(gap, ":") && strings.ContainsAny(gap, `"'`) || strings.Contains(gap, "=")
		switch {
		case name&secretName != 0:
			told := strings.Contains(gap, ":") || name&schemeName != 0
			if kindOf(token)&schemeName == 0 && (value && name&wordName == 0 || told && len(token) >= 5 && telling(token)) {
				return hiddenKey
			}
		case value, strings.ContainsAny(gap, "`<\""), strings.Contains(gap, " '"), name&pathName != 0 && gap == "/", name&sureName != 0,
			strings.HasSuffix(before, "in organization "), len(token) >= 4 && numbered(token):
			return hiddenID
		}
	}
	switch {
	case len(token) == 12 && isDigits(token): // an AWS account
		return hiddenID
	case opaques && opaque(token):
		return hiddenKey
	}
	return ""
}

// telling reports whether a token is no plain word: it has a digit or a capital inside, or is
// longer than words are.
func telling(s string) bool {
	for i := range len(s) {
		if isDigit(s[i]) || s[i] == '*' || i > 0 && s[i] >= 'A' && s[i] <= 'Z' {
			return true
		}
	}
	return len(s) >= 24
}

func numbered(s string) bool { return strings.ContainsAny(s, "0123456789") && !isDate(s) }

func isDate(s string) bool { return len(s) == 10 && s[4] == '-' && s[7] == '-' }

// opaque reports whether a token holds a run that no word or number makes: 24 letters and
// digits mixed, or 32 hexadecimal digits.
func opaque(s string) bool {
	run, digits, upper, lower := 0, 0, 0, 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && isAlnum(s[i]) {
			run++
			switch {
			case isDigit(s[i]):
				digits++
			case s[i] < 'a':
				upper++
			default:
				lower++
			}
			continue
		}
		if run >= 24 && digits > 0 && upper+lower > 3 && (upper > 0 && lower > 0 || run >= 32) {
			return true
		}
		run, digits, upper, lower = 0, 0, 0, 0
	}
	return false
}

// plainEscapes undoes \u escapes of printable ASCII and escaped slashes, behind which a
// secret could hide, at any depth of JSON in JSON. Quotes and backslashes stay escaped. What
// comes out may be an escape again: a few rounds are enough for all that is not made to be so.
func plainEscapes(s string) string {
	for range 8 {
		plain := plainOnce(s)
		if plain == s {
			break
		}
		s = plain
	}
	return s
}

func plainOnce(s string) string {
	if !strings.Contains(s, `\u00`) && !strings.Contains(s, `\/`) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		end := i
		for end < len(s) && s[end] == '\\' {
			end++
		}
		switch r, ok := escaped(s[end:]); {
		case end == i:
			b = append(b, s[i])
			i++
		case ok:
			b = append(b, byte(r))
			i = end + len("u0000")
		case end < len(s) && s[end] == '/':
			i = end
		default:
			b = append(b, s[i:end]...)
			i = end
		}
	}
	return string(b)
}

// escaped reads "u0041" behind a backslash, where it stands for printable ASCII.
func escaped(s string) (rune, bool) {
	if len(s) == 0 || s[0] != 'u' {
		return 0, false
	}
	r, ok := hex4(s[1:])
	return r, ok && r > ' ' && r < 0x7f && r != '"' && r != '\\'
}
