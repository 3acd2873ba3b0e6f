// Package kube is the only wrapper over client-go: it connects to a Kubernetes
// cluster, applies manifests, runs reflectors, waits for a state, elects a leader
// and writes Events.
//
// It promises that every client has the same rate limits and user agent, that
// waiting uses a watch and ends with its context, and that an error names the
// file or the object it is about.
//
// It never guesses: Connect reads the one kubeconfig it is given, ConnectAs
// returns what is missing, and Apply stops at the first object that the API
// server rejects. It never sends a token over a connection without TLS.
package kube
