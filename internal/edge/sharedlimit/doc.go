// Package sharedlimit makes the limits of an edge hold over all of its replicas,
// without a store that they share.
//
// Each replica has a view of every token bucket in use. Every lending period the
// replicas exchange what they spent of each key and how much was demanded. A
// replica charges its view with the spending of the others, and until the next
// exchange it spends at most its share of what is left, by demand. So the sum is the
// limit: what was overspent within a period becomes a debt, which is paid before more
// is spent. Requests in flight are reported as they are, and bans when they begin.
//
// The package has the messages, the hash of keys that is the same on all replicas,
// and the exchange itself: HTTPS between replicas that have the same secret. The
// accounting is with the counters in package filter.
//
// It promises that no request waits for it: an exchange that fails or is late makes
// the limit less exact and nothing else. A replica that hears fewer than half of the
// others limits itself to the part of the replicas that it hears. See decision 0077.
package sharedlimit
