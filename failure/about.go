package failure

import "strings"

// about says of each class, for a person: what it means, what Reprise does, what they can do.
var about = [classes]struct{ means, does, can string }{
	Unknown:               {"Nothing that Reprise knows explains it.", "Stops and shows what came.", "Read the provider's words. If they name a passing fault, retry by hand."},
	RateLimited:           {"Too many requests or tokens in a short window.", "Tries another key, else waits as long as the provider asked, then goes on.", "Wait, add a key, or lower the number of parallel runs."},
	Overloaded:            {"The provider or the model is short of capacity.", "Waits and goes on; with a chain, tries the next model.", "Wait, or choose another model."},
	ServerError:           {"The provider failed by its own fault.", "Waits and goes on; with a chain, tries the next model.", "Wait. If it stays, see the provider's status page."},
	Network:               {"The connection could not be made, or broke before an answer.", "Waits and goes on, but not where a certificate is not trusted.", "Check the network, the base URL, and the certificates of a proxy."},
	Timeout:               {"Nothing came in time: from the provider, from something between, or by a limit of ours.", "Waits and goes on; with a chain, tries the next model.", "Raise the provider's timeouts if it is slow by nature."},
	StreamInterrupted:     {"The answer broke off before its end.", "Goes on by itself if nothing of it was shown, else keeps it and asks.", "Regenerate, or keep what came."},
	QuotaExhausted:        {"The plan's or the account's allowance is spent, or will be back in more than an hour.", "Tries another key or the next model, else stops and shows the time.", "Add credit, change the plan, or schedule the retry for the time shown."},
	SpendLimitExceeded:    {"A limit in money is reached: the provider's, a relay's, or our own.", "Stops; the provider's own limit lets the next model try.", "Raise the limit where it was set."},
	AuthFailed:            {"The key or the login is not accepted.", "Tries another key or the next model, else stops.", "Replace the key, or log in again."},
	CredentialsUnresolved: {"No key or login was found for the provider.", "Tries the next model, else stops. Nothing was sent.", "Set the key in the environment or its file."},
	PermissionDenied:      {"The key is good, but may not do this.", "Stops.", "Ask for access, or choose another model."},
	ModelNotFound:         {"The provider has no such model for this key.", "Tries the next model, else stops.", "Correct the model's name."},
	ContextOverflow:       {"The conversation is longer than the model's window.", "Compacts it once and tries again, then stops.", "Start a new session, or choose a model with a larger window."},
	RequestTooLarge:       {"One request is larger than the endpoint takes, in bytes or in one window's tokens.", "Stops.", "Remove images or long tool results."},
	InvalidRequest:        {"The request itself is refused, or the address is wrong.", "Stops: the same request would fail again.", "Read the provider's words; check the base URL."},
	ContentFiltered:       {"The provider withheld the answer or refused the request by its policy.", "Stops. It is never sent again by itself.", "Change the message."},
	Cancelled:             {"Somebody ended it on purpose.", "Stops.", "Send it again when you like."},
	Interrupted:           {"Our own process stopped in the middle.", "Goes on by itself after the restart if nothing was shown.", "Regenerate, or keep what came."},
	Local:                 {"A limit or a defect of ours.", "Stops. The provider and its chain are not blamed.", "See the rule; if it is a defect, report it."},
}

// About says, for a person, what a class means, what Reprise does about it, and what they
// can do.
func (c Class) About() (means, does, can string) {
	if c >= classes {
		c = Unknown
	}
	a := about[c]
	return a.means, a.does, a.can
}

// plainRules puts the rules that no table holds into words.
var plainRules = map[string]string{
	"none":                    "no rule knows it, and what nobody knows is not tried again",
	"page":                    "an HTML page or a redirect came where an API's answer was due: the address is not an API's",
	"protocol_mismatch":       "an answer came where a stream or an error was due",
	textUnknown:               "words that no rule knows, taken for an error of the network",
	ruleEmpty:                 "the answer ended well and held nothing",
	"stop:filtered":           "the model's stop reason says that the answer was withheld",
	"stop:malformed":          "the model's stop reason says that it broke its own tool call",
	"cancelled":               "somebody ended it on purpose",
	"interrupted":             "our own process stopped",
	"spend_limit":             "the operator's own limit leaves too little for it, so nothing was sent",
	"credentials_unresolved":  "no credential was found, so nothing was sent",
	"header:" + unifiedStatus: "the header " + unifiedStatus + " says that the plan's window is spent",
}

// Because puts the rule that set the class into plain words, for a person.
func (f *Failure) Because() string {
	if s, ok := plainRules[f.Rule]; ok {
		return s
	}
	kind, rest, ok := strings.Cut(f.Rule, ":")
	if !ok {
		return "the rule " + f.Rule
	}
	switch kind {
	case "code", "sentence":
		vendor, what, _ := strings.Cut(rest, ":")
		switch {
		case what == windowDay || what == windowMinute:
			return "the " + what
		case kind == "code" && vendor == "any":
			return "the code or type " + what + ", whoever sends it"
		case kind == "code":
			return "the code or type " + what + " as " + vendor + " uses it"
		case vendor == "any":
			return "the complete sentence “" + what + "”"
		}
		return "the complete sentence “" + what + "”, which is " + vendor + "'s"
	case "words":
		return "the words “" + strings.ReplaceAll(rest, "+", "” and “") + "”: no retry would help"
	case "status":
		return "the status " + rest
	case "quoted", "text":
		return "the words of a network library: “" + rest + "”"
	case "transport":
		return "what the network did: " + rest
	}
	return "the rule " + f.Rule
}
