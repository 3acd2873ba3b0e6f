// Package tenancy has tenants that do not trust each other share one API server,
// one agent, one edge, one Git server and one Helm repository: the built program,
// real requests.
//
// The tenant bank has hosts, Applications and repositories. The tenant evil has
// every right in its own namespace and in its own repository, and an app of apps
// in the control namespace that an administrator gave it. Each attempt is a row
// of a table: what evil applies or commits, the reason that it is refused with,
// and what proves that it had no effect. The reason has to be seen twice: by
// evil, on its own object, as a condition, the message of an operation or an
// Event; and by the administrator, in the log of the agent or the admin API of
// the edge.
//
// All attempts are made first, and no effect is proven after the last reason, so
// that they cannot help each other either.
//
// TestMutations takes guards out of the program, one after the other, and
// expects that the attempt behind it has its effect then: a test that finds no
// effect because the attempt never worked would be worth nothing. It builds the
// program again, and runs with make tenancy-mutations.
package tenancy
