// Package preflight checks a cluster, the DNS names and certificates in front
// of it, and the accounts around it for problems that prevent the
// installation of a runtime or access to it: the catalogue P1 to P28, one
// file per check.
//
// It guarantees that every check reports what it inspected, that all problems
// are reported at once with a fix, that a check ends within its timeout, and
// that checks have no side effects. What is created during the installation,
// such as a DNS record, is a warning before it and an error afterwards.
//
// It identifies Ingress controllers by the spec.controller of their
// IngressClass and checks the requirements of each controller's
// documentation.
//
// It does not change anything by itself: a finding with a repair has Apply
// and, in Plan, the change that Apply makes. Tokens are sent only to the
// servers they belong to and are never part of a finding.
package preflight
