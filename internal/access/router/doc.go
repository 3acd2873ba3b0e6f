// Package router is what a runtime answers with, however it is reached: through
// the tunnel, an Ingress, an HTTPRoute or a service mesh.
//
//	/app-proxy/                    the API of the runtime, with a token
//	/webhooks/<runtime>/<source>   Git hosts; the handler verifies signatures
//	/workflows/                    the server for workflows, with a token
//	/healthz, /readyz              for probes, and say nothing but that
//
// It promises that a token is verified before a byte of a body is read, that it
// is good for this path, that its role may do what is asked, and that every
// answer names the runtime in the header Slipway-Router. Bodies, headers and the
// number of requests at a time are bounded.
//
// It refuses every other path, paths that can be read in two ways, and requests
// for another runtime.
package router
