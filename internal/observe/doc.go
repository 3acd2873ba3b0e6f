// Package observe makes the program observable: its log, its metrics, its
// readiness, and the two small servers that expose them.
//
// The health server is for the kubelet and Prometheus and listens where they
// reach it: /healthz, /readyz and /metrics. The admin server is for a person
// on the same machine: profiles under /debug/pprof, and the mounts of other
// packages.
//
// It promises that a process is ready only when every declared condition is
// met, that both servers have deadlines and bounded headers, and that they end
// with their context. It never serves profiles on an address that is not loopback,
// nor cross-site requests of a browser.
//
// The command line wires it; other packages take a logger, a registerer and a
// condition from it.
package observe
