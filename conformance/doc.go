// Package conformance holds our codecs against the official SDKs. Both decode the same recorded
// streams, and must agree about text, thinking, tool calls, why the answer stopped and what it
// cost; and the SDKs' own types must be able to say every request that we encode. And it puts the binary's
// gateway between those SDKs, for Go and for Node, and a provider that fails in every way. It is a
// module of its own because the SDKs take longer to build than everything else together. It has
// tests alone, and talks to loopback alone.
package conformance
