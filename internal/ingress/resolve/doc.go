// Package resolve finds everything that an Ingress names: the class that makes
// it ours, the Services, Secrets and middlewares, and what its annotations say.
//
// It promises that a [Site] is complete: what was found is in it, what was not
// is a refusal, and everything that was looked at is noted in the View, so that
// a change of any of it resolves the Ingress again. One fault does not hide the
// others. What depends on something refused is closed, never served without it.
// Resolving never fails and never panics, whatever an Ingress says.
//
// It refuses to look into other namespaces where the options do not allow it,
// to use a certificate of another namespace in any case, and to let a huge
// Ingress cost more than [MaxRules] rules and [MaxHosts] hosts.
//
// What becomes of a Site in the routing table is for package translate.
package resolve
