// Package agent is the delivery plane of one cluster: it makes Applications
// live. It wires the rooms of internal/gitops to a cluster, and nothing else.
//
//	credentials   Secrets and ConfigMaps of the control namespace, by watch
//	sources       repositories and charts, with these credentials
//	renderer      workers that render them
//	term          what the elected replica runs: live state, apply, the loop of
//	              Applications, the loop of ApplicationSets
//	webhooks      what Git hosts send, at any replica
//	mailbox       how a replica that does not lead tells the one that does
//
// It promises that one replica works at a time, that a second one takes over
// within 20 seconds of the death of the first, and at once when it ends in good
// order: the Lease is given up only after the loops have ended. Replicas that
// wait answer webhooks too, and are ready. Where the kinds of Applications are
// not installed it says so and waits for them.
//
// It refuses webhooks of hosts without a secret. Credentials are read in the
// control namespace only, and stay in this process.
package agent
