// Package router is the HTTP handler of a runtime, whether it is reached through the
// tunnel, an Ingress, an HTTPRoute or a service mesh.
//
//	/app-proxy/                    API of the runtime; needs a token
//	/app-proxy/argocd/             API of Argo CD for its clients; needs a token
//	/webhooks/<runtime>/<source>   webhooks of Git hosts; the handler verifies signatures
//	/workflows/                    proxy to the workflow server; needs a token
//	/healthz, /readyz              probes, without details
//
// It guarantees that a token is verified before any byte of a body is read, that it
// is valid for the path, that its role permits the procedure, and that every response
// names the runtime in the header Slipway-Router. Bodies, headers and concurrent
// requests are bounded.
//
// It rejects all other paths, ambiguous paths, and requests for another runtime.
package router
