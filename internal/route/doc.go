// Package route holds the routing table: the desired state of the edge, as plain
// values. A source of routes (the Ingress translation, a file, the last good
// table on disk) makes a [Table]; the edge compiles it and serves it. Nothing here
// depends on Kubernetes or opens a socket.
//
// # Words
//
// A [Rule] selects requests (entry points, one host, a [Match]) and serves them:
// its [Policy] list runs in order, and then the request is forwarded to one of its
// backends, or gets its [Response]. A [Backend] is a set of endpoints and their
// transport. A [Certificate] belongs to a namespace and serves the hosts it lists,
// regardless of the names it contains. A [Listener] is an address that is opened and
// closed with the table; rules name it, and only those serve its requests. A [TCPRoute] matches connections instead of
// requests.
//
// # Order
//
// A request is served by the first rule, in this order, whose entry points, host
// and match all fit it:
//
//  1. higher priority, if the host has no owner;
//  2. exact host, then wildcard host (one label), then no host;
//  3. if the host has an owner: rules that are not behind, then those that are,
//     and each with the higher priority first, which only the owner's can have;
//  4. ordinary rule, then fallback;
//  5. exact path;
//  6. longer path: the length of a prefix, without the slash at the end of an
//     element-wise one, or of the literal text that a regular expression starts
//     with. An expression that is not anchored with ^ has length 0, and so has
//     a rule without a path. PathOrder replaces the length, and expressions with
//     it and one length come in the descending order of that text;
//  7. regular expression, element-wise prefix, character-wise prefix, no path.
//     An expression whose literal text is as long as a prefix comes first,
//     because it matches only a part of the paths with that prefix;
//  8. more conditions (scheme, method, each header, query parameter and further one); in
//     rules of a listener a method, then more headers, then more parameters;
//  9. older;
//  10. namespace, name, rule, path, kind, variant.
//
// The order is total: two rules with different identities never tie, and the
// order in which a table lists them has no effect. [OrderOf] is this list as
// code.
//
// It follows that a host whose rules do not match falls through: from the
// exact host to the wildcard above it, and from there to the rules without a
// host. The Kubernetes specification requires this of a rule without host: it
// applies to all traffic. A fallback stops it. It serves the requests that the
// other rules of its host do not match, so an Ingress with spec.defaultBackend keeps its hosts
// to itself, and a fallback with a 404 [Response] for a host gives what users
// of ingress-nginx are used to. A fallback without a host is the global one.
// Since priority comes first, a fallback should have the lowest priority of
// what it is the fallback of, and no more than 0.
//
// # Owners
//
// A host can belong to a namespace: its rules have a [HostOwner] then. The owner
// decides the host. No rule of another namespace comes first by its priority, and
// where the owner is exclusive, a request for the host falls through only to rules
// of the owner, and to those without an owner, which are the operator's.
//
// # Promises
//
// Identities are structs and are compared as structs; they are never joined to
// text that something parses or uses as a key. The values of a table do not
// change once they are in it: a change makes a new value, so tables may share
// values, and [Diff] takes the same pointer to mean the same value. [Table.Validate] finds every problem, not only the first, and
// [Table.Contain] confines each to the rule that has it, closed. [Decode]
// ignores nothing that was written: unknown and repeated fields are errors.
//
// # Refusals
//
// It refuses expressions that are not RE2 or that are large, tables over
// [MaxTableBytes], and to show a [Secret] anywhere but in [Encode], which
// writes the file that only the edge reads.
package route
