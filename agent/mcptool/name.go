package mcptool

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// maxName is the longest name that every provider takes.
const maxName = 64

var invalid = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// namer names the tools of a server, each the same whatever the other servers are doing.
type namer struct {
	server  string
	servers []string // all of them
	taken   []string // names of other tools
}

// name is <server>_<tool> where that is valid and can be no other tool's; else it ends in a
// digest of the tool's own name.
func (n namer) name(tool string) string {
	name := n.server + "_" + invalid.ReplaceAllString(tool, "_")
	if name == n.server+"_"+tool && len(name) <= maxName && tool != "" && !slices.Contains(n.taken, name) && !slices.ContainsFunc(n.servers, func(other string) bool {
		return len(other) > len(n.server) && strings.HasPrefix(name, other+"_") // it could be a tool of that one
	}) {
		return name
	}
	sum := sha256.Sum256([]byte(n.server + "\x00" + tool))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxName-len(suffix))] + suffix
}
