// Package argoapi serves the part of Argo CD's API that its clients need to read
// and operate Applications: the argocd command by gRPC-Web, and tools that poll
// the REST paths.
//
//	service        both protocols, limits, and the table of what is served
//	rest           requests and responses of the REST paths
//	applications   list, get, watch; filter selects among them
//	operate        sync, rollback, terminate, delete, actions
//	compare        differences, manifests, single objects, the tree
//	logs           logs of containers
//	settings       projects, repositories, clusters, the user, the version
//
// It is a translator: every request about an Application becomes one of package
// appproxy, whose gate decides about it, and whose limits and masks apply. It
// decides about projects, repositories and clusters by the same policies. No
// response contains a credential: the messages have no fields for them.
//
// It refuses everything that is not in the table of wire/argocd, as Unimplemented
// and with what to do instead. See decision 0049 in docs/decisions.
package argoapi
