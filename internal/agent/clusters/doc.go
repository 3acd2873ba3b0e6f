// Package clusters is the clusters that a runtime deploys to beside its own.
//
// Each is a Secret of the control namespace in Argo CD's form, so that what was
// added with Argo CD's tools is used as it is. Fleet connects to them while this
// replica leads, and gives them to the engine. Service adds, lists and removes
// them for people.
//
// It promises that a cluster is reached over verified TLS unless its Secret says
// otherwise, that a token which is renewed is used at once and interrupts nothing,
// that a cluster that is away does not disturb the others, and that credentials
// are in the Secret and nowhere else. A token that was made for us is short-lived,
// and is renewed before it ends.
//
// It refuses Secrets that would have a program run to get a credential, and ones
// with a password: the API server knows none.
package clusters
