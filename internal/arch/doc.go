// Package arch holds the rules of the repository as tests. It has no code of its own: what it
// promises is that a change which breaks a rule fails before a person has to notice.
package arch
