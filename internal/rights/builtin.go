package rights

import "fmt"

// The resources and the actions that callers name.
const (
	Applications = "applications"
	Projects     = "projects"
	Logs         = "logs"
	Exec         = "exec"

	Get      = "get"
	Create   = "create"
	Update   = "update"
	Delete   = "delete"
	Sync     = "sync"
	Override = "override"
	// Rollback is allowed by rules about it and by rules about sync.
	Rollback = "rollback"
)

// Resources returns the names that rules may have in the field of the resource.
func Resources() []string {
	return []string{
		Applications, "applicationsets", "clusters", Projects, "repositories", "write-repositories",
		"accounts", "certificates", "gpgkeys", Logs, Exec, "extensions",
	}
}

// Actions returns the verbs that rules may have in the field of the action.
// update, delete and action may have a path behind them.
func Actions() []string {
	return []string{Get, Create, Update, Delete, Sync, Override, Rollback, "action", "invoke"}
}

// projectResources are the resources whose objects begin with a project, if
// they belong to one.
var projectResources = []string{Applications, "applicationsets", Logs, Exec, "clusters", "repositories", "write-repositories"}

// builtinText defines Argo CD's two built-in roles, and what the roles of the
// platform may do with Applications of every project and see of what they need. The
// user admin of Argo CD is missing on purpose: here a user is admin by a role of the platform, and an
// identity provider could call a user or a group so.
const builtinText = `
p, role:readonly, applications, get, */*, allow
p, role:readonly, applicationsets, get, */*, allow
p, role:readonly, certificates, get, *, allow
p, role:readonly, clusters, get, *, allow
p, role:readonly, repositories, get, *, allow
p, role:readonly, write-repositories, get, *, allow
p, role:readonly, projects, get, *, allow
p, role:readonly, accounts, get, *, allow
p, role:readonly, gpgkeys, get, *, allow
p, role:readonly, logs, get, */*, allow

p, role:admin, applications, *, */*, allow
p, role:admin, applicationsets, *, */*, allow
p, role:admin, certificates, *, *, allow
p, role:admin, clusters, *, *, allow
p, role:admin, repositories, *, *, allow
p, role:admin, write-repositories, *, *, allow
p, role:admin, projects, *, *, allow
p, role:admin, accounts, *, *, allow
p, role:admin, gpgkeys, *, *, allow
p, role:admin, exec, create, */*, allow

g, role:admin, role:readonly

p, slipway:viewer, applications, get, */*, allow
p, slipway:viewer, projects, get, *, allow
p, slipway:viewer, repositories, get, *, allow
p, slipway:viewer, clusters, get, *, allow
p, slipway:operator, applications, sync, */*, allow
p, slipway:operator, applications, override, */*, allow
p, slipway:operator, applications, action/*, */*, allow
p, slipway:operator, logs, get, */*, allow
p, slipway:admin, applications, *, */*, allow
g, slipway:operator, slipway:viewer
g, slipway:admin, slipway:operator
`

// platformRoles begins the names of the platform's roles. They differ from
// Argo CD's, so that a policy that has a role:operator of its own does not
// change its meaning. A policy can have rules for them.
const platformRoles = "slipway:"

// PlatformRole returns the name that policies have for a role of the platform:
// slipway:viewer, slipway:operator, slipway:admin. Others have no rights of
// their own.
func PlatformRole(role string) string { return platformRoles + role }

// runtimes is the prefix of the subjects that runtimes are.
const runtimes = "runtime:"

// RuntimeSubject returns the name that policies have for a runtime. The default role is
// for users, and gives runtimes nothing.
func RuntimeSubject(name string) string { return runtimes + name }

// builtin is part of every decision. Its patterns are globs, whatever the mode
// of a policy.
var builtin = func() *Policy {
	policy, refusals := Parse(builtinText, "built-in")
	if len(refusals) > 0 {
		panic(fmt.Sprintf("the built-in policy is wrong: %v", refusals))
	}
	return policy
}()
