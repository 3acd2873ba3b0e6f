// Package observe is how the program is watched from outside: its log, its
// metrics, its readiness, and the two small servers that show them.
//
// The health server is for the kubelet and Prometheus and listens where they
// reach it: /healthz, /readyz and /metrics. The admin server is for a person
// on the same machine: profiles under /debug/pprof, and what other parts mount.
//
// It promises that a process is ready only when every declared condition is
// met, that both servers have deadlines and bounded headers, and that they end
// with their context. It refuses to serve profiles on an address that is not
// loopback, and to answer a browser there on behalf of another site.
//
// The command line wires it; other packages take a logger, a registerer and a
// condition from it.
package observe
