// Package program is the compiled form of a [route.Table]: it finds the rule
// for a request. The edge has a pointer to the Program that is live; a new one
// is built beside it and replaces it with one swap.
//
// # How a rule is found
//
// The host is looked up in a hash index: the exact name, then its parent among
// the wildcards, then the rules without a host. Each of the three has a radix
// tree of paths, and a short sorted list of the rules whose path is a regular
// expression. The tree is walked down once; the conditions of each rule on the
// way are checked. Of all rules that match, the first in the order of package
// route wins. Where nothing less specific has a higher priority than a host's
// winner, the rest is skipped. A request whose host is known, but which none of
// its rules matches, goes on to the wildcard and to the rules without a host; a
// fallback of the host stops that, and so does an exclusive owner of the host, but
// for its own rules.
//
// # Promises
//
// A Program never changes; any number of goroutines may use it.
// [Program.Lookup] does not allocate, except for a regular expression on a
// query parameter with escapes. [Program.Apply] costs in proportion to the
// change: it copies the nodes from the root to the change, and shares
// everything else with the Program that it starts from, which stays valid. The
// result finds the same rules as a compilation of the whole new table.
//
// # Refusals
//
// A table or change with problems does not compile; the error has all of them,
// and the current Program stays in use. A change that was made for another
// Program is an error too: the caller compiles the whole table then. The caller
// normalises host and path before; a Program compares bytes.
//
// See decisions 0006 and 0031 in docs/decisions: the order of rules, and the
// owners of hosts.
package program
