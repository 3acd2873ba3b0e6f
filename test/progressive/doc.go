// Package progressive shows releases of a plain Deployment from outside: the built
// agent and edge, a real API server with Pods that run, a real Git server, and
// load through the edge.
//
// The long form, make progressive, has more releases at more requests.
package progressive
