// Package conformance holds our codecs against the official SDKs: both decode the same
// recorded streams, and must agree about text, thinking, tool calls, why the answer stopped and
// what it cost. It is a module of its own because the SDKs cost three times the build time of
// everything else. It has tests only, and talks to loopback alone.
package conformance
