// Package rule compiles the rules of Traefik's routers, such as
// Host(`shop.example.com`) && !PathPrefix(`/api`), to matches of the routing table.
//
// A rule is parsed, brought into disjunctive form, and each of its alternatives becomes
// one match. No text of a rule is evaluated for a request. What a match cannot express,
// and a rule with too many alternatives, is an error with the place and the cause. See
// decision 0054 in docs/decisions.
//
// Both syntaxes of Traefik are read: in v3 a matcher has one value, and expressions have
// matchers of their own; in v2 a matcher has a list of values, and paths and hosts can
// have variables such as {id:[0-9]+}.
package rule
