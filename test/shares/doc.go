// Package shares shows from outside how `slipway edge` divides the requests of a
// Service between two revisions of a Deployment: the built binary, a real API server
// with real Deployments, real sockets.
package shares
