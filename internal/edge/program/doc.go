// Package program is the compiled form of a [route.Table]: it finds the rule
// for a request. The edge keeps a pointer to the Program that is live; a new
// one is built beside it and takes its place in one step.
//
// # How a rule is found
//
// The host is looked up in a hash table: as it is, then its parent among the
// wildcards, then the rules without a host. Each of the three has a radix tree
// of paths, and a short sorted list of the rules whose path is a regular
// expression. The tree is walked down once; each rule on the way is checked for
// its conditions. Of all rules that fit, the first in the order of package
// route wins. Where a host's winner cannot be beaten, because nothing further
// on has a higher priority, the rest is not looked at. A request whose host is
// known but which none of its rules fit goes on to the wildcard and to the
// rules without a host; a fallback of the host stops that.
//
// # Promises
//
// A Program never changes; any number of goroutines may use it. [Program.Lookup]
// does not allocate, apart from a regular expression on a query parameter that
// is written with escapes. [Program.Apply] costs in proportion to the change: it
// copies the path from the root to what changed, and shares everything else
// with the Program that it starts from, which stays as it was. What it gives
// answers like a compilation of the whole new table.
//
// # Refusals
//
// A table or change with problems does not compile; the error has them all,
// and the Program in use stays in use. A change that does not fit the Program
// is an error too: whoever gets it compiles the table. The caller normalises
// host and path before it asks; a Program compares bytes.
package program
