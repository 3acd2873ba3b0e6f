// Package kube is the only wrapper over client-go: how the program connects
// to a Kubernetes cluster, applies manifests and waits for a state.
//
// It promises that every client made here has the same limits and the same
// user agent, that waiting follows a watch and ends with its context, and
// that an error names the file or the object it is about.
//
// It refuses to guess: Connect reads the one kubeconfig it is given, ConnectAs
// says what is missing, and Apply stops at the first object that the API server
// does not take. It refuses to send a token over a connection that is not
// encrypted.
package kube
