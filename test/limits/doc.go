// Package limits runs three real edges with one limit, and counts what all of them
// admit together.
//
//   - TestRate sends more than the limit to one edge, then to all of them, and kills
//     one: the sum stays within 5 % of the limit.
//   - TestKills kills an edge every few seconds and starts it again: no request fails
//     except those that are in flight on it.
//
// Without a setting both are short, for `make test`. LIMITS=long runs TestRate with
// h2load, and TestKills for ten minutes with 2,000 requests per second; LIMITS_SECONDS
// and LIMITS_RATE set these two alone.
package limits
