// Package release decides the next state of a release of a plain Deployment:
// the new revision runs beside the old one in the same Deployment, gets a share
// of the requests that grows step by step, and is promoted or rolled back.
//
// It is pure. An Input has what the cluster and the edges report; Decide returns
// the fields that are laid over the Deployment of Git, the Release that the edges
// read, and whether everything goes back. Nothing is kept between two calls but
// what is in the cluster, so that a release continues after a restart, and every
// decision can be carried out twice.
//
// See decision 0065 in docs/decisions: Releases of plain Deployments, and holds.
package release
