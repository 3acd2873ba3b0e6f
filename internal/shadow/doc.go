// Package shadow compares two controllers with copies of live requests: the old one, which
// still serves, and the edge that is to replace it.
//
// Copies come from an access log ([ReadLog]) or from a mirror ([Handler]). Each is sent to
// both, and the responses are compared: status, target of a redirect, headers, cookies and
// body. A difference has to be seen again in each retry before it counts, and a part in
// which the old controller differs from itself is reported as unstable. Differences are
// grouped by cause, host and route.
//
// It guarantees that only requests with an allowed method are sent, that a request which it
// sent is never taken for a copy, and that a report has no credentials. Queue, bodies and
// groups are bounded. It does not follow redirects, speaks HTTP/1.1 only, and does not
// compare WebSockets or streams of events beyond their head. See decision 0062.
package shadow
