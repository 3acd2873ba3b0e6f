// Package traffic is the API of a runtime about what its edges serve: each route
// with the Ingress, the Application and the commit behind it, how many requests it
// gets, and what becomes of one request and why.
//
//	service       who watches; one round of questions for all of them
//	edges         where the edges are
//	edge          one edge: what it said last, and what changed since
//	applications  which Application has which object
//	commits       what is told of the commits that are deployed
//	table         all of it as one table
//	explain       one request
//	secret        what edges and the agent share
//
// It promises that edges are asked only while somebody watches, that all who watch
// cost the edges as much as one, and that routes, edges and answers are bounded. It
// has no rights of its own: it lists Pods of the agent's namespace, reads and makes
// one Secret, and watches the Applications that the agent delivers.
package traffic
