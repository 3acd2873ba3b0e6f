// Package permission defines who may call which procedure of the API. One table
// covers the procedures of the platform and of runtimes, so that the platform,
// its gateway and the agents decide identically.
//
// It guarantees that a procedure without a row is denied to everyone, and that
// each procedure of the .proto files has a row: a test compares them.
// Authentication is not its concern.
package permission

import (
	"maps"
	"slices"
)

// Permission is what a procedure requires of its caller. The zero value is
// granted to no one.
type Permission int

// The permissions.
const (
	// None is the permission of a procedure without a row: it is always
	// denied.
	None Permission = iota
	// Public requires no authentication: the procedure checks its input itself.
	Public
	// Self concerns the caller only. It is granted to users who must still
	// change their password, and to every key.
	Self
	// Session is Self for a session, and not available to keys.
	Session
	// SignedIn is granted to each user of the account and their keys.
	SignedIn
	// Operate is granted to each user too: it changes applications, or objects
	// of the user.
	Operate
	// Admin is granted to admins.
	Admin
	// RegisterRuntime is granted to admins, and to keys of admins that are
	// limited to it.
	RegisterRuntime
	// RuntimeOnly is granted to runtimes with their access token, and to no
	// user.
	RuntimeOnly
)

// String returns the name of the permission for logs and tables.
func (p Permission) String() string {
	names := [...]string{"nobody", "public", "self", "session", "signed-in", "operate", "admin", "register-runtime", "runtime-only"}
	if p < 0 || int(p) >= len(names) {
		return names[None]
	}
	return names[p]
}

// Roles, as tokens spell them.
const (
	RoleAdmin = "admin"
	RoleUser  = "user"
)

// Rule is the row of a procedure.
type Rule struct {
	Permission Permission
	// Read is set when the procedure has no side effects: read-only keys may
	// call it, and it is not audited.
	Read bool
	// Quiet is set when the procedure is called so often, with so little
	// effect, that auditing it would flood the audit log.
	Quiet bool
}

// Role reports whether a user with the role may call the procedure. It does not
// consider keys, and never grants procedures for runtimes.
func (r Rule) Role(role string) bool {
	switch r.Permission {
	case Public:
		return true
	case Self, Session, SignedIn, Operate:
		return role == RoleUser || role == RoleAdmin
	case Admin, RegisterRuntime:
		return role == RoleAdmin
	}
	return false
}

// Of returns the row of a procedure, such as
// /slipway.platform.v1.AuthService/Me. A procedure without a row is denied.
func Of(procedure string) (Rule, bool) {
	rule, ok := table()[procedure]
	return rule, ok
}

// Procedures returns all procedures with a row, sorted.
func Procedures() []string {
	return slices.Sorted(maps.Keys(table()))
}
