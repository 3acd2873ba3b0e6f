// Package acme fetches the certificates that Ingresses wish for from authorities
// that speak ACME (RFC 8555), by challenges over HTTP, and keeps them up to date.
//
// Everything that outlives a request is in the cluster: certificates in Secrets
// of the namespaces that wish for them, the account of each resolver and the
// answers to challenges in Secrets of the edge's own namespace. So any number of
// replicas serve the same certificates, and any of them can go on where another
// one stopped. Only the elected replica orders, one order at a time for each
// resolver; all of them answer challenges, because an authority asks whoever
// gets its request.
//
// It promises:
//   - nothing is ordered while a Secret has a certificate that is good for the
//     wish: not after a restart, not after a change of the leader;
//   - it is known that the Secret can be written before a certificate is ordered
//     for it, so that a right that is missing does not use up an authority's
//     limits;
//   - an authority is asked to look only when this replica answers, and the
//     others had time to learn the answer;
//   - an order that fails is told in an Event on each Ingress that wished, and
//     tried again after a minute, then after twice as long each time, up to six
//     hours; an authority that says when to come back is believed;
//   - a certificate is renewed when a third of its time is left, or when the
//     authority suggests it (RFC 9773), never all at the same moment; the old one
//     is served until the new one is there;
//   - a certificate that nobody wishes for any more is deleted after a day.
//
// It refuses to touch a Secret that it did not make, whatever its name, and to
// fetch anything for a host that does not belong to the namespace that wishes:
// the engine does not pass such wishes on.
//
// These rights are used besides those for reading, and only with a resolver set:
//
//	secrets  get, list, create, update, delete   where Ingresses are served
//	secrets  get, list, watch, create, update    in the edge's own namespace
package acme
