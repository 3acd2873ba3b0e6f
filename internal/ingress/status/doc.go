// Package status tells the cluster what became of its Ingresses: where they are
// reached and whether they are served there as they are written, in their status,
// and what of them is refused, in Events.
//
// One elected replica writes; the others keep the same picture and go on at once
// when it is gone. All of it happens beside the traffic: what the engine says is
// noted and never waited for, and an API server that is slow, away or says no
// costs no request anything.
//
// It promises:
//   - a status is written only when it differs from the one that is there, at
//     most one at a time for an Ingress, and only on the version of the Ingress
//     that was looked at: an Ingress that has changed meanwhile is looked at
//     again first;
//   - addresses are the same on every replica, and an unknown address never
//     replaces a known one: a load balancer that is being replaced does not take
//     the addresses out of DNS;
//   - an address without an error of ours at its ports says that all of the Ingress
//     is served. What is wrong is an error at the ports: see ErrorRefused. What
//     gets better is told at once, what gets worse when it lasts, and the same
//     trouble at most every half minute. A first status waits for that time too,
//     and one that says that something is wrong never says in between that all is
//     well;
//   - a status is withdrawn from an Ingress that is no longer ours only if it is
//     ours: written by our field manager, and with the addresses that this
//     installation publishes. Another controller's is never touched, and neither
//     is that of a second Slipway with addresses of its own;
//   - a controller that keeps overwriting a status is answered three times, then
//     each half a minute, and with a warning;
//   - an Event comes when a refusal appears, not each time it is seen; it is
//     counted on when the same one comes again. An object gets no more than 10 in
//     a minute, all objects together no more than 20 in a second. When nothing is
//     refused any more, one Event says so.
//
// Events about refusals have type Warning and the reason Refused with that of
// the refusal behind it, such as RefusedInvalid or RefusedNotFound; their text is
// "field: message". The last one has type Normal and the reason Accepted. What is
// only not ready yet becomes an Event when that lasts longer than ten seconds.
//
// It refuses to write without the Lease, and to guess an address.
//
// These rights are used, and no others:
//
//	coordination.k8s.io  leases            get, create, update   in LeaseNamespace
//	networking.k8s.io    ingresses/status  patch                 where Ingresses are
//	events.k8s.io        events            create, patch         where objects are
package status
