// Package permission says who may call which procedure of the API. There is one
// table for the platform's procedures and the runtimes', so that the platform, its
// gateway and the agents judge alike.
//
// It promises that a procedure without a row is allowed to nobody, and that each
// procedure of the .proto files has one: a test compares them. It does not know how
// a caller shows who they are.
package permission

import (
	"maps"
	"slices"
)

// Permission is what a procedure asks of its caller. The zero value is granted to
// nobody.
type Permission int

// The permissions.
const (
	// Nobody is what a procedure without a row asks for.
	Nobody Permission = iota
	// Public asks for nothing: the procedure checks what it is shown itself.
	Public
	// Self is about the caller alone. Who must still choose a password may do it,
	// and so may every key.
	Self
	// Session is Self for a session, and nothing that a key can do.
	Session
	// SignedIn is for each user of the account, and their keys.
	SignedIn
	// Operate is for each user too: it does something to applications, or to what
	// belongs to the user.
	Operate
	// Admin is for admins.
	Admin
	// RegisterRuntime is for admins, and for keys of admins that can do only this.
	RegisterRuntime
	// RuntimeOnly is for runtimes with their access token, and for no user.
	RuntimeOnly
)

// String names the permission as logs and tables do.
func (p Permission) String() string {
	names := [...]string{"nobody", "public", "self", "session", "signed-in", "operate", "admin", "register-runtime", "runtime-only"}
	if p < 0 || int(p) >= len(names) {
		return names[Nobody]
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
	// Read is set when the procedure changes nothing: keys that may only read can
	// call it, and it is not audited.
	Read bool
	// Quiet is set when it changes something so often, and means so little, that an
	// audit log would drown in it.
	Quiet bool
}

// Role reports whether a user with the role may call the procedure. It says
// nothing about keys, and never allows what is for runtimes.
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

// Of gives the row of a procedure, such as /slipway.platform.v1.AuthService/Me.
// A procedure without one is for nobody.
func Of(procedure string) (Rule, bool) {
	rule, ok := table()[procedure]
	return rule, ok
}

// Procedures are all that have a row, in order.
func Procedures() []string {
	return slices.Sorted(maps.Keys(table()))
}
