// Package status writes the results of the Ingresses back to the cluster: their
// addresses and whether they are served as written into their status, and
// refusals as Events.
//
// The leader writes; the other replicas keep the same state and take over at once
// when the leader is gone. None of it is on the path of a request: updates of the
// engine are recorded without blocking, and a slow or failing API server delays
// no traffic.
//
// It promises:
//   - a status is written only when it differs from the one that is there, at
//     most one at a time for an Ingress, and only on the version of the Ingress
//     that was read: one that has changed meanwhile is evaluated again first;
//   - addresses are the same on every replica, and an unknown address never
//     replaces a known one: a load balancer that is being replaced does not take
//     the addresses out of DNS;
//   - an address without an error of ours at its ports means that all of the
//     Ingress is served. Problems are errors at the ports: see ErrorRefused. A
//     problem that ends is removed at once, a new one is written when it lasts,
//     and the same problem at most every half minute. A first status waits for
//     that time too, and a status with a problem never turns healthy in between;
//   - a status is withdrawn from an Ingress that is no longer ours only if it is
//     ours: written by our field manager, and with the addresses that this
//     installation publishes. Another controller's is never touched, and neither
//     is that of a second Slipway with addresses of its own;
//   - the status of Ingresses whose class another controller serves too is written only
//     while this replica holds that controller's Lease, if one is configured;
//   - a status that another controller keeps overwriting is written again three
//     times, then every half minute, with a warning;
//   - an Event is written when a refusal appears, not each time it is observed;
//     its count is increased when the same one comes again. An object gets no
//     more than 10 in a minute, all objects together no more than 20 in a second.
//     When nothing is refused any more, one Accepted Event follows.
//
// Events about refusals have type Warning and the reason Refused with that of
// the refusal behind it, such as RefusedInvalid or RefusedNotFound; their text is
// "field: message". The last one has type Normal and the reason Accepted. An
// object that is not ready becomes an Event after ten seconds.
//
// It never writes without the Lease and never guesses an address.
//
// RBAC rules that it needs, and no others:
//
//	coordination.k8s.io  leases            get, create, update   in LeaseNamespace, and in Shared.LeaseNamespace
//	networking.k8s.io    ingresses/status  patch                 where Ingresses are
//	events.k8s.io        events            create, patch         where objects are
//
// With Gateway API also those of deploy/rbac/gateway-role.yaml, and with a Deployment for
// each Gateway those of gateway-deployments-role.yaml (decision 0064).
//
// See decisions 0013 and 0063 in docs/decisions: an Ingress shows its health at its
// ports, and the status of ingress-nginx's Ingresses is written by the holder of its
// Lease.
package status
