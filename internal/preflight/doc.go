// Package preflight looks at a cluster, at the names and certificates in front of
// it, and at the accounts around it, and says what would keep a runtime from being
// installed or from being reached: the catalogue P1 to P27, one file per check.
//
// It promises that every check says what it looked at, that everything that is
// wrong is told at once with what to do about it, that a check ends within its
// time whatever the other side does, and that looking changes nothing. What is not
// there yet before an install, such as a DNS record, is a warning then and an error
// afterwards.
//
// It knows the Ingress controllers by the spec.controller of their IngressClass and
// asks of each what its documents demand.
//
// It refuses to change anything by itself: a finding that can be repaired carries
// Apply and, in Plan, the change that Apply makes. Tokens go to the servers that
// they are for and are in no finding.
package preflight
