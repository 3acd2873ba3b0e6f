// Package v1alpha1 declares the kinds of Argo Rollouts in the group argoproj.io, with
// the names of its fields, so that the same YAML works; the code is our own.
//
// The kinds are decoded as plain JSON. Parts that no controller of ours reads are kept
// as they are, so that a copy of an object is complete.
//
// It has no behaviour: the packages of internal/gitops implement the kinds.
package v1alpha1

// The group and version of the kinds, as written in apiVersion.
const (
	Group      = "argoproj.io"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version
)
