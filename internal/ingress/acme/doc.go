// Package acme issues the certificates that Ingresses and listeners of Gateways
// request from authorities that speak ACME (RFC 8555), with HTTP-01 or DNS-01 challenges, and renews them.
//
// Everything that outlives a request is in the cluster: certificates in Secrets
// of the namespaces that request them, the account of each resolver and the
// challenges in Secrets of the edge's own namespace. So any number of replicas
// serve the same certificates, and a new leader continues where the old one
// stopped. Only the leader orders, one order at a time for each resolver; all
// replicas serve challenges, because the authority may reach any of them.
//
// It promises:
//   - nothing is ordered while a Secret has a certificate that is good for the
//     request: not after a restart, not after a change of the leader;
//   - a dry run shows that the Secret can be written before a certificate is
//     ordered for it, so that a missing right does not use up an authority's
//     limits;
//   - an authority is asked to validate only when this replica serves the
//     challenge, and the others had time to read it; for DNS-01, when name servers
//     have the TXT record;
//   - a TXT record is removed after its order, and that of an interrupted order by
//     the next leader;
//   - an order that fails becomes an Event on each Ingress that requests it, or a
//     condition of the listener, and is retried after a minute, then with exponential backoff up to six hours;
//     the Retry-After of an authority is obeyed;
//   - a certificate is renewed when a third of its time is left, or when the
//     authority suggests it (RFC 9773), never all at the same moment; the old one
//     is served until the new one is there;
//   - a certificate that nothing requests any more is deleted after a day.
//
// It never touches a Secret that it did not create, and orders nothing for a host
// that belongs to another namespace than the request: the engine does not pass
// such requests on.
//
// These rights are used besides those for reading, and only with a resolver set:
//
//	secrets  get, list, create, update, delete   where Ingresses and Gateways are served
//	secrets  get, list, watch, create, update    in the edge's own namespace
//
// See decision 0012 in docs/decisions: certificates by ACME in Secrets, with
// acmez and not certmagic; and decision 0043: DNS challenges by two protocols.
package acme
