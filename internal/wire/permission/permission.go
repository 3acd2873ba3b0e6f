// Package permission defines who may call which procedure of the API and which
// other path. One table covers the platform and runtimes, so that the platform,
// its gateway and the agents decide identically.
//
// It guarantees that a procedure or path without a row is denied to everyone,
// that each procedure of the .proto files has a row (a test compares them), and
// that a server whose patterns have no row does not start. Authentication is
// not its concern.
package permission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
	// SignedIn is granted to each user of the account and their keys, for what
	// is theirs and for what everyone needs to find their way.
	SignedIn
	// View is granted to viewers, operators and admins: it reads.
	View
	// Operate is granted to operators and admins: it changes Applications and
	// reads logs.
	Operate
	// Admin is granted to admins.
	Admin
	// RegisterRuntime is granted to admins, and to keys of admins that are
	// limited to it.
	RegisterRuntime
	// RuntimeOnly is granted to runtimes with their access token, and to no
	// user.
	RuntimeOnly
	// ReplicaOnly is granted to other replicas of the platform, and to no user.
	ReplicaOnly
)

// String returns the name of the permission for logs and tables.
func (p Permission) String() string {
	names := [...]string{"no one", "public", "self", "session", "signed-in", "view", "operate", "admin", "register-runtime", "runtime-only", "replica-only"}
	if p < 0 || int(p) >= len(names) {
		return names[None]
	}
	return names[p]
}

// Roles, as tokens and users spell them. Each includes those before it.
const (
	// RoleRestricted has the rights that policies give, and no others.
	RoleRestricted = "restricted"
	RoleViewer     = "viewer"
	RoleOperator   = "operator"
	RoleAdmin      = "admin"
)

// Roles returns all roles, the one with the fewest permissions first.
func Roles() []string { return []string{RoleRestricted, RoleViewer, RoleOperator, RoleAdmin} }

// ParseRole returns the role of a word. The word user is the name that the
// operator had in earlier versions.
func ParseRole(word string) (string, error) {
	if word == "user" {
		word = RoleOperator
	}
	if !slices.Contains(Roles(), word) {
		return "", fmt.Errorf("the role %q does not exist: it is one of %s", word, strings.Join(Roles(), ", "))
	}
	return word, nil
}

// Verb is what is done with an Application, in Argo CD's words.
type Verb string

// The verbs.
const (
	Get  Verb = "get"
	Sync Verb = "sync"
	// Override is a sync to another revision than the one of the spec. It is
	// needed together with Sync.
	Override Verb = "override"
	Rollback Verb = "rollback"
	Action   Verb = "action"
	Logs     Verb = "logs"
	Delete   Verb = "delete"
	// Create and Update are for Git Sources, which are Applications of their
	// project: the API changes no other spec.
	Create Verb = "create"
	Update Verb = "update"
)

// Verbs returns what is done with an Application that exists, all but Update.
func Verbs() []Verb { return []Verb{Get, Sync, Override, Rollback, Action, Logs, Delete} }

// CheckedVerbs returns the verbs that users can check: those of Applications,
// and those that only Git Sources have.
func CheckedVerbs() []Verb { return append(Verbs(), Create, Update) }

// Policy returns the resource and the action that policies have for a verb.
func (v Verb) Policy() (resource, action string) {
	switch v {
	case Logs:
		return "logs", "get"
	case Action:
		return "applications", "action/*" // all actions of all kinds
	}
	return "applications", string(v)
}

// Rule returns the row of procedures that do this with Applications. Those of
// the runtime itself need an admin for everything but Get, which the runtime
// checks.
func (v Verb) Rule() Rule {
	rule := Rule{Verb: v, Read: v == Get || v == Logs}
	switch v {
	case Get:
		rule.Permission = View
	case Sync, Override, Rollback, Action, Logs:
		rule.Permission = Operate
	case Create, Update, Delete:
		rule.Permission = Admin
	}
	return rule
}

// Rule is the row of a procedure or path.
type Rule struct {
	Permission Permission
	// Verb is set if the procedure is about Applications.
	Verb Verb
	// Read is set when the procedure has no side effects: read-only keys may
	// call it, and it is not audited.
	Read bool
	// Registering is set when an installation needs the procedure before the
	// runtime registers: keys that are limited to that may call it as well, if
	// their user may.
	Registering bool
	// Quiet is set when the procedure is called so often, with so little
	// effect, that auditing it would flood the audit log.
	Quiet bool
}

// Role reports whether a user with the role may call the procedure. It does not
// consider keys, and never grants procedures for runtimes.
func (r Rule) Role(role string) bool {
	// A role that does not exist has the rank -1.
	rank := slices.Index(Roles(), role)
	switch r.Permission {
	case Public:
		return true
	case Self, Session, SignedIn:
		return rank >= 0
	case View:
		return rank >= slices.Index(Roles(), RoleViewer)
	case Operate:
		return rank >= slices.Index(Roles(), RoleOperator)
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

// Missing describes why a role that Rule.Role refuses is not enough, and who can
// change that.
func (r Rule) Missing(role string) string {
	for _, enough := range Roles() {
		if r.Role(enough) {
			what := "this"
			if r.Verb != "" {
				what = "the right " + string(r.Verb) + " on Applications"
			}
			return fmt.Sprintf("%s needs the role %s, and yours is %s: an admin of the account can change it", what, enough, role)
		}
	}
	return "users are not permitted to do this"
}

// OfPath returns the row of a path that is no procedure, such as /workflows/.
// GET and HEAD read, unless the connection is upgraded, which carries anything
// afterwards. A path without a row is denied.
func OfPath(path, method string, upgrade bool) Rule {
	row := paths()[path]
	if (method == "GET" || method == "HEAD") && !upgrade {
		return row.read
	}
	return row.change
}

// Paths returns all paths with a row, sorted.
func Paths() []string { return slices.Sorted(maps.Keys(paths())) }

// Known reports whether a path is a procedure, or another path, with a row.
func Known(path string) bool {
	_, isProcedure := table()[path]
	_, isPath := paths()[path]
	return isProcedure || isPath
}

// Check fails for patterns of a mux that have no row. The pattern of a service
// needs a row for one of its methods; that all methods have one is tested.
func Check(patterns ...string) error {
	for _, pattern := range patterns {
		isMethod := func(procedure string) bool { return strings.HasPrefix(procedure, pattern) }
		if !Known(pattern) && (!strings.HasPrefix(pattern, "/slipway.") || !slices.ContainsFunc(Procedures(), isMethod)) {
			return fmt.Errorf("the path %s has no row in the table of permissions", pattern)
		}
	}
	return nil
}

// Procedures returns all procedures with a row, sorted.
func Procedures() []string {
	return slices.Sorted(maps.Keys(table()))
}
