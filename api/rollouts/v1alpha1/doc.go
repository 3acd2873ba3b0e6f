// Package v1alpha1 declares the kinds of Argo Rollouts in the group argoproj.io.
// Names and meaning are those of Argo Rollouts, so that the same YAML, its kubectl
// plugin and its dashboards work; the code is our own.
//
// A Rollout is declared in struct tags, which package declare explains, and decoded
// by [Decode]. Kinds of analysis are decoded as plain JSON; parts that no controller
// of ours reads are kept as they are, so that a copy of an object is complete.
//
// The order of fields in a step and omitempty are part of the
// interface, because status.currentStepHash is a hash of the JSON of the steps.
//
// It promises that no field of a spec is lost silently. Decode returns a refusal of
// every field that is unknown, not supported or of the wrong type. A status is
// written by programs and is decoded leniently: what does not fit is left out.
//
// It contains no behaviour: internal/gitops/rollout and internal/gitops/analysis
// implement the fields.
//
// See decision 0068 in docs/decisions.
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// The group and version of the kinds, as written in apiVersion.
const (
	Group      = "argoproj.io"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version
)

// KindRollout is the kind of a Rollout.
const KindRollout = "Rollout"

// Unsupported is the type of a field that Argo Rollouts has and we do not. It has
// no content, as any value is refused.
type Unsupported struct{}

// RolloutResource is the resource of Rollouts.
func RolloutResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: "rollouts"}
}
