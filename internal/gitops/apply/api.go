// Package apply writes objects to the cluster.
package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// Manager is the field manager of all that is applied.
const Manager = "slipway"

// Impersonation is the service account as which is written.
type Impersonation struct {
	Namespace      string
	ServiceAccount string
}

// Options are those of one request.
type Options struct {
	DryRun bool
	Ignore *plan.Ignore
}

// Applier writes objects.
type Applier struct {
	cluster *kube.Cluster
	kinds   *live.Kinds
}

// New makes an Applier.
func New(cluster *kube.Cluster, kinds *live.Kinds) *Applier {
	return &Applier{cluster: cluster, kinds: kinds}
}

// As is an Applier that acts as a service account.
func (a *Applier) As(Impersonation) (*Applier, error) { return a, nil }

// Apply does what a step says.
func (a *Applier) Apply(_ context.Context, step *plan.Step, _ Options) (*unstructured.Unstructured, error) {
	return step.Object, nil
}

// Delete deletes what a step says.
func (a *Applier) Delete(context.Context, *plan.Step, Options) error { return nil }

// Clear deletes the object of a hook.
func (a *Applier) Clear(context.Context, tracking.Key, types.UID) error { return nil }

// Predict says what an object would be.
func (a *Applier) Predict(context.Context) plan.Predict { return nil }

// ErrorKind says what happens next.
type ErrorKind string

// The kinds of errors.
const (
	Transient ErrorKind = "Transient"
	Conflict  ErrorKind = "Conflict"
	Invalid   ErrorKind = "Invalid"
	Immutable ErrorKind = "Immutable"
	Forbidden ErrorKind = "Forbidden"
	NotFound  ErrorKind = "NotFound"
	TooLarge  ErrorKind = "TooLarge"
)

// Error is why something was not written.
type Error struct {
	Kind    ErrorKind
	Key     tracking.Key
	Message string
	Err     error
}

// Error is the error for people.
func (e *Error) Error() string { return e.Key.String() + ": " + e.Message }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }
