// Package agent is the delivery plane of one cluster: it keeps the cluster's
// Applications in sync with Git. It wires the packages of internal/gitops to a
// cluster.
//
//	credentials   Secrets and ConfigMaps of the control namespace, by watch
//	sources       repositories and charts, opened with these credentials
//	renderer      worker processes that render them
//	term          the controllers that the leader runs: live state, apply,
//	              Applications, ApplicationSets
//	webhooks      requests of Git hosts, received by every replica
//	push relay    how a replica that does not lead passes pushes to the leader
//	settings      a report of settings in argocd-cm that have no effect
//	policy        who may do what: argocd-rbac-cm and roles of AppProjects
//
// It promises that one replica leads at a time. Another one takes over within
// 20 seconds of a leader's death, and at once when the leader shuts down in
// order: the Lease is released only after the controllers have stopped.
// Replicas that wait serve webhooks and are ready. Where the
// CustomResourceDefinitions are missing the agent reports it and waits for
// them.
//
// It refuses webhooks of hosts without a secret. Credentials are read from the
// control namespace only and stay in this process.
package agent
