// Package traffic is the API of a runtime about its edges: each route with the
// Ingress, the Application and the commit behind it, its requests, and an
// explanation of how one request is routed.
//
//	service       the streams; one polling loop for all of them
//	edges         discovery of the edges
//	edge          one edge: its last report, and the change since
//	applications  which Application has which object
//	commits       the deployed commits
//	table         all of it as one table
//	explain       one request
//	reports       all reports once, for analysis
//	releases      sums of what the revisions of Releases served
//	revisions     what they serve now
//	recorder      the counts of all edges, for the platform's history
//	secret        the secret that edges and the agent share
//
// It promises that edges are polled only while there are streams, and once a
// minute by the leader for the platform's history, that any number of streams costs the edges as much as one, and that routes, edges and
// responses are bounded. It has few rights: it lists Pods of the agent's
// namespace, reads and creates one Secret, and watches the agent's
// Applications.
//
// See decision 0021 in docs/decisions: edges report their traffic to the agent,
// by a secret that both derive keys from.
package traffic
